//! Clocks as values: hybrid-logical-clock stamps, ranks and floors.
//!
//! Not here: reading a clock. A stamp is unique (it carries the life that issued it) and totally ordered by its
//! canonical bytes: big-endian milliseconds, counter, life (ruling R4).

use crate::id::LifeId;

/// Milliseconds a stamp can hold: 48 bits.
pub const STAMP_MS_MAX: u64 = (1 << 48) - 1;

/// Wall-clock milliseconds since the Unix epoch, as somebody's clock read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(pub u64);

/// A hybrid logical clock reading: milliseconds and a counter, in one ordered word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hlc(u64);

impl Hlc {
    /// The reading `ms`, `counter`; milliseconds past 48 bits saturate.
    #[must_use]
    pub const fn new(ms: u64, counter: u16) -> Self {
        let ms = if ms > STAMP_MS_MAX { STAMP_MS_MAX } else { ms };
        Self(ms << 16 | counter as u64)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0 >> 16
    }

    /// How many stamps were issued before this one within the millisecond.
    #[must_use]
    pub const fn counter(self) -> u16 {
        (self.0 & 0xffff) as u16
    }

    /// The next reading not before `wall`. A full counter carries into the milliseconds.
    #[must_use]
    pub fn tick(self, wall: WallMs) -> Self {
        let fresh = Self::new(wall.0, 0);
        if fresh > self { fresh } else { Self(self.0.saturating_add(1)) }
    }

    /// The reading as one ordered word, for wire columns.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The reading a wire column holds.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// When a gateway did something: clock reading and life. Unique, totally ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The hybrid logical clock.
    pub hlc: Hlc,
    /// Who issued it.
    pub life: LifeId,
}

impl Stamp {
    /// Below every stamp a gateway issues.
    pub const ZERO: Self = Self { hlc: Hlc::new(0, 0), life: LifeId(0) };

    /// Canonical bytes: 6 of milliseconds, 2 of counter, 16 of life, all big-endian. Their order is the stamps' order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.hlc.to_bits().to_be_bytes());
        bytes[8..].copy_from_slice(&self.life.0.to_be_bytes());
        bytes
    }
}

/// How recently one placed block was touched: newer stamps rank higher, and of one touch the block nearer the root.
/// Ordered from the least recent (cut first) to the most recent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The touch.
    pub stamp: Stamp,
    /// The block's depth in blocks from the root, 1 for the first.
    pub depth: u32,
}

impl Rank {
    /// Below every rank a block can have: nothing is gone.
    pub const LOWEST: Self = Self { stamp: Stamp::ZERO, depth: u32::MAX };

    /// The floor that covers `stamp` whole and everything older (expiry and reset, ruling R4).
    #[must_use]
    pub const fn whole(stamp: Stamp) -> Self {
        Self { stamp, depth: 0 }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.stamp.cmp(&other.stamp).then(other.depth.cmp(&self.depth))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A holder's grow-only summary of what is gone: every block ranked at or below it.
pub type Floor = Rank;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_order_by_their_canonical_bytes() {
        let all = [
            Stamp::ZERO,
            Stamp { hlc: Hlc::new(5, 0), life: LifeId(9) },
            Stamp { hlc: Hlc::new(5, 1), life: LifeId(0) },
            Stamp { hlc: Hlc::new(5, 1), life: LifeId(1 << 100) },
            Stamp { hlc: Hlc::new(6, 0), life: LifeId(2) },
            Stamp { hlc: Hlc::new(u64::MAX, u16::MAX), life: LifeId(0) },
        ];
        for pair in all.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[0].to_bytes() < pair[1].to_bytes());
        }
    }

    #[test]
    fn a_clock_that_steps_back_does_not_take_the_stamps_with_it() {
        let before = Hlc::new(1_000, 3);
        assert_eq!(before.tick(WallMs(900)), Hlc::new(1_000, 4));
        assert_eq!(before.tick(WallMs(1_001)), Hlc::new(1_001, 0));
        assert_eq!(Hlc::new(1_000, u16::MAX).tick(WallMs(0)), Hlc::new(1_001, 0));
    }

    #[test]
    fn of_one_touch_the_tail_ranks_lowest() {
        let stamp = Stamp { hlc: Hlc::new(7, 0), life: LifeId(1) };
        assert!(Rank { stamp, depth: 2 } < Rank { stamp, depth: 1 });
        assert!(Rank { stamp, depth: 1 } < Rank::whole(stamp));
        assert!(Rank::LOWEST < Rank { stamp: Stamp::ZERO, depth: 9 });
    }
}
