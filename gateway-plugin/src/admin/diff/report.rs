//! What `covey diff` found, as data: printed for people by `print`, or as JSON as it is.
//!
//! Not here: how it is found (`judge`). Pairs are always (the first gateway, the second).

use covey_mesh::inspect::{Class, Hex64, Hex128, StampRow};
use covey_mesh::status::Phase;
use serde::Serialize;

/// Blocks listed of a holder and gateway at most; all of them are counted.
pub const LISTED_MAX: usize = 1_000;

/// Which of the two gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The first one.
    One,
    /// The second one.
    Other,
}

/// One of the two gateways, as it was at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatewayRow {
    /// Where it was asked.
    pub admin: String,
    /// Its name.
    pub name: String,
    /// Its life.
    pub life: Hex128,
    /// The founder of its mesh.
    pub mesh: Hex128,
    /// How far it is.
    pub phase: Phase,
    /// Its root digest.
    pub digest: Hex128,
    /// Ops applied, all logs.
    pub ops: u64,
    /// Holders.
    pub holders: u64,
    /// Blocks, summed over holders.
    pub blocks: u64,
}

/// A log of which one gateway lacks what the other had when it was read first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogDiff {
    /// Whose.
    pub life: Hex128,
    /// Its gateway's name, where one of the two knows it.
    pub name: Option<String>,
    /// Who is behind.
    pub lacks: Side,
    /// Ops applied by each.
    pub applied: (u64, u64),
    /// Ops that wait at the one that is behind.
    pub held: u64,
    /// For how long the one that is behind has known that it is, milliseconds.
    pub since_ms: Option<u64>,
    /// Whether both applied as many ops, but not the same ones.
    pub forked: bool,
    /// Why.
    pub class: Class,
}

/// A record that one gateway lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordDiff {
    /// Whose.
    pub name: String,
    /// Who lacks it.
    pub lacks: Side,
    /// Which part of it.
    pub what: String,
    /// Why.
    pub class: Class,
}

/// A block that one gateway lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockDiff {
    /// Its path: a keyed hash of the whole prefix.
    pub path: Hex128,
    /// The touch that the other has it from.
    pub stamp: StampRow,
    /// Its depth in blocks from the root.
    pub depth: u32,
    /// Whether the one that lacks it has the block under an older stamp.
    pub restamped: bool,
}

/// A holder in which the two differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderDiff {
    /// Whose.
    pub worker: String,
    /// The model.
    pub model: String,
    /// Its id among the worker's.
    pub id: Hex64,
    /// Blocks covered by each.
    pub blocks: (u64, u64),
    /// Counter of the worker's incarnation at each; `None` where the worker is not recorded.
    pub incarnations: (Option<u64>, Option<u64>),
    /// The floor of each, milliseconds since 1970.
    pub floors_ms: (Option<u64>, Option<u64>),
    /// How many blocks each lacks.
    pub lacking: (u64, u64),
    /// Blocks that the first one lacks, oldest first; [`LISTED_MAX`] at most.
    pub lacks_one: Vec<BlockDiff>,
    /// Blocks that the second one lacks, oldest first; [`LISTED_MAX`] at most.
    pub lacks_other: Vec<BlockDiff>,
    /// Blocks that one still has and the other has cut.
    pub cut: u64,
    /// Blocks lacking although the log that stamped them is applied on both: a restated op may still tell, else they are
    /// lost.
    pub unexplained: u64,
    /// The stamp of the oldest block lacking, milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// How long ago that is, milliseconds.
    pub age_ms: Option<u64>,
    /// Why.
    pub class: Class,
    /// Whether it was too large to be read whole.
    pub is_partial: bool,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffReport {
    /// The two.
    pub gateways: (GatewayRow, GatewayRow),
    /// How far apart first and last reading were, milliseconds.
    pub settled_ms: u64,
    /// Logs that one of the two has still not applied as far as the other had at first.
    pub logs: Vec<LogDiff>,
    /// Records that still differ.
    pub records: Vec<RecordDiff>,
    /// Holders that still differ, of those that were read.
    pub holders: Vec<HolderDiff>,
    /// Holders that differed at first and do not any more: traffic under way.
    pub holders_in_flight: u64,
    /// Blocks that one lacked at first, and not any more.
    pub blocks_in_flight: u64,
    /// Holders that differ and were not read, because of the limit.
    pub holders_unread: u64,
    /// Their class, if the digests alone tell it.
    pub unread: Option<Class>,
    /// Whether the root digests differ at equal clean vectors although nothing that was read does.
    pub root_differs: bool,
}

impl DiffReport {
    fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        let logs = self.logs.iter().map(|log| log.class);
        let records = self.records.iter().map(|record| record.class);
        let holders = self.holders.iter().map(|holder| holder.class);
        let unread = (self.holders_unread > 0).then(|| self.unread.unwrap_or(Class::Lag));
        logs.chain(records).chain(holders).chain(unread).chain(self.root_differs.then_some(Class::Lost))
    }

    /// Whether nothing is left that differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.classes().next().is_none()
    }

    /// Whether a further reading could tell nothing better: nothing differs, or something is lost for certain.
    #[must_use]
    pub(super) fn is_final(&self) -> bool {
        self.is_equal() || self.has(Class::Lost)
    }

    /// Whether anything is of this class.
    #[must_use]
    pub(super) fn has(&self, class: Class) -> bool {
        self.classes().any(|other| other == class)
    }

    /// 0: equal, 1: differences that something explains, 2: something is lost.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.classes().max() {
            None => 0,
            Some(Class::Lost) => 2,
            Some(Class::Lag | Class::Held | Class::Dirty | Class::Cut) => 1,
        }
    }
}
