//! Lanes: the independently evicted caches of one worker, and the one closed vocabulary for their kinds.
//!
//! Not here: folding several lanes into one reusable prefix. A lane exists only in a token keyspace; placements touch
//! the plain lane only.

/// Which lane of a worker. Local to the worker; 0 is the plain lane that placements and single-cache engines use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u8);

impl LaneId {
    /// The lane placements are recorded in.
    pub const PLAIN: Self = Self(0);
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
    fn every_kind_byte_round_trips() {
        for byte in 0..=u8::MAX {
            assert_eq!(LaneKind::from_byte(byte).to_byte(), byte);
        }
    }
}
