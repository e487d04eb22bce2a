//! A node's wall clock against true time: off, drifting, stepping, standing still.
//!
//! Not here: monotonic time, which only starts anew with a node.

use covey_crdt::stamp::WallMs;

/// Virtual wall time at the start, milliseconds since the Unix epoch.
pub(super) const EPOCH_MS: u64 = 1_764_000_000_000;
/// A mended clock is at most this far off, in milliseconds.
const MENDED_MS: i64 = 100;

/// One wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    offset_us: i64,
    drift_ppm: i64,
    stands_at_us: Option<i64>,
}

impl Clock {
    pub(super) const fn new(offset_ms: i64, drift_ppm: i64) -> Self {
        Self { offset_us: offset_ms.saturating_mul(1_000), drift_ppm, stands_at_us: None }
    }

    fn running_us(&self, now_us: u64) -> i64 {
        let now = now_us as i64;
        (EPOCH_MS as i64 * 1_000 + now + now / 1_000 * self.drift_ppm / 1_000).saturating_add(self.offset_us)
    }

    /// What it reads.
    pub(super) fn wall(&self, now_us: u64) -> WallMs {
        let us = self.stands_at_us.unwrap_or_else(|| self.running_us(now_us));
        WallMs(u64::try_from(us).unwrap_or(0) / 1_000)
    }

    pub(super) const fn step(&mut self, ms: i64) {
        self.offset_us = self.offset_us.saturating_add(ms.saturating_mul(1_000));
        if let Some(us) = &mut self.stands_at_us {
            *us = us.saturating_add(ms.saturating_mul(1_000));
        }
    }

    pub(super) fn stop(&mut self, now_us: u64) {
        self.stands_at_us = Some(self.stands_at_us.unwrap_or_else(|| self.running_us(now_us)));
    }

    /// It runs again: from where it stood, or from where it would be.
    pub(super) fn go_on(&mut self, now_us: u64, catches_up: bool) {
        if let Some(stood) = self.stands_at_us.take()
            && !catches_up
        {
            self.offset_us += stood - self.running_us(now_us);
        }
    }

    /// Mended, or left wrong by `left_ms` for good.
    pub(super) fn mend(&mut self, now_us: u64, left_ms: Option<i64>) {
        self.go_on(now_us, false);
        let right = Self::default().running_us(now_us);
        let off_ms = (self.running_us(now_us) - right) / 1_000;
        *self = Self::new(left_ms.unwrap_or_else(|| off_ms.clamp(-MENDED_MS, MENDED_MS)), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_drifts_stands_still_and_goes_on() {
        let mut clock = Clock::new(10, 500);
        assert_eq!(clock.wall(0).0, EPOCH_MS + 10);
        assert_eq!(clock.wall(100_000_000).0, EPOCH_MS + 10 + 100_000 + 50);
        let mut slow = clock;
        clock.stop(1_000_000);
        let stood = clock.wall(9_000_000);
        assert_eq!(stood, clock.wall(1_000_000));
        clock.go_on(9_000_000, false);
        assert_eq!(clock.wall(9_000_000), stood);
        slow.stop(1_000_000);
        slow.go_on(9_000_000, true);
        assert_eq!(slow.wall(9_000_000).0, EPOCH_MS + 10 + 9_000 + 4);
    }

    #[test]
    fn a_mended_clock_is_nearly_right_and_a_far_one_does_not_overflow() {
        let mut clock = Clock::new(0, 0);
        clock.step(1 << 47);
        assert_eq!(clock.wall(5_000_000).0, EPOCH_MS + 5_000 + (1 << 47));
        clock.mend(5_000_000, None);
        assert_eq!(clock.wall(5_000_000).0, EPOCH_MS + 5_100);
        clock.mend(5_000_000, Some(-700));
        assert_eq!(clock.wall(6_000_000).0, EPOCH_MS + 5_300);
        clock.step(i64::MIN);
        assert_eq!(clock.wall(0).0, 0);
    }
}
