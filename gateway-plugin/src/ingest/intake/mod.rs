//! One worker's feed, from the engine's numbered batches to ops: what is missing is fetched, what cannot be fetched is said.
//! Sans-IO: inputs and the time in, outputs queued. The gateway's `runner` drives it with sockets, the simulator in virtual
//! time.
//!
//! An op is a function of the state before and the batch (P3), so two gateways that ingest one engine make equal ops; the
//! state goes from one to the other by hand-off, and an engine is asked only for what no gateway has. An engine's numbers
//! start at 0 with each of its lives and carry no mark of which life it is, so a batch seen before is compared by a print of
//! its bytes, and whatever was not proven to follow is not applied.
//!
//! Not here: sockets (`runner`), what events mean (`EngineCache`), who publishes (`covey-mesh`). Upholds I7: never
//! [`Phase::Exact`] while the state may differ from the engine's at its position.

mod batch;
mod buffer;
mod fill;
mod generations;
mod hand_off;
mod live;
mod machine;

use bytes::Bytes;
pub use covey_crdt::change::FeedView;
use covey_crdt::hash::HashKey;
use covey_crdt::id::{Incarnation, LifeId, ModelName, WorkerId};
use covey_crdt::stored::StoredOp;
use covey_mesh::input::MonoTime;

use super::cache::CacheRules;

pub use batch::{Arrival, Batch, Numbered, RefuseMessage, read_frames};
pub use machine::{Counters, Intake};

/// What an intake is told when it is made.
#[derive(Clone, Debug)]
pub struct IntakeConfig {
    /// Whose feed.
    pub worker: WorkerId,
    /// The model of its keyspace.
    pub model: ModelName,
    /// The mesh's hash key.
    pub key: HashKey,
    /// What is known of the engine's reports beforehand.
    pub rules: CacheRules,
    /// The gateway's life: it opens generations under it.
    pub life: LifeId,
    /// The data-parallel rank that batches must name where they name one; `None`: the one the first batch names.
    pub rank: Option<u32>,
    /// Whether the engine answers replays.
    pub has_replay: bool,
}

/// How a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayEnd {
    /// With its end marker. (A marker among the messages says the same.)
    Marked,
    /// Without: the connection broke, or nothing came for too long.
    Cut,
    /// It never began: nobody listens there.
    Refused,
}

/// What happens to an intake.
#[derive(Clone, Debug)]
pub enum Input {
    /// The subscription stands.
    Connected,
    /// The subscription's connection is gone.
    Lost,
    /// Something was published.
    Message(Arrival),
    /// Part of the answer to a replay.
    Replayed {
        /// Which.
        ask: u64,
        /// What.
        arrival: Arrival,
    },
    /// A replay ended.
    ReplayEnded {
        /// Which.
        ask: u64,
        /// How.
        how: ReplayEnd,
    },
    /// The replicated record's incarnation, now and whenever it changes.
    Incarnation(Incarnation),
    /// How far the replica's feed is, now and whenever it changes.
    Feed(Option<FeedView>),
    /// What was published last leads nowhere ([`Why::Stranded`]): open a generation.
    Restart,
    /// The other ingester's state, or that nobody has one.
    HandedOff(Option<Bytes>),
    /// The time that [`Intake::next_deadline`] named has come.
    Elapsed,
}

/// What an intake asks of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an output that is dropped is an op or a question lost"]
pub enum Output {
    /// Ask the engine for its batches from this number on, with a new connection; an earlier ask is over.
    Ask {
        /// To be named with each answer.
        ask: u64,
        /// The first batch wanted.
        from: u64,
    },
    /// Ask the other ingester for its state, and answer [`Input::HandedOff`]; at once with `None` when there is none.
    AskHandOff,
    /// Make a new subscription: the engine behind the present one is another life.
    Reconnect,
    /// The feed went on.
    Publish(StoredOp),
    /// An engine restart was seen: raise the floor of the worker's placements now.
    Reset,
    /// Ask the worker for its token now.
    Probe,
    /// What the feed's state can be said to be from now on.
    State(IntakeState),
    /// Something an operator may want to know.
    Note(Note),
}

/// How well an intake knows the engine's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// As the engine's cache at the position, all of it.
    Exact,
    /// Batches are missing, or what is known is not proven to be of this engine's life, and that is being mended.
    Gap,
    /// What is known is right and not all: history before it is missing.
    Bootstrapping,
    /// There is no connection, or nothing proved the engine alive for too long.
    Stale,
}

impl Phase {
    /// The word for it in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Gap => "gap",
            Self::Bootstrapping => "bootstrapping",
            Self::Stale => "stale",
        }
    }
}

/// A phase, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeState {
    /// Which.
    pub phase: Phase,
    /// Since when.
    pub since: MonoTime,
}

/// Why a generation was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// History before the first batch that could be had is missing.
    Late,
    /// A gap that neither the engine nor a gateway could fill.
    Gap,
    /// The engine restarted.
    Restart,
    /// The engine's whole history was had again, after a generation that knew less.
    Recovered,
    /// The replica is in a larger generation, and nobody handed its state over.
    Outrun,
    /// What was published last leads nowhere: what lies before it died with whoever made it, or another gateway has another
    /// state under the same key.
    Stranded,
    /// The worker's incarnation was raised and the engine is the same.
    Raised,
}

impl Why {
    /// The word for it in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Gap => "gap",
            Self::Restart => "restart",
            Self::Recovered => "recovered",
            Self::Outrun => "outrun",
            Self::Stranded => "stranded",
            Self::Raised => "raised",
        }
    }
}

/// Something an operator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A generation was opened at a position.
    Generation {
        /// Why.
        why: Why,
        /// Where.
        position: u64,
    },
    /// Batches from `from` on are missing, up to `to` (not included).
    Gap {
        /// The first.
        from: u64,
        /// The first that is there.
        to: u64,
    },
    /// A handed-off state was taken, at a position.
    HandedOff {
        /// Where.
        position: u64,
    },
    /// A handed-off state was of no use.
    HandOffRefused,
}

#[cfg(test)]
mod tests;
