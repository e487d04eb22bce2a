//! Covey as a way to route: every gateway with the real core, index and policy, in virtual time.
//!
//! The network delivers each frame after a drawn delay, in order on each stream. Faults are the swarm's business; here only
//! one is played: every gateway cut off from the others.
//!
//! Not here: what one gateway does (`gateway`). Upholds: same settings, same figures.

mod gateway;

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use covey_crdt::hash::{BlockHash, HashKey};
use covey_crdt::id::{Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::lane::LaneId;
use covey_crdt::stored::{Generation, StoredKey, StoredLane, StoredOp};
use covey_gateway_plugin::ingest::Scope;
use covey_gateway_plugin::plugin::RequestKey;
use covey_mesh::feed::{FeedReport, FeedState};
use covey_mesh::input::{Input, Link, Local, Member};
use covey_mesh::output::Class;

use self::gateway::Gateway;
use super::{Arm, Decision, Request, Router};
use crate::eval::fleet::{Fleet, Sent};
use crate::eval::trace::Ask;
use crate::workload::Dice;

/// The mesh is there for so long before the first request comes, in microseconds.
const LEAD_US: u64 = 10_000_000;
/// When workers are first probed, and when engines' feeds begin, on the same clock.
const PROBE_US: u64 = 4_000_000;
const FEEDS_US: u64 = 8_000_000;
/// From an engine's step to a gateway's reading of its events, in microseconds.
const EVENT_LAG_US: u64 = 5_000;
/// A frame takes this long and, by chance, on average as much again, in microseconds.
const FRAME_US: u64 = 250;
/// From sending a request to the head of the worker's answer, which says that it took it, in microseconds.
const HEAD_US: u64 = 1_000;
/// How long the mesh has to settle after the last answer before replicas are compared, in microseconds.
const SETTLE_US: u64 = 3_000_000;

/// What a run is told besides the fleet.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// Gateways.
    pub gateways: usize,
    /// Between which times the first gateway is cut off from the others, in microseconds.
    pub cut: Option<(u64, u64)>,
}

/// What the mesh cost and came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeshFigures {
    /// Bytes that a gateway sent in a second, on average.
    pub bytes_per_gateway_per_s: f64,
    /// Frames that a gateway sent in a second, on average.
    pub frames_per_gateway_per_s: f64,
    /// From a placement's stamp to its being applied at another gateway, in milliseconds: half of them.
    pub propagation_p50_ms: u64,
    /// The same for 99 %.
    pub propagation_p99_ms: u64,
    /// Holders on which two gateways differ at the end.
    pub diverged_holders: usize,
    /// Blocks that each gateway's replica has placed or stored at the end.
    pub blocks: u64,
    /// Bytes of ops that a gateway retains at the end, the largest.
    pub log_bytes: u64,
}

enum What {
    Frame { to: usize, from: LifeId, bytes: bytes::Bytes },
    Wake { gateway: usize },
    Sample { gateway: usize },
    Accepted { gateway: usize, nth: usize },
    Linked { is_up: bool },
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
    due: BinaryHeap<Due>,
    order: u64,
    dice: Dice,
    /// When the last frame of each stream arrives.
    streams: HashMap<(usize, usize, Class), u64>,
    /// The gateways' names of the trace's blocks.
    names: HashMap<u64, BlockHash>,
    /// Batches that each engine has published.
    positions: Vec<u64>,
    /// Whether the first gateway is cut off at present.
    is_cut: bool,
    now_us: u64,
}

impl MeshRouter {
    pub(super) fn new(arm: Arm, fleet: &Fleet, setting: &Setting) -> Self {
        let model = ModelName::new("eval").expect("a good name");
        let block = fleet.config().block_tokens;
        let keyspace = Keyspace::new(model, Unit::Tokens, block, HashKey::ZERO.id()).expect("traces have block sizes");
        let is_alone = arm == Arm::CoveyIsolated || setting.gateways == 1;
        let gateways: Vec<_> = (0..setting.gateways).map(|nth| Gateway::new(nth, setting.seed, is_alone)).collect();
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
            due: BinaryHeap::new(),
            order: 0,
            dice: Dice::new(setting.seed, "eval network", 0),
            streams: HashMap::new(),
            names: HashMap::new(),
            positions: vec![0; fleet.len()],
            is_cut: false,
            now_us: 0,
        };
        if !is_alone {
            router.link();
        }
        if let Some((from_us, to_us)) = setting.cut.filter(|_| !is_alone) {
            router.at(from_us + LEAD_US, What::Linked { is_up: false });
            router.at(to_us + LEAD_US, What::Linked { is_up: true });
        }
        router.begin(fleet.config().cache_tokens);
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

    /// Cuts the first gateway off, or joins it to the others again.
    fn link_first(&mut self, is_up: bool) {
        self.is_cut = !is_up;
        let lives: Vec<_> = self.gateways.iter().map(Gateway::life).collect();
        for other in 1..lives.len() {
            for (nth, life) in [(0, lives[other]), (other, lives[0])] {
                self.handle(nth, Input::Link(if is_up { Link::Up(life) } else { Link::Down(life) }));
                self.handle(nth, Input::Member(if is_up { Member::Up(life) } else { Member::Down(life) }));
            }
        }
    }

    /// Plays until the first request may come.
    fn begin(&mut self, cache_tokens: u64) {
        for nth in 0..self.gateways.len() {
            self.wake(nth);
        }
        self.run_until(PROBE_US);
        for nth in 0..self.gateways.len() {
            for worker in self.workers.clone() {
                self.gateways[nth].plugin.worker_seen(&worker);
                let token = self.token.clone();
                self.gateways[nth].plugin.worker_probed(&worker, Incarnation::unknown(), token, Some(cache_tokens));
                if self.reads_events {
                    self.handle(nth, Input::Local(Local::Ingests { worker, can: true }));
                }
            }
            self.drain(nth);
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

    fn at(&mut self, at_us: u64, what: What) {
        self.order += 1;
        self.due.push(Due { at_us, order: self.order, what });
    }

    fn run_until(&mut self, until_us: u64) {
        while self.due.peek().is_some_and(|due| due.at_us <= until_us) {
            let Some(Due { at_us, what, .. }) = self.due.pop() else { break };
            self.now_us = at_us;
            match what {
                What::Frame { to, from, bytes } => self.handle(to, Input::Received { from, bytes }),
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
                What::Linked { is_up } => self.link_first(is_up),
                What::Batch { worker, op } => self.ingested(worker, &op),
            }
        }
        self.now_us = until_us;
    }

    fn handle(&mut self, nth: usize, input: Input) {
        let sends = self.gateways[nth].handle(self.now_us, input);
        for (to, class, bytes) in sends {
            let Some(&to) = self.by_life.get(&to) else { continue };
            if self.is_cut && (nth == 0 || to == 0) {
                continue;
            }
            let delay_us = FRAME_US + self.dice.exponential(FRAME_US as f64) as u64;
            let last_us = self.streams.entry((nth, to, class)).or_default();
            *last_us = (self.now_us + delay_us).max(*last_us + 1);
            let at_us = *last_us;
            let from = self.gateways[nth].life();
            self.at(at_us, What::Frame { to, from, bytes });
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

    /// Lets the mesh settle, and says what it came to.
    fn settle(&mut self) -> MeshFigures {
        let lasted_s = self.now_us.saturating_sub(LEAD_US).max(1) as f64 / 1e6;
        let count = self.gateways.len() as f64;
        let (bytes, frames) = self
            .gateways
            .iter()
            .fold((0, 0), |(bytes, frames), gateway| (bytes + gateway.sent_bytes, frames + gateway.sent_frames));
        self.run_until(self.now_us + SETTLE_US);
        let mut delays: Vec<u64> = self.gateways.iter().flat_map(|gateway| gateway.delays_ms.iter().copied()).collect();
        delays.sort_unstable();
        let rank =
            |percent: usize| delays.get((delays.len() * percent / 100).min(delays.len().saturating_sub(1))).copied();
        MeshFigures {
            bytes_per_gateway_per_s: bytes as f64 / count / lasted_s,
            frames_per_gateway_per_s: frames as f64 / count / lasted_s,
            propagation_p50_ms: rank(50).unwrap_or(0),
            propagation_p99_ms: rank(99).unwrap_or(0),
            diverged_holders: self
                .gateways
                .iter()
                .skip(1)
                .map(|other| self.gateways[0].differing_holders(other))
                .max()
                .unwrap_or(0),
            blocks: self.gateways.iter().map(Gateway::blocks).max().unwrap_or(0),
            log_bytes: self.gateways.iter().map(|gateway| gateway.log_bytes(self.now_us)).max().unwrap_or(0),
        }
    }
}

impl Router for MeshRouter {
    fn route(&mut self, now_us: u64, request: &Request<'_>, _: &Fleet) -> Decision {
        self.run_until(now_us + LEAD_US);
        let key = self.key(request.ask);
        let gateway = &mut self.gateways[request.gateway];
        gateway.set_time(self.now_us);
        let decision = gateway.route(request.nth, key, &self.worker_numbers);
        self.drain(request.gateway);
        decision
    }

    fn sent(&mut self, now_us: u64, request: &Request<'_>, _: usize) {
        let (gateway, nth) = (request.gateway, request.nth);
        self.at(now_us + LEAD_US + HEAD_US, What::Accepted { gateway, nth });
    }

    fn answered(&mut self, now_us: u64, request: &Request<'_>, worker: usize, sent: &Sent) {
        self.run_until(now_us + LEAD_US);
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
