//! When this gateway's own load is looked at: at once when it changes after a rest, often while it changes, seldom at rest.
//!
//! Not here: the look itself (`driver`).

use std::sync::atomic::{AtomicBool, Ordering, fence};

use crate::input::MonoTime;

/// Between two samples while load changes, at the least. Load knowledge does not tolerate much age.
const SAMPLE_EVERY_MS: u64 = 10;
/// The same while it rests: whoever changes it says so, but need not.
const SAMPLE_RESTING_MS: u64 = 100;

/// Shared with request threads: the last sample found no change, and nobody has spoken of one since.
#[derive(Debug, Default)]
pub(super) struct Rest(AtomicBool);

impl Rest {
    /// Load changed. `true`: it rested, so the sampling thread wants to be woken.
    pub(super) fn disturb(&self) -> bool {
        // Whoever misses the other's write here is seen by the other: the change, or that it rests.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::AcqRel)
    }

    fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn holds(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// One life's sampling.
#[derive(Debug)]
pub(super) struct Sampling {
    last: Option<MonoTime>,
    next: MonoTime,
    /// As far as this thread knows.
    rests: bool,
}

impl Sampling {
    pub(super) const fn new(now: MonoTime) -> Self {
        Self { last: None, next: now, rests: false }
    }

    /// When to look next.
    pub(super) fn next(&self, rest: &Rest) -> MonoTime {
        if self.is_disturbed(rest) { self.soonest().min(self.next) } else { self.next }
    }

    /// Whether to look now. Says before the look that load rests, so that what changes from then on disturbs it, or is seen.
    pub(super) fn begin(&mut self, now: MonoTime, rest: &Rest) -> bool {
        if now < self.next(rest) {
            return false;
        }
        rest.begin();
        true
    }

    /// The look is over, and found a change or none.
    pub(super) fn ended(&mut self, now: MonoTime, has_changed: bool, rest: &Rest) {
        self.rests = !has_changed;
        self.last = Some(now);
        if has_changed {
            rest.end();
        }
        self.next = now.plus_ms(if has_changed { SAMPLE_EVERY_MS } else { SAMPLE_RESTING_MS });
    }

    fn is_disturbed(&self, rest: &Rest) -> bool {
        self.rests && !rest.holds()
    }

    fn soonest(&self) -> MonoTime {
        self.last.map_or(self.next, |last| last.plus_ms(SAMPLE_EVERY_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(sampling: &mut Sampling, ms: u64, has_changed: bool, rest: &Rest) -> bool {
        let now = MonoTime::from_ms(ms);
        let looks = sampling.begin(now, rest);
        if looks {
            sampling.ended(now, has_changed, rest);
        }
        looks
    }

    #[test]
    fn a_change_after_a_rest_is_looked_at_at_once_and_wakes_once() {
        let (rest, mut sampling) = (Rest::default(), Sampling::new(MonoTime::default()));
        assert!(!rest.disturb(), "nobody has looked yet, so nobody waits to be woken");
        assert!(looks(&mut sampling, 0, false, &rest));
        assert!(!looks(&mut sampling, 50, false, &rest), "at rest");
        assert!(rest.disturb());
        assert!(!rest.disturb(), "it is awake by now");
        assert_eq!(sampling.next(&rest), MonoTime::from_ms(10));
        assert!(looks(&mut sampling, 51, true, &rest));
        assert!(!rest.disturb(), "while it changes it is looked at in any case");
        assert!(!looks(&mut sampling, 60, true, &rest) && looks(&mut sampling, 61, true, &rest));
    }

    /// Hazard: whoever cries wolf for each token keeps the mesh thread busy.
    #[test]
    fn what_is_said_to_change_and_does_not_is_looked_at_every_10_ms_at_most() {
        let (rest, mut sampling) = (Rest::default(), Sampling::new(MonoTime::default()));
        let mut count = 0;
        for ms in 0..1_000 {
            (0..5).for_each(|_| {
                rest.disturb();
            });
            count += usize::from(looks(&mut sampling, ms, false, &rest));
        }
        assert_eq!(count, 100);
    }

    #[test]
    fn nobody_needs_to_say_anything() {
        let (rest, mut sampling) = (Rest::default(), Sampling::new(MonoTime::default()));
        let looked: Vec<u64> = (0..350).filter(|ms| looks(&mut sampling, *ms, false, &rest)).collect();
        assert_eq!(looked, [0, 100, 200, 300]);
    }

    #[test]
    fn a_change_while_it_is_being_looked_at_is_not_lost() {
        let (rest, mut sampling) = (Rest::default(), Sampling::new(MonoTime::default()));
        let now = MonoTime::default();
        assert!(sampling.begin(now, &rest));
        assert!(rest.disturb(), "behind the look");
        sampling.ended(now, false, &rest);
        assert_eq!(sampling.next(&rest), MonoTime::from_ms(10));
    }
}
