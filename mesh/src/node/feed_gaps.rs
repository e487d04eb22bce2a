//! What peers have of feeds and this node lacks: told in exchanges and by ops that do not follow yet, asked for, answered.
//!
//! Not here: applying (`feeds`), whole states (`blobs`). A claim decides nothing: what it leads to is asked for, and a peer
//! that claims what it cannot give does not keep a node from asking others.

use std::collections::BTreeMap;

use bytes::Bytes;
use covey_crdt::id::{Incarnation, LifeId, Token, WorkerId};
use covey_crdt::limits::WORKERS_MAX;
use covey_crdt::stored::{Generation, StoredKey};

use super::Node;
use crate::blob::BlobKind;
use crate::feed::RetainedFeedOp;
use crate::input::MonoTime;
use crate::limits::{FEEDS_PER_FRAME, PULL_BYTES_MAX, PULL_GRACE_MS, RETRY_MS};
use crate::note::Note;
use crate::output::Class;
use crate::peer::Peer;
use crate::wire::{FeedEntry, FeedPull, FeedTrimmed, Message};

impl Node {
    /// What a peer says its feeds' states are.
    pub(super) fn take_feeds(&mut self, from: LifeId, entries: &[FeedEntry]) -> bool {
        let Some(read) = entries.iter().map(read_entry).collect::<Option<Vec<_>>>() else { return false };
        for (worker, key, digest) in read {
            let Some(key) = key else { return false };
            self.take_claim(from, &worker, &key);
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

    /// A peer has a feed at least so far.
    pub(super) fn take_claim(&mut self, from: LifeId, worker: &WorkerId, key: &StoredKey) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let known = peer.feeds.get(worker);
        if known.is_none() && peer.feeds.len() >= WORKERS_MAX {
            return;
        }
        if known.is_none_or(|known| known < key) {
            peer.feeds.insert(worker.clone(), key.clone());
        }
        if self.behind.len() < WORKERS_MAX && self.lacks_feed(worker, key) {
            self.behind.insert(worker.clone());
        }
    }

    /// Asks for what peers are known to have of feeds and this node lacks.
    pub(super) fn pull_feeds(&mut self) {
        if !self.joined {
            return;
        }
        let mut asks: BTreeMap<LifeId, Vec<FeedEntry>> = BTreeMap::new();
        for worker in self.behind.clone() {
            let ahead = self.ahead_with(&worker);
            let Some(most) = ahead.iter().map(|(_, key)| key).max().cloned() else {
                self.behind.remove(&worker);
                if let Some(log) = self.feeds.get_mut(&worker) {
                    log.gap = None;
                }
                continue;
            };
            if let Some(since) = self.feed_gap(&worker) {
                // Who claims the most may not have it: once it was asked in vain, whoever is ahead will do.
                let asked = self.feeds.get(&worker).and_then(|log| log.asked).filter(|asked| *asked >= since);
                let has_room = |life: &LifeId| asks.get(life).is_none_or(|rows| rows.len() < FEEDS_PER_FRAME);
                let able = ahead.iter().filter(|(life, key)| has_room(life) && (asked.is_some() || *key == most));
                let able: Vec<LifeId> = able.map(|(life, _)| *life).collect();
                if let Some(peer) = self.pick(&able).filter(|peer| self.may_ask(*peer, asked)) {
                    let mine = self.replica.feed(&worker).map(|state| state.key.clone());
                    asks.entry(peer).or_default().push(write_entry(&worker, mine.as_ref(), 0));
                    if let Some(log) = self.feeds.get_mut(&worker) {
                        log.asked = Some(self.now);
                    }
                }
            }
        }
        for (peer, wants) in asks {
            self.note(Note::FeedPulled { feeds: u32::try_from(wants.len()).unwrap_or(u32::MAX) });
            self.send(peer, Class::Control, &Message::FeedPull(FeedPull { wants }));
        }
    }

    /// Peers that have more of a feed than this node.
    fn ahead_with(&self, worker: &WorkerId) -> Vec<(LifeId, StoredKey)> {
        let admitted = self.peers.iter().filter(|(_, peer)| peer.admitted);
        let claims = admitted.filter_map(|(life, peer)| Some((*life, peer.feeds.get(worker)?)));
        claims.filter(|(_, key)| self.lacks_feed(worker, key)).map(|(life, key)| (life, key.clone())).collect()
    }

    /// Whether a state is one this node does not have and could use.
    pub(super) fn lacks_feed(&self, worker: &WorkerId, key: &StoredKey) -> bool {
        let over = self.replica.record(worker).is_some_and(|record| record.incarnation > key.incarnation);
        !over && self.replica.feed(worker).is_none_or(|mine| mine.key < *key)
    }

    /// Since when a feed lacks something, if that is long enough ago and nothing is being done about it.
    fn feed_gap(&mut self, worker: &WorkerId) -> Option<MonoTime> {
        let now = self.now;
        if !self.feeds.contains_key(worker) && self.feeds.len() >= WORKERS_MAX {
            return None;
        }
        let since = *self.feeds.entry(worker.clone()).or_default().gap.get_or_insert(now);
        (now.since_ms(since) >= PULL_GRACE_MS && !self.fetches.has(worker)).then_some(since)
    }

    /// Whether an ask may follow the one before it.
    fn may_ask(&self, peer: LifeId, asked: Option<MonoTime>) -> bool {
        let wait = self.peers.get(&peer).map_or(RETRY_MS, |peer| peer.patience_ms(RETRY_MS, 2));
        asked.is_none_or(|asked| self.now.since_ms(asked) >= wait)
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
        let known = self.peers.get(&from).and_then(|peer| peer.feeds.get(&worker)).cloned();
        if known.is_some_and(|key| self.lacks_feed(&worker, &key)) && !self.fetches.has(&worker) {
            self.fetches.queue(BlobKind::Feed, worker, from);
            self.fetch_next();
        }
    }

    /// For how long something of feeds that the peer has was lacking here, in milliseconds, and how many feeds.
    pub(super) fn feeds_lacking(&self, now: MonoTime, peer: &Peer) -> (u64, u64) {
        let claims = self.behind.iter().filter_map(|worker| Some((worker, peer.feeds.get(worker)?)));
        let (mut ms, mut count) = (0, 0);
        for (worker, _) in claims.filter(|(worker, key)| self.lacks_feed(worker, key)) {
            count += 1;
            ms = ms.max(self.feeds.get(worker).and_then(|log| log.gap).map_or(0, |gap| now.since_ms(gap)));
        }
        (ms, count)
    }
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
