//! Load registers: what each gateway has outstanding on each worker. One writer each, changed entries only.
//!
//! Not here: counting requests (the gateway), choosing by load (its policy). A register counts only while its gateway
//! is live. Losing a frame is harmless: an exchange tells how far the peer is, and what it lacks is sent again.

use std::collections::BTreeMap;

use covey_crdt::id::WorkerId;
use covey_crdt::limits::WORKERS_MAX;

use crate::input::Load;
use crate::wire::LoadEntry;

/// This gateway's own registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnLoads {
    entries: BTreeMap<WorkerId, (Load, u64)>,
    version: u64,
}

impl OwnLoads {
    /// Sets a register; whether that changed it.
    pub(crate) fn set(&mut self, worker: WorkerId, load: Load) -> bool {
        let known = self.entries.get(&worker).map(|(known, _)| *known);
        let full = known.is_none() && self.entries.len() >= WORKERS_MAX;
        if full || known.unwrap_or_default() == load {
            return false;
        }
        self.version += 1;
        self.entries.insert(worker, (load, self.version));
        true
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Registers that changed after version `since`.
    pub(crate) fn since(&self, since: u64) -> Vec<LoadEntry> {
        let changed = self.entries.iter().filter(|(_, (_, version))| *version > since);
        changed
            .map(|(worker, (load, _))| LoadEntry {
                worker: worker.name().to_owned(),
                rank: worker.rank(),
                requests: load.requests,
                queued_tokens: load.queued_tokens,
            })
            .collect()
    }
}

/// A peer's registers as last heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerLoads {
    entries: BTreeMap<WorkerId, (Load, u64)>,
    /// The version of the peer's registers that is here in full.
    pub(crate) known: u64,
}

impl PeerLoads {
    /// Takes a frame's entries; returns the registers that changed.
    pub(crate) fn take(&mut self, version: u64, since: u64, entries: &[LoadEntry]) -> Vec<(WorkerId, Load)> {
        let mut changed = Vec::new();
        for entry in entries {
            let Ok(worker) = WorkerId::new(&entry.worker, entry.rank) else { continue };
            let load = Load { requests: entry.requests, queued_tokens: entry.queued_tokens };
            let known = self.entries.get(&worker).copied();
            if known.is_some_and(|(_, newest)| newest > version)
                || (known.is_none() && self.entries.len() >= WORKERS_MAX)
            {
                continue;
            }
            if known.map(|(load, _)| load).unwrap_or_default() != load {
                changed.push((worker.clone(), load));
            }
            self.entries.insert(worker, (load, version));
        }
        if since <= self.known {
            self.known = self.known.max(version);
        }
        changed
    }

    /// Every register that is not zero.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&WorkerId, Load)> {
        self.entries.iter().map(|(worker, (load, _))| (worker, *load)).filter(|(_, load)| *load != Load::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> WorkerId {
        WorkerId::new("w", 0).expect("a name")
    }

    #[test]
    fn a_late_frame_does_not_undo_a_newer_one_and_a_lost_one_is_noticed() {
        let (mut own, mut peer) = (OwnLoads::default(), PeerLoads::default());
        let load = |requests| Load { requests, queued_tokens: 0 };
        assert!(own.set(worker(), load(1)));
        let first = (own.version(), own.since(0));
        assert!(own.set(worker(), load(2)));
        let second = (own.version(), own.since(first.0));
        assert_eq!(peer.take(second.0, first.0, &second.1), [(worker(), load(2))]);
        assert_eq!(peer.known, 0, "the first frame is still missing");
        assert!(peer.take(first.0, 0, &first.1).is_empty());
        assert_eq!(peer.known, first.0);
        assert!(!own.set(worker(), load(2)));
    }
}
