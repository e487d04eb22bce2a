//! Counting what a leg sends, and what repair costs for what it mends.
//!
//! Not here: what is sent.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use covey_crdt::chain::Tip;
use covey_crdt::id::WorkerId;
use covey_crdt::keyspace::Keyspace;
use covey_crdt::stamp::Stamp;
use covey_mesh::node::Node;
use covey_mesh::note::Note;
use covey_mesh::output::Class;
use serde::{Deserialize, Serialize};

use crate::trace::{Step, Tracer};
use crate::world::World;

/// Frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What repair sessions cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repair {
    /// Sessions begun by gateways that had joined.
    pub sessions: u64,
    /// Sessions begun by newcomers, which have nothing yet.
    pub bootstraps: u64,
    /// Bytes of slices and what is said about them, both ways, chain content apart.
    pub slice_bytes: u64,
    /// Bytes of chain content sent with them.
    pub content_bytes: u64,
    /// Segments that receiver and donor did not both have when each session began, summed.
    pub differing_segments: u64,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// What repair cost.
    pub repair: Repair,
    /// What was sent between the last fault and convergence.
    pub converging: Sent,
    is_converging: bool,
}

/// Counts; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Counted>>);

impl Counts {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last fault is over.
    pub fn converging(&self) {
        self.lock().is_converging = true;
    }

    /// All live gateways are clean and equal.
    pub fn converged(&self) {
        self.lock().is_converging = false;
    }

    /// What was counted.
    #[must_use]
    pub fn take(&self) -> Counted {
        *self.lock()
    }
}

impl Tracer for Counts {
    fn step(&mut self, _: Step) {}

    fn wants_steps(&self) -> bool {
        false
    }

    fn note(&mut self, world: &World, node: usize, note: &Note) {
        let Note::RepairStarted { donor, why } = note else { return };
        let receiver = world.live().find(|(nth, _, _)| *nth == node).map(|(_, node, _)| node);
        let (Some(receiver), Some(donor)) = (receiver, world.node_of(*donor)) else { return };
        let differing = segments(receiver).symmetric_difference(&segments(donor)).count() as u64;
        let mut counted = self.lock();
        let is_bootstrap = *why == covey_mesh::note::RepairWhy::Bootstrap;
        counted.repair.bootstraps += u64::from(is_bootstrap);
        counted.repair.sessions += u64::from(!is_bootstrap);
        counted.repair.differing_segments += differing;
    }

    fn frame(&mut self, _: usize, class: Class, frame: &Bytes) {
        let mut counted = self.lock();
        let bytes = frame.len() as u64;
        if counted.is_converging {
            counted.converging.frames += 1;
            counted.converging.bytes += bytes;
        }
        let kind = covey_mesh::frame_kind(frame).unwrap_or_default();
        if kind.starts_with("Slice") {
            counted.repair.slice_bytes += bytes;
        } else if class == Class::Repair {
            counted.repair.content_bytes += bytes;
        }
    }
}

type Segment<'a> = (&'a WorkerId, &'a Arc<Keyspace>, Stamp, Tip);

fn segments(node: &Node) -> BTreeSet<Segment<'_>> {
    let chains = node.replica().chains();
    let holders = node.replica().holders();
    let all = holders.flat_map(|(worker, keyspace, placed)| {
        placed.segments(None).map(move |(stamp, tip)| (worker, keyspace, stamp, chains.tip(tip)))
    });
    all.collect()
}
