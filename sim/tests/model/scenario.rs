//! Where the adversary starts and what the gateways do meanwhile. Each scenario is one model.
//!
//! Not here: in which order it happens (`model` tries all of them).

use std::sync::Arc;

use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_mesh::input::{Input, Local};
use covey_mesh::limits::Knobs;
use covey_mesh::node::Node;
use covey_sim::oracle::Oracle;

use crate::cluster::{Cluster, Frame, NODES, start};

/// Every worker has room for this many blocks of 64 tokens.
const ROOM: u64 = 4;

/// One thing a gateway does, in the order of its own list; other gateways' deeds and all frames fall in anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A worker accepted a chain of these blocks.
    Place(usize, &'static [u64]),
    /// A probe found that a worker's engine has restarted, with this token.
    Restart(usize, &'static str),
    /// An operator had a worker's placements forgotten.
    Reset(usize),
    /// This many milliseconds pass for this gateway: timers fire, unanswered questions are asked again or given up.
    Wait(u64),
}

/// A start and a script.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) start: fn() -> (Cluster, Vec<Frame>),
    /// What each gateway does.
    pub(crate) deeds: [&'static [Deed]; NODES],
    /// How many frames the network may deliver twice.
    pub(crate) copies: u8,
    /// Whether repair sessions run.
    pub(crate) sessions: bool,
    /// Distinct states below which the model has become trivial: about half of what there are, since protocol changes move it.
    pub(crate) states_min: usize,
}

/// Ops of three gateways in every order: a cut, a restart of the worker, a reset, each late, lost or doubled.
pub(crate) const PUSHES: Scenario = Scenario {
    name: "pushes",
    start: || (equal(Knobs::default(), NODES), Vec::new()),
    deeds: [&[Deed::Place(0, &[1, 2, 3]), Deed::Reset(0)], &[Deed::Place(0, &[1, 4, 5])], &[Deed::Restart(0, "new")]],
    copies: 1,
    sessions: false,
    states_min: 50_000,
};

/// One gateway's log in every order: what follows must wait for what is before it.
pub(crate) const LOG: Scenario = Scenario {
    name: "log",
    start: || (equal(Knobs::default(), NODES), Vec::new()),
    deeds: [
        &[Deed::Place(0, &[1, 2]), Deed::Restart(0, "new"), Deed::Place(0, &[1, 6, 7])],
        &[Deed::Place(0, &[1, 2, 3])],
        &[],
    ],
    copies: 1,
    sessions: false,
    states_min: 18_000,
};

/// A gateway that lacks an op nobody retains walks a peer's state, slice by slice, while ops go on, the walk's frames
/// are lost or doubled, and it gives up half way.
pub(crate) const SESSION: Scenario = Scenario {
    name: "session",
    start: lacking,
    deeds: [&[Deed::Place(0, &[1, 8])], &[Deed::Reset(0)], &[]],
    copies: 1,
    sessions: true,
    states_min: 16_000,
};

/// The same walk is given up half way (P4) while an op goes on, and another one may follow.
pub(crate) const GIVEN_UP: Scenario = Scenario {
    name: "given up",
    start: lacking,
    deeds: [&[Deed::Place(0, &[1, 8])], &[], &[Deed::Wait(3_000)]],
    copies: 0,
    sessions: true,
    states_min: 38_000,
};

/// A newcomer that reaches only one peer joins from it while that peer is itself in the middle of a session (P5).
pub(crate) const RELAY: Scenario = Scenario {
    name: "relay",
    start: relaying,
    deeds: [&[Deed::Place(0, &[1, 8])], &[], &[]],
    copies: 1,
    sessions: true,
    states_min: 19_000,
};

/// Sizes at which a session takes several slices and ops are soon not retained any more.
fn small() -> Knobs {
    Knobs {
        slice_bytes: 560,
        log_bytes: usize::MAX,
        log_age_ms: 50,
        frame_bytes: usize::MAX,
        horizon_ms: u64::MAX,
        ..Knobs::default()
    }
}

/// Joined, clean and equal gateways that know two workers, the first with some coverage.
fn equal(knobs: Knobs, nodes: usize) -> Cluster {
    let started = (0..nodes).map(|nth| start(nth, knobs, 0)).collect();
    let mut cluster = Cluster::new(started, 0, Oracle::default());
    for one in 0..nodes {
        for other in 0..one {
            cluster.link(other, one);
        }
    }
    cluster.settle().expect("a network without faults");
    for worker in 0..2 {
        act(&mut cluster, 0, Deed::Restart(worker, "old"));
        act(&mut cluster, nodes - 1, Deed::Place(worker, &[1, 2]));
    }
    cluster.settle().expect("a network without faults");
    cluster
}

/// The last gateway has just asked the first for its state, because it lacks an op that is not retained.
fn lacking() -> (Cluster, Vec<Frame>) {
    let mut cluster = equal(small(), NODES);
    lose(&mut cluster, 2);
    cluster.pass(300);
    cluster.keep_sessions = true;
    cluster.pass(100);
    only(cluster, 1)
}

/// Gateway 1 lacks an op that gateway 0 no longer retains, and gateway 2 joins from gateway 1: both have just asked.
fn relaying() -> (Cluster, Vec<Frame>) {
    let mut cluster = equal(small(), NODES - 1);
    lose(&mut cluster, 1);
    cluster.pass(300);
    cluster.nodes.push(start(2, small(), cluster.at_ms));
    cluster.link(1, 2);
    cluster.keep_sessions = true;
    cluster.pass(100);
    only(cluster, 2)
}

/// Gateway 0 places something, and one other does not hear of it.
fn lose(cluster: &mut Cluster, deaf: usize) {
    cluster.deaf = Some(deaf);
    act(cluster, 0, Deed::Place(0, &[1, 2, 3]));
    cluster.deaf = None;
}

fn only(mut cluster: Cluster, asks: usize) -> (Cluster, Vec<Frame>) {
    let kept = std::mem::take(&mut cluster.kept);
    assert_eq!(kept.len(), asks, "sessions have been opened and nothing else is under way");
    cluster.keep_sessions = false;
    (cluster, kept)
}

fn act(cluster: &mut Cluster, nth: usize, deed: Deed) {
    for (ms, input) in inputs(&cluster.nodes[nth], deed, &mut cluster.oracle) {
        cluster.at_ms += ms;
        cluster.input(nth, input);
    }
    cluster.pump();
}

/// What a node is told when its gateway does this, each after so many milliseconds. An op is pushed two milliseconds
/// after it was published, before anything else happens to the node.
pub(crate) fn inputs(node: &Node, deed: Deed, oracle: &mut Oracle) -> Vec<(u64, Input)> {
    let local = match deed {
        Deed::Wait(ms) => return vec![(ms, Input::Elapsed)],
        Deed::Place(nth, blocks) => {
            let chain: Arc<[BlockHash]> = blocks.iter().map(|block| BlockHash(*block)).collect();
            let incarnation = incarnation(node, nth);
            oracle.accept(&worker(nth), &incarnation, &chain);
            Local::Place { worker: worker(nth), keyspace: keyspace(), incarnation, chain }
        }
        Deed::Restart(nth, token) => Local::Probed {
            worker: worker(nth),
            started_at: incarnation(node, nth),
            token: Token::new(token).expect("a good token"),
            capacity_tokens: Some(ROOM * 64),
        },
        Deed::Reset(nth) => Local::Reset { worker: worker(nth) },
    };
    vec![(0, Input::Local(local)), (covey_mesh::limits::PUSH_DELAY_MS, Input::Elapsed)]
}

fn incarnation(node: &Node, nth: usize) -> Incarnation {
    let record = node.replica().record(&worker(nth));
    record.map_or_else(Incarnation::unknown, |record| record.incarnation.clone())
}

fn worker(nth: usize) -> WorkerId {
    WorkerId::new(&format!("worker-{nth}"), 0).expect("a good name")
}

fn keyspace() -> Arc<Keyspace> {
    let model = ModelName::new("m").expect("a good name");
    Arc::new(Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a good block size"))
}

impl Scenario {
    /// Whether a gateway waits long enough to give a session up.
    pub(crate) fn gives_up(&self) -> bool {
        let waits = |deed: &Deed| matches!(deed, Deed::Wait(ms) if *ms >= covey_mesh::limits::SESSION_MS);
        self.deeds.iter().any(|deeds| deeds.iter().any(waits))
    }
}
