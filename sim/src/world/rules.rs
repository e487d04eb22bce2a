//! Rules of conduct that no snapshot shows: who may publish and when, what a note may claim, what a reset must reach.
//!
//! Not here: invariants of a state (`invariants`), convergence (`checks`).

use covey_crdt::id::WorkerId;
use covey_crdt::op::Op;
use covey_mesh::node::Node;
use covey_mesh::note::{ClockState, Drop, Note};
use covey_mesh::output::Rebirth;
use covey_mesh::status::Phase;

use super::World;
use crate::invariants::Violation;

/// A node before a turn: where it takes its clock to stand, and how far its own log is.
pub(super) struct Before {
    clock: ClockState,
    published: u64,
}

impl Before {
    pub(super) fn of(node: &Node) -> Self {
        Self { clock: node.clock(), published: node.vector().head(node.life()).seq }
    }

    /// Rule (a): a gateway that takes its clock for fast publishes nothing but its leave.
    pub(super) fn broken(&self, name: &str, node: &Node) -> Option<Violation> {
        if self.clock != ClockState::Ahead || node.clock() != ClockState::Ahead {
            return None;
        }
        let mut fresh = node.retained(node.life(), self.published + 1).into_iter().flatten();
        let (seq, _) = fresh.find(|(_, op)| !matches!(op, Op::Left))?;
        Some(Violation::new("rule a", format!("{name} published its op {seq} although its clock is ahead")))
    }
}

/// Two rebirths within this time belong together, in microseconds.
const BOTH_US: u64 = 2_000_000;

impl World {
    /// P10: of members that closed one another one side goes on. When a node begins anew although another did so a moment
    /// ago, somebody must be left who has what they knew.
    pub(super) fn check_rebirth(&mut self, slot: usize, why: Rebirth) {
        if !matches!(why, Rebirth::Retired | Rebirth::Apart) {
            return;
        }
        let before = self.retired_us.replace(self.now_us);
        let soon = before.is_some_and(|before| self.now_us - before < BOTH_US);
        let others = self.slots.iter().enumerate().filter(|(nth, _)| *nth != slot);
        let mut nodes = others.filter_map(|(_, other)| other.node.as_ref());
        if soon && !nodes.any(|node| node.phase() != Phase::Joining) {
            self.violation(
                "P10",
                format!("{} began anew, and nobody is left who knows anything", self.slots[slot].name),
            );
        }
    }

    /// What a node says must fit what it said before, and what was done to it.
    pub(super) fn check_note(&mut self, slot: usize, note: &Note) {
        if let Note::Clock { state, .. } = note {
            self.slots[slot].says = *state;
        }
        let silent = matches!(note, Note::Dropped { why: Drop::Clock });
        if silent && self.slots[slot].says != ClockState::Ahead {
            let what = format!("{} is silent although its clock is not ahead", self.slots[slot].name);
            self.violation("P11", what);
        }
        let damaged = self.plan.network.corruption.is_some();
        if let Note::Fork { life, .. } = note
            && !damaged
            && !self.oracle.has_forked(*life)
        {
            let what =
                format!("{} takes the log of {life:?} for two, and no life was given twice", self.slots[slot].name);
            self.violation("R3", what);
        }
    }

    /// A reset covers everything its gateway has seen, whatever clocks the touches came from.
    pub(super) fn check_reset(&mut self, slot: usize, worker: &WorkerId) {
        let (Some(node), None) = (&self.slots[slot].node, self.slots[slot].pause) else { return };
        let silent = node.clock() == ClockState::Ahead || node.phase() == Phase::Joining;
        let left =
            node.replica().holders().filter(|(holder, _, placed)| *holder == worker && placed.blocks() > 0).count();
        if left > 0 && !silent {
            let what =
                format!("{} reset {worker}, and {left} of its holders still cover blocks", self.slots[slot].name);
            self.violation("R4", what);
        }
    }
}
