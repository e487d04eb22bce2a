//! Worlds made by hand, for the checkers' own tests: a node that founded its mesh alone and was told a few things.

use std::sync::Arc;

use covey_crdt::change::Change;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{GatewayName, Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::stamp::WallMs;
use covey_mesh::input::{Input, Local, MonoTime};
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::output::Output;

use super::{Lookups, View};
use crate::oracle::Oracle;

/// A node, and everything the observer and the read index were told of it.
pub(crate) struct Made {
    pub(crate) node: Node,
    pub(crate) oracle: Oracle,
    pub(crate) lookups: Lookups,
    pub(crate) changes: Vec<Change>,
    now_ms: u64,
}

pub(crate) fn worker(nth: usize) -> WorkerId {
    WorkerId::new(&format!("worker-{nth}"), 0).expect("a good name")
}

pub(crate) fn keyspace() -> Arc<Keyspace> {
    let model = ModelName::new("large").expect("a good name");
    Arc::new(Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a good block size"))
}

/// A chain of its own.
pub(crate) fn chain(nth: u64, blocks: u64) -> Vec<BlockHash> {
    (0..blocks).map(|block| BlockHash(1_000 * (nth + 1) + block)).collect()
}

/// Founds a mesh of one life.
pub(crate) fn empty(life: u128) -> Made {
    let config = NodeConfig {
        name: GatewayName::new("gw-0").expect("a good name"),
        cluster: "sim".to_owned(),
        key_id: HashKeyId(0),
        block_bytes: 256,
        placement_idle_ms: 3_600_000,
        expect_peers: false,
    };
    let node = Node::new(config, LifeId(life), 7, MonoTime::default(), WallMs(1_764_000_000_000));
    let lookups = Lookups::new(node.life());
    let mut made = Made { node, oracle: Oracle::default(), lookups, changes: Vec::new(), now_ms: 0 };
    made.tell(Input::Elapsed);
    made
}

/// As [`empty`], with two workers of which the first holds two chains: [`chain`]`(0, 6)` and [`chain`]`(1, 3)`.
pub(crate) fn lone() -> Made {
    let mut made = empty(1);
    for nth in 0..2 {
        made.probe(nth, "boot", 64_000);
    }
    made.place(0, 0, 6);
    made.place(0, 1, 3);
    made
}

impl Made {
    pub(crate) fn tell(&mut self, input: Input) {
        self.now_ms += 10;
        self.node.handle(MonoTime::from_ms(self.now_ms), WallMs(1_764_000_000_000 + self.now_ms), input);
        self.oracle.record(&self.node);
        while let Some(output) = self.node.poll_output() {
            if let Output::Changed(change) = output {
                self.lookups.changed(change.clone());
                self.changes.push(change);
            }
        }
    }

    fn incarnation(&self, worker: &WorkerId) -> Incarnation {
        self.node.replica().record(worker).map_or_else(Incarnation::unknown, |record| record.incarnation.clone())
    }

    pub(crate) fn probe(&mut self, nth: usize, token: &str, tokens: u64) {
        let (worker, token) = (worker(nth), Token::new(token).expect("a good token"));
        let started_at = self.incarnation(&worker);
        self.tell(Input::Local(Local::Probed { worker, started_at, token, capacity_tokens: Some(tokens) }));
    }

    pub(crate) fn place(&mut self, nth: usize, which: u64, blocks: u64) {
        let (worker, chain) = (worker(nth), chain(which, blocks));
        let incarnation = self.incarnation(&worker);
        self.oracle.accept(&worker, &incarnation, &chain);
        let place = Local::Place { worker, keyspace: keyspace(), incarnation, chain: chain.into() };
        self.tell(Input::Local(place));
    }

    pub(crate) fn view(&self, name: &str) -> View {
        View::of(name.to_owned(), &self.node)
    }
}
