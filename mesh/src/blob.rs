//! Large things moved whole between two nodes, piece by piece as the receiver asks: a feed's state, an ingester's state.
//! What is being sent is frozen, so that its pieces fit together however long it takes.
//!
//! Not here: what the bytes mean, frames (`node::blobs`). Upholds I9: few at once, bounded in bytes and in time.

use std::collections::BTreeMap;

use bytes::Bytes;
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::limits::WORKERS_MAX;

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
    /// Its last piece was sent: it is kept in case that is lost, and makes room for others.
    is_sent: bool,
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
            donation.is_sent |= to == bytes.len();
            return Ready::Piece { total: bytes.len(), bytes: bytes.slice(from..to) };
        }
        if offset > 0 || (!self.0.contains_key(&key) && !self.make_room()) {
            return Ready::Busy;
        }
        self.0.insert(key, Donation { id, bytes: None, is_sent: false, at: now });
        Ready::Make
    }

    /// Whether another fits, once what was sent longest ago is dropped.
    fn make_room(&mut self) -> bool {
        if self.0.len() >= BLOBS_MAX {
            let sent = self.0.iter().filter(|(_, donation)| donation.is_sent).min_by_key(|(_, donation)| donation.at);
            let Some(key) = sent.map(|(key, _)| key.clone()) else { return false };
            self.0.remove(&key);
        }
        true
    }

    /// It is made now. The number of the session that waits for it, if one still does.
    pub(crate) fn made(&mut self, to: LifeId, worker: &WorkerId, kind: BlobKind, bytes: Bytes) -> Option<u64> {
        let donation = self.0.get_mut(&(to, worker.clone(), kind))?;
        if donation.bytes.is_some() {
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

/// What is being received, and what is to be fetched next, from whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fetches {
    under_way: BTreeMap<(BlobKind, WorkerId), Fetch>,
    next: BTreeMap<(BlobKind, WorkerId), LifeId>,
}

impl Fetches {
    /// Whether another can begin.
    fn has_room(&self, kind: BlobKind, worker: &WorkerId) -> bool {
        !self.under_way.contains_key(&(kind, worker.clone()))
            && self.under_way.keys().filter(|(of, _)| *of == kind).count() < BLOBS_MAX / 2
    }

    /// It is fetched as soon as there is room.
    pub(crate) fn queue(&mut self, kind: BlobKind, worker: WorkerId, from: LifeId) {
        if self.next.len() < 2 * WORKERS_MAX {
            self.next.insert((kind, worker), from);
        }
    }

    /// What is fetched next, when there is room for it, and from whom.
    pub(crate) fn pop(&mut self) -> Option<(Transfer, LifeId)> {
        let has_room = |(kind, worker): &&Transfer| self.has_room(*kind, worker);
        let next = self.next.keys().find(has_room)?.clone();
        self.next.remove_entry(&next)
    }

    /// How many of a kind are under way or wait.
    pub(crate) fn count(&self, kind: BlobKind) -> usize {
        self.under_way.keys().chain(self.next.keys()).filter(|(of, _)| *of == kind).count()
    }

    /// Whether a feed is being fetched, or will be.
    pub(crate) fn has(&self, worker: &WorkerId) -> bool {
        let feed = (BlobKind::Feed, worker.clone());
        self.next.contains_key(&feed) || self.under_way.contains_key(&feed)
    }

    pub(crate) fn begin(&mut self, now: MonoTime, kind: BlobKind, worker: WorkerId, from: LifeId, id: u64) {
        let fetch = Fetch { from, id, bytes: Vec::new(), total: None, asked: now, progress: now };
        self.under_way.insert((kind, worker), fetch);
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
        let fetch = self.under_way.get_mut(&key).filter(|fetch| fetch.from == from && fetch.id == id)?;
        let is_odd = total > BLOB_BYTES_MAX || fetch.total.is_some_and(|known| known != total);
        if total == 0 || is_odd || piece.len() > total.saturating_sub(offset) {
            self.under_way.remove(&key);
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
        self.under_way.remove(&key).map(|fetch| Ok(fetch.bytes))
    }

    /// How far a transfer is, and whom it is from.
    pub(crate) fn at(&mut self, kind: BlobKind, worker: &WorkerId) -> Option<(&mut Fetch, usize)> {
        let fetch = self.under_way.get_mut(&(kind, worker.clone()))?;
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
        for ((kind, worker), fetch) in &self.under_way {
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
            self.under_way.remove(key);
        }
        (again, over)
    }

    pub(crate) fn give_up(&mut self, kind: BlobKind, worker: &WorkerId) {
        self.under_way.remove(&(kind, worker.clone()));
        self.next.remove(&(kind, worker.clone()));
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
    fn what_was_sent_whole_makes_room_for_the_next_and_can_be_asked_for_again() {
        let (mut donations, now, to) = (Donations::default(), MonoTime::from_ms(1), LifeId(1));
        let named = |nth: usize| WorkerId::new(&format!("w{nth}"), 0).expect("a name");
        for nth in 0..3 * BLOBS_MAX {
            let ask = (to, &named(nth), BlobKind::Feed);
            assert_eq!(donations.ask(now, ask, 7, 0), Ready::Make, "{nth}: the ones before it are out");
            assert_eq!(donations.made(to, &named(nth), BlobKind::Feed, Bytes::from_static(b"all")), Some(7));
            for _ in 0..2 {
                assert!(matches!(donations.ask(now, ask, 7, 0), Ready::Piece { total: 3, .. }));
            }
        }
        let mut waiting = Donations::default();
        for nth in 0..BLOBS_MAX {
            assert_eq!(waiting.ask(now, (to, &named(nth), BlobKind::Ingest), 7, 0), Ready::Make);
        }
        assert_eq!(waiting.ask(now, (to, &named(99), BlobKind::Ingest), 7, 0), Ready::Busy);
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
