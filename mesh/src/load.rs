//! Load registers: what each gateway has outstanding on each worker. One writer each, changed entries only.
//!
//! Not here: counting requests (the gateway), choosing by load (its policy). A register counts only while its gateway
//! is live. Losing a frame is harmless: an exchange tells how far the peer is, and what it lacks is sent again.

use std::collections::BTreeMap;

use covey_crdt::id::WorkerId;
use covey_crdt::limits::WORKERS_MAX;
use covey_crdt::plant::{Plant, planted};

use crate::input::Load;
use crate::wire::{LoadEntry, Loads};

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

    /// Prompt tokens that wait at a worker.
    pub(crate) fn queued_tokens(&self, worker: &WorkerId) -> u64 {
        self.entries.get(worker).map_or(0, |(load, _)| load.queued_tokens)
    }

    /// Every register that is not zero.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&WorkerId, Load)> {
        self.entries.iter().map(|(worker, (load, _))| (worker, *load)).filter(|(_, load)| *load != Load::default())
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Registers that changed after version `since`, as frames of at most `entries_max`. Each frame says which versions it
    /// spans, so that the loss of one shows whatever becomes of the others.
    pub(crate) fn frames(&self, since: u64, entries_max: usize) -> Vec<Loads> {
        if planted(Plant::LoadsDropped) {
            return Vec::new();
        }
        let mut changed: Vec<(u64, LoadEntry)> = self
            .entries
            .iter()
            .filter(|(_, (_, version))| *version > since)
            .map(|(worker, (load, version))| (*version, entry(worker, *load)))
            .collect();
        changed.sort_unstable_by_key(|(version, _)| *version);
        let mut from = since;
        let frames = changed.chunks(entries_max).map(|chunk| {
            let version = chunk.last().map_or(from, |(version, _)| *version);
            let entries = chunk.iter().map(|(_, entry)| entry.clone()).collect();
            Loads { version, since: std::mem::replace(&mut from, version), entries }
        });
        frames.collect()
    }
}

fn entry(worker: &WorkerId, load: Load) -> LoadEntry {
    LoadEntry {
        worker: worker.name().to_owned(),
        rank: worker.rank(),
        requests: load.requests,
        queued_tokens: load.queued_tokens,
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

    /// Prompt tokens that wait at a worker.
    pub(crate) fn queued_tokens(&self, worker: &WorkerId) -> u64 {
        self.entries.get(worker).map_or(0, |(load, _)| load.queued_tokens)
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
    fn losing_one_of_several_frames_of_one_turn_is_noticed() {
        let (mut own, mut peer) = (OwnLoads::default(), PeerLoads::default());
        for rank in 0..5 {
            let worker = WorkerId::new("w", rank).expect("a name");
            assert!(own.set(worker, Load { requests: 1, queued_tokens: 0 }));
        }
        let frames = own.frames(0, 2);
        assert_eq!(frames.len(), 3);
        let mut take = |frame: &Loads| peer.take(frame.version, frame.since, &frame.entries).len();
        assert_eq!((take(&frames[0]), take(&frames[2])), (2, 1));
        assert_eq!(peer.known, 2, "the second frame is missing");
        let again = own.frames(peer.known, 2);
        for frame in &again {
            let _ = peer.take(frame.version, frame.since, &frame.entries);
        }
        assert_eq!((peer.known, peer.all().count()), (own.version(), 5));
    }

    #[test]
    fn a_late_frame_does_not_undo_a_newer_one_and_a_lost_one_is_noticed() {
        let (mut own, mut peer) = (OwnLoads::default(), PeerLoads::default());
        let load = |requests| Load { requests, queued_tokens: 0 };
        assert!(own.set(worker(), load(1)));
        let first = own.frames(0, 9).remove(0);
        assert!(own.set(worker(), load(2)));
        let second = own.frames(first.version, 9).remove(0);
        assert_eq!(peer.take(second.version, second.since, &second.entries), [(worker(), load(2))]);
        assert_eq!(peer.known, 0, "the first frame is still missing");
        assert!(peer.take(first.version, first.since, &first.entries).is_empty());
        assert_eq!(peer.known, first.version);
        assert!(!own.set(worker(), load(2)));
    }
}
