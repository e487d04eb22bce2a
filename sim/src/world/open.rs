//! The world from outside: stopping it at a moment, looking at its nodes, and what a run came to.
//!
//! Not here: what happens in it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use covey_crdt::id::LifeId;
use covey_mesh::input::MonoTime;
use covey_mesh::node::Node;

use super::{Outcome, World};
use crate::marks;
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::swarm::said;
use crate::trace::Tracer;

impl World {
    /// Whether the plan, or whoever watches, wants nothing that happens at this time.
    pub(super) fn ends_before(&self, at_us: u64) -> bool {
        let ends = [self.plan.end_us, self.watch.until_us];
        ends.into_iter().flatten().any(|end_us| at_us > end_us)
    }

    /// Steps to the end of the run. A panic of the core ends it, and is a violation like any other.
    pub fn run_out(&mut self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| while self.step() {})) {
            self.violation("panic", said(panic.as_ref()).to_owned());
        }
    }

    /// Ends the run: what it came to, and its tracer.
    #[must_use]
    pub fn finish(mut self) -> (Outcome, Option<Box<dyn Tracer>>) {
        self.outcome.ops = self.oracle.published();
        self.mark_many(marks::TAKEOVER, self.oracle.takeovers());
        self.outcome.ended_us = self.now_us;
        (self.outcome, self.watch.tracer)
    }

    /// What it came to so far.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The virtual time in microseconds.
    #[must_use]
    pub const fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Whether faults and workload are over.
    #[must_use]
    pub const fn is_calm(&self) -> bool {
        self.calm
    }

    /// What is carried out.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Everything that was ever published and accepted.
    #[must_use]
    pub const fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// Live nodes: number, node, and its monotonic time.
    pub fn live(&self) -> impl Iterator<Item = (usize, &Node, MonoTime)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(nth, slot)| Some((nth, slot.node.as_ref()?, self.mono(nth))))
    }

    /// The live node of a life.
    #[must_use]
    pub fn node_of(&self, life: LifeId) -> Option<&Node> {
        let slot = self.who.iter().position(|who| *who == Some(life))?;
        self.slots[slot].node.as_ref()
    }

    /// In what the live replicas differ, loads and clocks included; empty when they do not.
    #[must_use]
    pub fn differs(&self) -> String {
        self.unequal()
    }
}
