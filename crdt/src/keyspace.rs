//! Keyspaces: which blocks can be compared with which. Two gateways that disagree on any field have disjoint hashes.
//!
//! Not here: the hashing itself (`hash`). Block size and hash scheme are part of the name, so a setting that differs
//! between two gateways can never silently mix coverage.

use crate::id::ModelName;
use crate::limits::{BLOCK_UNITS_MAX, BYTES_PER_TOKEN, CAPACITY_BLOCKS_UNKNOWN};

/// What a prompt is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// The engine's token ids, 4 little-endian bytes each.
    Tokens,
    /// UTF-8 bytes of the canonically rendered prompt.
    Bytes,
}

impl Unit {
    /// The wire byte.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Tokens => 0,
            Self::Bytes => 1,
        }
    }

    /// The unit a wire byte names; `None` for a byte no build has used.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Tokens),
            1 => Some(Self::Bytes),
            _ => None,
        }
    }
}

/// Which function names blocks. A number, because it goes over the wire and never changes meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashScheme(pub u8);

impl HashScheme {
    /// XXH3-64 of a block's little-endian bytes, hashed once more with the hash before it as seed.
    pub const CHAINED_XXH3: Self = Self(1);
}

/// Names a hash key without revealing it: gateways with different keys must not mix coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKeyId(pub u64);

/// Model, unit, block size, hash scheme and key: the space in which block hashes mean something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyspace {
    /// The model the engine serves under.
    pub model: ModelName,
    /// What a block is a run of.
    pub unit: Unit,
    /// Units in one block, 1 to [`BLOCK_UNITS_MAX`].
    pub block_units: u32,
    /// How blocks are named.
    pub scheme: HashScheme,
    /// Which key the names are made with.
    pub key_id: HashKeyId,
}

impl Keyspace {
    /// A keyspace with the present hash scheme; `None` when the block size is 0 or above [`BLOCK_UNITS_MAX`].
    #[must_use]
    pub fn new(model: ModelName, unit: Unit, block_units: u32, key_id: HashKeyId) -> Option<Self> {
        (1..=BLOCK_UNITS_MAX).contains(&block_units).then_some(Self {
            model,
            unit,
            block_units,
            scheme: HashScheme::CHAINED_XXH3,
            key_id,
        })
    }

    /// How many blocks of this keyspace `capacity_tokens` hold, at least 1 (ruling R6).
    #[must_use]
    pub fn capacity_blocks(&self, capacity_tokens: Option<u64>) -> u32 {
        let Some(tokens) = capacity_tokens else { return CAPACITY_BLOCKS_UNKNOWN };
        let units = match self.unit {
            Unit::Tokens => tokens,
            Unit::Bytes => tokens.saturating_mul(BYTES_PER_TOKEN),
        };
        let blocks = units / u64::from(self.block_units);
        u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, CAPACITY_BLOCKS_UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(block_units: u32) -> Option<Keyspace> {
        Keyspace::new(ModelName::new("m").expect("a name"), Unit::Bytes, block_units, HashKeyId(0))
    }

    #[test]
    fn capacity_is_counted_at_four_bytes_a_token_and_never_zero() {
        let keyspace = bytes(256).expect("a block size");
        assert_eq!(keyspace.capacity_blocks(Some(120_000)), 1_875);
        assert_eq!(keyspace.capacity_blocks(Some(1)), 1);
        assert_eq!(keyspace.capacity_blocks(None), CAPACITY_BLOCKS_UNKNOWN);
        assert_eq!(keyspace.capacity_blocks(Some(u64::MAX)), CAPACITY_BLOCKS_UNKNOWN);
    }

    #[test]
    fn block_size_zero_is_no_keyspace() {
        assert!(bytes(0).is_none());
        assert!(bytes(BLOCK_UNITS_MAX + 1).is_none());
    }
}
