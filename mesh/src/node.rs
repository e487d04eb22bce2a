//! The protocol as a value (being written; the signatures are final).

use covey_crdt::id::{GatewayName, LifeId};
use covey_crdt::keyspace::HashKeyId;
use covey_crdt::stamp::WallMs;

use crate::input::{Input, MonoTime};
use crate::output::Output;
use crate::status::Status;

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
    life: LifeId,
}

impl Node {
    /// A node at the start of `life`. `seed` feeds its jitter; equal seeds and inputs give equal outputs.
    #[must_use]
    pub fn new(config: NodeConfig, life: LifeId, seed: u64, now: MonoTime, wall: WallMs) -> Self {
        let _ = (seed, now, wall);
        Self { config, life }
    }

    /// Takes one input. Outputs queue up until [`Self::poll_output`] has returned `None`.
    pub fn handle(&mut self, now: MonoTime, wall: WallMs, input: Input) {
        let _ = (now, wall, input);
    }

    /// The next thing the node asks for, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        None
    }

    /// When to call [`Self::handle`] with [`Input::Elapsed`] at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoTime> {
        None
    }

    /// The node's life.
    #[must_use]
    pub const fn life(&self) -> LifeId {
        self.life
    }

    /// The node's view of itself and its peers.
    #[must_use]
    pub fn status(&self, now: MonoTime) -> Status {
        let _ = now;
        Status { name: self.config.name.to_string(), ..Status::default() }
    }
}
