//! What a worker says it has to do beyond what gateways account for: requests of gateways that this one cannot hear, or of
//! clients that go round them.
//!
//! A worker tells how many requests it has, not how long their prompts are, and says so every few seconds only. Each request
//! more than is accounted for is taken to be like this gateway's own are on average, those that are being answered included;
//! and the worker is taken to have gone on computing since. A number that stays the same for long is not believed: engines that
//! stand still may leave their gauges as they were.
//!
//! Not here: asking workers (`server::probe`), what a worker computes in a second (`progress`). Two threads at once may mix two
//! reports: it is an estimate.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use covey_mesh::input::Load;

/// What a worker said longer ago than this counts no more, in microseconds.
const BELIEVED_US: u64 = 10_000_000;
/// Nor does a number that it has repeated for so long.
const FROZEN_US: u64 = 15_000_000;
/// By how much one look at the fleet moves what is taken for typical of it.
const SHARE_NEW: f64 = 0.1;
/// Between two looks, in microseconds.
const LOOK_US: u64 = 100_000;
/// What a request is taken to have to be computed while this gateway has sent none.
const PRIOR_TOKENS: f64 = 1_024.0;

/// The last report of one worker.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// Requests that it has.
    told: AtomicU32,
    /// Those of them that nobody accounts for.
    requests: AtomicU32,
    queued_tokens: AtomicU64,
    /// When it was told, and since when it has told the same number.
    at_us: AtomicU64,
    same_since_us: AtomicU64,
}

impl Unseen {
    /// The worker has `told` requests, of which `unseen` are not accounted for, with so many tokens to be computed each.
    pub(super) fn told(&self, told: u32, unseen: u32, tokens_each: f64, now_us: u64) {
        let before = self.told.swap(told, Ordering::Relaxed);
        if before != told || self.at_us.load(Ordering::Relaxed) == 0 {
            self.same_since_us.store(now_us, Ordering::Relaxed);
        }
        self.requests.store(unseen, Ordering::Relaxed);
        self.queued_tokens.store((f64::from(unseen) * tokens_each) as u64, Ordering::Relaxed);
        self.at_us.store(now_us.max(1), Ordering::Relaxed);
    }

    fn is_believed(&self, now_us: u64) -> bool {
        let at_us = self.at_us.load(Ordering::Relaxed);
        let frozen_us = at_us.saturating_sub(self.same_since_us.load(Ordering::Relaxed));
        at_us > 0 && now_us.saturating_sub(at_us) <= BELIEVED_US && frozen_us <= FROZEN_US
    }

    /// What is left of it beside `accounted` queued tokens, when the worker computes so much in so many microseconds.
    pub(super) fn left(&self, accounted: u64, now_us: u64, computed: impl Fn(u64) -> u64) -> Load {
        let requests = self.requests.load(Ordering::Relaxed);
        if requests == 0 || !self.is_believed(now_us) {
            return Load::default();
        }
        let since_us = now_us.saturating_sub(self.at_us.load(Ordering::Relaxed));
        let told = self.queued_tokens.load(Ordering::Relaxed);
        // The worker does both at its one pace.
        let share = told as f64 / told.saturating_add(accounted).max(1) as f64;
        let done = (computed(since_us) as f64 * share) as u64;
        Load { requests, queued_tokens: told.saturating_sub(done) }
    }

    /// Requests it has, and those of them that nobody accounts for; nothing when that is not believed.
    pub(super) fn counts(&self, now_us: u64) -> (u32, u32) {
        if !self.is_believed(now_us) {
            return (0, 0);
        }
        (self.told.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }
}

/// What requests are like at present, over all workers. Numbers are the bits of an `f64`.
#[derive(Debug, Default)]
pub(super) struct Typical {
    /// Tokens to be computed for a request of this gateway's under way.
    tokens: AtomicU64,
    /// The share of workers' requests that nobody accounts for.
    unseen: AtomicU64,
    looked_us: AtomicU64,
}

impl Typical {
    /// Whether it is time to look again.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        let looked_us = self.looked_us.load(Ordering::Relaxed);
        let is_due = looked_us == 0 || now_us.saturating_sub(looked_us) >= LOOK_US;
        if is_due {
            self.looked_us.store(now_us.max(1), Ordering::Relaxed);
        }
        is_due
    }

    /// The gateway has `own` under way now, on all workers together, which told of so many requests, `unseen` of them not
    /// accounted for.
    pub(super) fn look(&self, own: Load, told: u32, unseen: u32) {
        let moved = |old: &AtomicU64, now: f64, is_first: bool| {
            let before = f64::from_bits(old.load(Ordering::Relaxed));
            let new = if is_first { now } else { before + SHARE_NEW * (now - before) };
            old.store(new.to_bits(), Ordering::Relaxed);
        };
        if own.requests > 0 {
            let now = own.queued_tokens as f64 / f64::from(own.requests);
            moved(&self.tokens, now, self.tokens.load(Ordering::Relaxed) == 0);
        }
        if told > 0 {
            moved(&self.unseen, f64::from(unseen) / f64::from(told), false);
        }
    }

    /// Tokens to be computed for a request.
    pub(super) fn tokens(&self) -> f64 {
        match self.tokens.load(Ordering::Relaxed) {
            0 => PRIOR_TOKENS,
            bits => f64::from_bits(bits),
        }
    }

    /// The share of workers' requests that nobody accounts for.
    pub(super) fn unseen(&self) -> f64 {
        f64::from_bits(self.unseen.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: fn(u64) -> u64 = |us| us / 1_000;

    #[test]
    fn what_was_told_is_worked_off_and_forgotten_when_nobody_says_it_again() {
        let unseen = Unseen::default();
        assert_eq!(unseen.left(0, 0, PACE), Load::default());
        unseen.told(5, 3, 1_000.0, 1_000_000);
        let queued = |now_us, accounted| {
            let left = unseen.left(accounted, now_us, PACE);
            assert_eq!(left.requests, 3);
            left.queued_tokens
        };
        assert_eq!([1_000_000, 3_000_000, 9_000_000].map(|now_us| queued(now_us, 0)), [3_000, 1_000, 0]);
        assert_eq!(queued(3_000_000, 3_000), 2_000, "half of what it did meanwhile was of what is accounted for");
        assert_eq!(queued(500_000, 0), 3_000, "a clock that went back");
        assert_eq!(unseen.left(0, 11_000_001, PACE), Load::default());
        assert_eq!((unseen.counts(1_000_000), unseen.counts(11_000_001)), ((5, 3), (0, 0)));
        unseen.told(0, 0, 1_000.0, 4_000_000);
        assert_eq!(unseen.left(0, 4_000_000, PACE), Load::default());
    }

    #[test]
    fn a_gauge_that_stands_still_is_not_believed_until_it_moves() {
        let unseen = Unseen::default();
        (1..=16).for_each(|second| unseen.told(106, 106, 1_000.0, second * 1_000_000));
        assert_eq!(unseen.counts(16_000_000), (106, 106));
        unseen.told(106, 106, 1_000.0, 17_000_000);
        assert_eq!((unseen.counts(17_000_000), unseen.left(0, 17_000_000, PACE)), ((0, 0), Load::default()));
        unseen.told(105, 105, 1_000.0, 18_000_000);
        assert_eq!(unseen.counts(18_000_000), (105, 105));
    }

    #[test]
    fn what_is_typical_follows_the_fleet_and_stays_when_there_is_nothing() {
        let typical = Typical::default();
        assert!((typical.tokens() - PRIOR_TOKENS).abs() < 1e-9 && typical.unseen() == 0.0);
        typical.look(Load { requests: 4, queued_tokens: 8_000 }, 0, 0);
        assert!((typical.tokens() - 2_000.0).abs() < 1e-9);
        typical.look(Load::default(), 0, 0);
        assert!((typical.tokens() - 2_000.0).abs() < 1e-9);
        (0..100).for_each(|_| typical.look(Load { requests: 1, queued_tokens: 500 }, 8, 6));
        assert!((typical.tokens() - 500.0).abs() < 1.0 && (typical.unseen() - 0.75).abs() < 0.01);
        assert!(typical.is_due(5) && !typical.is_due(LOOK_US) && typical.is_due(LOOK_US + 5));
    }
}
