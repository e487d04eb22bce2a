//! How far a worker has got with what it is at: tokens of a prompt count as queued until the answer begins, and a long one is
//! mostly computed by then.
//!
//! A worker's pace is learned from what leaves its queue, whichever gateway had it there: tokens over the time since the queue
//! last moved, both summed, so that prompts computed side by side count right together. What has been computed since the queue
//! last moved is taken off it: never more than there is, so a wrong pace does no more harm than none. Against the pace of all
//! workers together it says how much longer one takes at the same work.
//!
//! Not here: what is queued (`cell`, the index). Times are microseconds of the plugin's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The pace of a worker while none is known, in tokens a second: slower than any engine that serves a mesh.
const PRIOR_TOKENS_PER_S: f64 = 4_000.0;
/// Sums are halved by about so many tokens of work.
const MEMORY_TOKENS: f64 = 200_000.0;
/// What is less says more of latency than of pace.
const LEAST_TOKENS: u64 = 1_024;

/// Before a worker has computed so many tokens its pace says nothing of how it compares with others.
const EVIDENCE_TOKENS: f64 = 20_000.0;
/// Paces that differ by less are taken for equal, so that chance does not make one of equal workers everybody's favourite.
const ALIKE: f64 = 1.25;
/// The most by which a pace weighs: a wrong one still leaves the worker some requests, from which a better one is learned.
const SLOWNESS_MAX: f64 = 4.0;

/// Work and the time it took. Two threads at once may lose one sum: it is an estimate.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Tokens, as the bits of an `f64`.
    work: AtomicU64,
    /// Seconds, as the bits of an `f64`.
    time: AtomicU64,
}

impl Pace {
    fn add(&self, tokens: f64, seconds: f64) {
        let keep = 0.5_f64.powf(tokens / MEMORY_TOKENS);
        let sum = |old: &AtomicU64, new: f64| {
            let kept = f64::from_bits(old.load(Ordering::Relaxed)) * keep;
            old.store((kept + new).to_bits(), Ordering::Relaxed);
        };
        sum(&self.work, tokens);
        sum(&self.time, seconds);
    }

    fn has_evidence(&self) -> bool {
        f64::from_bits(self.work.load(Ordering::Relaxed)) >= EVIDENCE_TOKENS
    }

    fn tokens_per_s(&self) -> Option<f64> {
        let time = f64::from_bits(self.time.load(Ordering::Relaxed));
        (time > 0.0).then(|| f64::from_bits(self.work.load(Ordering::Relaxed)) / time)
    }
}

/// One worker's progress.
#[derive(Debug)]
pub(super) struct Progress {
    /// When the queue last moved: an answer began, or the first prompt came.
    moved_us: AtomicU64,
    own: Pace,
    /// Of all workers together, for one of which nothing is known.
    fleet: Arc<Pace>,
}

impl Progress {
    pub(super) fn new(fleet: Arc<Pace>) -> Self {
        Self { moved_us: AtomicU64::new(0), own: Pace::default(), fleet }
    }

    /// The worker was idle, and begins now.
    pub(super) fn began(&self, now_us: u64) {
        self.moved_us.store(now_us, Ordering::Relaxed);
    }

    /// So many queued tokens are computed.
    pub(super) fn done(&self, tokens: u64, now_us: u64) {
        let before_us = self.moved_us.swap(now_us, Ordering::Relaxed);
        if tokens >= LEAST_TOKENS {
            let seconds = now_us.saturating_sub(before_us) as f64 / 1e6;
            self.own.add(tokens as f64, seconds);
            self.fleet.add(tokens as f64, seconds);
        }
    }

    /// How much of so many queued tokens is computed by now.
    pub(super) fn of(&self, queued_tokens: u64, now_us: u64) -> u64 {
        let since_us = now_us.saturating_sub(self.moved_us.load(Ordering::Relaxed));
        self.in_us(since_us).min(queued_tokens)
    }

    /// How much the worker computes in so many microseconds.
    pub(super) fn in_us(&self, us: u64) -> u64 {
        let pace = self.own.tokens_per_s().or_else(|| self.fleet.tokens_per_s()).unwrap_or(PRIOR_TOKENS_PER_S);
        (pace * us as f64 / 1e6) as u64
    }

    /// How many times longer than the fleet this worker computes at a token; 1 where they are alike, or it is not known.
    pub(super) fn slowness(&self) -> f64 {
        let own = self.own.tokens_per_s().filter(|_| self.own.has_evidence());
        let (Some(own), Some(fleet)) = (own, self.fleet.tokens_per_s()) else { return 1.0 };
        let slowness = fleet / own;
        if (ALIKE.recip()..=ALIKE).contains(&slowness) {
            return 1.0;
        }
        slowness.clamp(SLOWNESS_MAX.recip(), SLOWNESS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_the_queue_says_how_fast_it_moves_and_no_more_is_taken_off_than_there_is() {
        let progress = Progress::new(Arc::default());
        progress.began(1_000_000);
        assert_eq!(progress.of(50_000, 2_000_000), 4_000, "a careful guess");
        progress.done(20_000, 3_000_000);
        assert_eq!(progress.of(50_000, 5_000_000), 20_000);
        assert_eq!(progress.of(5_000, 5_000_000), 5_000);
        assert_eq!(progress.of(50_000, 0), 0, "a clock that went back");
    }

    #[test]
    fn prompts_computed_side_by_side_count_together_and_small_ones_not_at_all() {
        let progress = Progress::new(Arc::default());
        progress.began(0);
        progress.done(10_000, 2_000_000);
        progress.done(10_000, 2_010_000);
        for nth in 0..100 {
            progress.done(16, 2_010_000 + nth * 50_000);
        }
        progress.began(10_000_000);
        assert!((9_500..10_500).contains(&progress.of(u64::MAX, 11_000_000)), "{}", progress.of(u64::MAX, 11_000_000));
    }

    #[test]
    fn a_worker_of_which_nothing_is_known_is_taken_for_one_like_the_others() {
        let fleet: Arc<Pace> = Arc::default();
        let (known, new) = (Progress::new(Arc::clone(&fleet)), Progress::new(fleet));
        known.began(0);
        known.done(30_000, 1_000_000);
        new.began(0);
        assert_eq!(new.of(u64::MAX, 1_000_000), 30_000);
        new.done(5_000, 1_000_000);
        assert_eq!(new.of(u64::MAX, 2_000_000), 5_000, "its own counts from its first answer on");
    }

    #[test]
    fn slowness_is_against_the_fleet_within_bounds_and_only_with_evidence() {
        let fleet: Arc<Pace> = Arc::default();
        let workers: Vec<Progress> = (0..4).map(|_| Progress::new(Arc::clone(&fleet))).collect();
        let work = |worker: &Progress, rounds: u64, tokens_per_s: u64| {
            worker.began(0);
            (1..=rounds).for_each(|round| worker.done(tokens_per_s, round * 1_000_000));
        };
        work(&workers[3], 1, 2_000);
        for _ in 0..10 {
            workers[..2].iter().for_each(|worker| work(worker, 1, 10_000));
            work(&workers[2], 1, 5_000);
        }
        assert_eq!(workers[3].slowness(), 1.0, "too little is known of it");
        assert_eq!((workers[0].slowness(), workers[1].slowness()), (1.0, 1.0), "the fleet's pace is 8,300 a second");
        assert!((1.5..1.8).contains(&workers[2].slowness()), "{}", workers[2].slowness());
        work(&workers[3], 100, 1_100);
        (0..10).for_each(|_| work(&workers[0], 10, 40_000));
        assert_eq!(workers[3].slowness(), SLOWNESS_MAX);
    }
}
