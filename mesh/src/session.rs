//! A repair session at its receiver: one walk over one donor's state. And the permits of a donor.
//!
//! Not here: what is asked (`covey_crdt::walk`), merging and answering (`node`). Upholds P4 to P6 together with the node's
//! targets, and I9: a donor serves few receivers at once.

use std::collections::BTreeMap;

use covey_crdt::id::LifeId;
use covey_crdt::walk::Walk;

use crate::input::MonoTime;
use crate::note::RepairCost;
use crate::vector::Head;

/// A running session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) donor: LifeId,
    pub(crate) id: u64,
    /// Which answer is asked for.
    pub(crate) nth: u32,
    pub(crate) walk: Walk,
    /// Whether it was asked for with all chain content.
    pub(crate) whole: bool,
    /// The donor's vector when the walk began; adopted when all slices are in.
    pub(crate) start: Option<Vec<(LifeId, Head)>>,
    /// Whether a slice was merged: from then on the replica is dirty (P4).
    pub(crate) merged: bool,
    pub(crate) asked: MonoTime,
    pub(crate) progress: MonoTime,
    /// The donor named this time to be asked again.
    pub(crate) wait_until: Option<MonoTime>,
    pub(crate) cost: RepairCost,
}

/// What a donor remembers of a receiver for a while.
#[derive(Clone, Copy, Debug)]
struct Permit {
    session: u64,
    /// Whether it counts; an ended session stays known so that its late frames do not open it again.
    open: bool,
    until: MonoTime,
}

/// Whom a donor serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits {
    receivers: BTreeMap<LifeId, Permit>,
}

/// What a donor does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It answers.
    Served,
    /// It has no permit left.
    Full,
    /// The session is over: the frame is a late one.
    Over,
}

impl Permits {
    /// Takes or renews a permit for a session of `receiver` until `until`; at most `most` are out at once.
    pub(crate) fn admit(
        &mut self,
        receiver: LifeId,
        session: u64,
        most: usize,
        (now, until): (MonoTime, MonoTime),
    ) -> Admission {
        self.receivers.retain(|_, permit| permit.until > now);
        if let Some(permit) = self.receivers.get(&receiver) {
            if permit.session == session && !permit.open {
                return Admission::Over;
            }
            // A receiver has one session at a time: a new one takes the permit of the one before.
            if permit.open {
                self.receivers.insert(receiver, Permit { session, open: true, until });
                return Admission::Served;
            }
        }
        if self.open() >= most {
            return Admission::Full;
        }
        self.receivers.insert(receiver, Permit { session, open: true, until });
        Admission::Served
    }

    /// The receiver asks no more in this session.
    pub(crate) fn end(&mut self, receiver: LifeId, session: u64) {
        if let Some(permit) = self.receivers.get_mut(&receiver).filter(|permit| permit.session == session) {
            permit.open = false;
        }
    }

    /// The link with the receiver is gone.
    pub(crate) fn drop_link(&mut self, receiver: LifeId) {
        self.receivers.remove(&receiver);
    }

    /// Permits out.
    pub(crate) fn open(&self) -> usize {
        self.receivers.values().filter(|permit| permit.open).count()
    }
}
