//! Feeds' states and ingesters' states moved whole: asking, answering, giving up.
//!
//! Not here: the pieces' bookkeeping (`blob`). A donor answers within its repair budget; what it freezes is bounded.

use bytes::Bytes;
use covey_crdt::codec::{decode_feed, encode_feed};
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::lattice::Merged;
use serde_bytes::ByteBuf;
use std::sync::Arc;

use covey_crdt::plant::{Plant, planted};
use rand_chacha::rand_core::Rng;

use super::Node;
use crate::blob::{BlobKind, NoBlob, Ready};
use crate::limits::BLOB_BYTES_MAX;
use crate::note::Note;
use crate::output::{Class, FeedOrder, Output};
use crate::wire::{BlobAsk, BlobPiece, Message};

impl Node {
    /// Begins to fetch something whole from a peer.
    fn fetch(&mut self, kind: BlobKind, worker: WorkerId, from: LifeId) {
        let id = self.random.next_u64();
        self.fetches.begin(self.now, kind, worker.clone(), from, id);
        self.ask_piece(kind, &worker);
    }

    /// Fetches what there is room for.
    pub(super) fn fetch_next(&mut self) {
        while let Some(((kind, worker), from)) = self.fetches.pop() {
            let peer = self.peers.get(&from).filter(|peer| peer.admitted);
            let key = peer.and_then(|peer| peer.feeds.get(&worker));
            let is_wanted = match kind {
                BlobKind::Feed => key.is_some_and(|key| self.lacks_feed(&worker, key)),
                BlobKind::Ingest => peer.is_some(),
            };
            if is_wanted { self.fetch(kind, worker, from) } else { self.not_fetched(kind, worker) }
        }
    }

    fn ask_piece(&mut self, kind: BlobKind, worker: &WorkerId) {
        let now = self.now;
        let Some((fetch, offset)) = self.fetches.at(kind, worker) else { return };
        fetch.asked = now;
        let (from, id) = (fetch.from, fetch.id);
        let (name, rank) = (worker.name().to_owned(), worker.rank());
        let ask = BlobAsk { kind: kind.to_byte(), worker: name, rank, id, offset: offset as u64 };
        self.send(from, Class::Control, &Message::BlobAsk(ask));
    }

    pub(super) fn on_blob_ask(&mut self, from: LifeId, ask: &BlobAsk) {
        let (Some(kind), Ok(worker)) = (BlobKind::from_byte(ask.kind), WorkerId::new(&ask.worker, ask.rank)) else {
            return self.malformed(from, 0);
        };
        let offset = usize::try_from(ask.offset).unwrap_or(usize::MAX);
        let waits = self.budget.wait_ms(self.now, self.knobs.repair_bytes_per_s) > 0;
        if waits {
            return;
        }
        match self.donations.ask(self.now, (from, &worker, kind), ask.id, offset) {
            Ready::Piece { total, bytes } => self.send_piece(from, &worker, kind, ask.id, (total, offset), &bytes),
            Ready::Wait => {}
            Ready::Busy => self.send_piece(from, &worker, kind, ask.id, (0, 0), &[]),
            Ready::Make => match kind {
                BlobKind::Feed => {
                    let whole = self.replica.feed(&worker).map(|state| Bytes::from(encode_feed(&worker, state)));
                    self.give(from, &worker, kind, whole);
                }
                BlobKind::Ingest if self.feeds.get(&worker).is_some_and(|log| log.role.ingests()) => {
                    self.outbox.push_back(Output::Feed(FeedOrder::Export { to: from, worker }));
                }
                BlobKind::Ingest => self.give(from, &worker, kind, None),
            },
        }
    }

    /// What a receiver asked for is there, or never will be.
    pub(super) fn give(&mut self, to: LifeId, worker: &WorkerId, kind: BlobKind, bytes: Option<Bytes>) {
        let waiting = match bytes.filter(|bytes| !bytes.is_empty() && bytes.len() <= BLOB_BYTES_MAX) {
            Some(bytes) => self.donations.made(to, worker, kind, bytes),
            None => {
                let id = self.donations.withdraw(to, worker, kind);
                if let Some(id) = id {
                    self.send_piece(to, worker, kind, id, (0, 0), &[]);
                }
                return;
            }
        };
        let Some(id) = waiting else { return };
        if let Ready::Piece { total, bytes } = self.donations.ask(self.now, (to, worker, kind), id, 0) {
            self.send_piece(to, worker, kind, id, (total, 0), &bytes);
        }
    }

    fn send_piece(
        &mut self,
        to: LifeId,
        worker: &WorkerId,
        kind: BlobKind,
        id: u64,
        (total, offset): (usize, usize),
        bytes: &[u8],
    ) {
        self.budget.spend(bytes.len());
        let piece = BlobPiece {
            kind: kind.to_byte(),
            worker: worker.name().to_owned(),
            rank: worker.rank(),
            id,
            total: total as u64,
            offset: offset as u64,
            bytes: ByteBuf::from(bytes.to_vec()),
        };
        if self.peers.get(&to).is_some_and(|peer| peer.admitted) {
            self.send(to, Class::Repair, &Message::BlobPiece(piece));
        }
    }

    pub(super) fn on_blob_piece(&mut self, from: LifeId, piece: &BlobPiece) {
        let (Some(kind), Ok(worker)) = (BlobKind::from_byte(piece.kind), WorkerId::new(&piece.worker, piece.rank))
        else {
            return self.malformed(from, 0);
        };
        let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let at = (size(piece.total), size(piece.offset));
        let of = (kind, &worker, from, piece.id);
        match self.fetches.take(self.now, of, at, &piece.bytes) {
            None => {
                // Only a piece that is in now leads on to the next; what did not fit is asked for again in time.
                let offset = self.fetches.at(kind, &worker).map(|(_, offset)| offset);
                if offset == Some(at.1.saturating_add(piece.bytes.len())) {
                    self.ask_piece(kind, &worker);
                }
            }
            Some(Ok(bytes)) => self.fetched(kind, worker, from, bytes),
            Some(Err(NoBlob)) => self.not_fetched(kind, worker),
        }
        self.fetch_next();
    }

    fn fetched(&mut self, kind: BlobKind, worker: WorkerId, from: LifeId, bytes: Vec<u8>) {
        if kind == BlobKind::Ingest {
            let state = Some(Bytes::from(bytes));
            return self.outbox.push_back(Output::Feed(FeedOrder::HandedOff { worker, state }));
        }
        let Ok((whose, state)) = decode_feed(&bytes) else { return self.malformed(from, 0) };
        if whose != worker {
            return self.malformed(from, 0);
        }
        let spoken: Vec<_> = state.lanes().keys().map(|(keyspace, _)| Arc::clone(keyspace)).collect();
        if self.replica.install_feed(&worker, Arc::new(state)) == Merged::Grew {
            let log = self.feeds.entry(worker.clone()).or_default();
            log.spoke(spoken);
            if !planted(Plant::LogJumpKeepsOps) {
                self.feed_bytes -= log.jump();
            }
            self.note(Note::FeedFetched { worker: worker.clone(), bytes: bytes.len() as u64 });
            self.sync_feeds();
            self.drain_feed(&worker);
        }
    }

    fn not_fetched(&mut self, kind: BlobKind, worker: WorkerId) {
        if kind == BlobKind::Ingest {
            self.outbox.push_back(Output::Feed(FeedOrder::HandedOff { worker, state: None }));
        }
    }

    /// Asks again for pieces that did not come, and gives up on those who do not answer.
    pub(super) fn chase_fetches(&mut self) {
        let peers = &self.peers;
        let patience = |from: LifeId, least, round_trips| {
            peers.get(&from).filter(|peer| peer.admitted).map(|peer| peer.patience_ms(least, round_trips))
        };
        let (again, over) = self.fetches.due(self.now, patience);
        for (kind, worker) in over {
            self.not_fetched(kind, worker);
        }
        for (kind, worker) in again {
            self.ask_piece(kind, &worker);
        }
        self.fetch_next();
    }
}
