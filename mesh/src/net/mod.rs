//! The driver: one loop on its own single-threaded tokio runtime that feeds a [`Node`](crate::node::Node) and carries
//! out what it asks. It holds no protocol decision.
//!
//! Not here: the protocol (`node`), the read index (`covey-gateway-plugin`). Upholds I11: whatever happens on the mesh
//! thread, request threads neither wait nor fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};

use crate::input::{Load, Local};
use crate::node::NodeConfig;
use crate::note::Note;
use crate::status::Status;

/// How to reach and be reached by the other gateways.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// UDP address to bind.
    pub listen: SocketAddr,
    /// Address the peers are told; the bound one when `None` (which must then not be a wildcard).
    pub advertise: Option<SocketAddr>,
    /// `host:port` or `address:port` of peers; names are resolved again at every dial.
    pub seeds: Vec<String>,
    /// The shared secret: who has it is a member.
    pub secret: Arc<[u8]>,
}

/// What lives beside the node on the mesh thread: the read index's writer, load sampling, metrics.
/// Calls must not block; a call that stalls or panics is the mesh thread stalling or panicking (I11).
pub trait Host {
    /// The replica changed.
    fn changed(&mut self, change: Change);
    /// A gateway's load on a worker is now this (zero when it is not live any more).
    fn load(&mut self, life: LifeId, worker: &WorkerId, load: Load);
    /// The node observed something.
    fn note(&mut self, note: &Note);
    /// All changes of this turn are in: publish them to readers. `Duration` until it wants to be called again although
    /// nothing changed (a publish that readers held up), `None` when it does not.
    fn publish(&mut self) -> Option<Duration>;
    /// Append this gateway's present load per worker (all workers, or at least those that changed) to `out`.
    fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>);
}

/// Makes the host of one life. Called on the mesh thread at the start of every life; the previous host must not
/// publish any more once a new one was made.
pub type MakeHost = Arc<dyn Fn(LifeId) -> Box<dyn Host> + Send + Sync>;

/// Everything the driver needs.
#[derive(Clone)]
pub struct MeshConfig {
    /// The node's part.
    pub node: NodeConfig,
    /// The network's part; `None` is mesh off: a replica of one, same code, no peers.
    pub net: Option<NetConfig>,
    /// Makes the host.
    pub make_host: MakeHost,
}

/// A running mesh member, as request threads hold it. Cheap to clone; nothing here blocks.
#[derive(Clone)]
pub struct Mesh {
    _private: (),
}

impl Mesh {
    /// Hands something to the mesh thread. `false`: the bounded queue was full and it was dropped and counted.
    #[must_use]
    pub fn submit(&self, local: Local) -> bool {
        let _ = local;
        false
    }

    /// The status as of the mesh thread's last turn (at most 250 ms apart while it is healthy).
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        Arc::new(Status::default())
    }

    /// How long ago the mesh thread last finished a turn; the gateway calls its view stale past 1 s.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        Duration::ZERO
    }
}
