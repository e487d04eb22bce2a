//! Which runs of the chain store each connection's peer has been sent, or has sent: content goes over a connection once.
//!
//! Not here: what a peer needs in full (`covey_crdt::chain`). A wrong guess costs one more round trip: the peer asks.

use std::collections::BTreeMap;

use covey_crdt::change::RunId;

use crate::limits::SLOTS_MAX;

/// One bit per run and linked peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Masks {
    runs: BTreeMap<RunId, u64>,
    taken: u64,
}

const _: () = assert!(SLOTS_MAX == u64::BITS as usize);

impl Masks {
    /// A bit for a new connection; `None` when all are taken (the peer is then sent everything, always).
    pub(crate) fn open(&mut self) -> Option<u8> {
        let slot = self.taken.trailing_ones();
        if slot as usize >= SLOTS_MAX {
            return None;
        }
        self.taken |= 1 << slot;
        u8::try_from(slot).ok()
    }

    /// Frees a connection's bit.
    pub(crate) fn close(&mut self, slot: u8) {
        self.taken &= !(1 << slot);
        self.forget(slot);
    }

    /// Nothing is known to be at the peer any more.
    pub(crate) fn forget(&mut self, slot: u8) {
        self.runs.retain(|_, mask| {
            *mask &= !(1 << slot);
            *mask != 0
        });
    }

    pub(crate) fn has(&self, slot: Option<u8>, run: RunId) -> bool {
        slot.is_some_and(|slot| self.runs.get(&run).is_some_and(|mask| mask >> slot & 1 == 1))
    }

    pub(crate) fn set(&mut self, slot: Option<u8>, run: RunId) {
        if let Some(slot) = slot
            && run != RunId::ROOT
        {
            *self.runs.entry(run).or_default() |= 1 << slot;
        }
    }

    /// The run's number may be reused.
    pub(crate) fn freed(&mut self, run: RunId) {
        self.runs.remove(&run);
    }
}
