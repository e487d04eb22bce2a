//! A repair session at its receiver: one walk over one donor's whole state.
//!
//! Not here: the donor (it is stateless), merging (`node`). Upholds P4 to P6 together with the node's targets.

use covey_crdt::id::LifeId;
use covey_crdt::lives::Retirement;
use covey_crdt::slice::Cursor;
use covey_crdt::stamp::Stamp;

use crate::input::MonoTime;
use crate::vector::Head;

/// A running session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) donor: LifeId,
    pub(crate) id: u64,
    /// Which slice is asked for.
    pub(crate) nth: u32,
    pub(crate) cursor: Cursor,
    /// Whether it was asked for with all chain content.
    pub(crate) whole: bool,
    /// The donor's vector when the walk began; adopted when all slices are in.
    pub(crate) start: Option<Vec<(LifeId, Head)>>,
    /// The ends of lives that the donor knew then; taken with its vector (P9).
    pub(crate) ends: Vec<(LifeId, Retirement)>,
    pub(crate) forgotten: Stamp,
    /// Whether a slice was merged: from then on the replica is dirty (P4).
    pub(crate) merged: bool,
    pub(crate) asked: MonoTime,
    pub(crate) progress: MonoTime,
    pub(crate) bytes: u64,
}
