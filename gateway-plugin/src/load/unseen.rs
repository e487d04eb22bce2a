//! What a worker says it has to do beyond what gateways account for: requests of gateways that this one cannot hear, or of
//! clients that go round them.
//!
//! A worker tells how many requests it has, not how long their prompts are, and says so every few seconds only. Each request
//! more than is accounted for is taken to be like this gateway's own are on average, those that are being answered included;
//! and the worker is taken to have gone on computing since.
//!
//! Not here: asking workers (`server::probe`), what a worker computes in a second (`progress`). Two threads at once may mix two
//! reports: it is an estimate.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use covey_mesh::input::Load;

/// What a worker said longer ago than this counts no more, in microseconds.
const BELIEVED_US: u64 = 10_000_000;
/// By how much one look at this gateway's own requests moves what is taken for typical.
const SHARE_NEW: f64 = 0.1;

/// The last report of one worker.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    requests: AtomicU32,
    queued_tokens: AtomicU64,
    /// When it was told.
    at_us: AtomicU64,
}

impl Unseen {
    /// The worker has so many requests more than are accounted for, with so many tokens to be computed each.
    pub(super) fn told(&self, requests: u32, tokens_each: f64, now_us: u64) {
        self.requests.store(requests, Ordering::Relaxed);
        self.queued_tokens.store((f64::from(requests) * tokens_each) as u64, Ordering::Relaxed);
        self.at_us.store(now_us, Ordering::Relaxed);
    }

    /// What is left of it, when the worker computes so much in so many microseconds.
    pub(super) fn left(&self, now_us: u64, computed: impl Fn(u64) -> u64) -> Load {
        let requests = self.requests.load(Ordering::Relaxed);
        if requests == 0 {
            return Load::default();
        }
        let since_us = now_us.saturating_sub(self.at_us.load(Ordering::Relaxed));
        if since_us > BELIEVED_US {
            return Load::default();
        }
        let queued_tokens = self.queued_tokens.load(Ordering::Relaxed).saturating_sub(computed(since_us));
        Load { requests, queued_tokens }
    }
}

/// Tokens to be computed for a request under way, on average over this gateway's own: as the bits of an `f64`.
#[derive(Debug, Default)]
pub(super) struct Typical(AtomicU64);

impl Typical {
    /// The gateway has this under way now, on all workers together.
    pub(super) fn look(&self, own: Load) {
        if own.requests == 0 {
            return;
        }
        let now = own.queued_tokens as f64 / f64::from(own.requests);
        let old = self.tokens();
        let new = if old == 0.0 { now } else { old + SHARE_NEW * (now - old) };
        self.0.store(new.to_bits(), Ordering::Relaxed);
    }

    /// Tokens.
    pub(super) fn tokens(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_worked_off_and_forgotten_when_nobody_says_it_again() {
        let unseen = Unseen::default();
        assert_eq!(unseen.left(0, |_| 0), Load::default());
        unseen.told(3, 1_000.0, 1_000_000);
        let pace = |us: u64| us / 1_000;
        assert_eq!(unseen.left(1_000_000, pace), Load { requests: 3, queued_tokens: 3_000 });
        assert_eq!(unseen.left(3_000_000, pace), Load { requests: 3, queued_tokens: 1_000 });
        assert_eq!(unseen.left(9_000_000, pace), Load { requests: 3, queued_tokens: 0 });
        assert_eq!(unseen.left(500_000, pace), Load { requests: 3, queued_tokens: 3_000 }, "a clock that went back");
        assert_eq!(unseen.left(11_000_001, pace), Load::default());
        unseen.told(0, 1_000.0, 4_000_000);
        assert_eq!(unseen.left(4_000_000, pace), Load::default());
    }

    #[test]
    fn what_is_typical_follows_the_gateways_own_requests_and_stays_when_there_are_none() {
        let typical = Typical::default();
        typical.look(Load { requests: 4, queued_tokens: 8_000 });
        assert!((typical.tokens() - 2_000.0).abs() < 1e-9);
        typical.look(Load::default());
        assert!((typical.tokens() - 2_000.0).abs() < 1e-9);
        (0..100).for_each(|_| typical.look(Load { requests: 1, queued_tokens: 500 }));
        assert!((typical.tokens() - 500.0).abs() < 1.0);
    }
}
