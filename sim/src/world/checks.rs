//! Looking at the cluster: at one moment, over time, and whether it has converged (I10).
//!
//! Not here: the invariants themselves (`invariants`).

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::limits::EPS_MS;
use covey_mesh::node::Node;
use covey_mesh::note::ClockState;
use covey_mesh::status::Phase;

use super::{Event, Slot, World};
use crate::invariants::{self, View, Violation};

impl World {
    pub(super) fn check(&mut self, heavy: bool) {
        let period = if heavy { 1_000_000 } else { 200_000 };
        self.at(self.now_us + period, Event::Check { heavy });
        for slot in &mut self.slots {
            if let Some(node) = &slot.node {
                self.outcome.violations.extend(slot.marks.advance(slot.name.as_str(), node));
                self.outcome.violations.extend(invariants::check_bounds(slot.name.as_str(), node));
                let most = self.plan.knobs.log_bytes;
                self.outcome.violations.extend(invariants::check_log(slot.name.as_str(), node, most));
            }
        }
        self.check_tokens();
        self.check_gauges();
        if heavy {
            if !self.watch.is_light {
                self.check_states(false);
            }
        } else if self.calm && self.outcome.converged_ms.is_none() && self.unequal().is_empty() {
            self.check_states(true);
            self.outcome.converged_ms = Some(self.now_us / 1_000 - self.plan.faults_ms);
        }
    }

    /// Looks at states block by block: of nodes with equal vectors and digests at one while faults last, at all in the
    /// end. Digests are checked against recomputed ones everywhere, so an unequal state cannot hide behind an equal one.
    pub(super) fn check_states(&mut self, all: bool) {
        self.check_future();
        let live = self.slots.iter().filter_map(|slot| Some((slot.name.to_string(), slot.node.as_ref()?)));
        let mut seen = BTreeSet::new();
        let mut views: Vec<View> = Vec::new();
        for (name, node) in live {
            let clean = node.phase() == Phase::Clean;
            if !node.replica().is_consistent() {
                let what = format!("{name}: an incremental digest or count differs from one computed anew");
                self.outcome.violations.push(Violation::new("I1", what));
            }
            if all || seen.insert((clean, node.vector().hash(), node.replica().digest())) {
                views.push(View::of(name, node));
            }
        }
        self.outcome.violations.extend(invariants::check(&views, &self.oracle));
        self.check_lookups(&views);
    }

    /// Rules (b) and (c): nothing from beyond the local clock's tolerance is in a node's state, whichever way it came.
    fn check_future(&mut self) {
        for nth in 0..self.slots.len() {
            let limit = self.wall(nth).0 + EPS_MS + 10;
            let slot = &self.slots[nth];
            for (worker, _, placed) in slot.node.iter().flat_map(|node| node.replica().holders()) {
                let newest = placed.segments(None).last().map_or(placed.floor().stamp, |(stamp, _)| stamp);
                if newest.hlc.ms() > limit {
                    let what = format!(
                        "{} covers {worker} at {} ms, its own clock allows {limit}",
                        slot.name,
                        newest.hlc.ms()
                    );
                    self.outcome.violations.push(Violation::new("rules b and c", what));
                }
            }
        }
    }

    /// I5: a token that an engine had before never comes back; so an incarnation's counter cannot outrun its token (P12).
    fn check_tokens(&mut self) {
        for worker in 0..self.plan.workers {
            let id = self.traffic.worker(worker);
            for slot in &self.slots {
                let Some(record) = slot.node.as_ref().and_then(|node| node.replica().record(&id)) else { continue };
                let token = &record.incarnation.token;
                let age = (0..=self.tokens[worker]).find(|nth| self.traffic.token(worker, *nth) == *token);
                if age.is_none_or(|age| record.incarnation.counter > age + 1) {
                    let what = format!(
                        "{}: {id} is {:?} though its engine had that token before",
                        slot.name, record.incarnation
                    );
                    self.outcome.violations.push(Violation::new("I5", what));
                }
            }
        }
    }

    /// In what the cluster has not converged yet; empty when it has (I10).
    pub(super) fn unequal(&self) -> String {
        let live: Vec<(usize, &Slot, &Node)> =
            self.slots.iter().enumerate().filter_map(|(nth, slot)| Some((nth, slot, slot.node.as_ref()?))).collect();
        let misjudged = live.iter().find(|(nth, _, node)| node.clock() != self.true_clock(*nth));
        if let Some((_, slot, node)) = misjudged {
            return format!("{} takes its clock for {}", slot.name, node.clock().name());
        }
        let all: Vec<(&Slot, &Node)> = live.iter().map(|(_, slot, node)| (*slot, *node)).collect();
        // A minority with broken clocks is neither waited for nor obeyed.
        let live: Vec<(&Slot, &Node)> = live
            .iter()
            .filter(|(nth, _, _)| self.plan.left_ms[*nth] == 0)
            .map(|(_, slot, node)| (*slot, *node))
            .collect();
        let unclean: Vec<String> = live
            .iter()
            .filter(|(_, node)| node.phase() != Phase::Clean)
            .map(|(slot, node)| format!("{} is {:?}", slot.name, node.phase()))
            .collect();
        if !unclean.is_empty() {
            return unclean.join(", ");
        }
        if live.windows(2).any(|pair| pair[0].1.vector().hash() != pair[1].1.vector().hash()) {
            return "vectors differ".to_owned();
        }
        if live.windows(2).any(|pair| pair[0].1.replica().digest() != pair[1].1.replica().digest()) {
            return "digests differ".to_owned();
        }
        let unknown = self.unknown_restart(&live);
        if unknown.is_empty() { self.wrong_loads(&all) } else { unknown }
    }

    /// Where a node's clock really stands once faults are over (P11, I12).
    fn true_clock(&self, nth: usize) -> ClockState {
        match self.plan.left_ms[nth] {
            0 => ClockState::Good,
            1.. => ClockState::Ahead,
            _ => ClockState::Behind,
        }
    }

    /// Load registers as each node sees them against what their writers wrote; dead writers' must not count.
    pub(super) fn wrong_loads(&self, live: &[(&Slot, &Node)]) -> String {
        for (reader, node) in live {
            let writers = live.iter().filter(|(_, other)| other.life() != node.life());
            let mut expected: BTreeMap<(LifeId, WorkerId), Load> = BTreeMap::new();
            for (slot, other) in writers {
                let loads = slot.own_loads.iter().filter(|(_, load)| **load != Load::default());
                expected.extend(loads.map(|(worker, load)| ((other.life(), worker.clone()), *load)));
            }
            let seen = reader.seen_loads.iter().filter(|(_, load)| **load != Load::default());
            let seen: BTreeMap<_, _> = seen.map(|(key, load)| (key.clone(), *load)).collect();
            if seen != expected {
                return format!("{} sees other loads than were written", reader.name);
            }
        }
        String::new()
    }
}
