//! What an inspection of a node asks and is answered: its state in pages, as plain data for the admin port and whoever
//! compares two gateways ([`Class`] has the words for what they find).
//!
//! A page is one moment; two pages are two. So each of them carries the vector as it was then: who read a holder page by
//! page knows that what it read holds no more than the last page's vector says, and no less than the first's.
//!
//! Only names and hashes go out: path ids are keyed hashes, no prompt can be had from them.
//!
//! Not here: answering (`node::inspect`), how an ask reaches the mesh thread (`net`). Upholds I9 (pages are bounded), I12.

mod stored;

use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::stamp::{Hlc, Rank, Stamp};
use serde::{Deserialize, Serialize};

use crate::status::Phase;
pub use stored::{AfterStored, FeedRow, SetRow, StoredPage};

/// Workers in one page at most.
pub const PAGE_WORKERS: usize = 256;
/// Holders in one page at most, and those of one worker more.
pub const PAGE_HOLDERS: usize = 1_024;
/// Blocks in one page at most: 32 hex digits each, so about 70 kB of JSON.
pub const PAGE_BLOCKS: usize = 2_048;
/// Blocks of stored coverage in one page at most: 16 hex digits each, so about 80 kB of JSON.
pub const PAGE_STORED: usize = 4_096;

/// Why something differs between two replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// One of the two has not applied ops about it that the other has.
    Lag,
    /// As lag, and all of those ops have arrived and wait: out of order, unresolved or ahead of the clock.
    Held,
    /// One of the two is dirty or joining: its vector does not describe its state.
    Dirty,
    /// One of the two has cut what the other still has; a floor explains it.
    Cut,
    /// Nothing explains it: both are clean, and no op that only one of them applied is about it.
    Lost,
}

impl Class {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lag => "lag",
            Self::Held => "held",
            Self::Dirty => "dirty",
            Self::Cut => "cut",
            Self::Lost => "LOST",
        }
    }
}

macro_rules! hex {
    ($(#[$doc:meta])* $name:ident($number:ty, $width:literal)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub $number);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!("{:0", $width, "x}"), self.0)
            }
        }

        impl From<$name> for String {
            fn from(of: $name) -> Self {
                of.to_string()
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let is_hex = text.len() == $width && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let number = <$number>::from_str_radix(text, 16).ok().filter(|_| is_hex);
                number.map(Self).ok_or_else(|| format!(concat!("{:?} is not ", $width, " hex digits"), text))
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
    };
}

hex! {
    /// A life, path or digest: 32 hex digits.
    Hex128(u128, 32)
}
hex! {
    /// A holder's id or a log's running hash: 16 hex digits.
    Hex64(u64, 16)
}

/// A stamp: when a gateway did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StampRow {
    /// Milliseconds since 1970.
    pub ms: u64,
    /// How many stamps of that millisecond came before.
    pub counter: u16,
    /// Who issued it.
    pub life: Hex128,
}

impl From<Stamp> for StampRow {
    fn from(stamp: Stamp) -> Self {
        Self { ms: stamp.hlc.ms(), counter: stamp.hlc.counter(), life: Hex128(stamp.life.0) }
    }
}

impl From<StampRow> for Stamp {
    fn from(row: StampRow) -> Self {
        Self { hlc: Hlc::new(row.ms, row.counter), life: LifeId(row.life.0) }
    }
}

/// A floor: every block ranked at or below is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorRow {
    /// The touch it lies in.
    pub stamp: StampRow,
    /// Of that touch, blocks at this depth and deeper are gone.
    pub depth: u32,
}

impl From<FloorRow> for Rank {
    fn from(row: FloorRow) -> Self {
        Self { stamp: row.stamp.into(), depth: row.depth }
    }
}

/// How far one life's log is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRow {
    /// Whose.
    pub life: Hex128,
    /// Its gateway's name; `None` when the life's record is not here.
    pub name: Option<String>,
    /// Whether it said goodbye.
    pub left: bool,
    /// Ops applied.
    pub seq: u64,
    /// Running hash over them: equal for equal logs.
    pub hash: Hex64,
    /// Ops received and held.
    pub held: u64,
    /// For how long it has been known that a peer has more, milliseconds; `None` when nobody is known to.
    pub gap_ms: Option<u64>,
}

/// Who answers, and how it was when it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The gateway's name.
    pub name: String,
    /// Its life.
    pub life: Hex128,
    /// The founder of its mesh; zero before it has joined.
    pub mesh: Hex128,
    /// How far it is.
    pub phase: Phase,
    /// The digest of everything it holds, clean or not.
    pub digest: Hex128,
    /// Its wall clock, milliseconds since 1970.
    pub wall_ms: u64,
    /// Every log it knows.
    pub logs: Vec<LogRow>,
}

/// Lives that are over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndsRow {
    /// Digest over what follows.
    pub digest: Hex128,
    /// Retired lives still remembered.
    pub retired: Vec<Hex128>,
    /// Lives retired at or before this are forgotten.
    pub forgotten: StampRow,
}

/// What tells two lives of a worker's cache apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IncarnationRow {
    /// Counts them.
    pub counter: u64,
    /// The engine's token.
    pub token: String,
}

/// A worker's record and its holders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Its id or canonical URL.
    pub name: String,
    /// Its data-parallel rank.
    pub rank: u16,
    /// The life of its cache.
    pub incarnation: IncarnationRow,
    /// Its capacity in tokens, where it is known.
    pub capacity_tokens: Option<u64>,
    /// When rules, lanes and labels were set, if they were.
    pub meta: Option<StampRow>,
    /// Digest of the record.
    pub record: Hex128,
    /// Its holders.
    pub holders: Vec<HolderRow>,
}

/// A holder in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderRow {
    /// Names it among the worker's.
    pub id: Hex64,
    /// The model.
    pub model: String,
    /// Units in a block.
    pub block_units: u32,
    /// Which of the worker's caches, 0 the plain one.
    pub lane: u8,
    /// Digest of floor and blocks.
    pub digest: Hex128,
    /// Blocks covered.
    pub blocks: u64,
    /// What is gone; `None` before the first cut.
    pub floor: Option<FloorRow>,
}

/// A page of a node's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatePage {
    /// How the node was at that moment.
    #[serde(flatten)]
    pub at: Moment,
    /// Ends of lives; the first page only.
    pub ends: Option<EndsRow>,
    /// Workers in canonical order.
    pub workers: Vec<WorkerRow>,
    /// Whether there are more after the last of them.
    pub more: bool,
}

/// Blocks of one touch in a row: `paths[i]` lies at depth `from + i`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StretchRow {
    /// The touch that raised them last.
    pub stamp: StampRow,
    /// Depth of the first, in blocks from the root.
    pub from: u32,
    /// Path ids: keyed hashes of whole prefixes.
    pub paths: Vec<Hex128>,
}

/// Where a holder's next page begins: after this block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterBlock {
    /// Its stamp.
    #[serde(flatten)]
    pub stamp: StampRow,
    /// Its depth.
    pub depth: u32,
}

/// A page of one holder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HolderPage {
    /// How the node was at that moment.
    #[serde(flatten)]
    pub at: Moment,
    /// The life of the worker's cache; `None` when the worker is not recorded.
    pub incarnation: Option<IncarnationRow>,
    /// What is gone; `None` before the first cut, or when there is no such holder.
    pub floor: Option<FloorRow>,
    /// Blocks, least recently touched first.
    pub blocks: Vec<StretchRow>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<AfterBlock>,
}

/// What a node can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Its state, from the worker after this one on.
    State {
        /// The last worker seen.
        after: Option<WorkerId>,
    },
    /// The blocks of one holder.
    Holder {
        /// Whose.
        worker: WorkerId,
        /// Which of the worker's holders.
        id: u64,
        /// The last block seen.
        after: Option<AfterBlock>,
    },
    /// What a worker's own events say it holds.
    Stored {
        /// Whose.
        worker: WorkerId,
        /// The last block seen.
        after: Option<AfterStored>,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Ask::State`].
    State(StatePage),
    /// To [`Ask::Holder`].
    Holder(HolderPage),
    /// To [`Ask::Stored`].
    Stored(StoredPage),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_back_and_anything_else_is_refused() {
        let id = Hex128(0xab);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(Hex64(7).to_string(), "0000000000000007");
        for bad in ["", "7", "000000000000000g", "+000000000000007", "00000000000000007"] {
            assert!(bad.parse::<Hex64>().is_err(), "{bad}");
        }
    }
}
