//! The driver: one loop on its own single-threaded tokio runtime that feeds a [`Node`](crate::node::Node) and carries
//! out what it asks. It holds no protocol decision.
//!
//! Not here: the protocol (`node`), the read index (`covey-gateway-plugin`). Upholds I11: whatever happens on the mesh
//! thread, request threads neither wait nor fail.

mod clock;
mod context;
mod dial;
mod driver;
mod framing;
mod ground;
mod host;
#[cfg(test)]
mod hostile;
mod identity;
mod inspect;
mod link;
mod links;
mod members;
mod membership;
mod mesh;
mod metrics;
mod network;
mod peer;
mod plan;
mod queue;
#[cfg(test)]
mod ring2;
mod sampling;
mod scan;
mod secret;
mod start;
mod throttle;
mod tls;
mod transport;
mod tunnel;
mod watchdog;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};

pub use inspect::{INSPECT_WAIT, InspectError};
pub use mesh::{COMMANDS_MAX, Mesh};
pub use metrics::{ByClass, LinkFailure, LinkSnapshot, NetSnapshot, Quantiles};
pub use secret::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, SecretError, derive_hash_key, load_secret};
pub use start::{StartError, start};

use crate::input::Load;
use crate::node::NodeConfig;
use crate::note::Note;
use crate::output::FeedOrder;

/// How to reach and be reached by the other gateways.
#[derive(Clone)]
pub struct NetConfig {
    /// UDP address to bind; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address the peers are told; the bound one when `None` (which must then not be a wildcard). Port 0 stands for the
    /// bound port.
    pub advertise: Option<SocketAddr>,
    /// `host:port` or `address:port` of peers; names are resolved again at every dial.
    pub seeds: Vec<String>,
    /// The shared secret: who has it is a member. At least [`SECRET_BYTES_MIN`] random bytes.
    pub secret: Arc<[u8]>,
}

impl std::fmt::Debug for NetConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetConfig")
            .field("listen", &self.listen)
            .field("advertise", &self.advertise)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

/// What lives beside the node on the mesh thread: the read index's writer, load sampling, metrics.
/// Calls must not block; a call that stalls or panics is the mesh thread stalling or panicking (I11).
pub trait Host {
    /// The replica changed.
    fn changed(&mut self, change: Change);
    /// A gateway's load on a worker is now this; `None` when it is not live any more.
    fn load(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>);
    /// The node observed something.
    fn note(&mut self, note: &Note);
    /// The node wants something of whoever reads engines' events.
    fn feed(&mut self, order: FeedOrder);
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
    /// A mesh thread that has not finished a turn for this long is superseded by a new life.
    pub stall_after: Duration,
}

impl MeshConfig {
    /// The usual stall limit.
    pub const STALL_AFTER: Duration = Duration::from_secs(2);

    /// A configuration with the usual stall limit.
    #[must_use]
    pub fn new(node: NodeConfig, net: Option<NetConfig>, make_host: MakeHost) -> Self {
        Self { node, net, make_host, stall_after: Self::STALL_AFTER }
    }
}
