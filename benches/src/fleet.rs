//! The workload: 240 workers that all hold one shared prefix, and prompts that continue it.
//!
//! It is built through a real node, so the index has the shape it has in a gateway. Not here: measuring.

use std::sync::{Arc, Mutex};

use covey_crdt::hash::HashKey;
use covey_crdt::id::{GatewayName, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::stamp::WallMs;
use covey_gateway_plugin::plugin::{Feed, Plugin, PluginConfig, RequestKey};
use covey_mesh::input::{Input, Local, MonoTime};
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::output::Output;

/// Bytes in one block: 16 tokens.
const BLOCK_BYTES: u32 = 64;
/// Blocks every worker holds.
pub(crate) const SHARED_BLOCKS: usize = 125;
const WORKERS: usize = 240;

/// A gateway's plugin on a mesh of one.
pub(crate) struct Fleet {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) feed: Feed,
    workers: Vec<WorkerId>,
    node: Node,
    submitted: Arc<Mutex<Vec<Local>>>,
    now_ms: u64,
}

/// A prompt of `blocks` blocks: the shared prefix, then blocks of its own.
pub(crate) fn prompt(number: usize, blocks: usize) -> Vec<u8> {
    let own = (blocks - SHARED_BLOCKS) * BLOCK_BYTES as usize;
    let shared = (0..SHARED_BLOCKS * BLOCK_BYTES as usize).map(|at| (at % 251) as u8);
    let line = format!("prompt {number} says ");
    shared.chain(line.bytes().cycle().take(own)).collect()
}

impl Fleet {
    /// All workers known, each holding the shared prefix.
    pub(crate) fn new() -> Self {
        let model = ModelName::new("bench").expect("a name");
        let keyspace = Keyspace::new(model, Unit::Bytes, BLOCK_BYTES, HashKey::ZERO.id()).expect("a block size");
        let plugin = Arc::new(Plugin::new(&PluginConfig::default()));
        let submitted: Arc<Mutex<Vec<Local>>> = Arc::default();
        let queue = Arc::clone(&submitted);
        plugin.connect(move |local| queue.lock().map(|mut queue| queue.push(local)).is_ok());
        let config = NodeConfig {
            name: GatewayName::new("bench").expect("a name"),
            cluster: "bench".into(),
            key_id: HashKey::ZERO.id(),
            block_bytes: BLOCK_BYTES,
            placement_idle_ms: 900_000,
            expect_peers: false,
        };
        let node = Node::new(config, LifeId(1), 1, MonoTime::default(), WallMs(1_000_000));
        let feed = plugin.feed(LifeId(1));
        let name = |no| WorkerId::new(&format!("http://10.0.0.{no}:8000"), 0).expect("a name");
        let workers: Vec<_> = (0..WORKERS).map(name).collect();
        let mut fleet = Self { plugin, keyspace: Arc::new(keyspace), feed, workers, node, submitted, now_ms: 0 };
        fleet.pump();
        for no in 0..WORKERS {
            let worker = fleet.workers[no].clone();
            let started_at = fleet.plugin.incarnation(&worker);
            fleet.plugin.worker_seen(&worker);
            fleet.plugin.worker_probed(&worker, started_at, Token::new("boot").expect("a token"), None);
            fleet.pump();
            fleet.place(no, &prompt(0, SHARED_BLOCKS));
        }
        fleet
    }

    /// What the gateway hashes of a prompt.
    pub(crate) fn key(&self, prompt: &[u8]) -> RequestKey {
        RequestKey::of_bytes(&self.keyspace, &HashKey::ZERO, b"", prompt)
    }

    /// A worker (by number, modulo their count) accepted a prompt.
    pub(crate) fn place(&mut self, worker: usize, prompt: &[u8]) {
        let worker = self.workers[worker % WORKERS].clone();
        let chain = Arc::clone(self.key(prompt).chain());
        let incarnation = self.plugin.incarnation(&worker);
        let place = Local::Place { worker, keyspace: Arc::clone(&self.keyspace), incarnation, chain };
        self.submitted.lock().expect("no bench panicked").push(place);
        self.pump();
    }

    fn pump(&mut self) {
        let locals: Vec<_> = self.submitted.lock().expect("no bench panicked").drain(..).collect();
        for input in locals.into_iter().map(Input::Local).chain([Input::Elapsed]) {
            self.now_ms += 1;
            self.node.handle(MonoTime::from_ms(self.now_ms), WallMs(1_000_000 + self.now_ms), input);
            while let Some(output) = self.node.poll_output() {
                match output {
                    Output::Changed(change) => self.feed.changed(change),
                    Output::Load { life, worker, load } => self.feed.load(life, &worker, load),
                    Output::Note(note) => self.feed.note(&note),
                    Output::Send { .. } | Output::Close { .. } | Output::Reborn(_) | Output::Feed(_) => {}
                }
            }
        }
        let _held_up = self.feed.publish();
    }
}
