//! Covey as a way to route: every gateway with the real core, index and policy, in virtual time.
//!
//! The network delivers each frame after a drawn delay, in order on each stream. Faults are the swarm's business; here only
//! one is played: every gateway cut off from the others.
//!
//! Not here: what one gateway does (`gateway`). Upholds: same settings, same figures.

mod faults;
mod gateway;
mod settle;

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use covey_crdt::hash::{BlockHash, HashKey};
use covey_crdt::id::{Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::lane::LaneId;
use covey_crdt::stored::{Generation, StoredKey, StoredLane, StoredOp};
use covey_gateway_plugin::ingest::Scope;
use covey_gateway_plugin::plugin::{REGISTERS_SETTLE, RequestKey};
use covey_mesh::feed::{FeedReport, FeedState};
use covey_mesh::input::{Input, Link, Local, Member};
use covey_mesh::output::Class;

use self::gateway::Gateway;
pub use self::settle::MeshFigures;
use super::{Arm, Decision, Harm, Request, Router, Setting, Trouble};
use crate::eval::fleet::{Fleet, Sent};
use crate::eval::trace::Ask;
use crate::workload::Dice;

/// The mesh is there for so long before the first request comes, in microseconds.
const LEAD_US: u64 = 10_000_000;
/// When workers are first probed, and when engines' feeds begin, on the same clock.
const PROBE_US: u64 = 4_000_000;
const FEEDS_US: u64 = 8_000_000;
/// Each gateway asks each worker for its load this often, 10 % more or less, in microseconds: real gateways' default.
const ASK_US: u64 = 3_000_000;
/// And this often while it does not hear all gateways.
const ASK_UNHEARD_US: u64 = 1_000_000;
/// From an engine's step to a gateway's reading of its events, in microseconds.
const EVENT_LAG_US: u64 = 5_000;
/// A frame takes this long and, by chance, on average as much again, in microseconds.
const FRAME_US: u64 = 250;
/// From sending a request to the head of the worker's answer, which says that it took it, in microseconds.
const HEAD_US: u64 = 1_000;
/// How long the mesh has to settle after the last answer before replicas are compared, in microseconds.
const SETTLE_US: u64 = 3_000_000;

enum What {
    Frame { to: LifeId, from: LifeId, bytes: bytes::Bytes },
    Wake { gateway: usize },
    Sample { gateway: usize },
    Accepted { gateway: usize, nth: usize },
    Ask { gateway: usize, worker: usize },
    Told { gateway: usize, worker: usize, requests: u32, accounted: u32 },
    Linked { is_up: bool },
    Apart,
    Replaced,
    Unheard { gateway: usize, share: f64 },
    Batch { worker: usize, op: Box<StoredOp> },
}

/// Something due at a time; equal times in the order in which they were made.
struct Due {
    at_us: u64,
    order: u64,
    what: What,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at_us, other.order).cmp(&(self.at_us, self.order))
    }
}

/// All gateways and what is between them.
pub(in crate::eval) struct MeshRouter {
    reads_events: bool,
    keyspace: Arc<Keyspace>,
    gateways: Vec<Gateway>,
    by_life: BTreeMap<LifeId, usize>,
    workers: Vec<WorkerId>,
    worker_numbers: BTreeMap<WorkerId, usize>,
    token: Token,
    cache_tokens: u64,
    setting: Setting,
    due: BinaryHeap<Due>,
    order: u64,
    dice: Dice,
    /// When the last frame of each stream arrives.
    streams: HashMap<(usize, usize, Class), u64>,
    /// The gateways' names of the trace's blocks.
    names: HashMap<u64, BlockHash>,
    /// Batches that each engine has published.
    positions: Vec<u64>,
    /// Requests that each worker has.
    under_way: Vec<u32>,
    /// Whether the first gateway is cut off at present.
    is_cut: bool,
    now_us: u64,
}

impl MeshRouter {
    pub(super) fn new(arm: Arm, fleet: &Fleet, setting: &Setting) -> Self {
        let model = ModelName::new("eval").expect("a good name");
        let block = fleet.config().block_tokens;
        let keyspace = Keyspace::new(model, Unit::Tokens, block, HashKey::ZERO.id()).expect("traces have block sizes");
        let is_alone = setting.gateways == 1;
        let gateways: Vec<_> = (0..setting.gateways).map(|nth| Gateway::new(nth, setting, 0, is_alone)).collect();
        let workers: Vec<_> =
            (0..fleet.len()).map(|nth| WorkerId::new(&format!("w{nth}"), 0).expect("a good name")).collect();
        let mut router = Self {
            reads_events: arm == Arm::CoveyEvents,
            keyspace: Arc::new(keyspace),
            by_life: gateways.iter().enumerate().map(|(nth, gateway)| (gateway.life(), nth)).collect(),
            gateways,
            worker_numbers: workers.iter().cloned().zip(0..).collect(),
            workers,
            token: Token::new("1").expect("a good token"),
            cache_tokens: fleet.config().cache_tokens,
            setting: *setting,
            due: BinaryHeap::new(),
            order: 0,
            dice: Dice::new(setting.seed, "eval network", 0),
            streams: HashMap::new(),
            names: HashMap::new(),
            positions: vec![0; fleet.len()],
            under_way: vec![0; fleet.len()],
            is_cut: false,
            now_us: 0,
        };
        if setting.gateways > 1 {
            router.link();
        }
        if arm == Arm::CoveyIsolated {
            router.at(PROBE_US, What::Apart);
        }
        match setting.trouble.filter(|_| !is_alone) {
            Some(Trouble { what: Harm::Cut, from_us, to_us }) => {
                router.at(from_us + LEAD_US, What::Linked { is_up: false });
                router.at(to_us + LEAD_US, What::Linked { is_up: true });
            }
            Some(Trouble { what: Harm::Cold, from_us, .. }) => router.at(from_us + LEAD_US, What::Replaced),
            None => {}
        }
        router.begin();
        router
    }

    fn link(&mut self) {
        let lives: Vec<_> = self.gateways.iter().map(Gateway::life).collect();
        for (nth, own) in lives.iter().enumerate() {
            for life in lives.iter().filter(|life| *life != own) {
                self.handle(nth, Input::Link(Link::Up(*life)));
                self.handle(nth, Input::Member(Member::Up(*life)));
            }
        }
    }

    /// Plays until the first request may come.
    fn begin(&mut self) {
        for nth in 0..self.gateways.len() {
            self.wake(nth);
        }
        self.run_until(PROBE_US);
        for nth in 0..self.gateways.len() {
            self.meet_workers(nth);
        }
        for gateway in 0..self.gateways.len() {
            for worker in 0..self.workers.len() {
                let first_us = PROBE_US + self.dice.below(ASK_US as usize) as u64;
                self.at(first_us, What::Ask { gateway, worker });
            }
        }
        self.run_until(FEEDS_US);
        if self.reads_events {
            for worker in 0..self.workers.len() {
                let op = self.op(worker, true, Vec::new());
                self.ingested(worker, &op);
                let report = FeedReport { state: FeedState::Exact, ..FeedReport::default() };
                for nth in 0..self.gateways.len() {
                    let worker = self.workers[worker].clone();
                    self.handle(nth, Input::Local(Local::FeedReport { worker, report }));
                }
            }
        }
        self.run_until(LEAD_US);
    }

    /// A gateway is told its workers and probes each.
    fn meet_workers(&mut self, nth: usize) {
        for worker in self.workers.clone() {
            let plugin = &self.gateways[nth].plugin;
            plugin.worker_seen(&worker);
            plugin.worker_probed(&worker, Incarnation::unknown(), self.token.clone(), Some(self.cache_tokens));
            if self.reads_events {
                self.handle(nth, Input::Local(Local::Ingests { worker, can: true }));
            }
        }
        self.drain(nth);
    }

    fn at(&mut self, at_us: u64, what: What) {
        self.order += 1;
        self.due.push(Due { at_us, order: self.order, what });
    }

    fn run_until(&mut self, until_us: u64) {
        while self.due.peek().is_some_and(|due| due.at_us <= until_us) {
            let Some(Due { at_us, what, .. }) = self.due.pop() else { break };
            self.now_us = at_us;
            match what {
                What::Frame { to, from, bytes } => {
                    if let Some(&to) = self.by_life.get(&to) {
                        self.handle(to, Input::Received { from, bytes });
                    }
                }
                What::Wake { gateway } => {
                    if self.gateways[gateway].is_due(at_us) {
                        self.handle(gateway, Input::Elapsed);
                    }
                }
                What::Sample { gateway } => {
                    for (worker, load) in self.gateways[gateway].changed_loads() {
                        self.handle(gateway, Input::Local(Local::Load { worker, load }));
                    }
                }
                What::Accepted { gateway, nth } => {
                    self.gateways[gateway].set_time(at_us);
                    self.gateways[gateway].accepted(nth);
                    self.drain(gateway);
                }
                What::Ask { gateway, worker } => self.ask(gateway, worker),
                What::Told { gateway, worker, requests, accounted } => {
                    self.gateways[gateway].set_time(at_us);
                    self.gateways[gateway].publish();
                    self.gateways[gateway].plugin.worker_told(&self.workers[worker], requests, accounted);
                }
                What::Linked { is_up } => self.link_first(is_up),
                What::Apart => self.part(),
                What::Replaced => self.replace_first(),
                What::Unheard { gateway, share } => self.gateways[gateway].plugin.set_unheard(share),
                What::Batch { worker, op } => self.ingested(worker, &op),
            }
        }
        self.now_us = until_us;
    }

    /// A gateway asks a worker how many requests it has.
    fn ask(&mut self, gateway: usize, worker: usize) {
        self.gateways[gateway].publish();
        let (requests, accounted) =
            (self.under_way[worker], self.gateways[gateway].plugin.accounted_requests(&self.workers[worker]));
        let settled_us = self.now_us + REGISTERS_SETTLE.as_micros() as u64;
        self.at(settled_us, What::Told { gateway, worker, requests, accounted });

        let is_whole = self.gateways[gateway].plugin.unheard() == 0.0;
        let pause_us = if is_whole { ASK_US } else { ASK_UNHEARD_US };
        let again_us = self.now_us + (pause_us as f64 * (0.9 + 0.2 * self.dice.unit())) as u64;
        self.at(again_us, What::Ask { gateway, worker });
    }

    fn handle(&mut self, nth: usize, input: Input) {
        let sends = self.gateways[nth].handle(self.now_us, input);
        for (life, class, bytes) in sends {
            let Some(&to) = self.by_life.get(&life) else { continue };
            if self.is_cut && (nth == 0 || to == 0) {
                continue;
            }
            let delay_us = FRAME_US + self.dice.exponential(FRAME_US as f64) as u64;
            let last_us = self.streams.entry((nth, to, class)).or_default();
            *last_us = (self.now_us + delay_us).max(*last_us + 1);
            let at_us = *last_us;
            let from = self.gateways[nth].life();
            self.at(at_us, What::Frame { to: life, from, bytes });
        }
        self.wake(nth);
    }

    /// Sees to it that a gateway is called when it wants to be.
    fn wake(&mut self, nth: usize) {
        if let Some(at_us) = self.gateways[nth].new_wake(self.now_us) {
            self.at(at_us, What::Wake { gateway: nth });
        }
    }

    /// Hands a node what its plugin published, and has the load looked at.
    fn drain(&mut self, nth: usize) {
        for local in self.gateways[nth].take_locals() {
            self.handle(nth, Input::Local(local));
        }
        if let Some(at_us) = self.gateways[nth].new_sample(self.now_us) {
            self.at(at_us, What::Sample { gateway: nth });
        }
    }

    fn ingested(&mut self, worker: usize, op: &StoredOp) {
        let id = self.workers[worker].clone();
        for nth in 0..self.gateways.len() {
            if self.gateways[nth].ingests(&id) {
                self.handle(nth, Input::Local(Local::Ingested(Box::new(op.clone()))));
            }
        }
    }

    /// The next op of an engine's feed.
    fn op(&self, worker: usize, begins: bool, lanes: Vec<StoredLane>) -> StoredOp {
        let incarnation = Incarnation { counter: 1, token: self.token.clone() };
        let position = self.positions[worker];
        let key = StoredKey { incarnation, generation: Generation::default(), position, part: 0 };
        StoredOp { worker: self.workers[worker].clone(), key, begins, is_last: true, is_complete: true, lanes }
    }

    /// What a gateway looks a request up by. Every block is filled with what its name says, so that blocks are equal where
    /// names are.
    fn key(&mut self, ask: &Ask) -> RequestKey {
        let block = self.keyspace.block_units as usize;
        let mut tokens = vec![0_u32; ask.blocks.len() * block];
        for (name, tokens) in ask.blocks.iter().zip(tokens.chunks_exact_mut(block)) {
            (tokens[0], tokens[1]) = (*name as u32, (*name >> 32) as u32);
        }
        let key = RequestKey::of_tokens(&self.keyspace, &HashKey::ZERO, Scope::default(), &tokens);
        self.names.extend(ask.blocks.iter().copied().zip(key.chain().iter().copied()));
        key
    }

    fn hashes(&self, names: &[u64]) -> Vec<BlockHash> {
        let mut hashes: Vec<_> = names.iter().filter_map(|name| self.names.get(name)).copied().collect();
        hashes.sort_unstable();
        hashes
    }
}

impl Router for MeshRouter {
    fn is_ready(&mut self, now_us: u64, gateway: usize) -> bool {
        self.run_until(now_us + LEAD_US);
        self.gateways[gateway].publish();
        !self.gateways[gateway].plugin.is_stale()
    }

    fn route(&mut self, now_us: u64, request: &Request<'_>, _: &Fleet) -> Decision {
        self.run_until(now_us + LEAD_US);
        let key = self.key(request.ask);
        let gateway = &mut self.gateways[request.gateway];
        gateway.set_time(self.now_us);
        let decision = gateway.route(request.nth, key, &self.worker_numbers);
        self.drain(request.gateway);
        decision
    }

    fn sent(&mut self, now_us: u64, request: &Request<'_>, worker: usize) {
        let (gateway, nth) = (request.gateway, request.nth);
        self.under_way[worker] += 1;
        self.at(now_us + LEAD_US + HEAD_US, What::Accepted { gateway, nth });
    }

    fn answered(&mut self, now_us: u64, request: &Request<'_>, worker: usize, sent: &Sent) {
        self.run_until(now_us + LEAD_US);
        self.under_way[worker] -= 1;
        self.gateways[request.gateway].set_time(self.now_us);
        self.gateways[request.gateway].answered(request.nth);
        self.drain(request.gateway);
        if self.reads_events {
            self.positions[worker] += 1;
            let (added, removed) = (self.hashes(&sent.touched.added), self.hashes(&sent.touched.removed));
            let lane = StoredLane { keyspace: Arc::clone(&self.keyspace), lane: LaneId::PLAIN, added, removed };
            let op = Box::new(self.op(worker, false, vec![lane]));
            self.at(self.now_us + EVENT_LAG_US, What::Batch { worker, op });
        }
    }

    fn finish(&mut self) -> Option<MeshFigures> {
        Some(self.settle())
    }
}
