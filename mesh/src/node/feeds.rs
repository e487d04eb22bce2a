//! Feeds between nodes: the own ingester's ops go out, peers' come in, and what is missing is fetched.
//!
//! A feed's ops are pure functions of what was ingested, so it does not matter who publishes one, how often, or who hands
//! it on. Nothing of this makes a replica dirty: a feed's state is applied op by op in sequence or adopted whole, and its
//! entry in the vector is the state's own key.
//!
//! Not here: who ingests and when a standby publishes (`owners`), whole states (`blobs`), the state (`covey_crdt::stored`).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use covey_crdt::codec::{decode_stored, encode_stored};
use covey_crdt::id::{Incarnation, LifeId, Token, WorkerId};
use covey_crdt::lattice::Merged;
use covey_crdt::limits::WORKERS_MAX;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stored::{Generation, StoredKey, StoredOp};
use serde_bytes::ByteBuf;

use super::Node;
use crate::blob::BlobKind;
use crate::feed::{FeedLog, RetainedFeedOp};
use crate::limits::{FEED_LOG_BYTES_MAX, FEEDS_PER_FRAME, FRAME_BYTES_GOAL, PULL_BYTES_MAX, PULL_GRACE_MS};
use crate::limits::{PUSH_DELAY_MS, RETRY_MS};
use crate::note::Note;
use crate::output::{Class, FeedOrder, Output};
use crate::wire::{FeedEntry, FeedOps, FeedPull, FeedTrimmed, Message};

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
                log.gap = None;
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

    /// Counts, retains and follows up on an op that was applied.
    fn applied_feed(&mut self, op: &StoredOp, bytes: Bytes) {
        let worker = &op.worker;
        let now = self.now;
        let spoken = op.lanes.iter().map(|lane| Arc::clone(&lane.keyspace));
        let log = self.feeds.entry(worker.clone()).or_default();
        log.speaks.extend(spoken);
        let mut freed = 0;
        if op.begins {
            freed = log.jump();
        }
        let kept = log.retain(RetainedFeedOp { key: op.key.clone(), begins: op.begins, bytes, at: now });
        self.feed_bytes = self.feed_bytes + kept - freed;
        self.ops_applied += 1;
        if op.begins && op.key.generation != Generation::default() {
            self.note(Note::Generation { worker: worker.clone() });
        }
        self.sync_feeds();
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

    fn send_feed_ops(&mut self, to: LifeId, class: Class, ops: impl Iterator<Item = Bytes>) {
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
        let is_bounded = self.feeds.contains_key(&worker) || self.feeds.len() < WORKERS_MAX;
        match self.replica.apply_feed(&op) {
            Ok(Merged::Grew) => {
                self.note(Note::FeedApplied { hashes: u32::try_from(op.hashes()).unwrap_or(u32::MAX) });
                self.applied_feed(&op, bytes);
                self.drain_feed(&worker);
            }
            Ok(Merged::Unchanged) => {}
            Err(covey_crdt::stored::FeedGap) if is_bounded => {
                let now = self.now;
                let log = self.feeds.entry(worker).or_default();
                log.gap.get_or_insert(now);
                log.hold(Arc::new(op));
            }
            Err(covey_crdt::stored::FeedGap) => self.note(Note::FeedDropped),
        }
    }

    /// Applies held ops that follow now.
    pub(super) fn drain_feed(&mut self, worker: &WorkerId) {
        loop {
            let key = self.replica.feed(worker).map(|state| state.key.clone());
            let Some(log) = self.feeds.get_mut(worker) else { return };
            let Some(op) = log.next_held(key.as_ref()) else { return };
            if self.replica.apply_feed(&op) != Ok(Merged::Grew) {
                return;
            }
            let log = self.feeds.get_mut(worker).expect("it was there above");
            log.unhold(&op.key);
            self.note(Note::FeedApplied { hashes: u32::try_from(op.hashes()).unwrap_or(u32::MAX) });
            self.applied_feed(&op, Bytes::from(encode_stored(&op)));
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
        let is_new = log.forked.as_ref().is_none_or(|known| known.generation < key.generation);
        if !is_new {
            return;
        }
        log.forked = Some(key);
        let restarts = log.role == crate::feed::Role::Publisher;
        self.note(Note::FeedForked { worker: worker.clone(), peer });
        if restarts {
            self.outbox.push_back(Output::Feed(FeedOrder::Restart { worker }));
        }
    }

    /// What a peer says its feeds' states are.
    pub(super) fn take_feeds(&mut self, from: LifeId, entries: &[FeedEntry]) -> bool {
        let Some(read) = entries.iter().map(read_entry).collect::<Option<Vec<_>>>() else { return false };
        for (worker, key, digest) in read {
            let Some(key) = key else { return false };
            let Some(peer) = self.peers.get_mut(&from) else { return true };
            if peer.feeds.len() < WORKERS_MAX || peer.feeds.contains_key(&worker) {
                peer.feeds.insert(worker.clone(), (key.clone(), digest));
            }
            let mine = self.replica.feed(&worker).filter(|state| state.key == key);
            if mine.is_some_and(|state| low(state.digest(&worker)) != digest) {
                self.feed_forked(worker, key, from);
            }
        }
        true
    }

    /// The own feeds' states that changed after one version of the vector, up to another.
    pub(super) fn feed_entries(&self, since: u64, version: u64) -> Vec<FeedEntry> {
        let entry = |(worker, key): (&WorkerId, &StoredKey)| {
            let digest = self.replica.feed(worker).map_or(0, |state| low(state.digest(worker)));
            write_entry(worker, Some(key), digest)
        };
        self.vector.feeds_between(since, version).map(entry).collect()
    }

    /// Asks for what peers are known to have of feeds and this node lacks.
    pub(super) fn pull_feeds(&mut self) {
        if !self.joined {
            return;
        }
        let mut ahead: BTreeMap<WorkerId, StoredKey> = BTreeMap::new();
        for peer in self.peers.values().filter(|peer| peer.admitted) {
            for (worker, (key, _)) in &peer.feeds {
                let lacks = self.lacks_feed(worker, key);
                if lacks && ahead.get(worker).is_none_or(|known| known < key) {
                    ahead.insert(worker.clone(), key.clone());
                }
            }
        }
        let mut asks: BTreeMap<LifeId, Vec<FeedEntry>> = BTreeMap::new();
        for (worker, most) in ahead {
            let Some(peer) = self.feed_gap(&worker, &most) else { continue };
            let mine = self.replica.feed(&worker).map(|state| state.key.clone());
            let rows = asks.entry(peer).or_default();
            if rows.len() < FEEDS_PER_FRAME {
                rows.push(write_entry(&worker, mine.as_ref(), 0));
            }
        }
        for (peer, wants) in asks {
            self.note(Note::FeedPulled { feeds: u32::try_from(wants.len()).unwrap_or(u32::MAX) });
            self.send(peer, Class::Control, &Message::FeedPull(FeedPull { wants }));
        }
    }

    /// Whether a state is one this node does not have and could use.
    pub(super) fn lacks_feed(&self, worker: &WorkerId, key: &StoredKey) -> bool {
        let over = self.replica.record(worker).is_some_and(|record| record.incarnation > key.incarnation);
        !over && self.replica.feed(worker).is_none_or(|mine| mine.key < *key)
    }

    /// Whom to ask for a feed, if it is time to.
    fn feed_gap(&mut self, worker: &WorkerId, most: &StoredKey) -> Option<LifeId> {
        let now = self.now;
        if !self.feeds.contains_key(worker) && self.feeds.len() >= WORKERS_MAX {
            return None;
        }
        let log = self.feeds.entry(worker.clone()).or_default();
        let since = *log.gap.get_or_insert(now);
        let asked = log.asked;
        if now.since_ms(since) < PULL_GRACE_MS || self.fetches.at(BlobKind::Feed, worker).is_some() {
            return None;
        }
        let having = |peer: &crate::peer::Peer| peer.feeds.get(worker).is_some_and(|(key, _)| key == most);
        let having: Vec<LifeId> =
            self.peers.iter().filter(|(_, peer)| peer.admitted && having(peer)).map(|(life, _)| *life).collect();
        let peer = self.pick(&having)?;
        let wait = self.peers.get(&peer)?.patience_ms(RETRY_MS, 2);
        if asked.is_some_and(|asked| now.since_ms(asked) < wait) {
            return None;
        }
        self.feeds.get_mut(worker)?.asked = Some(now);
        Some(peer)
    }

    pub(super) fn on_feed_pull(&mut self, from: LifeId, pull: &FeedPull) {
        let wants: Option<Vec<_>> = pull.wants.iter().map(read_entry).collect();
        let Some(wants) = wants.filter(|wants| wants.len() <= FEEDS_PER_FRAME) else {
            return self.malformed(from, 0);
        };
        let mut left = PULL_BYTES_MAX;
        for (worker, after, _) in wants {
            let lacks =
                self.replica.feed(&worker).is_some_and(|state| after.as_ref().is_none_or(|key| *key < state.key));
            if !lacks || left == 0 {
                continue;
            }
            let ops = self.feeds.get(&worker).and_then(|log| log.after(after.as_ref()));
            let ops: Option<Vec<Bytes>> = ops.map(|ops| {
                let mut spent = 0;
                let fits = |op: &&RetainedFeedOp| {
                    spent += op.bytes.len();
                    spent - op.bytes.len() < left
                };
                ops.take_while(fits).map(|op| op.bytes.clone()).collect()
            });
            match ops {
                Some(ops) => {
                    left = left.saturating_sub(ops.iter().map(Bytes::len).sum());
                    self.send_feed_ops(from, Class::Control, ops.into_iter());
                }
                None => {
                    let trimmed = FeedTrimmed { worker: worker.name().to_owned(), rank: worker.rank() };
                    self.send(from, Class::Control, &Message::FeedTrimmed(trimmed));
                }
            }
        }
    }

    pub(super) fn on_feed_trimmed(&mut self, from: LifeId, trimmed: &FeedTrimmed) {
        let Ok(worker) = WorkerId::new(&trimmed.worker, trimmed.rank) else { return self.malformed(from, 0) };
        let known = self.peers.get(&from).and_then(|peer| peer.feeds.get(&worker)).map(|(key, _)| key.clone());
        if known.is_some_and(|key| self.lacks_feed(&worker, &key)) && self.fetches.has_room(BlobKind::Feed, &worker) {
            self.fetch(BlobKind::Feed, worker, from);
        }
    }

    /// Retained ops of feeds that are too old or too many.
    pub(super) fn drop_old_feed_ops(&mut self) {
        let age_ms = self.knobs.log_age_ms;
        let limit = self.now.us.checked_sub(age_ms * 1_000).map(|us| crate::input::MonoTime { us });
        for log in self.feeds.values_mut() {
            while let Some(limit) = limit
                && let Some(bytes) = log.drop_oldest(Some(limit))
            {
                self.feed_bytes -= bytes;
            }
        }
        let most = FEED_LOG_BYTES_MAX.min(self.knobs.log_bytes);
        while self.feed_bytes > most && !planted(Plant::LogUnbounded) {
            let oldest =
                self.feeds.iter().filter_map(|(worker, log)| log.oldest().map(|at| (at, worker.clone()))).min();
            let Some((_, worker)) = oldest else { break };
            let dropped = self.feeds.get_mut(&worker).and_then(|log| log.drop_oldest(None));
            self.feed_bytes -= dropped.unwrap_or(0);
        }
    }

    /// For how long something of feeds that the peer has was lacking here, in milliseconds, and how many feeds.
    pub(super) fn feeds_lacking(&self, now: crate::input::MonoTime, peer: &crate::peer::Peer) -> (u64, u64) {
        let lacking = peer.feeds.iter().filter(|(worker, (key, _))| self.lacks_feed(worker, key));
        let (mut ms, mut count) = (0, 0);
        for (worker, _) in lacking {
            count += 1;
            ms = ms.max(self.feeds.get(worker).and_then(|log| log.gap).map_or(0, |gap| now.since_ms(gap)));
        }
        (ms, count)
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

fn low(digest: covey_crdt::digest::Digest) -> u64 {
    (digest.0 & u128::from(u64::MAX)) as u64
}

fn write_entry(worker: &WorkerId, key: Option<&StoredKey>, digest: u64) -> FeedEntry {
    FeedEntry {
        worker: worker.name().to_owned(),
        rank: worker.rank(),
        counter: key.map_or(0, |key| key.incarnation.counter),
        token: key.map_or_else(String::new, |key| key.incarnation.token.as_str().to_owned()),
        generation: key.map_or(0, |key| key.generation.counter),
        life: LifeId(key.map_or(0, |key| key.generation.life)).into(),
        position: key.map_or(0, |key| key.position),
        part: key.map_or(0, |key| key.part),
        digest,
    }
}

/// The entry's worker, state and digest; no state when it names none. `None` when it is not sound.
fn read_entry(entry: &FeedEntry) -> Option<(WorkerId, Option<StoredKey>, u64)> {
    let worker = WorkerId::new(&entry.worker, entry.rank).ok()?;
    if entry.token.is_empty() {
        return Some((worker, None, 0));
    }
    let incarnation = Incarnation { counter: entry.counter, token: Token::new(&entry.token).ok()? };
    let generation = Generation { counter: entry.generation, life: LifeId::from(entry.life).0 };
    let key = StoredKey { incarnation, generation, position: entry.position, part: entry.part };
    Some((worker, Some(key), entry.digest))
}
