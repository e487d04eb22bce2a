//! Lanes: the independently evicted caches of one worker, and the one closed vocabulary for their kinds.
//!
//! Not here: folding several lanes into one reusable prefix. A lane exists only in a token keyspace; placements touch
//! the plain lane only.

use crate::limits::LANES_MAX;

/// Which memory a lane is in. Attention reads the device; the rest is slower to bring back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Device memory.
    #[default]
    Device,
    /// Host memory.
    Host,
    /// Storage, local or remote.
    Storage,
}

/// Which lane of a worker: an attention group (the low 6 bits) in one tier (the high 2). Local to the worker; 0 is the
/// plain lane that placements and single-cache engines use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u8);

impl LaneId {
    /// The lane placements are recorded in.
    pub const PLAIN: Self = Self(0);

    /// The lane of an attention group in a tier; `None` when there are too many groups.
    #[must_use]
    pub const fn of(group: u8, tier: Tier) -> Option<Self> {
        if group as usize >= LANES_MAX {
            return None;
        }
        let tier = match tier {
            Tier::Device => 0,
            Tier::Host => 1,
            Tier::Storage => 2,
        };
        Some(Self(group | tier << 6))
    }

    /// The attention group.
    #[must_use]
    pub const fn group(self) -> u8 {
        self.0 & 0x3f
    }

    /// The tier; what no build has used counts as storage.
    #[must_use]
    pub const fn tier(self) -> Tier {
        match self.0 >> 6 {
            0 => Tier::Device,
            1 => Tier::Host,
            _ => Tier::Storage,
        }
    }
}

/// What kind of cache a lane is. One enum, one codec: the discriminants are wire bytes and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// Full attention (also multi-head latent attention): holds a prefix from its root.
    Full,
    /// Sliding window: needs the last `window` tokens before the reused position.
    SlidingWindow,
    /// Chunked local attention: needs the current chunk only.
    ChunkedLocal,
    /// Recurrent state: a checkpoint is a position.
    Recurrent,
    /// A kind this build has no name for; its lane accepts only 0 tokens.
    Unknown(u8),
}

impl LaneKind {
    /// The wire byte.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Full => 0,
            Self::SlidingWindow => 1,
            Self::ChunkedLocal => 2,
            Self::Recurrent => 3,
            Self::Unknown(byte) => byte,
        }
    }

    /// The kind a wire byte names.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Full,
            1 => Self::SlidingWindow,
            2 => Self::ChunkedLocal,
            3 => Self::Recurrent,
            other => Self::Unknown(other),
        }
    }
}

/// One lane of a worker's roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneMeta {
    /// Which lane.
    pub lane: LaneId,
    /// Its kind.
    pub kind: LaneKind,
    /// Window or chunk in tokens; 0 where the kind has none.
    pub window_tokens: u32,
    /// Tokens in one of its blocks.
    pub block_tokens: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_a_group_in_a_tier() {
        for group in 0..64 {
            for tier in [Tier::Device, Tier::Host, Tier::Storage] {
                let lane = LaneId::of(group, tier).expect("a group");
                assert_eq!((lane.group(), lane.tier()), (group, tier));
            }
        }
        assert_eq!(LaneId::of(0, Tier::Device), Some(LaneId::PLAIN));
        assert_eq!(LaneId::of(64, Tier::Device), None);
    }

    #[test]
    fn every_kind_byte_round_trips() {
        for byte in 0..=u8::MAX {
            assert_eq!(LaneKind::from_byte(byte).to_byte(), byte);
        }
    }
}
