//! Requests for the simulated cluster: conversations that branch off one another, sent to workers by gateways.
//!
//! Not here: token-level workloads for real processes (`workload`).

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::hash::BlockHash;
use covey_crdt::id::{ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_mesh::input::Load;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::conversation::Conversations;
use crate::plan::{Plan, Stream};

/// One accepted request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which gateway sent it.
    pub node: usize,
    /// The number of the worker that accepted it.
    pub worker: usize,
    /// The space of its blocks.
    pub keyspace: Arc<Keyspace>,
    /// Its blocks.
    pub chain: Arc<[BlockHash]>,
}

/// Draws requests.
#[derive(Clone, Debug)]
pub struct Traffic {
    draw: Stream,
    nodes: u64,
    workers: u64,
    sessions: u64,
    depth_max: u64,
    gap_us: f64,
    mask: u64,
    keyspaces: [Arc<Keyspace>; 2],
    seed: u64,
    ids: Vec<WorkerId>,
    /// Every session's chain, as deep as it may get, once it was drawn.
    chains: BTreeMap<u64, Arc<[BlockHash]>>,
    loads: Stream,
    conversations: Option<Conversations>,
}

impl Traffic {
    /// The traffic of a plan.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let keyspace = |model: &str| {
            let model = ModelName::new(model).expect("a good name");
            Arc::new(Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a good block size"))
        };
        Self {
            draw: Stream::new(plan.seed, "traffic"),
            nodes: plan.nodes as u64,
            workers: plan.workers as u64,
            sessions: plan.sessions,
            depth_max: plan.depth_max,
            gap_us: 1e6 / plan.ops_per_s as f64,
            mask: if plan.hash_bits == 64 { u64::MAX } else { (1 << plan.hash_bits) - 1 },
            keyspaces: [keyspace("large"), keyspace("small")],
            seed: plan.seed,
            ids: (0..plan.workers)
                .map(|nth| WorkerId::new(&format!("worker-{nth}"), 0).expect("a good name"))
                .collect(),
            chains: BTreeMap::new(),
            loads: Stream::new(plan.seed, "loads"),
            conversations: Conversations::of(plan),
        }
    }

    /// As [`Self::new`], for lookups: drawn apart from the requests.
    #[must_use]
    pub fn asks(plan: &Plan) -> Self {
        Self { draw: Stream::new(plan.seed, "asks"), ..Self::new(plan) }
    }

    /// Microseconds until the next request: exponential.
    pub fn gap_us(&mut self) -> u64 {
        (-self.gap_us * (1.0 - self.draw.unit()).ln()) as u64 + 1
    }

    /// The next request.
    pub fn request(&mut self) -> Request {
        if let Some(conversations) = &mut self.conversations {
            let (worker, chain) = conversations.turn();
            let node = self.draw.below(self.nodes) as usize;
            return Request { node, worker, keyspace: Arc::clone(&self.keyspaces[0]), chain: chain.into() };
        }
        let session = self.draw.below(self.sessions);
        let depth = self.draw.between(1, self.depth_max);
        let keyspace = Arc::clone(&self.keyspaces[usize::from(self.draw.chance(0.15))]);
        let node = self.draw.below(self.nodes) as usize;
        let worker = self.draw.below(self.workers) as usize;
        let chain = Arc::from(&self.session(session)[..depth as usize]);
        Request { node, worker, keyspace, chain }
    }

    fn session(&mut self, session: u64) -> Arc<[BlockHash]> {
        if let Some(chain) = self.chains.get(&session) {
            return Arc::clone(chain);
        }
        let chain: Arc<[BlockHash]> = (0..self.depth_max).map(|at| self.block(session, at)).collect();
        self.chains.insert(session, Arc::clone(&chain));
        chain
    }

    /// Session `s` shares a part of its chain with session `s / 2`, at whatever offset that ends.
    fn block(&self, session: u64, at: u64) -> BlockHash {
        let branch = xxh3_64_with_seed(&session.to_le_bytes(), self.seed) % self.depth_max;
        if session > 0 && at < branch {
            return self.block(session / 2, at);
        }
        let mut bytes = session.to_le_bytes().to_vec();
        bytes.extend_from_slice(&at.to_le_bytes());
        BlockHash(xxh3_64_with_seed(&bytes, self.seed) & self.mask)
    }

    /// The id of worker number `nth`.
    #[must_use]
    pub fn worker(&self, nth: usize) -> WorkerId {
        self.ids[nth].clone()
    }

    /// The token of an engine's `restart`th life: its order says nothing.
    #[must_use]
    pub fn token(&self, worker: usize, restart: u64) -> Token {
        let word = xxh3_64_with_seed(&(worker as u64).to_le_bytes(), self.seed ^ restart);
        Token::new(&format!("{word:x}")).expect("a good token")
    }

    /// A gateway's load on some worker.
    pub fn load(&mut self) -> (WorkerId, Load) {
        let worker = self.loads.index(self.ids.len());
        let load = Load { requests: self.loads.below(4) as u32, queued_tokens: self.loads.below(3) * 1_000 };
        (self.worker(worker), load)
    }
}
