//! Large things moved whole between two nodes, piece by piece as the receiver asks: a feed's state, an ingester's state.
//! What is being sent is frozen, so that its pieces fit together however long it takes.
//!
//! Not here: what the bytes mean, frames (`node::blobs`). Upholds I9: few at once, bounded in bytes and in time.

use std::collections::BTreeMap;

use bytes::Bytes;
use covey_crdt::id::{LifeId, WorkerId};

use crate::input::MonoTime;
use crate::limits::{BLOB_BYTES_MAX, BLOB_MS, BLOB_PIECE_BYTES, BLOBS_MAX};

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum BlobKind {
    /// The state of a worker's feed.
    Feed,
    /// What an ingester of it holds besides.
    Ingest,
}

impl BlobKind {
    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Self::Feed => 0,
            Self::Ingest => 1,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Feed),
            1 => Some(Self::Ingest),
            _ => None,
        }
    }
}

/// Something frozen for one receiver.
#[derive(Clone, Debug)]
struct Donation {
    id: u64,
    /// `None` while the host is being asked for it.
    bytes: Option<Bytes>,
    at: MonoTime,
}

/// What is being sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Donations(BTreeMap<(LifeId, WorkerId, BlobKind), Donation>);

/// What a donor has for an ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// This piece of so many bytes in all.
    Piece { total: usize, bytes: Bytes },
    /// It has to be made first.
    Make,
    /// It is being made.
    Wait,
    /// Too much is under way.
    Busy,
}

impl Donations {
    /// Answers an ask for the piece at `offset`.
    pub(crate) fn ask(
        &mut self,
        now: MonoTime,
        (to, worker, kind): (LifeId, &WorkerId, BlobKind),
        id: u64,
        offset: usize,
    ) -> Ready {
        self.0.retain(|_, donation| now.since_ms(donation.at) < 2 * BLOB_MS);
        let key = (to, worker.clone(), kind);
        if let Some(donation) = self.0.get_mut(&key).filter(|donation| donation.id == id) {
            donation.at = now;
            let Some(bytes) = &donation.bytes else { return Ready::Wait };
            let from = offset.min(bytes.len());
            let to = (from + BLOB_PIECE_BYTES).min(bytes.len());
            return Ready::Piece { total: bytes.len(), bytes: bytes.slice(from..to) };
        }
        if offset > 0 || (!self.0.contains_key(&key) && self.0.len() >= BLOBS_MAX) {
            return Ready::Busy;
        }
        self.0.insert(key, Donation { id, bytes: None, at: now });
        Ready::Make
    }

    /// It is made now. The number of the session that waits for it, if one still does.
    pub(crate) fn made(&mut self, to: LifeId, worker: &WorkerId, kind: BlobKind, bytes: Bytes) -> Option<u64> {
        let donation = self.0.get_mut(&(to, worker.clone(), kind))?;
        if donation.bytes.is_some() || bytes.len() > BLOB_BYTES_MAX {
            return None;
        }
        donation.bytes = Some(bytes);
        Some(donation.id)
    }

    /// It cannot be made.
    pub(crate) fn withdraw(&mut self, to: LifeId, worker: &WorkerId, kind: BlobKind) -> Option<u64> {
        self.0.remove(&(to, worker.clone(), kind)).map(|donation| donation.id)
    }

    pub(crate) fn drop_link(&mut self, peer: LifeId) {
        self.0.retain(|(to, _, _), _| *to != peer);
    }
}

/// A transfer is over without a result: the donor has nothing, or breaks a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoBlob;

/// Something being received.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) from: LifeId,
    pub(crate) id: u64,
    bytes: Vec<u8>,
    total: Option<usize>,
    pub(crate) asked: MonoTime,
    pub(crate) progress: MonoTime,
}

/// Names a transfer.
pub(crate) type Transfer = (BlobKind, WorkerId);

/// What is being received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fetches(BTreeMap<(BlobKind, WorkerId), Fetch>);

impl Fetches {
    /// Whether another can begin.
    pub(crate) fn has_room(&self, kind: BlobKind, worker: &WorkerId) -> bool {
        !self.0.contains_key(&(kind, worker.clone()))
            && self.0.keys().filter(|(of, _)| *of == kind).count() < BLOBS_MAX / 2
    }

    pub(crate) fn begin(&mut self, now: MonoTime, kind: BlobKind, worker: WorkerId, from: LifeId, id: u64) {
        let fetch = Fetch { from, id, bytes: Vec::new(), total: None, asked: now, progress: now };
        self.0.insert((kind, worker), fetch);
    }

    /// Takes a piece. `Some(Ok)`: all is here. `Some(Err)`: it is over, without a result. `None`: ask for the next.
    pub(crate) fn take(
        &mut self,
        now: MonoTime,
        (kind, worker, from, id): (BlobKind, &WorkerId, LifeId, u64),
        (total, offset): (usize, usize),
        piece: &[u8],
    ) -> Option<Result<Vec<u8>, NoBlob>> {
        let key = (kind, worker.clone());
        let fetch = self.0.get_mut(&key).filter(|fetch| fetch.from == from && fetch.id == id)?;
        let is_odd = total > BLOB_BYTES_MAX || fetch.total.is_some_and(|known| known != total);
        if total == 0 || is_odd || piece.len() > total.saturating_sub(offset) {
            self.0.remove(&key);
            return Some(Err(NoBlob));
        }
        if offset != fetch.bytes.len() || piece.is_empty() {
            return None;
        }
        fetch.total = Some(total);
        fetch.bytes.extend_from_slice(piece);
        fetch.progress = now;
        if fetch.bytes.len() < total {
            return None;
        }
        self.0.remove(&key).map(|fetch| Ok(fetch.bytes))
    }

    /// How far a transfer is, and whom it is from.
    pub(crate) fn at(&mut self, kind: BlobKind, worker: &WorkerId) -> Option<(&mut Fetch, usize)> {
        let fetch = self.0.get_mut(&(kind, worker.clone()))?;
        let offset = fetch.bytes.len();
        Some((fetch, offset))
    }

    /// Transfers to ask about again, and those to give up.
    pub(crate) fn due(
        &mut self,
        now: MonoTime,
        patience: impl Fn(LifeId, u64, u64) -> Option<u64>,
    ) -> (Vec<Transfer>, Vec<Transfer>) {
        let (mut again, mut over) = (Vec::new(), Vec::new());
        for ((kind, worker), fetch) in &self.0 {
            let waits = |least, round_trips| patience(fetch.from, least, round_trips);
            let (Some(give_up), Some(retry)) = (waits(BLOB_MS, 8), waits(crate::limits::RETRY_MS, 2)) else {
                over.push((*kind, worker.clone()));
                continue;
            };
            if now.since_ms(fetch.progress) >= give_up {
                over.push((*kind, worker.clone()));
            } else if now.since_ms(fetch.asked) >= retry {
                again.push((*kind, worker.clone()));
            }
        }
        for key in &over {
            self.0.remove(key);
        }
        (again, over)
    }

    pub(crate) fn give_up(&mut self, kind: BlobKind, worker: &WorkerId) -> bool {
        self.0.remove(&(kind, worker.clone())).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> WorkerId {
        WorkerId::new("w", 0).expect("a name")
    }

    #[test]
    fn a_frozen_thing_arrives_whole_whatever_is_lost_or_doubled() {
        let (mut donations, mut fetches) = (Donations::default(), Fetches::default());
        let (now, to, from) = (MonoTime::from_ms(1), LifeId(1), LifeId(2));
        let ask = (to, &worker(), BlobKind::Ingest);
        assert_eq!(donations.ask(now, ask, 7, 0), Ready::Make);
        assert_eq!(donations.ask(now, ask, 7, 0), Ready::Wait);
        let whole: Vec<u8> = (0..3 * BLOB_PIECE_BYTES + 5).map(|nth| nth as u8).collect();
        assert_eq!(donations.made(to, &worker(), BlobKind::Ingest, Bytes::from(whole.clone())), Some(7));
        fetches.begin(now, BlobKind::Ingest, worker(), from, 7);
        let mut result = None;
        for _ in 0..20 {
            let Some((_, offset)) = fetches.at(BlobKind::Ingest, &worker()) else { break };
            let Ready::Piece { total, bytes } = donations.ask(now, ask, 7, offset) else { panic!("it was made") };
            for _ in 0..2 {
                let taken = fetches.take(now, (BlobKind::Ingest, &worker(), from, 7), (total, offset), &bytes);
                result = result.or(taken);
            }
        }
        assert_eq!(result, Some(Ok(whole)));
    }

    #[test]
    fn a_donor_that_claims_too_much_or_something_else_each_time_is_given_up() {
        for totals in [[BLOB_BYTES_MAX + 1, 0], [10, 11], [0, 0]] {
            let mut fetches = Fetches::default();
            fetches.begin(MonoTime::default(), BlobKind::Feed, worker(), LifeId(2), 7);
            let of = (BlobKind::Feed, &worker(), LifeId(2), 7);
            let first = fetches.take(MonoTime::default(), of, (totals[0], 0), &[1, 2]);
            let last = first.or_else(|| fetches.take(MonoTime::default(), of, (totals[1], 2), &[3]));
            assert_eq!(last, Some(Err(NoBlob)), "{totals:?}");
            assert!(fetches.at(BlobKind::Feed, &worker()).is_none());
        }
    }
}
