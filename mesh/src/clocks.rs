//! The peers' clocks as seen from here, and where the local one stands among them (P11).
//!
//! A reading is the peer's wall clock against the local *monotonic* one, corrected by half the round trip, so a step of
//! the local wall clock shows at once. The median is over live members, the own reading included (even count: the lower
//! middle); of two, the faster is silent.
//!
//! Not here: who is live (`peer`), what silence means (`node`).

use covey_crdt::plant::{Plant, planted};
use covey_crdt::stamp::WallMs;

use crate::input::MonoTime;
use crate::limits::{EPS_MS, READING_MS};
use crate::note::ClockState;

/// A peer's wall clock against the local monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Wall minus monotonic, in microseconds.
    ahead_us: i128,
    at: MonoTime,
}

impl Reading {
    /// The reading a peer's wall clock gave `rtt_us` / 2 ago.
    pub(crate) fn new(now: MonoTime, wall: WallMs, rtt_us: u64) -> Self {
        Self { ahead_us: i128::from(wall.0) * 1_000 + i128::from(rtt_us / 2) - i128::from(now.us), at: now }
    }

    /// The peer's wall clock now, in milliseconds; `None` when the reading is too old.
    pub(crate) fn wall_ms(&self, now: MonoTime) -> Option<i128> {
        (now.since_ms(self.at) <= READING_MS).then(|| (self.ahead_us + i128::from(now.us)) / 1_000)
    }
}

/// Milliseconds the local clock is ahead of the median of itself and `others` (negative: behind); `None` with nobody to
/// compare with.
pub(crate) fn ahead_ms(now: MonoTime, wall: WallMs, others: impl Iterator<Item = Reading>) -> Option<i64> {
    let mut walls: Vec<i128> = Vec::with_capacity(32);
    walls.extend(others.filter_map(|reading| reading.wall_ms(now)));
    if walls.is_empty() {
        return None;
    }
    let own = i128::from(wall.0);
    if !planted(Plant::MedianWithoutSelf) {
        walls.push(own);
    }
    let middle = (walls.len() - 1) / 2;
    let median = *walls.select_nth_unstable(middle).1;
    Some(i64::try_from(own - median).unwrap_or(if own > median { i64::MAX } else { i64::MIN }))
}

/// What that means.
pub(crate) const fn state(ahead_ms: Option<i64>) -> ClockState {
    let tolerance = (EPS_MS / 2) as i64;
    match ahead_ms {
        Some(ms) if ms > tolerance => ClockState::Ahead,
        Some(ms) if ms < -tolerance => ClockState::Behind,
        _ => ClockState::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(own: u64, others: &[u64]) -> Option<i64> {
        let now = MonoTime::from_ms(10);
        ahead_ms(now, WallMs(own), others.iter().map(|wall| Reading::new(now, WallMs(*wall), 0)))
    }

    #[test]
    fn a_slow_minority_silences_nobody_p11() {
        assert_eq!(ahead(10_000, &[10_000, 0]), Some(0));
        assert_eq!(state(ahead(0, &[10_000, 10_000])), ClockState::Behind);
    }

    #[test]
    fn of_two_the_faster_is_silent() {
        assert_eq!(state(ahead(10_000, &[0])), ClockState::Ahead);
        assert_eq!(state(ahead(0, &[10_000])), ClockState::Good);
    }

    #[test]
    fn a_step_of_the_local_clock_shows_at_once_and_old_readings_do_not_count() {
        let reading = Reading::new(MonoTime::from_ms(0), WallMs(1_000), 100_000);
        let later = MonoTime::from_ms(2_000);
        assert_eq!(ahead_ms(later, WallMs(3_050), [reading, reading].into_iter()), Some(0));
        assert_eq!(ahead_ms(later, WallMs(9_050), [reading, reading].into_iter()), Some(6_000));
        assert_eq!(ahead_ms(MonoTime::from_ms(READING_MS + 1), WallMs(0), [reading].into_iter()), None);
    }
}
