//! Vectors: how far each log is applied. One entry per life (sequence number and running hash) and one per worker feed.
//!
//! Entries remember at which version of the vector they last changed, so an exchange carries only what the peer has not
//! acknowledged. The hash over all entries lets two replicas see that their vectors are equal without comparing them.
//!
//! Not here: the ops (`log`, `feed`).

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::digest::Digest;
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::limits::{LIVES_MAX, WORKERS_MAX};
use covey_crdt::lives::Retirement;
use covey_crdt::stamp::{Hlc, Stamp};
use covey_crdt::stored::StoredKey;

use crate::limits::{RETIRED_MAX, SEQ_MAX};
use crate::wire::{Row, rows};

/// Where a life's log is: the last sequence number (from 1; 0 is empty) and the running hash up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    /// Ops so far.
    pub seq: u64,
    /// Hash over all of them.
    pub hash: u64,
}

/// How far each log is applied here.
#[derive(Clone, Debug, Default)]
pub struct Vector {
    lives: BTreeMap<LifeId, (Head, u64)>,
    feeds: BTreeMap<WorkerId, (StoredKey, u64)>,
    version: u64,
    hash: Digest,
}

/// Changed entries in one exchange, lives and feeds together: the longest names still leave it within its frame.
const CHANGES_MAX: usize = 256;

/// Rows a vector may have on the wire: its own bound and as many again for lives met through others.
pub(crate) const ROWS_MAX: usize = 2 * LIVES_MAX;

/// Targets may name retired lives too.
const SEQS_MAX: usize = ROWS_MAX + RETIRED_MAX;

const _: () = assert!(SEQ_MAX.checked_mul(SEQS_MAX as u64).is_some(), "sums over rows cannot overflow");

impl Vector {
    /// Where a life's log is.
    #[must_use]
    pub fn head(&self, life: LifeId) -> Head {
        self.lives.get(&life).map_or(Head::default(), |(head, _)| *head)
    }

    /// Moves a life's log on.
    ///
    /// # Panics
    /// When it would go back (I4).
    pub(crate) fn advance(&mut self, life: LifeId, head: Head) {
        let before = self.head(life);
        assert!(head.seq > before.seq, "an applied vector never regresses (I4)");
        self.version += 1;
        if before.seq > 0 {
            self.hash.remove(entry(life, before));
        }
        self.hash.add(entry(life, head));
        self.lives.insert(life, (head, self.version));
    }

    /// A life is retired: its entry goes.
    pub(crate) fn remove(&mut self, life: LifeId) {
        if let Some((head, _)) = self.lives.remove(&life) {
            self.hash.remove(entry(life, head));
            self.version += 1;
        }
    }

    /// Entries of life logs.
    pub fn lives(&self) -> impl Iterator<Item = (LifeId, Head)> + '_ {
        self.lives.iter().map(|(life, (head, _))| (*life, *head))
    }

    /// Entries of feeds.
    pub fn feeds(&self) -> impl Iterator<Item = (&WorkerId, &StoredKey)> {
        self.feeds.iter().map(|(worker, (key, _))| (worker, key))
    }

    /// A feed's entry is this now: what the replica says. It goes when the worker's incarnation is raised, which counts as
    /// the larger key.
    pub(crate) fn set_feed(&mut self, worker: &WorkerId, key: Option<&StoredKey>) {
        let before = self.feeds.get(worker).map(|(key, _)| key.clone());
        if before.as_ref() == key || (before.is_none() && self.feeds.len() >= WORKERS_MAX) {
            return;
        }
        self.version += 1;
        if let Some(before) = before {
            self.hash.remove(feed_entry(worker, &before));
            self.feeds.remove(worker);
        }
        if let Some(key) = key {
            self.hash.add(feed_entry(worker, key));
            self.feeds.insert(worker.clone(), (key.clone(), self.version));
        }
    }

    /// Equal vectors have equal hashes.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash.0 as u64
    }

    /// Grows with every change.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// The version up to which an exchange that starts behind `since` can go without breaking its bounds: the rest
    /// follows in the next one.
    pub(crate) fn version_within(&self, since: u64) -> u64 {
        let lives = self.lives.values().map(|(_, changed)| *changed);
        let feeds = self.feeds.values().map(|(_, changed)| *changed);
        let mut changed: Vec<u64> = lives.chain(feeds).filter(|changed| *changed > since).collect();
        if changed.len() <= CHANGES_MAX {
            return self.version;
        }
        changed.sort_unstable();
        changed[CHANGES_MAX - 1]
    }

    /// Entries that changed after version `since`, up to `version`, as rows; at most [`ROWS_MAX`].
    pub(crate) fn rows_between(&self, since: u64, version: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fresh = |changed: u64| changed > since && changed <= version;
        for (life, (head, _)) in self.lives.iter().filter(|(_, (_, changed))| fresh(*changed)).take(ROWS_MAX) {
            bytes.extend_from_slice(&life.0.to_le_bytes());
            bytes.extend_from_slice(&head.seq.to_le_bytes());
            bytes.extend_from_slice(&head.hash.to_le_bytes());
        }
        bytes
    }

    /// Every entry of a life log, as rows.
    pub(crate) fn rows(&self) -> Vec<u8> {
        self.rows_between(0, self.version)
    }

    /// Feed entries that changed after version `since`, up to `version`.
    pub(crate) fn feeds_between(&self, since: u64, version: u64) -> impl Iterator<Item = (&WorkerId, &StoredKey)> {
        self.feeds
            .iter()
            .filter(move |(_, (_, changed))| *changed > since && *changed <= version)
            .map(|(worker, (key, _))| (worker, key))
    }
}

/// The entries in packed rows; `None` when they are not whole rows or too many.
pub(crate) fn read_rows(bytes: &[u8]) -> Option<Vec<(LifeId, Head)>> {
    let rows = rows::<32>(bytes, ROWS_MAX)?;
    let heads = rows.map(|row| {
        let mut row = Row(row);
        let (life, head) = (LifeId(row.u128()), Head { seq: row.u64(), hash: row.u64() });
        (head.seq <= SEQ_MAX).then_some((life, head))
    });
    heads.collect()
}

/// Packs pairs of life and sequence number (held cursors, targets): 24-byte rows.
pub(crate) fn write_seqs(pairs: impl Iterator<Item = (LifeId, u64)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (life, seq) in pairs.take(SEQS_MAX) {
        bytes.extend_from_slice(&life.0.to_le_bytes());
        bytes.extend_from_slice(&seq.to_le_bytes());
    }
    bytes
}

/// The pairs in packed rows; `None` when they are not whole rows or too many.
pub(crate) fn read_seqs(bytes: &[u8]) -> Option<Vec<(LifeId, u64)>> {
    let rows = rows::<24>(bytes, SEQS_MAX)?;
    let seqs = rows.map(|row| {
        let mut row = Row(row);
        let (life, seq) = (LifeId(row.u128()), row.u64());
        (seq <= SEQ_MAX).then_some((life, seq))
    });
    seqs.collect()
}

/// Packs lives: 16-byte rows.
pub(crate) fn write_lives<'a>(lives: impl Iterator<Item = &'a LifeId>) -> Vec<u8> {
    lives.take(ROWS_MAX).flat_map(|life| life.0.to_le_bytes()).collect()
}

/// The lives in packed rows; `None` when they are not whole rows or too many.
pub(crate) fn read_lives(bytes: &[u8]) -> Option<BTreeSet<LifeId>> {
    Some(rows::<16>(bytes, ROWS_MAX)?.map(|row| LifeId(u128::from_le_bytes(*row))).collect())
}

/// Packs ends of lives: 48-byte rows of life, last op, and when.
pub(crate) fn write_ends(ends: &BTreeMap<LifeId, Retirement>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (life, end) in ends.iter().take(RETIRED_MAX) {
        bytes.extend_from_slice(&life.0.to_le_bytes());
        bytes.extend_from_slice(&end.last.to_le_bytes());
        bytes.extend_from_slice(&end.at.hlc.to_bits().to_le_bytes());
        bytes.extend_from_slice(&end.at.life.0.to_le_bytes());
    }
    bytes
}

/// The ends in packed rows; `None` when they are not whole rows or too many.
pub(crate) fn read_ends(bytes: &[u8]) -> Option<Vec<(LifeId, Retirement)>> {
    let ends = rows::<48>(bytes, RETIRED_MAX)?.map(|row| {
        let mut row = Row(row);
        let (life, last) = (LifeId(row.u128()), row.u64());
        (last <= SEQ_MAX).then(|| (life, Retirement { last, at: take_stamp(&mut row) }))
    });
    ends.collect()
}

/// Packs a stamp: 24 bytes, or none for the lowest.
pub(crate) fn write_stamp(stamp: Stamp) -> Vec<u8> {
    if stamp == Stamp::ZERO {
        return Vec::new();
    }
    [&stamp.hlc.to_bits().to_le_bytes()[..], &stamp.life.0.to_le_bytes()].concat()
}

/// A packed stamp; the lowest for no bytes; `None` for anything else.
pub(crate) fn read_stamp(bytes: &[u8]) -> Option<Stamp> {
    if bytes.is_empty() {
        return Some(Stamp::ZERO);
    }
    (bytes.len() == 24).then(|| take_stamp(&mut Row(bytes)))
}

fn take_stamp(row: &mut Row<'_>) -> Stamp {
    Stamp { hlc: Hlc::from_bits(row.u64()), life: LifeId(row.u128()) }
}

fn entry(life: LifeId, head: Head) -> Digest {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&life.0.to_be_bytes());
    bytes[16..24].copy_from_slice(&head.seq.to_be_bytes());
    // The running hash is left out: vectors that count the same ops are equal, and a fork must show as a digest mismatch.
    Digest::of(&bytes)
}

fn feed_entry(worker: &WorkerId, key: &StoredKey) -> Digest {
    let mut bytes = format!("{worker}\0{}\0{}\0", key.incarnation.counter, key.incarnation.token.as_str()).into_bytes();
    bytes.extend_from_slice(&key.generation.counter.to_be_bytes());
    bytes.extend_from_slice(&key.generation.life.to_be_bytes());
    bytes.extend_from_slice(&key.position.to_be_bytes());
    bytes.extend_from_slice(&key.part.to_be_bytes());
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_vectors_have_equal_hashes_however_they_came_about() {
        let (mut one, mut other) = (Vector::default(), Vector::default());
        for seq in 1..=5 {
            one.advance(LifeId(1), Head { seq, hash: seq });
        }
        one.advance(LifeId(2), Head { seq: 3, hash: 9 });
        other.advance(LifeId(2), Head { seq: 3, hash: 9 });
        assert_ne!(one.hash(), other.hash());
        other.advance(LifeId(1), Head { seq: 5, hash: 5 });
        assert_eq!(one.hash(), other.hash());
    }

    #[test]
    fn an_exchange_carries_only_what_changed() {
        let mut vector = Vector::default();
        vector.advance(LifeId(1), Head { seq: 1, hash: 1 });
        let acked = vector.version();
        vector.advance(LifeId(2), Head { seq: 7, hash: 2 });
        let rows = read_rows(&vector.rows_between(acked, vector.version())).expect("whole rows");
        assert_eq!(rows, [(LifeId(2), Head { seq: 7, hash: 2 })]);
        assert!(read_rows(&[0; 33]).is_none());
    }

    #[test]
    fn a_vector_that_does_not_fit_an_exchange_arrives_over_several() {
        let mut vector = Vector::default();
        let lives = CHANGES_MAX as u128 + 40;
        for life in 1..=lives {
            vector.advance(LifeId(life), Head { seq: 1, hash: 1 });
        }
        let first = vector.version_within(0);
        assert!(first < vector.version());
        let rows = read_rows(&vector.rows_between(0, first)).expect("whole rows");
        assert_eq!(rows.len(), CHANGES_MAX);
        assert_eq!(vector.version_within(first), vector.version());
        let rest = read_rows(&vector.rows_between(first, vector.version())).expect("whole rows");
        assert_eq!(rows.len() + rest.len(), lives as usize);
    }
}
