//! The simulated cluster: real nodes, virtual time, one event at a time.
//!
//! Ties in time are broken by a seeded rank, not by insertion, so that nothing comes to depend on order. Faults last
//! until `faults_ms`; then all is mended and the cluster must converge within [`CONVERGE_MS`] (I10).
//!
//! Not here: what a plan is (`plan`), what is checked (`invariants`), the drawing of requests (`traffic`).

mod checks;
mod faults;
mod gauges;
mod open;
mod requests;
mod rules;
mod traced;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use covey_crdt::id::{GatewayName, Incarnation, LifeId, Token, WorkerId};
use covey_crdt::keyspace::HashKeyId;
use covey_crdt::stamp::WallMs;
use covey_mesh::input::{Input, Link, Load, Local, Member, MonoTime};
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::note::{ClockState, Note};
use covey_mesh::output::Output;
use covey_mesh::status::Phase;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use gauges::Gauges;

use crate::invariants::{self, Lookups, Marks, Violation};
use crate::network::Network;
use crate::oracle::Oracle;
use crate::plan::{Plan, Stream};
use crate::trace::Tracer;
use crate::traffic::Traffic;
use crate::world::rules::Before;

/// Once faults stop, live replicas are clean and equal within this, in milliseconds (I10): a redial, a clock reading, a
/// repair session, once more after giving up (P6).
pub const CONVERGE_MS: u64 = 20_000;
/// Virtual wall time at the start, milliseconds since the Unix epoch.
const EPOCH_MS: u64 = 1_764_000_000_000;
/// Node processes start within this of one another, in milliseconds.
const START_MS: u64 = 300;

#[derive(Clone, Debug)]
enum Event {
    Deliver { from: LifeId, to: usize, life: LifeId, sent_us: u64, bytes: Bytes },
    Timer { node: usize },
    Start { node: usize },
    Dial { one: usize, other: usize },
    Shaken { one: usize, other: usize, a: LifeId, b: LifeId },
    LinkDead { one: usize, other: usize },
    PeerGone { node: usize, life: LifeId },
    Member { node: usize, member: Member },
    Fault { nth: usize },
    Request,
    Probe { node: usize },
    Answer { node: usize, life: LifeId, worker: usize, started_at: Incarnation, token: Token, capacity_tokens: u64 },
    Load { node: usize },
    Check { heavy: bool },
    Calm,
}

struct Slot {
    name: GatewayName,
    node: Option<Node>,
    lives: u64,
    mono_zero_us: u64,
    offset_ms: i64,
    timer_us: Option<u64>,
    marks: Marks,
    own_loads: BTreeMap<WorkerId, Load>,
    seen_loads: BTreeMap<(LifeId, WorkerId), Load>,
    /// Where the node last said its clock stands.
    clock: ClockState,
    /// Its read index, fed as a gateway feeds it.
    lookups: Option<Lookups>,
}

/// How a run is watched. Nothing here changes what happens in it.
#[derive(Default)]
pub struct Watch {
    /// Hears of every event.
    pub tracer: Option<Box<dyn Tracer>>,
    /// Leaves the block-by-block checks out while faults last: for loads whose states are too large to expand each second.
    pub is_light: bool,
    /// Leaves out what comes after this time, in virtual microseconds.
    pub until_us: Option<u64>,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What went wrong; the run stops at the first moment something does.
    pub violations: Vec<Violation>,
    /// Rolling hash over every event: equal seeds have equal hashes.
    pub trace: u64,
    /// Events carried out.
    pub events: u64,
    /// Ops published.
    pub ops: u64,
    /// Frames and their bytes.
    pub frames: u64,
    /// Bytes of all frames.
    pub bytes: u64,
    /// Virtual milliseconds from the end of faults until all replicas were clean and equal.
    pub converged_ms: Option<u64>,
    /// How often each kind of note was seen: which paths the run really took.
    pub marks: BTreeMap<&'static str, u64>,
    /// Virtual microseconds at which the run ended.
    pub ended_us: u64,
}

/// A run in progress.
pub struct World {
    plan: Plan,
    now_us: u64,
    /// What will happen: by time, seeded rank and number; with the event that was carried out when it was queued.
    queue: BTreeMap<(u64, u64, u64), (u64, Event)>,
    queued: u64,
    slots: Vec<Slot>,
    network: Network,
    oracle: Oracle,
    traffic: Traffic,
    ties: Stream,
    times: Stream,
    refusals: Stream,
    /// Nodes that have not learned yet that their connection with a life is gone.
    ghosts: BTreeSet<(usize, LifeId)>,
    tokens: Vec<u64>,
    capacities: Vec<u64>,
    calm: bool,
    outcome: Outcome,
    watch: Watch,
    gauges: Gauges,
    /// What nodes noted during the present event, for the tracer.
    noted: Vec<(usize, String)>,
}

/// Carries a plan out.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
    let mut world = World::new(plan.clone(), Watch::default());
    while world.step() {}
    world.finish().0
}

impl World {
    /// The cluster at the start of a plan.
    #[must_use]
    pub fn new(plan: Plan, watch: Watch) -> Self {
        let seed = plan.seed;
        let mut world = Self {
            now_us: 0,
            queue: BTreeMap::new(),
            queued: 0,
            slots: Vec::new(),
            network: Network::new(seed, plan.network.clone()),
            oracle: Oracle::default(),
            traffic: Traffic::new(&plan),
            ties: Stream::new(seed, "ties"),
            times: Stream::new(seed, "times"),
            refusals: Stream::new(seed, "refusals"),
            ghosts: BTreeSet::new(),
            tokens: vec![0; plan.workers],
            capacities: vec![plan.capacity_tokens; plan.workers],
            calm: false,
            outcome: Outcome::default(),
            watch,
            gauges: Gauges::new(&plan),
            noted: Vec::new(),
            plan,
        };
        for nth in 0..world.plan.nodes {
            let name = GatewayName::new(&format!("gw-{nth}")).expect("a good name");
            world.slots.push(Slot {
                name,
                node: None,
                lives: 0,
                mono_zero_us: 0,
                offset_ms: world.plan.offsets_ms[nth],
                timer_us: None,
                marks: Marks::default(),
                own_loads: BTreeMap::new(),
                seen_loads: BTreeMap::new(),
                clock: ClockState::Good,
                lookups: None,
            });
            let at = world.times.below(START_MS * 1_000);
            world.at(at, Event::Start { node: nth });
            for other in 0..nth {
                world.later(20_000, 200_000, Event::Dial { one: other, other: nth });
            }
            world.later(1_000, 400_000, Event::Probe { node: nth });
            world.later(1_000, 900_000, Event::Load { node: nth });
        }
        for nth in 0..world.plan.events.len() {
            world.at(world.plan.events[nth].at_ms * 1_000, Event::Fault { nth });
        }
        world.later(1_000, 100_000, Event::Request);
        world.at(200_000, Event::Check { heavy: false });
        world.at(1_000_000, Event::Check { heavy: true });
        world.at(world.plan.faults_ms * 1_000, Event::Calm);
        world
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.queued += 1;
        self.queue.insert((at_us, self.ties.word(), self.queued), (self.outcome.events, event));
    }

    fn later(&mut self, least_us: u64, most_us: u64, event: Event) {
        let at = self.now_us + self.times.between(least_us, most_us);
        self.at(at, event);
    }

    /// Carries one event out; `false` when the run is over.
    pub fn step(&mut self) -> bool {
        let Some(((at_us, _, _), (cause, event))) = self.queue.pop_first() else { return false };
        if self.ends_before(at_us) {
            return false;
        }
        self.now_us = at_us;
        if self.calm && self.now_us > (self.plan.faults_ms + CONVERGE_MS) * 1_000 {
            self.violation("I10", self.unequal());
        }
        self.trace(&event);
        self.outcome.events += 1;
        let step = self.watch.tracer.is_some().then(|| self.describe(cause, &event));
        self.carry_out(event);
        self.traced(step);
        self.outcome.violations.is_empty() && self.outcome.converged_ms.is_none()
    }

    fn trace(&mut self, event: &Event) {
        let mut bytes = self.now_us.to_le_bytes().to_vec();
        match event {
            Event::Deliver { from, to, bytes: frame, .. } => {
                bytes.extend_from_slice(&from.0.to_le_bytes());
                bytes.extend_from_slice(&to.to_le_bytes());
                bytes.extend_from_slice(frame);
            }
            Event::Timer { node } => bytes.extend_from_slice(&node.to_le_bytes()),
            Event::Start { .. }
            | Event::Dial { .. }
            | Event::Shaken { .. }
            | Event::LinkDead { .. }
            | Event::PeerGone { .. }
            | Event::Member { .. }
            | Event::Fault { .. }
            | Event::Request
            | Event::Probe { .. }
            | Event::Answer { .. }
            | Event::Load { .. }
            | Event::Check { .. }
            | Event::Calm => bytes.extend_from_slice(format!("{event:?}").as_bytes()),
        }
        self.outcome.trace = xxh3_64_with_seed(&bytes, self.outcome.trace);
    }

    fn carry_out(&mut self, event: Event) {
        match event {
            Event::Deliver { from, to, life, sent_us, bytes } => {
                if self.slots[to].node.as_ref().is_some_and(|node| node.life() == life) {
                    if covey_mesh::frame_kind(&bytes) == Some("Exchange") {
                        self.gauges.heard(self.now_us, to, from, sent_us);
                    }
                    self.handle(to, Input::Received { from, bytes });
                }
            }
            Event::Timer { node } => {
                self.slots[node].timer_us = None;
                self.handle(node, Input::Elapsed);
            }
            Event::Start { node } => self.start(node),
            Event::Dial { one, other } => self.dial(one, other),
            Event::Shaken { one, other, a, b } => self.shaken((one, a), (other, b)),
            Event::LinkDead { one, other } => {
                if !self.network.both_pass(one, other) {
                    self.disconnect(one, other, 0, 1_000_000);
                }
            }
            Event::PeerGone { node, life } => {
                self.ghosts.remove(&(node, life));
                self.handle(node, Input::Link(Link::Down(life)));
            }
            Event::Member { node, member } => self.handle(node, Input::Member(member)),
            Event::Fault { nth } => self.fault(self.plan.events[nth].fault),
            Event::Request => self.request(),
            Event::Probe { node } => self.probe(node),
            Event::Answer { node, life, worker, started_at, token, capacity_tokens } => {
                if self.slots[node].node.as_ref().is_some_and(|node| node.life() == life) {
                    let (worker, capacity_tokens) = (self.traffic.worker(worker), Some(capacity_tokens));
                    let probed = Local::Probed { worker, started_at, token, capacity_tokens };
                    self.handle(node, Input::Local(probed));
                }
            }
            Event::Load { node } => self.load(node),
            Event::Check { heavy } => self.check(heavy),
            Event::Calm => self.calm_down(),
        }
    }

    fn mono(&self, node: usize) -> MonoTime {
        MonoTime { us: self.now_us - self.slots[node].mono_zero_us }
    }

    fn wall(&self, node: usize) -> WallMs {
        WallMs((EPOCH_MS + self.now_us / 1_000).saturating_add_signed(self.slots[node].offset_ms))
    }

    fn start(&mut self, slot: usize) {
        if self.slots[slot].node.is_some() {
            return;
        }
        let (wall, seed) = (self.wall(slot), self.times.word());
        let life = LifeId(u128::from(seed) << 64 | u128::from(self.times.word()));
        let config = NodeConfig {
            name: self.slots[slot].name.clone(),
            cluster: "sim".to_owned(),
            key_id: HashKeyId(0),
            block_bytes: 256,
            placement_idle_ms: self.plan.idle_ms,
            expect_peers: true,
        };
        let state = &mut self.slots[slot];
        state.lives += 1;
        state.mono_zero_us = self.now_us;
        state.marks = Marks::default();
        state.own_loads.clear();
        state.seen_loads.clear();
        state.clock = ClockState::Good;
        state.lookups = (!self.watch.is_light).then(|| Lookups::new(life));
        let mut node = Node::new(config, life, seed, MonoTime::default(), wall);
        node.set_knobs(self.plan.knobs);
        state.node = Some(node);
        self.handle(slot, Input::Elapsed);
    }

    fn handle(&mut self, slot: usize, input: Input) {
        let (mono, wall) = (self.mono(slot), self.wall(slot));
        let Slot { name, node: Some(node), .. } = &mut self.slots[slot] else { return };
        let before = Before::of(node);
        node.handle(mono, wall, input);
        self.oracle.record(node);
        self.outcome.violations.extend(before.broken(name.as_str(), node));
        self.gauges.saw(self.now_us, node);
        self.collect(slot);
        let Some(node) = &self.slots[slot].node else { return };
        if let Some(deadline) = node.next_deadline() {
            let at = (self.slots[slot].mono_zero_us + deadline.us).max(self.now_us + 1);
            if self.slots[slot].timer_us.is_none_or(|timer| timer > at) {
                self.slots[slot].timer_us = Some(at);
                self.at(at, Event::Timer { node: slot });
            }
        }
    }

    fn collect(&mut self, slot: usize) {
        let Slot { name, node: Some(node), .. } = &mut self.slots[slot] else { return };
        let life = node.life();
        let outputs: Vec<Output> = std::iter::from_fn(|| node.poll_output()).collect();
        self.outcome.violations.extend(invariants::check_turn(name.as_str(), outputs.len()));
        let joining = node.phase() == Phase::Joining;
        if joining && node.retained(life, 2).into_iter().flatten().any(|(_, op)| op.stamp().is_some()) {
            let what = format!("{name} stamped before it had joined (rule e)");
            self.outcome.violations.push(Violation::new("I10", what));
        }
        let mut reborn = false;
        for output in outputs {
            match output {
                Output::Send { to, class, bytes } => {
                    self.watch_frame(slot, class, &bytes);
                    self.send(slot, life, to, bytes);
                }
                Output::Close { peer } => {
                    if let Some(other) = self.slot_of(peer) {
                        self.disconnect(slot, other, 0, 200_000);
                    }
                }
                Output::Load { life, worker, load } => {
                    if let Some(lookups) = &mut self.slots[slot].lookups {
                        lookups.load(life, &worker, load);
                    }
                    self.slots[slot].seen_loads.insert((life, worker), load);
                }
                Output::Note(note) => {
                    self.watch_note(slot, &note);
                    self.check_note(slot, &note);
                    self.mark(&note);
                }
                Output::Changed(change) => {
                    if let Some(lookups) = &mut self.slots[slot].lookups {
                        lookups.changed(change);
                    }
                }
                Output::Reborn(why) => {
                    *self.outcome.marks.entry(rebirth_mark(why)).or_default() += 1;
                    reborn = true;
                }
            }
        }
        if reborn {
            self.stop(slot);
            self.start(slot);
        }
    }

    fn slot_of(&self, life: LifeId) -> Option<usize> {
        self.slots.iter().position(|slot| slot.node.as_ref().is_some_and(|node| node.life() == life))
    }

    fn send(&mut self, from: usize, life: LifeId, to: LifeId, bytes: Bytes) {
        self.outcome.frames += 1;
        self.outcome.bytes += bytes.len() as u64;
        let Some(slot) = self.slot_of(to).filter(|slot| self.network.is_up(from, *slot)) else { return };
        for delay in self.network.arrivals_us(from, slot) {
            let event = Event::Deliver { from: life, to: slot, life: to, sent_us: self.now_us, bytes: bytes.clone() };
            self.at(self.now_us + delay, event);
        }
    }

    fn mark(&mut self, note: &Note) {
        let name = crate::marks::name(note);
        *self.outcome.marks.entry(name).or_default() += 1;
        if let Note::DigestMismatch { .. } = note {
            self.violation("I1", "a node saw different digests at equal clean vectors".to_owned());
        }
        if let Note::Malformed { .. } = note {
            self.violation("codec", "a node could not read an undamaged frame".to_owned());
        }
    }

    fn violation(&mut self, invariant: &'static str, what: String) {
        self.outcome.violations.push(Violation::new(invariant, what));
    }
}

const fn rebirth_mark(why: covey_mesh::output::Rebirth) -> &'static str {
    match why {
        covey_mesh::output::Rebirth::ClockStepped => "reborn-clock",
        covey_mesh::output::Rebirth::Forked => "reborn-forked",
        covey_mesh::output::Rebirth::Retired => "reborn-retired",
    }
}
