//! Engines' events on their way to the gateways that ingest them: subscriptions and replays, with what can go wrong there,
//! and the intakes of each node.
//!
//! The intake is the gateway's own; sockets are delays and chances. What an intake wants is done after the present event,
//! so a node is never entered twice at once.
//!
//! Not here: what an engine holds (`caches`), whether the outcome is right (`invariants::i7_stored`).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use covey_crdt::change::{Change, FeedView};
use covey_crdt::hash::HashKey;
use covey_crdt::id::{Incarnation, LifeId, ModelName, WorkerId};
use covey_gateway_plugin::ingest::intake::{
    Arrival, Batch, Input as In, Intake, IntakeConfig, Output as Out, Phase, ReplayEnd,
};
use covey_gateway_plugin::ingest::{CacheRules, Event as KvEvent};
use covey_mesh::feed::{FeedReport, FeedState, Role};
use covey_mesh::input::{Input, Local};
use covey_mesh::output::FeedOrder;

use super::World;
use super::event::Event;
use crate::caches::{Cache, any_chain, keyspace};
use crate::invariants::{Known, Told};
use crate::marks;
use crate::plan::{FeedPlan, Stream};

/// An intake reports this often, in microseconds.
const REPORT_US: u64 = 500_000;
/// From asking an engine for a subscription to having it, in microseconds.
const CONNECT_US: (u64, u64) = (2_000, 400_000);
/// A refused or broken subscription is tried again within this, in microseconds.
const RETRY_US: (u64, u64) = (100_000, 600_000);

/// One node's reading of one worker.
pub(super) struct Reading {
    intake: Intake,
    /// Which connection; what belongs to an earlier one is void.
    epoch: u64,
    connected: bool,
    /// Whether a timer waits, and for when.
    timer_us: Option<u64>,
    /// When the last message on this connection arrives: it keeps order.
    last_us: u64,
}

/// What reaches an intake, or is due for it.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    Connect,
    Message(Box<Batch>),
    Replayed { ask: u64, batch: Box<Batch> },
    ReplayEnded { ask: u64, how: ReplayEnd },
    Lost,
    Timer,
    Report,
}

impl Doing {
    /// The word for it in traces.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Message(_) => "message",
            Self::Replayed { .. } => "replayed",
            Self::ReplayEnded { .. } => "replay-ended",
            Self::Lost => "lost",
            Self::Timer => "timer",
            Self::Report => "report",
        }
    }

    /// The number of the batch it carries.
    pub(super) fn seq(&self) -> Option<u64> {
        match self {
            Self::Message(batch) | Self::Replayed { batch, .. } => Some(batch.seq),
            Self::Connect | Self::ReplayEnded { .. } | Self::Lost | Self::Timer | Self::Report => None,
        }
    }
}

/// Something for an intake at a moment.
#[derive(Clone, Debug)]
pub(super) struct FeedEvent {
    pub(super) node: usize,
    pub(super) life: LifeId,
    pub(super) worker: usize,
    pub(super) epoch: u64,
    pub(super) doing: Doing,
}

/// What a node said that concerns its intakes.
pub(super) enum Task {
    Order(FeedOrder),
    Feed(WorkerId, Option<FeedView>),
    Incarnation(WorkerId, Incarnation),
}

/// All that ring 1 knows of engines' events.
pub(super) struct Streams {
    plan: FeedPlan,
    /// Every life of every engine; the last is the present one.
    pub(super) engines: Vec<Vec<Cache>>,
    readings: BTreeMap<(usize, usize), Reading>,
    pub(super) todo: Vec<(usize, Task)>,
    epochs: u64,
    draw: Stream,
    chances: Stream,
    asks: Stream,
}

impl Streams {
    pub(super) fn new(seed: u64, workers: usize, plan: FeedPlan) -> Self {
        let engine = |nth| vec![Cache::new(0, nth as u64 + 1, plan.copies as usize, plan.kept as usize)];
        Self {
            engines: (0..workers).map(engine).collect(),
            readings: BTreeMap::new(),
            todo: Vec::new(),
            epochs: 0,
            draw: Stream::new(seed, "engine steps"),
            chances: Stream::new(seed, "streams"),
            asks: Stream::new(seed, "stream asks"),
            plan,
        }
    }

    /// A chain that engines may hold, for placements that bridge their events.
    pub(super) fn any_chain(&mut self) -> Vec<covey_crdt::hash::BlockHash> {
        any_chain(&mut self.draw)
    }

    /// A chain to look up.
    pub(super) fn asked_chain(&mut self) -> Vec<covey_crdt::hash::BlockHash> {
        any_chain(&mut self.asks)
    }

    fn arrives(&mut self, now_us: u64, node: usize, worker: usize) -> u64 {
        let delay_us = self.plan.delay_ms * 1_000 + self.chances.below(self.plan.jitter_ms * 1_000 + 1) + 100;
        let Some(reading) = self.readings.get_mut(&(node, worker)) else { return now_us + delay_us };
        reading.last_us = (now_us + delay_us).max(reading.last_us + 1);
        reading.last_us
    }
}

fn batch(seq: u64, life: u64, events: &[KvEvent]) -> Box<Batch> {
    let print = xxhash_rust::xxh3::xxh3_64_with_seed(&seq.to_le_bytes(), life);
    Box::new(Batch { seq, print, events: events.to_vec(), bytes: 100, ..Batch::default() })
}

impl World {
    /// An engine's scheduler steps.
    pub(super) fn engine_step(&mut self, worker: usize) {
        let Some(streams) = &mut self.kv_streams else { return };
        if self.calm {
            return;
        }
        let gap_us = 1_000_000 / streams.plan.batches_per_s.max(1);
        let gap_us = gap_us / 2 + streams.draw.below(gap_us + 1);
        let cache = streams.engines[worker].last_mut().expect("an engine has a life");
        let (seq, events) = cache.step(&mut streams.draw);
        let life = streams.engines[worker].len() as u64;
        let readers: Vec<usize> = streams
            .readings
            .iter()
            .filter(|((_, of), r)| *of == worker && r.connected)
            .map(|((node, _), _)| *node)
            .collect();
        let mut deliveries = Vec::new();
        for node in readers {
            if streams.chances.chance(streams.plan.loss) {
                continue;
            }
            let copies = 1 + u64::from(streams.chances.chance(streams.plan.duplicate));
            for _ in 0..copies {
                let at_us = streams.arrives(self.now_us, node, worker);
                deliveries.push((node, at_us, Doing::Message(batch(seq, life, &events))));
            }
        }
        for (node, at_us, doing) in deliveries {
            self.feed_at(at_us, node, worker, doing);
        }
        self.after(gap_us, Event::Engine { worker });
    }

    /// The engine behind a worker is another process now.
    pub(super) fn engine_restarts(&mut self, worker: usize) {
        let token = *self.engines[worker].tokens.last().expect("it has had a token");
        let Some(streams) = &mut self.kv_streams else { return };
        let nth = streams.engines[worker].len() as u64;
        let life = (worker as u64 + 1) << 16 | nth;
        streams.engines[worker].push(Cache::new(token, life, streams.plan.copies as usize, streams.plan.kept as usize));
        let readers: Vec<usize> =
            streams.readings.keys().filter(|(_, of)| *of == worker).map(|(node, _)| *node).collect();
        for node in readers {
            let us = self.draws.faults.below(20_000);
            self.feed_at(self.now_us + us, node, worker, Doing::Lost);
        }
    }

    /// A subscription breaks, and nobody knows why.
    pub(super) fn unsubscribe(&mut self, node: usize, worker: usize) {
        self.feed_at(self.now_us + 1, node, worker, Doing::Lost);
    }

    fn feed_at(&mut self, at_us: u64, node: usize, worker: usize, doing: Doing) {
        let Some(life) = self.who[node] else { return };
        let Some(reading) = self.kv_streams.as_ref().and_then(|streams| streams.readings.get(&(node, worker))) else {
            return;
        };
        let event = FeedEvent { node, life, worker, epoch: reading.epoch, doing };
        self.at(at_us, Event::Feed(Box::new(event)));
    }

    /// Something reaches an intake. One whose node is paused reads it later.
    pub(super) fn feed_event(&mut self, event: FeedEvent) {
        let FeedEvent { node, life, worker, epoch, doing } = event;
        if self.who[node] != Some(life) {
            return;
        }
        if self.slots[node].pause.is_some() {
            let event = FeedEvent { node, life, worker, epoch, doing };
            return self.after(20_000, Event::Feed(Box::new(event)));
        }
        let (mono, now_us) = (self.mono(node), self.now_us);
        let Some(streams) = &mut self.kv_streams else { return };
        let Some(reading) = streams.readings.get_mut(&(node, worker)) else { return };
        let is_void = reading.epoch != epoch && !matches!(doing, Doing::Timer | Doing::Report);
        if is_void {
            return;
        }
        match doing {
            Doing::Connect => {
                reading.connected = true;
                reading.last_us = 0;
                reading.intake.handle(mono, In::Connected);
            }
            Doing::Message(batch) => reading.intake.handle(mono, In::Message(Arrival::Batch(batch))),
            Doing::Replayed { ask, batch } => {
                reading.intake.handle(mono, In::Replayed { ask, arrival: Arrival::Batch(batch) });
            }
            Doing::ReplayEnded { ask, how } => reading.intake.handle(mono, In::ReplayEnded { ask, how }),
            Doing::Lost => {
                reading.intake.handle(mono, In::Lost);
                self.reconnect(node, worker);
            }
            Doing::Timer => {
                if reading.timer_us.is_none_or(|timer| timer > now_us) {
                    return;
                }
                reading.timer_us = None;
                reading.intake.handle(mono, In::Elapsed);
            }
            Doing::Report => {
                self.report_feed(node, worker);
                self.feed_at(now_us + REPORT_US, node, worker, Doing::Report);
            }
        }
        self.pump_intake(node, worker);
    }

    fn reconnect(&mut self, node: usize, worker: usize) {
        let Some(streams) = &mut self.kv_streams else { return };
        streams.epochs += 1;
        let wait_us = streams.chances.between(RETRY_US.0, RETRY_US.1);
        if let Some(reading) = streams.readings.get_mut(&(node, worker)) {
            (reading.epoch, reading.connected) = (streams.epochs, false);
            self.feed_at(self.now_us + wait_us, node, worker, Doing::Connect);
        }
    }

    fn report_feed(&mut self, node: usize, worker: usize) {
        let now = self.mono(node);
        let Some(reading) = self.kv_streams.as_ref().and_then(|streams| streams.readings.get(&(node, worker))) else {
            return;
        };
        let state = reading.intake.state();
        let report = FeedReport {
            state: match state.phase {
                Phase::Exact => FeedState::Exact,
                Phase::Gap => FeedState::Gap,
                Phase::Bootstrapping => FeedState::Bootstrapping,
                Phase::Stale => FeedState::Stale,
            },
            since_ms: now.since_ms(state.since),
            proven_ms: None,
            lag_ms: None,
            position: reading.intake.key().map_or(0, |key| key.position),
        };
        let worker = self.traffic.worker(worker);
        self.handle(node, Input::Local(Local::FeedReport { worker, report }));
    }

    /// Does what an intake wants.
    fn pump_intake(&mut self, node: usize, worker: usize) {
        loop {
            let streams = self.kv_streams.as_mut().expect("an intake is pumped where there are streams");
            let Some(reading) = streams.readings.get_mut(&(node, worker)) else { return };
            let Some(output) = reading.intake.poll_output() else { break };
            let id = self.traffic.worker(worker);
            match output {
                Out::Ask { ask, from } => self.replay(node, worker, ask, from),
                Out::AskHandOff => self.handle(node, Input::Local(Local::AskHandOff { worker: id })),
                Out::Reconnect => self.reconnect(node, worker),
                Out::Publish(op) => self.handle(node, Input::Local(Local::Ingested(Box::new(op)))),
                Out::Reset => self.handle(node, Input::Local(Local::Reset { worker: id })),
                Out::Probe => self.probe_one(node, worker),
                Out::State(_) => self.report_feed(node, worker),
                Out::Note(note) => self.mark(marks::of_intake(&note)),
            }
        }
        let (now_us, zero_us) = (self.now_us, self.slots[node].mono_zero_us);
        let streams = self.kv_streams.as_mut().expect("looked at above");
        let Some(reading) = streams.readings.get_mut(&(node, worker)) else { return };
        let due = reading.intake.next_deadline().map(|due| (zero_us + due.us).max(now_us + 1));
        if let Some(due) = due.filter(|due| reading.timer_us.is_none_or(|timer| timer > *due)) {
            reading.timer_us = Some(due);
            self.feed_at(due, node, worker, Doing::Timer);
        }
    }

    /// An engine answers a replay: whole, cut short, or not at all.
    fn replay(&mut self, node: usize, worker: usize, ask: u64, from: u64) {
        let (now_us, calm) = (self.now_us, self.calm);
        let Some(streams) = &mut self.kv_streams else { return };
        let faulty = |chance: f64, chances: &mut Stream| !calm && chances.chance(chance);
        if faulty(streams.plan.replay_lost, &mut streams.chances) {
            return;
        }
        let life = streams.engines[worker].len() as u64;
        let cache = streams.engines[worker].last().expect("an engine has a life");
        let mut answers: Vec<Box<Batch>> = cache.replay(from).map(|(seq, events)| batch(*seq, life, events)).collect();
        let cut = faulty(streams.plan.replay_cut, &mut streams.chances);
        if cut {
            let keep = streams.chances.index(answers.len() + 1);
            answers.truncate(keep);
        }
        let mut at_us = now_us + 1_000 + streams.chances.below(100_000);
        for batch in answers {
            at_us += 50;
            self.feed_at(at_us, node, worker, Doing::Replayed { ask, batch });
        }
        if !cut {
            self.feed_at(at_us + 50, node, worker, Doing::ReplayEnded { ask, how: ReplayEnd::Marked });
        }
    }

    /// What nodes said of feeds during this event.
    pub(super) fn tend_streams(&mut self) {
        while let Some((node, task)) = self
            .kv_streams
            .as_mut()
            .and_then(|streams| if streams.todo.is_empty() { None } else { Some(streams.todo.remove(0)) })
        {
            self.feed_task(node, task);
        }
    }

    pub(super) fn note_feed_change(&mut self, node: usize, change: &Change) {
        let Some(streams) = &mut self.kv_streams else { return };
        match change {
            Change::Feed { worker, feed } => streams.todo.push((node, Task::Feed(worker.clone(), feed.clone()))),
            Change::Worker(view) => {
                streams.todo.push((node, Task::Incarnation(view.worker.clone(), view.incarnation.clone())));
            }
            Change::Run { .. }
            | Change::RunFreed { .. }
            | Change::Holder { .. }
            | Change::HolderFreed { .. }
            | Change::Reach { .. }
            | Change::Stored { .. }
            | Change::WorkerFreed { .. } => {}
        }
    }

    pub(super) fn note_feed_order(&mut self, node: usize, order: FeedOrder) {
        if let Some(streams) = &mut self.kv_streams {
            streams.todo.push((node, Task::Order(order)));
        }
    }

    fn feed_task(&mut self, node: usize, task: Task) {
        let mono = self.mono(node);
        let (worker, input) = match task {
            Task::Order(FeedOrder::Role { worker, role }) => return self.set_reading(node, &worker, role),
            Task::Order(FeedOrder::Export { to, worker }) => return self.export(node, to, worker),
            Task::Order(FeedOrder::HandedOff { worker, state }) => (worker, In::HandedOff(state)),
            Task::Order(FeedOrder::Restart { worker }) => (worker, In::Restart),
            Task::Feed(worker, feed) => (worker, In::Feed(feed)),
            Task::Incarnation(worker, incarnation) => (worker, In::Incarnation(incarnation)),
        };
        let Some(nth) = self.worker_number(&worker) else { return };
        let Some(streams) = &mut self.kv_streams else { return };
        if let Some(reading) = streams.readings.get_mut(&(node, nth)) {
            reading.intake.handle(mono, input);
            self.pump_intake(node, nth);
        }
    }

    fn worker_number(&self, worker: &WorkerId) -> Option<usize> {
        (0..self.engines.len()).find(|nth| self.traffic.worker(*nth) == *worker)
    }

    fn export(&mut self, node: usize, to: LifeId, worker: WorkerId) {
        let Some(nth) = self.worker_number(&worker) else { return };
        let reading = self.kv_streams.as_ref().and_then(|streams| streams.readings.get(&(node, nth)));
        let state = reading.and_then(|reading| reading.intake.export()).map(Bytes::from);
        if state.is_some() {
            self.mark(marks::HAND_OFF);
        }
        self.handle(node, Input::Local(Local::HandOff { to, worker, state }));
    }

    /// A node begins to read a worker's events, or stops.
    fn set_reading(&mut self, node: usize, worker: &WorkerId, role: Role) {
        let (Some(nth), Some(life)) = (self.worker_number(worker), self.who[node]) else { return };
        let mono = self.mono(node);
        let Some(streams) = &mut self.kv_streams else { return };
        if !role.ingests() {
            streams.readings.remove(&(node, nth));
            return;
        }
        if streams.readings.contains_key(&(node, nth)) {
            return;
        }
        let config = IntakeConfig {
            worker: worker.clone(),
            model: ModelName::new("large").expect("a good name"),
            key: HashKey::ZERO,
            rules: CacheRules::default(),
            life,
            rank: None,
            has_replay: true,
        };
        streams.epochs += 1;
        let intake = Intake::new(config);
        let reading = Reading { intake, epoch: streams.epochs, connected: false, timer_us: None, last_us: 0 };
        streams.readings.insert((node, nth), reading);
        let wait_us = streams.chances.between(CONNECT_US.0, CONNECT_US.1);
        let replica = self.slots[node].node.as_ref().map(covey_mesh::node::Node::replica);
        let record = replica.and_then(|replica| replica.record(worker)).map(|record| record.incarnation.clone());
        let feed = replica.and_then(|replica| replica.feed(worker)).map(FeedView::of);
        if let Some(reading) = self.kv_streams.as_mut().and_then(|streams| streams.readings.get_mut(&(node, nth))) {
            if let Some(incarnation) = record {
                reading.intake.handle(mono, In::Incarnation(incarnation));
            }
            reading.intake.handle(mono, In::Feed(feed));
        }
        self.feed_at(self.now_us + wait_us, node, nth, Doing::Connect);
        self.feed_at(self.now_us + REPORT_US, node, nth, Doing::Report);
        self.pump_intake(node, nth);
    }

    /// A node is gone, and its intakes with it.
    pub(super) fn drop_readings(&mut self, node: usize) {
        if let Some(streams) = &mut self.kv_streams {
            streams.readings.retain(|(of, _), _| *of != node);
            streams.todo.retain(|(of, _)| *of != node);
        }
    }

    /// What each intake claims to know, and what engines really held.
    pub(super) fn known_and_told(&self) -> (Vec<Known>, Told<'_>) {
        let Some(streams) = &self.kv_streams else { return (Vec::new(), Told::default()) };
        let known = streams.readings.iter().filter(|(_, reading)| reading.intake.state().phase == Phase::Exact);
        let known = known.filter_map(|((node, worker), reading)| {
            let key = reading.intake.key()?;
            let blocks: BTreeSet<_> = reading.intake.cache().contents().into_iter().flat_map(|net| net.added).collect();
            Some(Known { name: self.slots[*node].name.to_string(), worker: self.traffic.worker(*worker), key, blocks })
        });
        let told = (0..self.engines.len()).map(|nth| (self.traffic.worker(nth), &streams.engines[nth][..]));
        (known.collect(), Told::new(told, |worker, token| self.traffic.token(worker, token)))
    }

    /// Who reads a worker's events, as what, and how far.
    fn readers_of(&self, worker: usize) -> Vec<String> {
        let id = self.traffic.worker(worker);
        let readings =
            self.kv_streams.iter().flat_map(|streams| &streams.readings).filter(|((_, of), _)| *of == worker);
        let told = readings.map(|((node, _), reading)| {
            let (slot, intake) = (&self.slots[*node], &reading.intake);
            let role = slot.node.as_ref().map_or(Role::Off, |node| node.feed_role(&id));
            let (phase, key) = (intake.state().phase, intake.key().map(|key| (key.generation, key.position)));
            format!("{} {role:?} {phase:?} {key:?}", slot.name)
        });
        told.collect()
    }

    /// How far every engine's events must have come everywhere once all is calm; empty when they have.
    pub(super) fn feeds_unequal(&self) -> String {
        let Some(streams) = &self.kv_streams else { return String::new() };
        for (worker, engine) in self.engines.iter().enumerate() {
            let cache = streams.engines[worker].last().expect("an engine has a life");
            let id = self.traffic.worker(worker);
            // Whoever is taken for somebody else has other worries.
            if engine.flapped || engine.was_removed || engine.changes() > super::checks::TOKENS_BELIEVED {
                continue;
            }
            for slot in self.slots.iter().enumerate().filter(|(nth, _)| self.is_healthy(*nth)).map(|(_, slot)| slot) {
                let Some(node) = &slot.node else { continue };
                let feed = node.replica().feed(&id);
                if feed.is_none_or(|feed| feed.key.position != cache.position() || !feed.is_last) {
                    let at = feed.map(|feed| (feed.key.generation, feed.key.position, feed.is_last));
                    let readers = self.readers_of(worker);
                    let (name, is) = (&slot.name, cache.position());
                    return format!(
                        "{name} has {id}'s feed at {at:?}, the engine is at {is}; its readers: {readers:?}"
                    );
                }
                let truth = cache.at(cache.position()).expect("where it is");
                let key = (keyspace(), covey_crdt::lane::LaneId::PLAIN);
                let empty = BTreeSet::new();
                let held = feed.and_then(|feed| feed.lanes().get(&key)).map_or(&empty, |set| set.blocks());
                if !held.is_subset(truth) {
                    return format!("{} claims blocks of {id} that the engine does not hold", slot.name);
                }
            }
        }
        String::new()
    }
}
