//! One life's log as a replica has it: applied ops retained for pulls, and received ops held until they can be applied.
//!
//! Ops are applied strictly in sequence. What is held is bounded and drops its tail, never a middle; what is retained is
//! bounded by bytes and age and drops its head. A running hash per op shows two logs that go by one name (ruling R3).
//!
//! Not here: whether an op may be applied now (`node`). Upholds I4 and I9.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use covey_crdt::change::Place;
use covey_crdt::codec::encode_ops;
use covey_crdt::op::Op;
use covey_crdt::plant::{Plant, planted};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::input::MonoTime;
use crate::limits::HELD_OPS_PER_LOG_MAX;

/// An applied op, kept for peers that missed it.
#[derive(Clone, Debug)]
pub(crate) struct Retained {
    pub(crate) op: Arc<Op>,
    /// The running hash before it.
    pub(crate) before: u64,
    /// The chains it keeps in the store.
    pub(crate) places: Vec<Place>,
    pub(crate) bytes: usize,
    pub(crate) at: MonoTime,
}

/// A received op that is not applied yet, and the running hashes its sender has before and after it.
#[derive(Clone, Debug)]
pub(crate) struct HeldOp {
    pub(crate) op: Arc<Op>,
    pub(crate) before: u64,
    pub(crate) hash: u64,
    /// Its canonical size.
    pub(crate) bytes: usize,
}

/// One life's log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Applied ops without a gap, the last of them the vector's head; `first` is the number of the oldest.
    retained: VecDeque<Retained>,
    first: u64,
    held: BTreeMap<u64, HeldOp>,
    /// When the op after the head was found unresolvable.
    pub(crate) unresolved: Option<MonoTime>,
    /// Whether the op after the head waits for the local clock.
    pub(crate) ahead: bool,
    /// Since when a peer is known to have more.
    pub(crate) gap: Option<MonoTime>,
    /// When it was last asked for.
    pub(crate) asked: Option<MonoTime>,
}

/// The running hash after `op`, with `before` before it, and the op's canonical size.
pub(crate) fn step(before: u64, op: &Op) -> (u64, usize) {
    let bytes = encode_ops([op]);
    (xxh3_64_with_seed(&bytes, before), bytes.len())
}

impl Log {
    /// Appends the op that was just applied as number `seq`.
    pub(crate) fn retain(&mut self, seq: u64, retained: Retained) {
        if self.retained.is_empty() {
            self.first = seq;
        }
        assert_eq!(seq, self.first + self.retained.len() as u64, "a log is retained without gaps");
        self.retained.push_back(retained);
        self.unresolved = None;
        self.ahead = false;
        self.asked = None;
    }

    /// The oldest retained op, if it is older than `age` or must go in any case.
    pub(crate) fn drop_oldest(&mut self, older_than: Option<MonoTime>) -> Option<Retained> {
        let oldest = self.retained.front()?;
        if older_than.is_some_and(|limit| oldest.at >= limit) {
            return None;
        }
        self.first += 1;
        self.retained.pop_front()
    }

    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn oldest(&self) -> Option<MonoTime> {
        self.retained.front().map(|retained| retained.at)
    }

    /// Bytes of the retained ops that were applied when `at` says.
    pub(crate) fn bytes_of(&self, at: impl Fn(MonoTime) -> bool) -> usize {
        self.retained.iter().filter(|retained| at(retained.at)).map(|retained| retained.bytes).sum()
    }

    /// Retained ops from number `from` on; `None` when the log does not reach back that far.
    pub(crate) fn from(&self, from: u64) -> Option<impl Iterator<Item = &Retained>> {
        let skip = from.checked_sub(self.first)?;
        if self.retained.is_empty() {
            return None;
        }
        Some(self.retained.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)))
    }

    /// The running hash before op `seq`, if that op is retained.
    pub(crate) fn hash_before(&self, seq: u64) -> Option<u64> {
        let nth = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.retained.get(nth).map(|retained| retained.before)
    }

    /// Holds a received op. The tail goes when there are too many.
    pub(crate) fn hold(&mut self, seq: u64, held: HeldOp) {
        self.held.insert(seq, held);
        if self.held.len() > HELD_OPS_PER_LOG_MAX {
            self.held.pop_last();
        }
    }

    pub(crate) fn holds(&self, seq: u64) -> Option<&HeldOp> {
        self.held.get(&seq)
    }

    pub(crate) fn unhold(&mut self, seq: u64) -> Option<HeldOp> {
        self.held.remove(&seq)
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// The last number held without a gap behind `head`; `head` when the next op is not here.
    pub(crate) fn held_to(&self, head: u64) -> u64 {
        let mut to = head;
        while self.held.contains_key(&(to + 1)) {
            to += 1;
        }
        to
    }

    /// The log jumps to number `seq` by a repair session: what was retained no longer connects.
    pub(crate) fn jump(&mut self, seq: u64) -> impl Iterator<Item = Retained> {
        self.held = self.held.split_off(&(seq + 1));
        self.unresolved = None;
        self.ahead = false;
        self.asked = None;
        if planted(Plant::LogJumpKeepsOps) {
            self.first = (seq + 1).saturating_sub(self.retained.len() as u64);
            return VecDeque::new().into_iter();
        }
        self.first = seq + 1;
        std::mem::take(&mut self.retained).into_iter()
    }

    /// Everything held is dropped: the log forked.
    pub(crate) fn drop_held(&mut self) {
        self.held.clear();
    }
}
