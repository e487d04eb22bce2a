//! The protocol as a value: inputs in, outputs queued, time as an argument.
//!
//! Here: the node's state, its contract, and dispatch. Each concern is a file beside this one: `local` (what the gateway
//! tells it), `links` (who can be reached), `exchange` (vectors, admission, clocks), `ops` (logs), `pull` (gaps and
//! missing content), `repair` (sessions, dirtiness, joining), `donate` (their other side), `retire` (how lives end),
//! `house` (timers, retention, expiry), `feeds` (engines' events as ops), `feed_gaps` (what is missing of
//! them), `feed_logs` (what is kept of them), `owners` (who ingests them), `blobs` (what moves
//! whole), `status`, `gossip` (what gateways tell one another for people).
//!
//! Not here: sockets, threads, clocks, logging. Upholds I1, I4, I9, I10 on top of the lattice.

mod blobs;
mod donate;
mod exchange;
mod feed_gaps;
mod feed_logs;
mod feeds;
mod gossip;
mod house;
mod inspect;
mod links;
mod local;
mod ops;
mod owners;
mod pull;
mod repair;
mod retire;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use covey_crdt::change::{Change, Place};
use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use covey_crdt::keyspace::HashKeyId;
use covey_crdt::op::Op;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::replica::Replica;
use covey_crdt::stamp::{Hlc, Stamp, WallMs};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::blob::{Donations, Fetches};
use crate::clocks;
use crate::feed::FeedLog;
use crate::input::{Input, Local, MonoTime};
use crate::limits::{EPS_MS, EXCHANGE_MS, HOUSEKEEPING_MS, Knobs};
use crate::load::OwnLoads;
use crate::log::Log;
use crate::masks::Masks;
use crate::note::{ClockState, Note};
use crate::output::{Class, Output, Rebirth};
use crate::pace::Budget;
use crate::peer::Peer;
use crate::session::{Permits, Session};
use crate::status::Phase;
use crate::summary::{Effect, Tally};
use crate::vector::Vector;
use crate::wire::{Message, RefuseFrame};
use retire::Ends;

/// What a node is told once.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The gateway's name, unique in the mesh.
    pub name: GatewayName,
    /// Only gateways that name the same cluster talk.
    pub cluster: String,
    /// Which hash key the gateway uses.
    pub key_id: HashKeyId,
    /// Bytes in one block of byte keyspaces; must agree across the mesh (hazard 14).
    pub block_bytes: u32,
    /// A placement not touched for this long expires, in milliseconds.
    pub placement_idle_ms: u64,
    /// Whether peers are to be expected: `false` makes the node found its own mesh at once.
    pub expect_peers: bool,
}

/// One mesh member.
#[derive(Clone, Debug)]
pub struct Node {
    config: NodeConfig,
    knobs: Knobs,
    life: LifeId,
    random: ChaCha8Rng,
    now: MonoTime,
    wall: WallMs,
    started: MonoTime,
    hlc: Hlc,
    clock: ClockState,
    replica: Replica,
    vector: Vector,
    logs: BTreeMap<LifeId, Log>,
    log_bytes: usize,
    peers: BTreeMap<LifeId, Peer>,
    masks: Masks,
    /// Chain content that came before its op.
    staged: VecDeque<(MonoTime, Place)>,
    /// Local ops that wait for the node to have joined.
    waiting: VecDeque<Local>,
    own_loads: OwnLoads,
    /// Recent token changes per worker.
    token_changes: BTreeMap<WorkerId, VecDeque<MonoTime>>,
    joined: bool,
    /// The life that founded the mesh this node belongs to; zero before it has joined.
    mesh: LifeId,
    left: bool,
    over: bool,
    /// When a mesh last refused this node, and why as it worded it.
    refused: Option<(MonoTime, String)>,
    /// Whether any peer was ever admitted in this life.
    has_met: bool,
    /// Since when every admitted peer has been joining.
    all_joining: Option<MonoTime>,
    /// What the vector must reach before the replica is clean (P4, P5).
    targets: BTreeMap<LifeId, u64>,
    target_progress: MonoTime,
    session: Option<Session>,
    permits: Permits,
    budget: Budget,
    ends: Ends,
    was_clean: bool,
    /// The last own op that was pushed.
    pushed: u64,
    push_at: Option<MonoTime>,
    load_at: Option<MonoTime>,
    house_at: MonoTime,
    expiry_at: MonoTime,
    ops_applied: u64,
    tally: Tally,
    effect: Option<Effect>,
    /// Feeds, whoever ingests them, and the workers whose events this gateway can read.
    feeds: BTreeMap<WorkerId, FeedLog>,
    feed_bytes: usize,
    /// Bytes of feeds' ops that wait for the ones before them.
    held_bytes: usize,
    /// Feeds of which some peer may have more.
    behind: BTreeSet<WorkerId>,
    can_ingest: BTreeSet<WorkerId>,
    /// Own ops of feeds that wait to be pushed.
    unpushed: Vec<Bytes>,
    fit_since: Option<MonoTime>,
    report_version: u64,
    bridge_at: MonoTime,
    donations: Donations,
    fetches: Fetches,
    /// When the peers are told of this node again, and up to which worker they were told the last time.
    summary_at: MonoTime,
    summary_after: Option<WorkerId>,
    /// When they were told of all feeds that are read here.
    feeds_told_at: MonoTime,
    /// Whether it loses every placement from now on (tests on real processes alone).
    loses: bool,
    outbox: VecDeque<Output>,
}

impl Node {
    /// A node at the start of `life`. `seed` feeds its jitter; equal seeds and inputs give equal outputs.
    #[must_use]
    pub fn new(config: NodeConfig, life: LifeId, seed: u64, now: MonoTime, wall: WallMs) -> Self {
        let name = config.name.clone();
        let expect_peers = config.expect_peers;
        let mut node = Self {
            config,
            knobs: Knobs::default(),
            life,
            random: ChaCha8Rng::seed_from_u64(seed),
            now,
            wall,
            started: now,
            hlc: Hlc::default(),
            clock: ClockState::Good,
            replica: Replica::default(),
            vector: Vector::default(),
            logs: BTreeMap::new(),
            log_bytes: 0,
            peers: BTreeMap::new(),
            masks: Masks::default(),
            staged: VecDeque::new(),
            waiting: VecDeque::new(),
            own_loads: OwnLoads::default(),
            token_changes: BTreeMap::new(),
            joined: false,
            mesh: LifeId(0),
            left: false,
            over: false,
            refused: None,
            has_met: false,
            all_joining: None,
            targets: BTreeMap::new(),
            target_progress: now,
            session: None,
            permits: Permits::default(),
            budget: Budget::new(now),
            ends: Ends::default(),
            was_clean: false,
            pushed: 0,
            push_at: None,
            load_at: None,
            house_at: now.plus_ms(HOUSEKEEPING_MS),
            expiry_at: now,
            ops_applied: 0,
            tally: Tally::default(),
            effect: None,
            feeds: BTreeMap::new(),
            feed_bytes: 0,
            held_bytes: 0,
            behind: BTreeSet::new(),
            can_ingest: BTreeSet::new(),
            unpushed: Vec::new(),
            fit_since: None,
            report_version: 0,
            bridge_at: now,
            donations: Donations::default(),
            fetches: Fetches::default(),
            summary_at: now,
            summary_after: None,
            feeds_told_at: now,
            loses: false,
            outbox: VecDeque::new(),
        };
        node.publish(Op::Joined { name });
        if !expect_peers {
            node.found();
        }
        node.settle();
        node
    }

    /// Turns sizes down from their defaults, no further up; before the first input.
    pub fn set_knobs(&mut self, knobs: Knobs) {
        self.knobs = knobs.bounded();
    }

    /// Takes one input. Outputs queue up until [`Self::poll_output`] has returned `None`.
    pub fn handle(&mut self, now: MonoTime, wall: WallMs, input: Input) {
        if self.over {
            return;
        }
        self.set_clocks(now, wall);
        if self.over {
            return;
        }
        match input {
            Input::Local(local) => self.on_local(local),
            Input::Received { from, bytes } => self.on_received(from, &bytes),
            Input::Link(link) => self.on_link(link),
            Input::Member(member) => self.on_member(member),
            Input::Elapsed => {}
        }
        self.sync_feeds();
        self.on_elapsed();
        self.settle();
    }

    /// The next thing the node asks for, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    /// When to call [`Self::handle`] with [`Input::Elapsed`] at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoTime> {
        if self.over {
            return None;
        }
        let exchanges = self.peers.values().filter(|peer| peer.linked).map(|peer| peer.exchange_at);
        [self.push_at, self.load_at, Some(self.house_at)].into_iter().flatten().chain(exchanges).min()
    }

    /// From now on the node counts placements as applied without applying them: a replica that loses updates, as only a
    /// mistake in the protocol could make one. For tests on real processes alone; repair does not mend it.
    pub const fn lose_placements(&mut self) {
        self.loses = true;
    }

    /// The node's life.
    #[must_use]
    pub const fn life(&self) -> LifeId {
        self.life
    }

    /// The life that founded the mesh this node belongs to; zero before it has joined. Of two meshes that met and merged,
    /// the smaller founder counts.
    #[must_use]
    pub const fn mesh(&self) -> LifeId {
        self.mesh
    }

    /// The node's replica.
    #[must_use]
    pub const fn replica(&self) -> &Replica {
        &self.replica
    }

    /// How far each log is applied.
    #[must_use]
    pub const fn vector(&self) -> &Vector {
        &self.vector
    }

    /// How far the node is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let merging = self.session.as_ref().is_some_and(|session| session.merged);
        match (self.joined, self.targets.is_empty() && !merging) {
            (false, _) => Phase::Joining,
            (true, true) => Phase::Clean,
            (true, false) => Phase::Dirty,
        }
    }

    /// Retained ops of a life's log from number `from` on, for the simulator's record of everything that happened; `None`
    /// when the log is not retained that far back.
    pub fn retained(&self, life: LifeId, from: u64) -> Option<impl Iterator<Item = (u64, &Op)>> {
        let retained = self.logs.get(&life)?.from(from)?;
        Some((from..).zip(retained.map(|retained| &*retained.op)))
    }

    /// Every log, and the number of the oldest op retained of it.
    pub fn logs(&self) -> impl Iterator<Item = (LifeId, u64)> + '_ {
        self.logs.iter().map(|(life, log)| (*life, log.first()))
    }

    /// Where the local clock stands.
    #[must_use]
    pub const fn clock(&self) -> ClockState {
        self.clock
    }

    fn set_clocks(&mut self, now: MonoTime, wall: WallMs) {
        let mono_ms = now.us.saturating_sub(self.now.us) / 1_000;
        // A millisecond of rounding on both clocks is no step.
        let stepped_back = wall.0 + 2 < self.wall.0.saturating_add(mono_ms);
        self.now = self.now.max(now);
        self.wall = wall;
        if stepped_back && !planted(Plant::StepBackIgnored) && self.hlc.ms() > wall.0 + EPS_MS / 2 {
            self.reborn(Rebirth::ClockStepped);
        }
        self.judge_clock();
    }

    fn judge_clock(&mut self) {
        let ahead = self.clock_ahead_ms();
        let state = clocks::state(ahead);
        if state != self.clock {
            self.clock = state;
            self.note(Note::Clock { state, ahead_ms: ahead.unwrap_or(0) });
        }
    }

    fn clock_ahead_ms(&self) -> Option<i64> {
        let readings = self.peers.values().filter(|peer| peer.live()).filter_map(|peer| peer.reading);
        clocks::ahead_ms(self.now, self.wall, readings)
    }

    fn on_received(&mut self, from: LifeId, frame: &Bytes) {
        if !self.peers.get(&from).is_some_and(|peer| peer.linked) {
            return;
        }
        let message = match Message::decode(frame) {
            Ok(message) => message,
            Err(RefuseFrame::NewerVersion { got }) => return self.note(Note::NewerVersion { peer: from, got }),
            Err(RefuseFrame::Malformed { offset }) => return self.malformed(from, offset),
        };
        if let Message::Exchange(exchange) = message {
            return self.on_exchange(from, &exchange);
        }
        if let Message::Refused(refused) = message {
            return self.on_refused(from, refused.why);
        }
        if !self.peers.get(&from).is_some_and(|peer| peer.admitted) {
            return;
        }
        match message {
            Message::Exchange(_) | Message::Refused(_) => {}
            Message::Ops(ops) => self.on_ops(from, &ops),
            Message::Pull(pull) => self.on_pull(from, &pull),
            Message::Trimmed(trimmed) => self.on_trimmed(from, trimmed.life.into()),
            Message::Want(want) => self.on_want(from, &want),
            Message::Content(content) => self.on_content(from, &content.chains),
            Message::Loads(loads) => self.on_loads(from, &loads),
            Message::SliceAsk(ask) => self.on_slice_ask(from, &ask),
            Message::SliceReply(reply) => self.on_slice_reply(from, &reply),
            Message::SliceRefused(refused) => self.on_slice_refused(from, &refused),
            Message::SliceEnd(end) => self.permits.end(from, end.session),
            Message::Summary(summary) => self.on_summary(from, *summary),
            Message::FeedOps(ops) => self.on_feed_ops(from, &ops),
            Message::FeedPull(pull) => self.on_feed_pull(from, &pull),
            Message::FeedTrimmed(trimmed) => self.on_feed_trimmed(from, &trimmed),
            Message::BlobAsk(ask) => self.on_blob_ask(from, &ask),
            Message::BlobPiece(piece) => self.on_blob_piece(from, &piece),
        }
    }

    fn malformed(&mut self, peer: LifeId, offset: usize) {
        self.note(Note::Malformed { peer, offset });
        self.outbox.push_back(Output::Close { peer });
    }

    fn send(&mut self, to: LifeId, class: Class, message: &Message) {
        let bytes = message.encode();
        self.note(Note::Sent { class, bytes: u32::try_from(bytes.len()).expect("frames are bounded") });
        self.outbox.push_back(Output::Send { to, class, bytes });
    }

    fn note(&mut self, note: Note) {
        self.tally.count(&note);
        self.outbox.push_back(Output::Note(note));
    }

    fn reborn(&mut self, why: Rebirth) {
        if !self.over {
            self.over = true;
            self.outbox.push_back(Output::Reborn(why));
        }
    }

    /// Ends a turn: passes changes on, and says when the replica became clean or dirty.
    fn settle(&mut self) {
        self.pass_changes();
        let clean = self.phase() == Phase::Clean;
        if clean != self.was_clean {
            self.was_clean = clean;
            self.summary_at = self.now;
            self.note(if clean { Note::Clean } else { Note::Dirty });
        }
    }

    /// Passes the replica's changes on, and forgets who was sent the runs that are gone: their numbers are used again.
    fn pass_changes(&mut self) {
        self.sync_feeds();
        for change in self.replica.take_changes() {
            if let Change::RunFreed { run } = change {
                self.masks.freed(run);
            }
            self.outbox.push_back(Output::Changed(change));
        }
    }

    fn stamp(&mut self) -> Stamp {
        self.hlc = self.hlc.tick(self.wall);
        Stamp { hlc: self.hlc, life: self.life }
    }

    /// Whether a stamp lies beyond what the local clock tolerates.
    const fn is_future(&self, stamp: Stamp) -> bool {
        stamp.hlc.ms() > self.wall.0.saturating_add(EPS_MS)
    }

    fn jittered(&mut self, ms: u64) -> MonoTime {
        let quarter = (ms / 4).max(1);
        self.now.plus_ms(ms - quarter / 2 + u64::from(self.random.next_u32()) % quarter)
    }

    fn next_exchange(&mut self) -> MonoTime {
        self.jittered(EXCHANGE_MS)
    }

    /// One of `among`, by chance.
    fn pick(&mut self, among: &[LifeId]) -> Option<LifeId> {
        if among.is_empty() {
            return None;
        }
        let nth = self.random.next_u64() % among.len() as u64;
        among.get(usize::try_from(nth).unwrap_or(0)).copied()
    }
}
