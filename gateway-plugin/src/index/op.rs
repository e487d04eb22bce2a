//! What alters an index copy: the replica's changes with workers already numbered, and load registers.
//!
//! Every op is applied to both copies of the index, so it must not depend on anything but the copy. Not here: applying
//! (`model`), deciding when (`publish`).

use std::sync::Arc;

use covey_crdt::change::{Change, Coverage, FeedView, HolderSlot, Place, RunId, WorkerView};
use covey_crdt::hash::BlockHash;
use covey_crdt::id::LifeId;
use covey_crdt::keyspace::Keyspace;
use covey_crdt::lane::LaneId;
use covey_mesh::input::Load;

use crate::load::{WorkerCell, Workers};

/// One alteration. Most are [`Change`]'s.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Run { run: RunId, parent: Place, hashes: Arc<[BlockHash]> },
    RunFreed { run: RunId },
    Holder { slot: HolderSlot, cell: Arc<WorkerCell>, keyspace: Arc<Keyspace>, lane: LaneId, coverage: Coverage },
    HolderFreed { slot: HolderSlot },
    Reach { slot: HolderSlot, run: RunId, blocks: u32 },
    Stored { slot: HolderSlot, added: Arc<[BlockHash]>, removed: Arc<[BlockHash]> },
    Feed { cell: Arc<WorkerCell>, feed: Option<FeedView> },
    Worker { cell: Arc<WorkerCell>, view: WorkerView },
    WorkerFreed { cell: Arc<WorkerCell> },
    Load { life: LifeId, cell: Arc<WorkerCell>, load: Load },
}

impl Op {
    /// The op a change stands for, its worker numbered.
    pub(super) fn of(change: Change, workers: &Workers) -> Self {
        match change {
            Change::Run { run, parent, hashes } => Self::Run { run, parent, hashes },
            Change::RunFreed { run } => Self::RunFreed { run },
            Change::Holder { slot, key, coverage } => {
                let cell = workers.intern(&key.worker);
                Self::Holder { slot, cell, keyspace: key.keyspace, lane: key.lane, coverage }
            }
            Change::HolderFreed { slot } => Self::HolderFreed { slot },
            Change::Reach { slot, run, blocks } => Self::Reach { slot, run, blocks },
            Change::Worker(view) => Self::Worker { cell: workers.intern(&view.worker), view },
            Change::WorkerFreed { worker } => Self::WorkerFreed { cell: workers.intern(&worker) },
            Change::Stored { slot, added, removed } => Self::Stored { slot, added, removed },
            Change::Feed { worker, feed } => Self::Feed { cell: workers.intern(&worker), feed },
        }
    }
}
