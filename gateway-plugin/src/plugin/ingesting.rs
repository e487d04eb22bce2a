//! Where whoever reads engines' events hooks in: what the node wants of it, and what it has to know of the replica.
//!
//! Not here: reading them (`ingest`, `server`). Called on the mesh thread: nothing here may wait.

use covey_crdt::change::{FeedView, WorkerView};
use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::output::FeedOrder;

/// Who reads engines' events for a plugin.
pub trait Ingesting: Send + Sync {
    /// A new life of the mesh member begins: what earlier ones wanted is void.
    fn begun(&self, life: LifeId);
    /// The node wants this.
    fn order(&self, order: FeedOrder);
    /// A worker's feed is this far in the replica.
    fn feed(&self, worker: &WorkerId, feed: Option<&FeedView>);
    /// A worker's record is this now.
    fn record(&self, view: &WorkerView);
}
