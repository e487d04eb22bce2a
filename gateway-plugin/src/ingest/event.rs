//! What an engine's event says, as values; engines, versions and forms do not show here any more.
//!
//! Not here: how it was written (`decode`).

use std::num::NonZeroU64;

use covey_crdt::lane::Tier;

/// Where a block is kept. The device is what attention reads; the rest is slower to bring back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Medium {
    /// Device memory; also when the engine does not say.
    #[default]
    Device,
    /// Host memory.
    Host,
    /// Storage, local or remote.
    Storage,
}

impl Medium {
    /// The medium an engine names so.
    #[must_use]
    pub fn named(name: Option<&str>) -> Self {
        match name.map(str::to_ascii_uppercase).as_deref() {
            None | Some("GPU" | "HBM" | "DEVICE") => Self::Device,
            Some(name) if name.starts_with("CPU") => Self::Host,
            Some(_) => Self::Storage,
        }
    }

    /// The tier of lanes it is.
    #[must_use]
    pub const fn tier(self) -> Tier {
        match self {
            Self::Device => Tier::Device,
            Self::Host => Tier::Host,
            Self::Storage => Tier::Storage,
        }
    }
}

/// What besides tokens distinguishes a block: 64 bits over everything the engine says of it (salt, multimodal input …).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtraKey(pub NonZeroU64);

/// Blocks that a cache holds from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The engine's names of the blocks, in the order of their tokens.
    pub hashes: Vec<u64>,
    /// The block before the first one; `None` at the start of a prompt.
    pub parent: Option<u64>,
    /// The tokens that the blocks were computed from; more than `hashes` has blocks when some were left out.
    pub tokens: Vec<u32>,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// The adapter they were computed with.
    pub lora: Option<String>,
    /// Where they are.
    pub medium: Medium,
    /// What else each depends on; empty when the engine names nothing of the kind.
    pub extra: Vec<Option<ExtraKey>>,
    /// The attention group.
    pub group: u32,
    /// Whether the group is one whose blocks all count: full or MLA attention, or the engine does not say.
    pub is_full: bool,
}

/// Blocks of which one copy is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The engine's names of the blocks.
    pub hashes: Vec<u64>,
    /// From where.
    pub medium: Medium,
    /// The attention group.
    pub group: u32,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Blocks were stored.
    Stored(Box<Stored>),
    /// Blocks were removed.
    Removed(Removed),
    /// The whole cache is empty now.
    Cleared,
    /// Something this version does not know. It is no error.
    Unknown,
}

impl Event {
    /// Bytes it takes besides its own size.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Stored(stored) => {
                size_of::<Stored>()
                    + stored.hashes.capacity() * size_of::<u64>()
                    + stored.tokens.capacity() * size_of::<u32>()
                    + stored.extra.capacity() * size_of::<Option<ExtraKey>>()
                    + stored.lora.as_ref().map_or(0, String::capacity)
            }
            Self::Removed(removed) => removed.hashes.capacity() * size_of::<u64>(),
            Self::Cleared | Self::Unknown => 0,
        }
    }
}

/// Why an event was refused. Its batch-mates are read all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefuseEvent {
    /// It is neither an array nor a map, or has no type.
    Shape,
    /// A field it cannot do without is missing or of another type.
    Field,
    /// A token is no number: pairs or texts, which cannot be hashed as tokens.
    Tokens,
    /// A block has no tokens, or too many.
    BlockSize,
    /// The message has more events than bytes to say anything with.
    Dense,
}

impl RefuseEvent {
    /// The word for it in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Field => "field",
            Self::Tokens => "tokens",
            Self::BlockSize => "block_size",
            Self::Dense => "dense",
        }
    }
}
