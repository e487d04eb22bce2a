//! The updates: everything a life's log can carry. Ops of engines' feeds are of their own kind (`stored`).
//!
//! Not here: sequence numbers and who may write which log (`covey-mesh`); bytes (`codec`). An op of an older
//! incarnation changes nothing but still counts as applied (ruling R1); a newer incarnation is adopted from the op
//! itself, so no op waits for another log.

use std::sync::Arc;

use crate::chain::Tip;
use crate::id::{GatewayName, Incarnation, LifeId, WorkerId};
use crate::keyspace::Keyspace;
use crate::slice::Slice;
use crate::stamp::{Floor, Stamp};
use crate::worker::WorkerMeta;

/// One update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The first op of a life's log: the life exists and goes by this name (ruling R9).
    Joined {
        /// The gateway's name.
        name: GatewayName,
    },
    /// The last op of a life's log: it left gracefully.
    Left,
    /// A gateway sent this chain to this worker.
    Touch(Touch),
    /// A holder's floor rises: idle expiry, reset.
    Floor(FloorRaise),
    /// Something about a whole worker.
    Worker(WorkerUpdate),
    /// State that this gateway holds although the ops that made it were lost with their writers (P6): said again as an
    /// op of its own, so that a vector describes it. Joins like any slice.
    Restated(Box<Slice>),
    /// Another life is over: every member that is present has exactly these ops of it (P7).
    Retired(LifeEnd),
    /// Retired lives are not remembered any more.
    Forget(Forget),
}

/// The end of a life's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeEnd {
    /// Whose.
    pub life: LifeId,
    /// The number of its last op.
    pub last: u64,
    /// When it was decided.
    pub stamp: Stamp,
}

/// What was retired up to a moment is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Lives retired at or before this are forgotten; never later than `stamp`.
    pub through: Stamp,
    /// When it was decided.
    pub stamp: Stamp,
}

/// A placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Who was sent the chain.
    pub worker: WorkerId,
    /// The space of its hashes.
    pub keyspace: Arc<Keyspace>,
    /// The life of the worker's cache.
    pub incarnation: Incarnation,
    /// Where the chain ends.
    pub tip: Tip,
    /// When.
    pub stamp: Stamp,
}

/// A floor raise of a plain holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloorRaise {
    /// Whose.
    pub worker: WorkerId,
    /// In which keyspace.
    pub keyspace: Arc<Keyspace>,
    /// The life of the worker's cache.
    pub incarnation: Incarnation,
    /// Everything at or below goes; never later than `stamp`.
    pub floor: Floor,
    /// When it was decided.
    pub stamp: Stamp,
}

/// An update of a worker's record. A higher incarnation empties the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerUpdate {
    /// Which.
    pub worker: WorkerId,
    /// The life of its cache.
    pub incarnation: Incarnation,
    /// Its capacity in tokens, if this update knows one; within an incarnation it only shrinks.
    pub capacity_tokens: Option<u64>,
    /// Rules version, roster and labels, if this update sets them; the last stamp wins.
    pub meta: Option<WorkerMeta>,
    /// When.
    pub stamp: Stamp,
}

impl Op {
    /// The stamp the op was issued at, if it carries one.
    #[must_use]
    pub const fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Touch(touch) => Some(touch.stamp),
            Self::Floor(raise) => Some(raise.stamp),
            Self::Worker(update) => Some(update.stamp),
            Self::Retired(end) => Some(end.stamp),
            Self::Forget(forget) => Some(forget.stamp),
            Self::Joined { .. } | Self::Left | Self::Restated(_) => None,
        }
    }

    /// The latest stamp in the op: it is held back while that lies beyond the local clock's tolerance.
    #[must_use]
    pub fn latest(&self) -> Option<Stamp> {
        match self {
            Self::Restated(slice) => slice.newest(),
            Self::Joined { .. }
            | Self::Left
            | Self::Touch(_)
            | Self::Floor(_)
            | Self::Worker(_)
            | Self::Retired(_)
            | Self::Forget(_) => self.stamp(),
        }
    }

    /// The chains the op names: each must be stored before it can be applied.
    pub fn tips(&self) -> impl Iterator<Item = Tip> + '_ {
        let touch = if let Self::Touch(touch) = self { Some(touch.tip) } else { None };
        let slice = if let Self::Restated(slice) = self { Some(slice) } else { None };
        let segments = slice.into_iter().flat_map(|slice| &slice.holders).flat_map(|holder| &holder.segments);
        touch.into_iter().chain(segments.map(|(_, tip)| *tip))
    }

    /// Whether the op may stand in the log of `life`: its stamp was issued there, what it names is not later than that,
    /// and nobody retires itself.
    #[must_use]
    pub fn belongs_to(&self, life: LifeId) -> bool {
        let fits = match self {
            Self::Floor(raise) => raise.floor.stamp <= raise.stamp,
            Self::Worker(update) => update.meta.as_ref().is_none_or(|meta| meta.stamp == update.stamp),
            Self::Restated(slice) => slice.next.is_none(),
            Self::Retired(end) => end.life != life && end.last > 0,
            Self::Forget(forget) => forget.through <= forget.stamp,
            Self::Joined { .. } | Self::Left | Self::Touch(_) => true,
        };
        fits && self.stamp().is_none_or(|stamp| stamp.life == life)
    }
}
