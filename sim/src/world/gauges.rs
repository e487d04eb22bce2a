//! The truth that lookups (I8) and gauges (I12) are judged by, collected as it happens.
//!
//! Not here: judging (`invariants`).

use std::collections::{BTreeMap, VecDeque};

use covey_crdt::hash::BlockHash;
use covey_crdt::id::LifeId;
use covey_gateway_plugin::frame::verdict;
use covey_mesh::input::Load;
use covey_mesh::node::Node;
use covey_mesh::status::Status;
use covey_mesh::summary as mesh;

use super::World;
use crate::invariants::{self, FrameTruth, Moment, PeerTruth, Query, Truth, View};
use crate::plan::Plan;
use crate::traffic::Traffic;

/// What a life was is remembered for this long, in microseconds; claims about earlier moments are not judged.
const REMEMBERED_US: u64 = 10_000_000;
/// Chains looked up in each index at each check.
const QUERIES: usize = 4;

/// What was true when.
pub(super) struct Gauges {
    /// What each life was from a time on, oldest first.
    moments: BTreeMap<LifeId, VecDeque<(u64, Moment)>>,
    /// The exchanges that reached a node from a life: when they arrived and when they were sent, latest last.
    heard: BTreeMap<(usize, LifeId), VecDeque<(u64, u64)>>,
    /// The same of summaries.
    told: BTreeMap<(usize, LifeId), VecDeque<(u64, u64)>>,
    /// When a node that stood still last went on.
    woke: BTreeMap<usize, u64>,
    /// Draws chains to look up, apart from the requests.
    asks: Traffic,
    /// Whose status is looked at next.
    turn: usize,
}

impl Gauges {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            moments: BTreeMap::new(),
            heard: BTreeMap::new(),
            told: BTreeMap::new(),
            woke: BTreeMap::new(),
            asks: Traffic::asks(plan),
            turn: 0,
        }
    }

    /// A node is as it is from now on.
    pub(super) fn saw(&mut self, now_us: u64, node: &Node) {
        let moment = Moment::of(node);
        let moments = self.moments.entry(node.life()).or_default();
        if moments.back().is_none_or(|(_, last)| *last != moment) {
            moments.push_back((now_us, moment));
            // The one before the oldest remembered time is what was true then.
            while moments.get(1).is_some_and(|(from_us, _)| from_us + REMEMBERED_US < now_us) {
                moments.pop_front();
            }
        }
    }

    /// An exchange arrived.
    pub(super) fn heard(&mut self, now_us: u64, at: usize, from: LifeId, sent_us: u64) {
        remember(self.heard.entry((at, from)).or_default(), now_us, sent_us);
    }

    /// A summary arrived.
    pub(super) fn told(&mut self, now_us: u64, at: usize, from: LifeId, sent_us: u64) {
        remember(self.told.entry((at, from)).or_default(), now_us, sent_us);
    }

    /// A node that stood still goes on: what waited for it reaches it now.
    pub(super) fn woke(&mut self, now_us: u64, at: usize) {
        self.woke.insert(at, now_us);
    }

    /// How long ago the last exchange of a life reached the node, in milliseconds; `None` for never within memory.
    pub(super) fn arrived_ms(&self, now_us: u64, at: usize, life: LifeId) -> Option<u64> {
        let (arrived_us, _) = self.heard.get(&(at, life))?.back()?;
        let reached_us = self.woke.get(&at).map_or(*arrived_us, |woke_us| *woke_us.max(arrived_us));
        Some((now_us - reached_us) / 1_000)
    }

    /// What the life may have been in the event at `at_us`: before it, after it, and between if it had several steps.
    fn around(&self, life: LifeId, at_us: u64) -> impl Iterator<Item = Moment> + '_ {
        let moments = self.moments.get(&life);
        let ended =
            move |nth: usize| moments.and_then(|all| all.get(nth + 1)).map_or(u64::MAX, |(from_us, _)| *from_us);
        let all = moments.into_iter().flatten().enumerate();
        all.filter(move |(nth, (from_us, _))| *from_us <= at_us && ended(*nth) >= at_us).map(|(_, (_, moment))| *moment)
    }

    /// What a life was when it sent what `at` heard last, `heard_ms` ago; nothing where that is not remembered.
    fn when_sent(&self, now_us: u64, at: usize, life: LifeId, heard_ms: u64) -> Vec<Moment> {
        self.when(&self.heard, now_us, at, life, heard_ms)
    }

    /// The same of the summary it was told `age_ms` ago.
    pub(super) fn when_told(&self, now_us: u64, at: usize, life: LifeId, age_ms: u64) -> Vec<Moment> {
        self.when(&self.told, now_us, at, life, age_ms)
    }

    fn when(
        &self,
        arrivals: &BTreeMap<(usize, LifeId), VecDeque<(u64, u64)>>,
        now_us: u64,
        at: usize,
        life: LifeId,
        heard_ms: u64,
    ) -> Vec<Moment> {
        let Some(heard) = arrivals.get(&(at, life)) else { return Vec::new() };
        // Whole milliseconds, and monotonic clocks that begin in the middle of one.
        let around_us = now_us.saturating_sub(heard_ms * 1_000);
        let then = heard.iter().filter(|(arrived_us, _)| arrived_us.abs_diff(around_us) <= 1_000);
        let sent: Vec<u64> = then.map(|(_, sent_us)| *sent_us).collect();
        if sent.iter().any(|sent_us| sent_us + REMEMBERED_US <= now_us) {
            return Vec::new();
        }
        sent.into_iter().flat_map(|sent_us| self.around(life, sent_us)).collect()
    }

    /// Chains to look up: as requests have them, some cut short, some with an end that nobody has.
    fn queries(&mut self) -> Vec<Query> {
        let query = |nth: usize| {
            let request = self.asks.request();
            let mut chain = request.chain.to_vec();
            if nth % 2 == 1 {
                chain.push(BlockHash(nth as u64));
            }
            (request.keyspace, chain)
        };
        (0..QUERIES).map(query).collect()
    }
}

/// Notes an arrival and forgets old ones.
fn remember(arrivals: &mut VecDeque<(u64, u64)>, now_us: u64, sent_us: u64) {
    arrivals.push_back((now_us, sent_us));
    while arrivals.front().is_some_and(|(arrived_us, _)| arrived_us + REMEMBERED_US < now_us) {
        arrivals.pop_front();
    }
}

impl Moment {
    /// What the node is now.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        Self { phase: node.phase(), digest: node.replica().digest(), vector: node.vector().hash() }
    }
}

impl World {
    /// I12, at one node after the other: a status is dear.
    pub(super) fn check_gauges(&mut self) {
        // Where a life runs twice, what is said of it is true of one of the two.
        if self.oracle.forks() {
            return;
        }
        self.gauges.turn += 1;
        let turn = self.gauges.turn % self.slots.len();
        let mut found = Vec::new();
        for (slot, node, now) in self.live().filter(|(slot, _, _)| *slot == turn) {
            // A paused node has not been told what waits for it.
            if self.slots[slot].pause.is_some() {
                continue;
            }
            let status = node.status(now);
            found.extend(invariants::check_gauges(&status, &self.truth(slot, node, &status)));
            // Light runs have states too large to be counted block by block.
            if !self.watch.is_light {
                let view = node.view(now);
                let word = verdict(&status, 0).0;
                found.extend(invariants::check_frame(&status, &view, word, &self.frame_truth(slot, node, &view)));
            }
        }
        self.outcome.violations.extend(found);
    }

    fn truth(&self, slot: usize, node: &Node, status: &Status) -> Truth {
        let lacks = |(life, last): (LifeId, u64)| last.saturating_sub(node.vector().head(life).seq);
        let unapplied = self.oracle.heads().map(lacks).sum();
        let heard = |life: &str| status.peers.iter().find(|peer| peer.life == life).and_then(|peer| peer.heard_ms);
        let mut peers = BTreeMap::new();
        for (other, peer, _) in self.live().filter(|(other, _, _)| *other != slot) {
            let life = peer.life();
            let name = life.to_string();
            // What is retired was counted whole, and is in no vector any more.
            let behind = |of: &Node, counts: Vec<(LifeId, u64)>| -> u64 {
                let open = counts.into_iter().filter(|(life, _)| !self.oracle.has_ended(*life, of));
                open.map(|(life, seq)| seq.saturating_sub(of.vector().head(life).seq)).sum()
            };
            let vector = |node: &Node| node.vector().lives().map(|(life, head)| (life, head.seq)).collect::<Vec<_>>();
            let whole = [vector(peer), self.oracle.ended_at(peer)].concat();
            let moments = heard(&name).map(|ms| self.gauges.when_sent(self.now_us, slot, life, ms));
            let truth = PeerTruth {
                moments: moments.unwrap_or_default(),
                may_be_linked: self.network.is_up(slot, other) || self.ghosts.contains(&(slot, life)),
                lag_ops: behind(node, whole),
                their_lag_ops: behind(peer, vector(node)),
                vector: Some(peer.vector().hash()),
                same_ends: peer.replica().ends_digest() == node.replica().ends_digest(),
            };
            peers.insert(name, truth);
        }
        // A life that is gone may be linked for as long as its end has not been noticed.
        for (_, life) in self.ghosts.iter().filter(|(at, _)| *at == slot) {
            peers.entry(life.to_string()).or_insert(PeerTruth { may_be_linked: true, ..PeerTruth::default() });
        }
        Truth { own: Moment::of(node), unapplied, peers }
    }

    /// What a node's frame is judged by.
    fn frame_truth(&self, slot: usize, node: &Node, view: &mesh::View) -> FrameTruth {
        let state = &self.slots[slot];
        let mut loads: BTreeMap<_, Load> = BTreeMap::new();
        let seen = state.seen_loads.iter().map(|((_, worker), load)| (worker, load));
        for (worker, load) in state.own_loads.iter().chain(seen).filter(|(_, load)| **load != Load::default()) {
            let sum = loads.entry(worker.clone()).or_default();
            sum.requests += load.requests;
            sum.queued_tokens += load.queued_tokens;
        }
        let said = view.sights.iter().skip(1).filter_map(|sight| {
            let moments = self.gauges.when_told(self.now_us, slot, sight.life, sight.age_ms);
            (!moments.is_empty()).then_some((sight.life, moments))
        });
        // Of a life that runs here and there arrivals are no measure.
        let others = self.live().filter(|(other, _, _)| *other != slot).map(|(_, peer, _)| peer.life());
        let arrived = others.map(|life| (life.to_string(), self.gauges.arrived_ms(self.now_us, slot, life)));
        FrameTruth {
            workers: FrameTruth::workers(&node.replica().expand()),
            sent: state.sent,
            loads,
            said: said.collect(),
            arrived_ms: arrived.collect(),
        }
    }

    /// I8, at every live node whose state is among the views.
    pub(super) fn check_lookups(&mut self, views: &[View]) {
        let mut queries = self.gauges.queries();
        if let Some(streams) = &mut self.kv_streams {
            queries.extend((0..QUERIES).map(|_| (crate::caches::keyspace(), streams.asked_chain())));
        }
        for slot in &mut self.slots {
            let (Some(node), Some(lookups)) = (&slot.node, &mut slot.lookups) else { continue };
            let same = |view: &&View| view.digest == node.replica().digest();
            let Some(view) = views.iter().find(same) else { continue };
            let found = lookups.check(slot.name.as_str(), &view.state, &slot.seen_loads, &queries);
            self.outcome.violations.extend(found);
        }
    }
}
