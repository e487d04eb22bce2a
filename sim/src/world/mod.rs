//! The simulated cluster: real nodes, virtual time, one event at a time.
//!
//! A run has four phases: faults, until `faults_ms`; the calm in which all but a minority is mended; convergence, within
//! a bound that depends on the plan (I10, `bound`); and quiet, in which the cluster must stay converged and send no more
//! than its heartbeat.
//!
//! Not here: what a plan is (`plan`), what is checked (`invariants`), the drawing of requests (`traffic`).

mod bound;
mod calm;
mod checks;
mod clock;
mod event;
mod faults;
mod film;
mod frames;
mod gauges;
mod links;
mod lives;
mod open;
mod queue;
mod requests;
mod rules;
mod slot;
mod streams;
mod traced;

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::id::{GatewayName, LifeId};
use covey_crdt::stamp::WallMs;
use covey_mesh::input::{Input, Member, MonoTime};
use covey_mesh::note::Note;
use covey_mesh::output::{Class, Output, Rebirth};
use covey_mesh::status::Phase;

use crate::invariants::{self, Violation};
use crate::marks;
use crate::network::{Arrival, Network};
use crate::oracle::Oracle;
use crate::plan::{Plan, Stream};
use crate::trace::Tracer;
use crate::traffic::Traffic;
use clock::Clock;
use event::{Event, Next};
use gauges::Gauges;
use queue::Queue;
use rules::Before;
use slot::Slot;
use streams::Streams;

pub use bound::CONVERGE_MS;
pub use film::Shot;

/// Node processes start within this of one another, in milliseconds.
const START_MS: u64 = 300;

/// How a run is watched. Nothing here changes what happens in it.
#[derive(Default)]
pub struct Watch {
    /// Hears of every event.
    pub tracer: Option<Box<dyn Tracer>>,
    /// Leaves the dear checks out while faults last, and the read indexes: for loads whose states are too large to look
    /// at again and again.
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
    /// Core events: inputs given to nodes and outputs taken from them.
    pub core_events: u64,
    /// Ops published.
    pub ops: u64,
    /// Frames sent.
    pub frames: u64,
    /// Bytes of all frames.
    pub bytes: u64,
    /// Virtual milliseconds from the end of faults until all replicas were clean and equal.
    pub converged_ms: Option<u64>,
    /// Within how many it had to be.
    pub bound_ms: u64,
    /// Frames and bytes sent from the end of faults until then.
    pub converge_sent: (u64, u64),
    /// How often each mark was left: which paths the run really took.
    pub marks: BTreeMap<&'static str, u64>,
    /// Virtual microseconds at which the run ended.
    pub ended_us: u64,
}

/// Draws of one concern each, so that leaving one out does not shift the others.
struct Draws {
    starts: Stream,
    dials: Stream,
    deaths: Stream,
    members: Stream,
    probes: Stream,
    loads: Stream,
    faults: Stream,
    looks: Stream,
    refusals: Stream,
}

impl Draws {
    fn new(seed: u64) -> Self {
        let stream = |concern: &str| Stream::new(seed, concern);
        Self {
            starts: stream("starts"),
            dials: stream("dials"),
            deaths: stream("deaths"),
            members: stream("membership"),
            probes: stream("probing"),
            loads: stream("loading"),
            faults: stream("faulting"),
            looks: stream("looks"),
            refusals: stream("refusals"),
        }
    }
}

/// An engine behind a worker's address.
#[derive(Clone, Debug)]
struct Engine {
    /// The numbers of the tokens it had, in order; the last is its own.
    tokens: Vec<u64>,
    capacity_tokens: u64,
    /// Whether two engines answer at the moment, and whether they ever did.
    flaps: bool,
    flapped: bool,
    /// Whether discovery does not list it at the moment, and whether it ever did not.
    removed: bool,
    was_removed: bool,
    /// How often an operator had its incarnation raised.
    raised: usize,
}

impl Engine {
    /// How often gateways had reason to take its cache for another one, the first time included.
    const fn changes(&self) -> usize {
        self.tokens.len() + self.raised
    }
}

/// A run in progress.
pub struct World {
    plan: Plan,
    now_us: u64,
    /// What will happen, and the event in which it was decided.
    queue: Queue<(u64, Event)>,
    slots: Vec<Slot>,
    /// The life that runs in each slot.
    who: Vec<Option<LifeId>>,
    network: Network,
    oracle: Oracle,
    traffic: Traffic,
    draws: Draws,
    /// Nodes that have not learned yet that their connection with a life is gone.
    ghosts: BTreeSet<(usize, LifeId)>,
    engines: Vec<Engine>,
    /// Engines' events, where the plan has them.
    kv_streams: Option<Streams>,
    calm: bool,
    /// When it converged, when it was last seen so, in microseconds.
    quiet: Option<calm::Quiet>,
    /// Whether frames are counted against the heartbeat.
    measuring: bool,
    /// How often the watch over the quiet cluster may begin again because something happened.
    watches_left: u32,
    /// When a node last began anew because its life was retired.
    retired_us: Option<u64>,
    arrivals: Vec<Arrival>,
    copies_left: u32,
    /// When the last frame of a class between two nodes arrives, where order is kept.
    streams: BTreeMap<(usize, usize, Class), u64>,
    over: bool,
    outcome: Outcome,
    watch: Watch,
    gauges: Gauges,
    /// What nodes noted during the present event, for the tracer.
    noted: Vec<(usize, String)>,
}

/// Carries a plan out. A panic of the core is a violation like any other.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
    let mut world = World::new(plan.clone(), Watch::default());
    world.run_out();
    world.finish().0
}

impl World {
    /// The cluster at the start of a plan.
    #[must_use]
    pub fn new(plan: Plan, watch: Watch) -> Self {
        let seed = plan.seed;
        let engine = Engine {
            tokens: vec![0],
            capacity_tokens: plan.capacity_tokens,
            flaps: false,
            flapped: false,
            removed: false,
            was_removed: false,
            raised: 0,
        };
        let mut world = Self {
            now_us: 0,
            queue: Queue::new(Stream::new(seed, "ties")),
            slots: Vec::new(),
            who: vec![None; plan.nodes],
            network: Network::new(seed, plan.nodes, plan.network.clone()),
            oracle: Oracle::default(),
            traffic: Traffic::new(&plan),
            draws: Draws::new(seed),
            ghosts: BTreeSet::new(),
            engines: vec![engine; plan.workers],
            kv_streams: plan.feeds.map(|feeds| Streams::new(seed, plan.workers, feeds)),
            calm: false,
            quiet: None,
            measuring: false,
            watches_left: calm::WATCHES_MAX,
            retired_us: None,
            arrivals: Vec::new(),
            copies_left: frames::COPIES_MAX,
            streams: BTreeMap::new(),
            over: false,
            outcome: Outcome::default(),
            watch,
            gauges: Gauges::new(&plan),
            noted: Vec::new(),
            plan,
        };
        world.outcome.bound_ms = bound::before(&world.plan);
        if !world.plan.starts_ms.is_empty() {
            world.mark(marks::JOIN_STORM);
        }
        for nth in 0..world.plan.nodes {
            world.add_slot(nth);
        }
        for nth in 0..world.plan.events.len() {
            world.at(world.plan.events[nth].at_ms * 1_000, Event::Fault { nth });
        }
        for nth in 0..world.plan.slow.len() {
            world.next_in(world.plan.slow[nth].every_ms * 1_000, Next::Stall { nth });
        }
        for worker in 0..if world.kv_streams.is_some() { world.plan.workers } else { 0 } {
            world.at(60_000 + 7_000 * worker as u64, Event::Engine { worker });
        }
        world.at(50_000, Event::Request);
        world.at(200_000, Event::Check { heavy: false });
        world.at(1_000_000, Event::Check { heavy: true });
        world.at(world.plan.faults_ms * 1_000, Event::Calm);
        world
    }

    fn add_slot(&mut self, nth: usize) {
        let name = GatewayName::new(&format!("gw-{nth}")).expect("a good name");
        let offset_ms = self.plan.offsets_ms.get(nth).copied().unwrap_or(0);
        let drift_ppm = self.plan.drifts_ppm.get(nth).copied().unwrap_or(0);
        self.slots.push(Slot::new(name, Clock::new(offset_ms, drift_ppm)));
        let soon = self.draws.starts.below(START_MS * 1_000);
        let at = self.plan.starts_ms.get(nth).map_or(soon, |ms| ms * 1_000);
        self.at(at, Event::Start { node: nth });
        for other in 0..nth {
            let at = self.draws.dials.between(20_000, 200_000);
            self.at(at, Event::Dial { one: other, other: nth });
        }
        let (probe, load) = (self.draws.probes.between(1_000, 400_000), self.draws.loads.between(1_000, 900_000));
        self.at(probe, Event::Probe { node: nth });
        self.at(load, Event::Load { node: nth });
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.queue.push(at_us, (self.outcome.events, event));
    }

    fn after(&mut self, us: u64, event: Event) {
        self.at(self.now_us + us, event);
    }

    fn next_in(&mut self, us: u64, next: Next) {
        self.after(us, Event::Next(next));
    }

    /// Carries one event out; `false` when the run is over.
    pub fn step(&mut self) -> bool {
        let Some((at_us, (cause, event))) = self.queue.pop() else { return false };
        if self.ends_before(at_us) {
            return false;
        }
        self.now_us = at_us;
        if let Event::Timer { node } = event
            && self.slots[node].timer_us != Some(at_us)
        {
            return true;
        }
        self.outcome.trace = event.trace(at_us, self.outcome.trace);
        self.outcome.events += 1;
        let step = self.is_traced().then(|| self.describe(cause, &event));
        self.carry_out(event);
        self.tend_streams();
        self.traced(step);
        self.outcome.violations.is_empty() && !self.over
    }

    fn carry_out(&mut self, event: Event) {
        match event {
            Event::Deliver(frame) => self.deliver(&frame),
            Event::Timer { node } => {
                self.slots[node].timer_us = None;
                self.handle(node, Input::Elapsed);
            }
            Event::Start { node } => self.start(node),
            Event::Dial { one, other } => self.dial(one, other),
            Event::Shaken { one, other, a, b } => self.shaken((one, a), (other, b)),
            Event::LinkDead { one, other } => self.link_dead(one, other),
            Event::PeerGone { node, life } => self.peer_gone(node, life),
            Event::Member { node, member } => self.handle(node, Input::Member(member)),
            Event::Missed { node, life } => {
                if !self.who.contains(&Some(life)) {
                    self.handle(node, Input::Member(Member::Down(life)));
                }
            }
            Event::Fault { nth } => {
                if !self.calm {
                    self.fault(self.plan.events[nth].fault);
                }
            }
            Event::Next(next) => {
                if !self.calm {
                    self.next(next);
                }
            }
            Event::Blocked { node, to } => self.blocked(node, to),
            Event::Writable { node, to } => self.writable(node, to),
            Event::Stall { broken } => self.stall(broken),
            Event::Resume { node } => self.resume(node),
            Event::Request => self.request(),
            Event::Engine { worker } => self.engine_step(worker),
            Event::Feed(event) => self.feed_event(*event),
            Event::Probe { node } => self.probe(node),
            Event::Answer(answer) => self.answer(*answer),
            Event::Load { node } => self.load(node),
            Event::Check { heavy } => self.check(heavy),
            Event::Calm => self.calm_down(),
        }
    }

    fn mono(&self, node: usize) -> MonoTime {
        MonoTime { us: self.now_us - self.slots[node].mono_zero_us }
    }

    fn wall(&self, node: usize) -> WallMs {
        self.slots[node].clock.wall(self.now_us)
    }

    fn handle(&mut self, nth: usize, input: Input) {
        let (mono, wall) = (self.mono(nth), self.wall(nth));
        let slot = &mut self.slots[nth];
        let Some(node) = &mut slot.node else { return };
        if slot.pause.is_some() {
            return slot.wait(input);
        }
        let before = Before::of(node);
        node.handle(mono, wall, input);
        self.outcome.core_events += 1;
        self.outcome.violations.extend(before.broken(slot.name.as_str(), node));
        self.oracle.record_branch(node, slot.branch);
        self.gauges.saw(self.now_us, node);
        self.collect(nth);
        self.set_timer(nth);
    }

    fn set_timer(&mut self, nth: usize) {
        let slot = &mut self.slots[nth];
        let Some(deadline) = slot.node.as_ref().and_then(|node| node.next_deadline()) else { return };
        let at = (slot.mono_zero_us + deadline.us).max(self.now_us + 1);
        if slot.timer_us.is_none_or(|timer| timer > at) {
            slot.timer_us = Some(at);
            self.at(at, Event::Timer { node: nth });
        }
    }

    fn collect(&mut self, nth: usize) {
        let Some(life) = self.who[nth] else { return };
        self.check_joining(nth, life);
        let (mut outputs, mut frames, mut reborn, mut unclosed) = (0, 0, None, None);
        while let Some(output) = self.slots[nth].node.as_mut().and_then(|node| node.poll_output()) {
            outputs += 1;
            match output {
                Output::Send { to, class, bytes } => {
                    frames += 1;
                    let sent = &mut self.slots[nth].sent[class as usize];
                    *sent = (sent.0 + 1, sent.1 + bytes.len() as u64);
                    self.watch_frame(nth, class, &bytes);
                    self.send(nth, life, to, class, bytes);
                }
                Output::Close { peer } => {
                    unclosed = unclosed.filter(|malformed| *malformed != peer);
                    self.close(nth, peer);
                }
                Output::Load { life, worker, load } => {
                    let load = load.unwrap_or_default();
                    if let Some(lookups) = &mut self.slots[nth].lookups {
                        lookups.load(life, &worker, load);
                    }
                    self.slots[nth].seen_loads.insert((life, worker), load);
                }
                Output::Note(note) => {
                    if let Note::Malformed { peer, .. } = note {
                        unclosed = Some(peer);
                    }
                    if let Note::RepairDone { donor, .. } = note {
                        self.oracle.inherit(life, donor);
                    }
                    self.watch_note(nth, &note);
                    self.check_note(nth, &note);
                    self.note(nth, &note);
                }
                Output::Feed(order) => self.note_feed_order(nth, order),
                Output::Changed(change) => {
                    self.note_feed_change(nth, &change);
                    if let Some(lookups) = &mut self.slots[nth].lookups {
                        lookups.changed(change);
                    }
                }
                Output::Reborn(why) => reborn = Some(why),
            }
        }
        if unclosed.is_some() {
            self.violation("codec", format!("{} kept a link whose frame did not parse", self.slots[nth].name));
        }
        self.outcome.core_events += outputs;
        self.outcome.violations.extend(invariants::check_turn(self.slots[nth].name.as_str(), frames));
        if let Some(why) = reborn {
            self.mark(match why {
                Rebirth::ClockStepped => "reborn-clock",
                Rebirth::Forked => "reborn-forked",
                Rebirth::Retired => "reborn-retired",
                Rebirth::Apart => "reborn-apart",
            });
            self.check_rebirth(nth, why);
            self.stop(nth);
            self.start(nth);
        }
    }

    /// Rule (e): nothing is stamped before the node has joined.
    fn check_joining(&mut self, nth: usize, life: LifeId) {
        let Some(node) = &self.slots[nth].node else { return };
        let stamped = || node.retained(life, 2).into_iter().flatten().any(|(_, op)| op.stamp().is_some());
        if node.phase() == Phase::Joining && stamped() {
            self.violation("I10", format!("{} stamped before it had joined (rule e)", self.slots[nth].name));
        }
    }

    fn note(&mut self, nth: usize, note: &Note) {
        self.mark(marks::name(note));
        if let Note::DigestMismatch { .. } = note
            && !self.oracle.forks()
        {
            self.violation("I1", "a node saw different digests at equal clean vectors".to_owned());
        }
        if let Note::Malformed { .. } = note
            && self.plan.network.corruption.is_none()
        {
            self.violation("codec", format!("{} could not read an undamaged frame", self.slots[nth].name));
        }
    }

    fn mark(&mut self, mark: &'static str) {
        self.mark_many(mark, 1);
    }

    fn mark_many(&mut self, mark: &'static str, times: u64) {
        if times > 0 {
            *self.outcome.marks.entry(mark).or_default() += times;
        }
    }

    fn violation(&mut self, invariant: &'static str, what: String) {
        self.outcome.violations.push(Violation::new(invariant, what));
    }
}
