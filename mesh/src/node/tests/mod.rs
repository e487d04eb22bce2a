//! The node by hazard: what a swarm of random plans cannot isolate, on two or three nodes in virtual time.
//!
//! Here: the harness. Frames take a millisecond and arrive in order; a test may swallow or rewrite them on the way. Not
//! here: sockets, random faults (the simulator).

mod clock;
mod dirty;
mod donate;
mod feed_attacks;
mod feed_scale;
mod feeds;
mod fuzz;
mod gaps;
mod gossip;
mod house;
mod join;
mod names;
mod retire;
mod strangers;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{GatewayName, Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::stamp::WallMs;

use super::{Node, NodeConfig};
use crate::input::{Input, Link, Local, MonoTime};
use crate::note::Note;
use crate::output::{Class, FeedOrder, Output, Rebirth};
use crate::status::Phase;
use crate::wire::Message;

const EPOCH_MS: u64 = 1_764_000_000_000;

/// What a test does with a frame under way: swallow it (`true`) or let it pass.
type Swallow = Box<dyn FnMut(usize, usize, &Message) -> bool>;

pub(super) struct Net {
    now_ms: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) offsets_ms: Vec<i64>,
    /// For how long each node's monotonic clock stood still.
    pub(super) paused_ms: Vec<u64>,
    links: Vec<(usize, usize)>,
    frames: VecDeque<(u64, usize, usize, Bytes)>,
    swallow: Swallow,
    pub(super) notes: Vec<Vec<Note>>,
    pub(super) sent: Vec<(usize, usize, Message)>,
    pub(super) reborn: Vec<Option<Rebirth>>,
    pub(super) orders: Vec<Vec<FeedOrder>>,
    closed: Vec<(usize, LifeId)>,
}

pub(super) fn config(name: &str) -> NodeConfig {
    NodeConfig {
        name: GatewayName::new(name).expect("a name"),
        cluster: "test".to_owned(),
        key_id: HashKeyId(0),
        block_bytes: 256,
        placement_idle_ms: 3_600_000,
        expect_peers: true,
    }
}

pub(super) fn worker() -> WorkerId {
    WorkerId::new("w", 0).expect("a name")
}

pub(super) fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

pub(super) fn keyspace() -> Arc<Keyspace> {
    let model = ModelName::new("m").expect("a name");
    Arc::new(Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a block size"))
}

impl Net {
    /// Nodes that know nobody yet. Their lives grow in order: the first is the smallest.
    pub(super) fn new(names: &[&str]) -> Self {
        let mut net = Self {
            now_ms: 0,
            nodes: Vec::new(),
            offsets_ms: Vec::new(),
            paused_ms: Vec::new(),
            links: Vec::new(),
            frames: VecDeque::new(),
            swallow: Box::new(|_, _, _| false),
            notes: Vec::new(),
            sent: Vec::new(),
            reborn: Vec::new(),
            orders: Vec::new(),
            closed: Vec::new(),
        };
        for name in names {
            net.add(config(name));
        }
        net
    }

    /// As [`Self::new`], all linked, joined and clean.
    pub(super) fn mesh(names: &[&str]) -> Self {
        let mut net = Self::new(names);
        for other in 1..names.len() {
            for one in 0..other {
                net.link(one, other);
            }
        }
        net.run(3_000);
        assert!(net.nodes.iter().all(|node| node.phase() == Phase::Clean), "the mesh is up");
        net
    }

    pub(super) fn add(&mut self, config: NodeConfig) -> usize {
        let nth = self.nodes.len();
        let (now, wall) = (MonoTime::from_ms(self.now_ms), WallMs(EPOCH_MS + self.now_ms));
        self.nodes.push(Node::new(config, LifeId(nth as u128 + 1), nth as u64, now, wall));
        self.offsets_ms.push(0);
        self.paused_ms.push(0);
        self.notes.push(Vec::new());
        self.reborn.push(None);
        self.orders.push(Vec::new());
        self.collect(nth);
        nth
    }

    pub(super) fn life(&self, nth: usize) -> LifeId {
        self.nodes[nth].life()
    }

    pub(super) fn input(&mut self, nth: usize, input: Input) {
        let wall = WallMs((EPOCH_MS + self.now_ms).saturating_add_signed(self.offsets_ms[nth]));
        self.nodes[nth].handle(MonoTime::from_ms(self.now_ms - self.paused_ms[nth]), wall, input);
        self.collect(nth);
    }

    fn collect(&mut self, nth: usize) {
        while let Some(output) = self.nodes[nth].poll_output() {
            match output {
                Output::Send { to, bytes, class } => self.carry(nth, to, class, &bytes),
                Output::Close { peer } => self.closed.push((nth, peer)),
                Output::Note(note) => self.notes[nth].push(note),
                Output::Reborn(why) => self.reborn[nth] = Some(why),
                Output::Feed(order) => self.orders[nth].push(order),
                Output::Changed(_) | Output::Load { .. } => {}
            }
        }
    }

    fn carry(&mut self, from: usize, to: LifeId, _: Class, bytes: &Bytes) {
        let to = usize::try_from(to.0 - 1).expect("a life of the test");
        let message = Message::decode(bytes).expect("nodes write what they can read");
        let linked = self.links.contains(&(from.min(to), from.max(to)));
        if linked && !(self.swallow)(from, to, &message) {
            self.frames.push_back((self.now_ms + 1, from, to, bytes.clone()));
        }
        self.sent.push((from, to, message));
    }

    pub(super) fn swallow(&mut self, swallow: impl FnMut(usize, usize, &Message) -> bool + 'static) {
        self.swallow = Box::new(swallow);
    }

    pub(super) fn link(&mut self, one: usize, other: usize) {
        self.links.push((one.min(other), one.max(other)));
        self.input(one, Input::Link(Link::Up(self.life(other))));
        self.input(other, Input::Link(Link::Up(self.life(one))));
    }

    pub(super) fn cut(&mut self, one: usize, other: usize) {
        self.links.retain(|link| *link != (one.min(other), one.max(other)));
        self.input(one, Input::Link(Link::Down(self.life(other))));
        self.input(other, Input::Link(Link::Down(self.life(one))));
    }

    /// Only the first node learns that its link with the other is gone.
    pub(super) fn cut_half(&mut self, one: usize, other: usize) {
        self.links.retain(|link| *link != (one.min(other), one.max(other)));
        self.input(one, Input::Link(Link::Down(LifeId(other as u128 + 1))));
    }

    /// The node stops; its peers find out when the test cuts the link.
    pub(super) fn freeze(&mut self, nth: usize) {
        self.links.retain(|(one, other)| *one != nth && *other != nth);
    }

    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            // A closing side still gets out what it sent before.
            let closed = std::mem::take(&mut self.closed);
            while self.frames.front().is_some_and(|(at, ..)| *at <= self.now_ms) {
                let (_, from, to, bytes) = self.frames.pop_front().expect("looked at above");
                if self.links.contains(&(from.min(to), from.max(to))) {
                    self.input(to, Input::Received { from: self.life(from), bytes });
                }
            }
            for nth in 0..self.nodes.len() {
                let due = self.nodes[nth].next_deadline();
                if due.is_some_and(|due| due <= MonoTime::from_ms(self.now_ms - self.paused_ms[nth])) {
                    self.input(nth, Input::Elapsed);
                }
            }
            for (nth, peer) in closed {
                let other = usize::try_from(peer.0 - 1).expect("a life of the test");
                if self.links.contains(&(nth.min(other), nth.max(other))) {
                    self.cut(nth, other);
                }
            }
        }
    }

    /// The node's operator tells it of the test's worker.
    pub(super) fn probe(&mut self, nth: usize, text: &str) {
        let started_at = self.incarnation(nth);
        let probed = Local::Probed { worker: worker(), started_at, token: token(text), capacity_tokens: None };
        self.input(nth, Input::Local(probed));
    }

    pub(super) fn incarnation(&self, nth: usize) -> Incarnation {
        let record = self.nodes[nth].replica().record(&worker());
        record.map_or_else(Incarnation::unknown, |record| record.incarnation.clone())
    }

    pub(super) fn place(&mut self, nth: usize, chain: &[u64]) {
        let incarnation = self.incarnation(nth);
        let chain: Vec<BlockHash> = chain.iter().map(|hash| BlockHash(*hash)).collect();
        let place = Local::Place { worker: worker(), keyspace: keyspace(), incarnation, chain: chain.into() };
        self.input(nth, Input::Local(place));
    }

    pub(super) fn seq(&self, nth: usize, of: usize) -> u64 {
        self.nodes[nth].vector().head(self.life(of)).seq
    }

    pub(super) fn is_equal(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.nodes[one], &self.nodes[other]);
        one.phase() == Phase::Clean
            && other.phase() == Phase::Clean
            && one.vector().hash() == other.vector().hash()
            && one.replica().digest() == other.replica().digest()
    }

    pub(super) fn noted(&self, nth: usize, what: impl Fn(&Note) -> bool) -> usize {
        self.notes[nth].iter().filter(|note| what(note)).count()
    }
}
