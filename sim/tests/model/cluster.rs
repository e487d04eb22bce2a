//! Three real nodes on a network without faults: what happens before the adversary starts, and after it has stopped.
//!
//! Frames are delivered in the order they were sent. Time stands still while frames travel and moves on in rounds.
//!
//! Not here: the interleavings (`model`), what is checked (`lab`).

use std::collections::VecDeque;

use bytes::Bytes;
use covey_crdt::id::{GatewayName, LifeId};
use covey_crdt::keyspace::HashKeyId;
use covey_crdt::stamp::WallMs;
use covey_mesh::input::{Input, Link, MonoTime};
use covey_mesh::limits::Knobs;
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::note::Note;
use covey_mesh::output::Output;
use covey_mesh::status::Phase;
use covey_sim::invariants::{self, View};
use covey_sim::oracle::Oracle;

/// How many gateways there are.
pub(crate) const NODES: usize = 3;
/// One round, in milliseconds: longer than an exchange, a housekeeping period and a pull's grace.
const ROUND_MS: u64 = 300;
/// Rounds until the cluster must have converged: the simulator's own bound (I10).
const ROUNDS_MAX: u64 = covey_sim::world::CONVERGE_MS / ROUND_MS;
/// Wall time when monotonic time is 0, milliseconds since the Unix epoch.
const EPOCH_MS: u64 = 1_764_000_000_000;

/// One frame under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: Bytes,
}

/// The life of node number `nth`. Lives differ in their first bits, the ones that `Debug` prints (see `lab`).
pub(crate) const fn life(nth: usize) -> LifeId {
    LifeId((nth as u128 + 1) << LIFE_SHIFT)
}

fn nth(life: LifeId) -> usize {
    usize::try_from((life.0 >> LIFE_SHIFT) - 1).expect("lives are numbered here")
}

const LIFE_SHIFT: u32 = 96;

/// A node that has just started.
pub(crate) fn start(nth: usize, knobs: Knobs, at_ms: u64) -> Node {
    let config = NodeConfig {
        name: GatewayName::new(&format!("gw-{nth}")).expect("a good name"),
        cluster: "model".to_owned(),
        key_id: HashKeyId(0),
        block_bytes: 256,
        placement_idle_ms: 3_600_000,
        expect_peers: true,
    };
    let mut node = Node::new(config, life(nth), nth as u64, MonoTime::from_ms(at_ms), wall(at_ms));
    node.set_knobs(knobs);
    node
}

/// What the wall clock says at a time: all nodes' clocks agree here.
pub(crate) const fn wall(at_ms: u64) -> WallMs {
    WallMs(EPOCH_MS + at_ms)
}

/// What one turn of a node put out.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) frames: Vec<Frame>,
    pub(crate) notes: Vec<Note>,
    /// Which of the frames opens a repair session.
    pub(crate) opens: Option<usize>,
    /// A connection was closed or a life given up: neither has a reason to be here.
    pub(crate) broke_off: Option<String>,
}

/// Lets a node take one input.
pub(crate) fn turn(node: &mut Node, at_ms: u64, input: Input, outputs: &mut Outputs) {
    node.handle(MonoTime::from_ms(at_ms), wall(at_ms), input);
    let from = nth(node.life());
    while let Some(output) = node.poll_output() {
        match output {
            Output::Send { to, bytes, .. } => {
                outputs.frames.push(Frame { from, to: nth(to), bytes });
            }
            Output::Note(note) => {
                if matches!(note, Note::RepairStarted { .. }) {
                    outputs.opens = Some(outputs.frames.len());
                }
                outputs.notes.push(note);
            }
            Output::Close { .. } | Output::Reborn(_) => outputs.broke_off = Some(format!("node {from}: {output:?}")),
            Output::Changed(_) | Output::Load { .. } | Output::Feed(_) => {}
        }
    }
}

/// Three nodes, or fewer while not all have started.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) at_ms: u64,
    pub(crate) oracle: Oracle,
    pub(crate) queue: VecDeque<Frame>,
    /// Frames that open a repair session, when they are to be kept back.
    pub(crate) kept: Vec<Frame>,
    pub(crate) keep_sessions: bool,
    /// This node hears nothing.
    pub(crate) deaf: Option<usize>,
    pub(crate) broke_off: Option<String>,
}

impl Cluster {
    pub(crate) fn new(nodes: Vec<Node>, at_ms: u64, oracle: Oracle) -> Self {
        Self {
            nodes,
            at_ms,
            oracle,
            queue: VecDeque::new(),
            kept: Vec::new(),
            keep_sessions: false,
            deaf: None,
            broke_off: None,
        }
    }

    /// Lets a node take one input and queues what it sends.
    pub(crate) fn input(&mut self, nth: usize, input: Input) {
        let mut outputs = Outputs::default();
        turn(&mut self.nodes[nth], self.at_ms, input, &mut outputs);
        self.oracle.record(&self.nodes[nth]);
        self.broke_off = self.broke_off.take().or(outputs.broke_off);
        if let Some(opens) = outputs.opens.filter(|_| self.keep_sessions) {
            self.kept.push(outputs.frames.remove(opens));
        }
        self.queue.extend(outputs.frames.into_iter().filter(|frame| self.deaf != Some(frame.to)));
    }

    /// Connects two nodes.
    pub(crate) fn link(&mut self, one: usize, other: usize) {
        self.input(one, Input::Link(Link::Up(life(other))));
        self.input(other, Input::Link(Link::Up(life(one))));
        self.pump();
    }

    /// Delivers everything under way, and what comes of it.
    pub(crate) fn pump(&mut self) {
        while let Some(frame) = self.queue.pop_front() {
            self.input(frame.to, Input::Received { from: life(frame.from), bytes: frame.bytes });
        }
    }

    /// Moves time on for everybody and delivers what comes of it.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.at_ms += ms;
        for nth in 0..self.nodes.len() {
            self.input(nth, Input::Elapsed);
        }
        self.pump();
    }

    fn is_one(&self) -> bool {
        let first = &self.nodes[0];
        self.nodes.iter().all(|node| {
            node.phase() == Phase::Clean
                && node.vector().hash() == first.vector().hash()
                && node.replica().digest() == first.replica().digest()
        })
    }

    /// Passes rounds until all nodes are clean and equal (I10), and looks at the result block by block.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            self.pass(ROUND_MS);
            if self.is_one() {
                return self.judge();
            }
        }
        let states: Vec<String> = self
            .nodes
            .iter()
            .map(|node| {
                let seqs: Vec<u64> = node.vector().lives().map(|(_, head)| head.seq).collect();
                format!("{:?} at {seqs:?} with digest {}", node.phase(), node.replica().digest())
            })
            .collect();
        Err(format!("not converged after {ROUNDS_MAX} rounds: {}", states.join("; ")))
    }

    /// Delivers frames that everybody had given up: nothing may come of them any more.
    ///
    /// # Errors
    /// What changed.
    pub(crate) fn deliver_late(&mut self, late: impl Iterator<Item = Frame>) -> Result<(), String> {
        let (vector, digest) = (self.nodes[0].vector().hash(), self.nodes[0].replica().digest());
        self.queue.extend(late);
        self.pump();
        let same = self.nodes[0].vector().hash() == vector && self.nodes[0].replica().digest() == digest;
        if same && self.is_one() { Ok(()) } else { Err("frames that came late changed a replica".to_owned()) }
    }

    fn judge(&self) -> Result<(), String> {
        if let Some(what) = &self.broke_off {
            return Err(what.clone());
        }
        let [first, rest @ ..] = &*self.nodes else { return Ok(()) };
        let view = View::of(first.life().to_string(), first);
        if rest.iter().any(|node| node.replica().expand() != view.state) {
            return Err("I1: equal clean vectors and digests, different states".to_owned());
        }
        match invariants::check(&[view], &self.oracle, &invariants::Told::default()).first() {
            Some(violation) => Err(format!("{}: {}", violation.invariant, violation.what)),
            None => Ok(()),
        }
    }
}
