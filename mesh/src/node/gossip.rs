//! Gossip about gateways themselves: once a second each tells every peer how it is and what it sees, so that any of them
//! can answer for the whole mesh.
//!
//! Not here: coverage and vectors (`ops`, `exchange`). Nothing here decides anything: a summary that is lost, late or
//! wrong changes what people see and nothing else. Upholds I12: what is not known is `None`.

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::limits::WORKERS_MAX;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::worker::{Totals, WorkerRecord};

use super::Node;
use crate::input::{Load, MonoTime};
use crate::limits::{FEED_TOLD_MS, SUMMARY_FEEDS, SUMMARY_MS, SUMMARY_PEERS_MAX, SUMMARY_WORKERS};
use crate::output::Class;
use crate::peer::Said;
use crate::status::Phase;
use crate::summary::{Dated, FeedSeen, PeerSeen, ReplicaCounts, Sight, Summary, View, WorkerSeen};
use crate::wire::Message;

impl Node {
    /// All that the node knows of the mesh, for people. O(holders).
    #[must_use]
    pub fn view(&self, now: MonoTime) -> View {
        let own = self.worker_rows().into_iter().map(|(worker, of)| (worker, Dated { of: Arc::new(of), age_ms: 0 }));
        let own_feeds = self.feeds_seen().into_iter().map(|of| {
            let worker = WorkerId::new(&of.worker, of.rank).expect("it is a worker's own name");
            (worker, Dated { of: Arc::new(of), age_ms: 0 })
        });
        let mut sights = vec![Sight {
            life: self.life,
            name: self.config.name.clone(),
            summary: Arc::new(self.summary(now)),
            age_ms: 0,
            workers: own.collect(),
            feeds: own_feeds.collect(),
        }];
        for (name, (life, peer)) in self.newest_lives() {
            let Some(said) = peer.and_then(|peer| peer.said.as_ref()) else { continue };
            let dated =
                |(at, of): &(MonoTime, Arc<WorkerSeen>)| Dated { of: Arc::clone(of), age_ms: now.since_ms(*at) };
            let dated_feed =
                |(at, of): &(MonoTime, Arc<FeedSeen>)| Dated { of: Arc::clone(of), age_ms: now.since_ms(*at) };
            sights.push(Sight {
                life,
                name,
                summary: Arc::clone(&said.summary),
                age_ms: now.since_ms(said.at),
                workers: said.workers.iter().map(|(worker, seen)| (worker.clone(), dated(seen))).collect(),
                feeds: said.feeds.iter().map(|(worker, seen)| (worker.clone(), dated_feed(seen))).collect(),
            });
        }
        let capacities = self.replica.records().map(|(worker, record)| (worker.clone(), record.capacity_tokens));
        View { sights, loads: self.loads(), capacities: capacities.collect() }
    }

    /// The node in numbers, without its workers. O(holders).
    #[must_use]
    pub fn summary(&self, now: MonoTime) -> Summary {
        let phase = self.phase();
        let mut replica = ReplicaCounts {
            ops_applied: self.ops_applied,
            ops_held: self.ops_held(),
            lives: self.vector.lives().count() as u64,
            closing: self.ends.closing.len() as u64,
            retired: self.replica.retired().len() as u64,
            workers: self.replica.records().count() as u64,
            log_bytes: (self.log_bytes + self.feed_bytes) as u64,
            repairing: self.session.is_some(),
            ..ReplicaCounts::default()
        };
        for (_, _, totals) in self.replica.totals() {
            replica.holders += totals.holders;
            replica.blocks += totals.blocks;
        }
        let mut peers: Vec<PeerSeen> = self.peer_statuses(now).into_iter().map(PeerSeen::from).collect();
        peers.sort_by_key(|peer| (peer.left, !peer.linked));
        peers.truncate(SUMMARY_PEERS_MAX);
        Summary {
            wall_ms: self.wall.0,
            phase,
            digest: (phase == Phase::Clean || planted(Plant::SummaryWhileDirty))
                .then(|| self.replica.digest().to_string()),
            vector: self.vector.hash(),
            clock: self.clock,
            clock_ahead_ms: self.clock_ahead_ms(),
            replica,
            tally: self.tally.clone(),
            effect: self.effect.clone(),
            peers,
            workers: Vec::new(),
            feeds: self.feeds_seen(),
        }
    }

    /// Every worker as this replica has it.
    fn worker_rows(&self) -> BTreeMap<WorkerId, WorkerSeen> {
        let row = |(id, record, totals): (&WorkerId, &WorkerRecord, Totals)| {
            let row = WorkerSeen {
                worker: id.name().to_owned(),
                rank: id.rank(),
                incarnation: record.incarnation.counter,
                blocks: totals.blocks,
                stored: self.replica.feed(id).map(|_| totals.stored),
                is_complete: self.replica.feed(id).is_some_and(|state| state.is_complete),
                digest: (totals.digest.0 & u128::from(u64::MAX)) as u64,
                floor_ms: totals.floor.map(|stamp| stamp.hlc.ms()),
                newest_ms: totals.newest.map(|stamp| stamp.hlc.ms()),
            };
            (id.clone(), row)
        };
        self.replica.totals().map(row).collect()
    }

    /// Load per worker over all live gateways, this one included.
    fn loads(&self) -> BTreeMap<WorkerId, Load> {
        let mut loads: BTreeMap<WorkerId, Load> = BTreeMap::new();
        let live = self.peers.values().filter(|peer| peer.live());
        for (worker, load) in self.own_loads.all().chain(live.flat_map(|peer| peer.loads.all())) {
            let sum = loads.entry(worker.clone()).or_default();
            sum.requests = sum.requests.saturating_add(load.requests);
            sum.queued_tokens = sum.queued_tokens.saturating_add(load.queued_tokens);
        }
        loads
    }

    /// Tells the peers, when it is time.
    pub(super) fn tell_of_self(&mut self) {
        if self.now < self.summary_at {
            return;
        }
        self.summary_at = self.jittered(SUMMARY_MS);
        let to: Vec<LifeId> = self.peers.iter().filter(|(_, peer)| peer.admitted).map(|(life, _)| *life).collect();
        if to.is_empty() {
            return;
        }
        let mut summary = self.summary(self.now);
        summary.workers = self.next_workers();
        for feeds in self.feed_pages(std::mem::take(&mut summary.feeds)) {
            summary.feeds = feeds;
            for life in &to {
                self.send(*life, Class::Control, &Message::Summary(Box::new(summary.clone())));
            }
            summary.workers.clear();
        }
        self.forget_said();
    }

    /// The feeds of the summaries that are due: all of them once a second, in as many frames as it takes, and those first
    /// that changed in the ones between. A page that is not full says that there are no others.
    fn feed_pages(&mut self, feeds: Vec<FeedSeen>) -> Vec<Vec<FeedSeen>> {
        if feeds.len() < SUMMARY_FEEDS {
            return vec![feeds];
        }
        let tells_all = self.now.since_ms(self.feeds_told_at) >= SUMMARY_MS / 2;
        let pages = if tells_all { feeds.len().div_ceil(SUMMARY_FEEDS) } else { 1 };
        if tells_all {
            self.feeds_told_at = self.now;
        }
        let page = |nth: usize| feeds.iter().cycle().skip(nth * SUMMARY_FEEDS).take(SUMMARY_FEEDS).cloned().collect();
        (0..pages).map(page).collect()
    }

    /// The workers whose turn it is.
    fn next_workers(&mut self) -> Vec<WorkerSeen> {
        let mut rows = self.worker_rows();
        let mut later = match self.summary_after.take() {
            Some(after) => rows.split_off(&after),
            None => std::mem::take(&mut rows),
        };
        // The split keeps the last one told at the front.
        later.retain(|worker, _| !rows.contains_key(worker));
        later
            .into_iter()
            .chain(rows)
            .take(SUMMARY_WORKERS)
            .map(|(worker, row)| {
                self.summary_after = Some(worker);
                row
            })
            .collect()
    }

    pub(super) fn on_summary(&mut self, from: LifeId, mut summary: Summary) {
        if !summary.is_sound() {
            return self.malformed(from, 0);
        }
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let (mut workers, mut feeds) = peer.said.take().map(|said| (said.workers, said.feeds)).unwrap_or_default();
        // Who tells of fewer than fit tells of all; who tells of more does so in turn, and of each once a second.
        if summary.feeds.len() < SUMMARY_FEEDS {
            feeds.clear();
        } else {
            feeds.retain(|_, (at, _)| now.since_ms(*at) <= FEED_TOLD_MS);
        }
        for row in std::mem::take(&mut summary.feeds) {
            let worker = WorkerId::new(&row.worker, row.rank).expect("a sound summary names workers well");
            if feeds.len() < WORKERS_MAX || feeds.contains_key(&worker) {
                feeds.insert(worker, (now, Arc::new(row)));
            }
        }
        for row in std::mem::take(&mut summary.workers) {
            let worker = WorkerId::new(&row.worker, row.rank).expect("a sound summary names workers well");
            if workers.len() < WORKERS_MAX || workers.contains_key(&worker) {
                workers.insert(worker, (now, Arc::new(row)));
            }
        }
        peer.said = Some(Said { at: now, summary: Arc::new(summary), workers, feeds });
    }

    /// What a life told that goes on under a newer one is of no use (I9).
    fn forget_said(&mut self) {
        let kept: Vec<LifeId> = self.newest_lives().into_values().map(|(life, _)| life).collect();
        for (life, peer) in &mut self.peers {
            if !kept.contains(life) {
                peer.said = None;
            }
        }
    }
}
