//! What changed on balance, and its cut into ops.
//!
//! Not here: what changes it (`cache`). The cut depends on what changed alone, so two gateways cut alike (P3).

use std::sync::Arc;

use covey_crdt::hash::BlockHash;
use covey_crdt::keyspace::Keyspace;
use covey_crdt::lane::LaneId;
use covey_crdt::limits::HASHES_PER_OP_MAX;
use covey_crdt::stored::StoredLane;

/// What changed in one lane, or all it holds (as added). Sorted, no block twice or in both lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneNet {
    /// The lane.
    pub lane: LaneId,
    /// Blocks that came.
    pub added: Vec<BlockHash>,
    /// Blocks that left.
    pub removed: Vec<BlockHash>,
}

/// Cuts what changed into the contents of ops, at least one, of at most [`HASHES_PER_OP_MAX`] hashes: first all that left,
/// so that no part holds more than before and after together.
#[must_use]
pub fn split(nets: &[LaneNet], keyspace: Option<&Arc<Keyspace>>) -> Vec<Vec<StoredLane>> {
    let Some(keyspace) = keyspace else { return vec![Vec::new()] };
    let (mut parts, mut room) = (vec![Vec::<StoredLane>::new()], HASHES_PER_OP_MAX);
    for is_added in [false, true] {
        for net in nets {
            let mut left = if is_added { &net.added[..] } else { &net.removed[..] };
            while !left.is_empty() {
                if room == 0 {
                    parts.push(Vec::new());
                    room = HASHES_PER_OP_MAX;
                }
                let (now, rest) = left.split_at(left.len().min(room));
                room -= now.len();
                left = rest;
                put(parts.last_mut().expect("one part at least"), keyspace, net.lane, is_added, now);
            }
        }
    }
    parts
}

fn put(part: &mut Vec<StoredLane>, keyspace: &Arc<Keyspace>, lane: LaneId, is_added: bool, blocks: &[BlockHash]) {
    let nth = part.iter().position(|of| of.lane == lane).unwrap_or_else(|| {
        let keyspace = Arc::clone(keyspace);
        part.push(StoredLane { keyspace, lane, added: Vec::new(), removed: Vec::new() });
        part.len() - 1
    });
    let of = &mut part[nth];
    if is_added { &mut of.added } else { &mut of.removed }.extend_from_slice(blocks);
}
