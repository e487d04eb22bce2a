//! A budget of bytes a second, as a bucket of tokens that may be overdrawn once: what is too large for the bucket goes
//! out when it is full, and the debt is paid before the next.
//!
//! Not here: what is paid from it (`node::donate`). Upholds I9.

use crate::input::MonoTime;

/// What is left to spend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Bytes, below zero when overdrawn.
    left: i64,
    at: MonoTime,
}

impl Budget {
    /// A second's worth from the first use on.
    pub(crate) const fn new(now: MonoTime) -> Self {
        Self { left: i64::MAX, at: now }
    }

    /// How many milliseconds until something may be spent; 0: now.
    pub(crate) fn wait_ms(&mut self, now: MonoTime, bytes_per_s: u64) -> u64 {
        let rate = i64::try_from(bytes_per_s.max(1)).unwrap_or(i64::MAX);
        let since_us = i64::try_from(now.us.saturating_sub(self.at.us)).unwrap_or(i64::MAX);
        let earned = rate.saturating_mul(since_us) / 1_000_000;
        self.left = self.left.saturating_add(earned).min(rate);
        // The time that does not make a byte counts the next time.
        self.at.us += (earned.saturating_mul(1_000_000) / rate).unsigned_abs();
        if self.left > 0 {
            0
        } else {
            (1 - self.left).unsigned_abs().saturating_mul(1_000).div_ceil(rate.unsigned_abs())
        }
    }

    /// Spends, beyond what is left if need be.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_off_at_the_stated_rate() {
        let mut budget = Budget::new(MonoTime::from_ms(0));
        assert_eq!(budget.wait_ms(MonoTime::from_ms(0), 1_000), 0);
        budget.spend(3_000);
        let wait = budget.wait_ms(MonoTime::from_ms(0), 1_000);
        assert_eq!(wait, 2_001);
        assert_eq!(budget.wait_ms(MonoTime::from_ms(2_000), 1_000), 1);
        assert_eq!(budget.wait_ms(MonoTime::from_ms(wait), 1_000), 0);
        budget.spend(1);
        assert_eq!(budget.wait_ms(MonoTime::from_ms(60_000), 1_000), 0, "and no more than a second's worth is saved");
        budget.spend(1_000);
        assert_eq!(budget.wait_ms(MonoTime::from_ms(60_000), 1_000), 1);
    }

    #[test]
    fn a_rate_below_a_byte_a_millisecond_is_not_lost_to_rounding() {
        let mut budget = Budget::new(MonoTime::from_ms(0));
        assert_eq!(budget.wait_ms(MonoTime::from_ms(0), 100), 0);
        budget.spend(110);
        let waits = (1..=200).find(|ms| budget.wait_ms(MonoTime::from_ms(*ms), 100) == 0);
        assert_eq!(waits, Some(110));
    }
}
