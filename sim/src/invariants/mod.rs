//! The invariants, one file each: pure functions of a snapshot of the cluster, returning what is wrong.
//!
//! Each is shown to fire on a world made by hand, in the tests beside it. Not here: when they are looked at (`world`,
//! where convergence, I10, and the request path's independence of the mesh, I11, show as well).

mod i12_frames;
mod i12_gauges;
mod i1_equal_vectors_equal_state;
mod i2_top_k;
mod i3_prefix_closed;
mod i4_never_regress;
mod i5_no_return;
mod i6_no_phantom;
mod i7_stored;
mod i8_lookup;
mod i9_bounded;
#[cfg(test)]
mod made;

use std::collections::BTreeMap;

use covey_crdt::digest::Digest;
use covey_crdt::id::LifeId;
use covey_crdt::replica::Expanded;
use covey_mesh::node::Node;
use covey_mesh::status::{Phase, Status};

use crate::oracle::Oracle;

pub use i4_never_regress::Marks;
pub use i7_stored::{Known, Told};
pub use i8_lookup::{Loads, Lookups, Query};
pub use i12_frames::{FrameTruth, WorkerTruth};
pub use i12_gauges::{Moment, PeerTruth, Truth};

/// Something that must never happen, happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, what: String) -> Self {
        Self { invariant, what }
    }
}

/// One node at one moment, expanded.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Its life.
    pub life: LifeId,
    /// Whether its vector describes its state exactly.
    pub clean: bool,
    /// How far each log is applied.
    pub vector: BTreeMap<LifeId, u64>,
    /// The root digest.
    pub digest: Digest,
    /// Everything it holds.
    pub state: Expanded,
}

impl View {
    /// Looks at a node.
    #[must_use]
    pub fn of(name: String, node: &Node) -> Self {
        let replica = node.replica();
        Self {
            name,
            life: node.life(),
            clean: node.phase() == Phase::Clean,
            vector: node.vector().lives().map(|(life, head)| (life, head.seq)).collect(),
            digest: replica.digest(),
            state: replica.expand(),
        }
    }
}

/// Checks everything that can be seen at one moment.
#[must_use]
pub fn check(views: &[View], oracle: &Oracle, told: &Told<'_>) -> Vec<Violation> {
    let mut found = i1_equal_vectors_equal_state::check(views, oracle);
    for view in views {
        found.extend(i2_top_k::check(view, oracle));
        found.extend(i3_prefix_closed::check(view, oracle));
        found.extend(i5_no_return::check(view));
        found.extend(i6_no_phantom::check(view, oracle));
        found.extend(i7_stored::check(view, told));
    }
    found
}

/// Checks what ingesters claim to know.
#[must_use]
pub fn check_known(known: &[Known], told: &Told<'_>) -> Vec<Violation> {
    i7_stored::check_known(known, told)
}

/// Checks the bounds of one node.
#[must_use]
pub fn check_bounds(name: &str, node: &Node) -> Vec<Violation> {
    i9_bounded::check(name, node)
}

/// Checks what a node retains against its bound, `most` bytes.
#[must_use]
pub fn check_log(name: &str, node: &Node, most: usize) -> Option<Violation> {
    i9_bounded::check_log(name, node.settled_log_bytes(), most)
}

/// Checks how much a node put out in one turn.
#[must_use]
pub fn check_turn(name: &str, queued: usize) -> Option<Violation> {
    i9_bounded::check_turn(name, queued)
}

/// Checks what a node says of itself and its peers.
#[must_use]
pub fn check_gauges(status: &Status, truth: &Truth) -> Vec<Violation> {
    i12_gauges::check(status, truth)
}

/// Checks what a node shows people: its summary, those of its peers, and the verdict.
#[must_use]
pub fn check_frame(
    status: &Status,
    view: &covey_mesh::summary::View,
    verdict: covey_gateway_plugin::frame::Verdict,
    truth: &FrameTruth,
) -> Vec<Violation> {
    i12_frames::check(status, view, verdict, truth)
}
