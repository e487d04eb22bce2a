//! Feeds between nodes: the own ingester's ops go out, peers' come in, and what is missing is fetched.
//!
//! A feed's ops are pure functions of what was ingested, so it does not matter who publishes one, how often, or who hands
//! it on. Nothing of this makes a replica dirty: a feed's state is applied op by op in sequence or adopted whole, and its
//! entry in the vector is the state's own key.
//!
//! Not here: what is missing (`feed_gaps`), what is kept (`feed_logs`), who ingests and when a standby publishes (`owners`),
//! whole states (`blobs`), the state (`covey_crdt::stored`).

use bytes::Bytes;
use covey_crdt::codec::{decode_stored, encode_stored};
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::lattice::Merged;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stored::{StoredKey, StoredOp};
use serde_bytes::ByteBuf;

use super::Node;
use crate::feed::FeedLog;
use crate::limits::{FORKED_DOUBLINGS, FORKED_MS, FRAME_BYTES_GOAL, PUSH_DELAY_MS};
use crate::note::Note;
use crate::output::{Class, FeedOrder, Output};
use crate::wire::{FeedOps, Message};

impl Node {
    /// The feeds' entries follow the replica. After everything that may have moved one.
    pub(super) fn sync_feeds(&mut self) {
        for worker in self.replica.take_feeds_moved() {
            let key = self.replica.feed(&worker).map(|state| state.key.clone());
            self.vector.set_feed(&worker, key.as_ref());
            if let Some(log) = self.feeds.get_mut(&worker) {
                match &key {
                    Some(key) => log.reached(key),
                    None => log.clear_outbox(),
                }
                (log.gap, log.held_at) = (None, self.now);
            }
        }
    }

    /// The own ingester made an op.
    pub(super) fn ingested(&mut self, op: StoredOp) {
        let now = self.now;
        let worker = op.worker.clone();
        if self.replica.feed(&worker).is_some_and(|state| op.key <= state.key) {
            self.check_equal(&op, None);
            return;
        }
        let Some(log) = self.feeds.get_mut(&worker).filter(|log| log.role.ingests()) else {
            return self.note(Note::FeedDropped);
        };
        let op = impure(op, self.life);
        let publishes = log.role == crate::feed::Role::Publisher;
        if !log.made(op, now) {
            self.outbox.push_back(Output::Feed(FeedOrder::Restart { worker }));
            return self.note(Note::FeedDropped);
        }
        if publishes {
            self.publish_feed(&worker);
        }
    }

    /// Applies and pushes own ops, as far as they follow what is here. What lies between is fetched.
    pub(super) fn publish_feed(&mut self, worker: &WorkerId) -> bool {
        let mut published = false;
        while let Some((op, _)) = self.feeds.get(worker).and_then(FeedLog::unpublished).cloned() {
            let bytes = Bytes::from(encode_stored(&op));
            match self.replica.apply_feed(&op) {
                Ok(Merged::Grew) => {
                    self.applied_feed(&op, bytes.clone());
                    self.unpushed.push(bytes);
                    published = true;
                }
                Ok(Merged::Unchanged) => {
                    // Of an older incarnation or generation: nobody needs it.
                    let log = self.feeds.get_mut(worker).expect("it has ops");
                    log.reached(&op.key);
                }
                Err(covey_crdt::stored::FeedGap) => break,
            }
        }
        if published && self.push_at.is_none() {
            self.push_at = Some(self.now.plus_ms(PUSH_DELAY_MS));
        }
        published
    }

    /// Pushes own ops that were not pushed yet.
    pub(super) fn push_feeds(&mut self) {
        let ops = std::mem::take(&mut self.unpushed);
        if ops.is_empty() {
            return;
        }
        let open: Vec<LifeId> =
            self.peers.iter().filter(|(_, peer)| peer.admitted && !peer.blocked).map(|(life, _)| *life).collect();
        for peer in open {
            self.send_feed_ops(peer, Class::Push, ops.iter().cloned());
        }
    }

    pub(super) fn send_feed_ops(&mut self, to: LifeId, class: Class, ops: impl Iterator<Item = Bytes>) {
        let (mut frame, mut bytes) = (Vec::new(), 0);
        for op in ops {
            bytes += op.len();
            frame.push(ByteBuf::from(op.to_vec()));
            if bytes >= self.knobs.frame_bytes.min(FRAME_BYTES_GOAL) {
                self.send(to, class, &Message::FeedOps(FeedOps { ops: std::mem::take(&mut frame) }));
                bytes = 0;
            }
        }
        if !frame.is_empty() {
            self.send(to, class, &Message::FeedOps(FeedOps { ops: frame }));
        }
    }

    pub(super) fn on_feed_ops(&mut self, from: LifeId, frame: &FeedOps) {
        for bytes in &frame.ops {
            let Ok(op) = decode_stored(bytes) else { return self.malformed(from, 0) };
            self.take_feed_op(from, op, Bytes::copy_from_slice(bytes));
        }
    }

    fn take_feed_op(&mut self, from: LifeId, op: StoredOp, bytes: Bytes) {
        let worker = op.worker.clone();
        if self.replica.feed(&worker).is_some_and(|state| op.key <= state.key) {
            self.check_equal(&op, Some(from));
            return self.note(Note::Duplicate { ops: 1 });
        }
        match self.replica.apply_feed(&op) {
            Ok(Merged::Grew) => {
                self.note(Note::FeedApplied { hashes: u32::try_from(op.hashes()).unwrap_or(u32::MAX) });
                self.applied_feed(&op, bytes);
                self.drain_feed(&worker);
            }
            Ok(Merged::Unchanged) => {}
            Err(covey_crdt::stored::FeedGap) => {
                // Who sends it has it: what lies between can be asked for, whatever exchanges get to tell.
                self.take_claim(from, &worker, &op.key);
                self.hold_feed(op, bytes.len());
            }
        }
    }

    /// An op that is here already must be the same op. When it is not, two ingesters disagree, and one has to begin anew.
    fn check_equal(&mut self, op: &StoredOp, from: Option<LifeId>) {
        let Some(log) = self.feeds.get(&op.worker) else { return };
        let differs = log.bytes_of(&op.key).is_some_and(|known| **known != encode_stored(op)[..]);
        if differs {
            self.feed_forked(op.worker.clone(), op.key.clone(), from.unwrap_or(self.life));
        }
    }

    pub(super) fn feed_forked(&mut self, worker: WorkerId, key: StoredKey, peer: LifeId) {
        let Some(log) = self.feeds.get_mut(&worker) else { return };
        // A generation may carry a million blocks: a peer that is wrong about digests must not call for them without end.
        let (mut times, now) = (0, self.now);
        if let Some((known, at, before)) =
            log.forked.as_ref().filter(|(known, ..)| known.incarnation >= key.incarnation)
        {
            let wait_ms = FORKED_MS << (*before).min(FORKED_DOUBLINGS);
            if known.incarnation > key.incarnation || known.generation >= key.generation || now.since_ms(*at) < wait_ms
            {
                return;
            }
            times = before + 1;
        }
        log.forked = Some((key, now, times));
        let restarts = log.role == crate::feed::Role::Publisher;
        self.note(Note::FeedForked { worker: worker.clone(), peer });
        if restarts {
            self.outbox.push_back(Output::Feed(FeedOrder::Restart { worker }));
        }
    }
}

/// [`Plant::FeedOpImpure`]: what the op says depends on who made it.
fn impure(mut op: StoredOp, life: LifeId) -> StoredOp {
    if planted(Plant::FeedOpImpure) {
        let extra = covey_crdt::hash::BlockHash((life.0 >> 64) as u64);
        if let Some(lane) = op.lanes.first_mut().filter(|lane| !lane.added.contains(&extra)) {
            lane.added.push(extra);
        }
    }
    op
}
