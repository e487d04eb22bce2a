//! Looking at the cluster: at one moment, over time, and in what it has not converged yet (I10).
//!
//! While faults last, what is dear is looked at sparsely: every second one node block by block, picked by chance. In the
//! end every node is.
//!
//! Not here: the invariants themselves (`invariants`), when it must have converged (`calm`).

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::limits::EPS_MS;
use covey_mesh::node::Node;
use covey_mesh::note::ClockState;
use covey_mesh::status::Phase;

use super::World;
use super::event::Event;
use super::slot::Slot;
use crate::invariants::{self, View, Violation};
use crate::marks;
use crate::plan::Wrong;

/// An engine that had more tokens than this within a minute is not believed by everybody at once.
pub(super) const TOKENS_BELIEVED: usize = 4;

impl World {
    pub(super) fn check(&mut self, heavy: bool) {
        let period = if heavy { 1_000_000 } else { 200_000 };
        self.after(period, Event::Check { heavy });
        if heavy {
            self.check_tokens();
            if !self.watch.is_light {
                self.check_states(false);
            }
            return;
        }
        for slot in &mut self.slots {
            if let Some(node) = &slot.node {
                self.outcome.violations.extend(slot.marks.advance(slot.name.as_str(), node));
                let most = self.plan.knobs.log_bytes;
                self.outcome.violations.extend(invariants::check_log(slot.name.as_str(), node, most));
            }
        }
        self.check_equal_vectors();
        self.check_gauges();
        if self.calm {
            self.check_calm();
        }
    }

    /// I1, by digests: cheap enough to look at often.
    fn check_equal_vectors(&mut self) {
        if self.oracle.forks() {
            return;
        }
        let mut digests = BTreeMap::new();
        let clean = |node: &&Node| node.phase() == Phase::Clean;
        for node in self.slots.iter().filter_map(|slot| slot.node.as_ref()).filter(clean) {
            let (vector, digest) = (node.vector().hash(), node.replica().digest());
            let other = *digests.entry(vector).or_insert(node);
            if other.replica().digest() != digest {
                let feeds = node.replica().feeds().filter(|(worker, feed)| {
                    let theirs = other.replica().feed(worker);
                    theirs.is_none_or(|theirs| theirs.digest(worker) != feed.digest(worker))
                });
                let feeds: Vec<String> = feeds.map(|(worker, feed)| format!("{worker} at {:?}", feed.key)).collect();
                let (one, two) = (other.life(), node.life());
                let what = format!(
                    "{one:?} and {two:?} have equal clean vectors and different digests; feeds that differ: {feeds:?}"
                );
                self.outcome.violations.push(Violation::new("I1", what));
            }
        }
    }

    /// Looks at states block by block: at all nodes', or at one's. Digests are checked against recomputed ones, so an
    /// unequal state cannot hide behind an equal digest.
    pub(super) fn check_states(&mut self, all: bool) {
        self.check_future();
        let live: Vec<usize> = (0..self.slots.len()).filter(|nth| self.slots[*nth].node.is_some()).collect();
        let picked = self.draws.looks.index(live.len());
        let looked = if all { &live[..] } else { live.get(picked..=picked).unwrap_or(&[]) };
        let mut views: Vec<View> = Vec::new();
        // Where states are large, one of several equal ones stands for all: digests are looked at in every one.
        let mut seen = BTreeSet::new();
        for slot in looked.iter().map(|nth| &self.slots[*nth]) {
            let Some(node) = &slot.node else { continue };
            if !node.replica().is_consistent() {
                let what = format!("{}: an incremental digest or count differs from one computed anew", slot.name);
                self.outcome.violations.push(Violation::new("I1", what));
            }
            self.outcome.violations.extend(invariants::check_bounds(slot.name.as_str(), node));
            let digest = node.replica().digest();
            if !self.watch.is_light || seen.insert((node.phase() == Phase::Clean, node.vector().hash(), digest)) {
                views.push(View::of(slot.name.to_string(), node));
            }
        }
        self.look_for_marks(&views);
        let (known, told) = self.known_and_told();
        let mut found = invariants::check(&views, &self.oracle, &told);
        found.extend(invariants::check_known(&known, &told));
        self.outcome.violations.extend(found);
        self.check_lookups(&views);
    }

    fn look_for_marks(&mut self, views: &[View]) {
        let Some(view) = views.first() else { return };
        let mut blocks = BTreeMap::new();
        let paths: BTreeSet<_> = view.state.coverage.values().flat_map(|(_, blocks)| blocks.keys()).collect();
        let alias = paths.into_iter().any(|path| {
            let block = self.oracle.block(*path);
            block.is_some_and(|block| blocks.insert(block, *path).is_some())
        });
        if alias {
            self.mark(marks::COLLISION);
        }
        let held = self.slots.iter().filter_map(|slot| slot.node.as_ref()).any(|node| node.waits_for_clock());
        if held {
            self.mark(marks::HOLD);
        }
    }

    /// Rules (b) and (c): nothing from beyond the local clock's tolerance is in a node's state, whichever way it came.
    fn check_future(&mut self) {
        for nth in 0..self.slots.len() {
            // A node that does nothing has not read its clock.
            if self.slots[nth].pause.is_some() {
                continue;
            }
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

    /// I5: an incarnation's counter cannot outrun the tokens its engine had (P12) and what operators asked for, and no other
    /// token is believed. Where two engines answered or discovery removed the worker, more than that raises it.
    fn check_tokens(&mut self) {
        for worker in 0..self.engines.len() {
            let engine = &self.engines[worker];
            if engine.flapped || engine.was_removed {
                continue;
            }
            let id = self.traffic.worker(worker);
            let tokens: Vec<_> = engine.tokens.iter().map(|nth| self.traffic.token(worker, *nth)).collect();
            for slot in &self.slots {
                let Some(record) = slot.node.as_ref().and_then(|node| node.replica().record(&id)) else { continue };
                let incarnation = &record.incarnation;
                if !tokens.contains(&incarnation.token) || incarnation.counter > (tokens.len() + engine.raised) as u64 {
                    let what = format!("{}: {id} is {incarnation:?} though its engine had {tokens:?}", slot.name);
                    self.outcome.violations.push(Violation::new("I5", what));
                }
            }
        }
    }

    fn nodes(&self) -> impl Iterator<Item = (usize, &Slot, &Node)> {
        self.slots.iter().enumerate().filter_map(|(nth, slot)| Some((nth, slot, slot.node.as_ref()?)))
    }

    /// In what the cluster has not converged yet; empty when it has (I10). The minority that was left broken is neither
    /// waited for nor obeyed.
    pub(super) fn unequal(&self) -> String {
        let judged = self.nodes().filter(|(nth, _, _)| self.true_clock(*nth).is_some());
        for (nth, slot, node) in judged {
            if Some(node.clock()) != self.true_clock(nth) {
                return format!("{} takes its clock for {}", slot.name, node.clock().name());
            }
        }
        let healthy: Vec<(usize, &Slot, &Node)> = self.nodes().filter(|(nth, _, _)| self.is_healthy(*nth)).collect();
        for (_, slot, node) in &healthy {
            if node.phase() != Phase::Clean {
                return format!("{} is {:?}", slot.name, node.phase());
            }
        }
        for pair in healthy.windows(2) {
            if pair[0].2.replica().digest() != pair[1].2.replica().digest() {
                return format!("the digests of {} and {} differ", pair[0].1.name, pair[1].1.name);
            }
            // What a member whose clock is wrong stamped far ahead is held (rule b), and where a session brought the state
            // it is counted already.
            let held = pair.iter().any(|(_, _, node)| node.waits_for_clock());
            if pair[0].2.vector().hash() != pair[1].2.vector().hash() && !held {
                return format!("the vectors of {} and {} differ", pair[0].1.name, pair[1].1.name);
            }
        }
        let wrong = healthy.iter().map(|(nth, slot, node)| self.wrong_loads(*nth, slot, node));
        wrong
            .chain(healthy.first().map(|(_, slot, node)| self.wrong_worker(slot, node)))
            .chain([self.feeds_unequal()])
            .find(|why| !why.is_empty())
            .unwrap_or_default()
    }

    /// An engine that lives and answers everybody must be known by the token it has.
    fn wrong_worker(&self, slot: &Slot, node: &Node) -> String {
        for (worker, engine) in self.engines.iter().enumerate() {
            if engine.flapped || engine.was_removed || engine.changes() > TOKENS_BELIEVED {
                continue;
            }
            let (id, last) = (self.traffic.worker(worker), *engine.tokens.last().expect("it has had a token"));
            let known = node.replica().record(&id).map(|record| &record.incarnation.token);
            if known != Some(&self.traffic.token(worker, last)) {
                return format!("{} takes {id} for {known:?}", slot.name);
            }
        }
        String::new()
    }

    /// Where a node's clock really stands once faults are over (P11, I12); `None` when it cannot know.
    fn true_clock(&self, nth: usize) -> Option<ClockState> {
        match self.plan.wrong(nth) {
            None => Some(ClockState::Good),
            Some(Wrong::Clock { ms }) => Some(if ms > 0 { ClockState::Ahead } else { ClockState::Behind }),
            Some(Wrong::Dead | Wrong::Isolated | Wrong::Deaf | Wrong::Mute | Wrong::Slow { .. }) => None,
        }
    }

    /// Load registers as a healthy node sees them against what their writers wrote. Dead and unreachable writers' must
    /// not count; a slow one's may be late.
    fn wrong_loads(&self, reader: usize, slot: &Slot, node: &Node) -> String {
        let mut expected: BTreeMap<(LifeId, &WorkerId), Load> = BTreeMap::new();
        let mut late: BTreeSet<LifeId> = BTreeSet::new();
        for (writer, other, at) in self.nodes().filter(|(_, _, other)| other.life() != node.life()) {
            match self.plan.wrong(writer) {
                Some(Wrong::Slow { .. }) => {
                    late.insert(at.life());
                }
                Some(Wrong::Dead | Wrong::Isolated | Wrong::Deaf | Wrong::Mute) => {}
                None | Some(Wrong::Clock { .. }) => {
                    let loads = other.own_loads.iter().filter(|(_, load)| **load != Load::default());
                    expected.extend(loads.map(|(worker, load)| ((at.life(), worker), *load)));
                }
            }
        }
        late.extend(
            self.slots
                .iter()
                .enumerate()
                .filter(|(nth, _)| matches!(self.plan.wrong(*nth), Some(Wrong::Slow { .. })))
                .filter_map(|(_, slot)| slot.ended),
        );
        let seen = slot.seen_loads.iter().filter(|((life, _), load)| **load != Load::default() && !late.contains(life));
        let seen: BTreeMap<_, _> = seen.map(|((life, worker), load)| ((*life, worker), *load)).collect();
        if seen == expected { String::new() } else { format!("gw-{reader} sees other loads than were written") }
    }
}
