//! What is done to the cluster: connections that come and go, crashes, clocks, partitions, and the calm after them.
//!
//! Not here: when (`plan`).

use covey_crdt::id::LifeId;
use covey_mesh::input::{Input, Link, Local, Member};
use covey_mesh::node::Node;

use super::{Event, World};
use crate::plan::Fault;

impl World {
    pub(super) fn stop(&mut self, slot: usize) {
        let Some(node) = self.slots[slot].node.take() else { return };
        self.slots[slot].timer_us = None;
        for other in 0..self.slots.len() {
            if other != slot && self.network.set_up(slot, other, false) {
                self.gone(other, node.life(), 50_000, 3_000_000);
                self.later(800_000, 2_000_000, Event::Member { node: other, member: Member::Down(node.life()) });
            }
        }
    }

    pub(super) fn dial(&mut self, one: usize, other: usize) {
        let (least_ms, most_ms) = self.plan.driver.redial_ms;
        self.later(least_ms * 1_000, most_ms * 1_000, Event::Dial { one, other });
        let (Some(a), Some(b)) = (&self.slots[one].node, &self.slots[other].node) else { return };
        let (a, b) = (a.life(), b.life());
        let ghost = self.ghosts.contains(&(one, b)) || self.ghosts.contains(&(other, a));
        if ghost || !self.network.both_pass(one, other) || self.network.is_up(one, other) {
            return;
        }
        match self.plan.driver.handshake_delays {
            0 => self.connect((one, a), (other, b)),
            delays => {
                let took_us = delays * self.network.delay_ms() * 1_000;
                self.at(self.now_us + took_us, Event::Shaken { one, other, a, b });
            }
        }
    }

    /// The handshake is through, if both are still there and the path still is.
    pub(super) fn shaken(&mut self, (one, a): (usize, LifeId), (other, b): (usize, LifeId)) {
        let is = |slot: usize, life| self.slots[slot].node.as_ref().is_some_and(|node| node.life() == life);
        if is(one, a) && is(other, b) && self.network.both_pass(one, other) {
            self.connect((one, a), (other, b));
        }
    }

    fn connect(&mut self, (one, a): (usize, LifeId), (other, b): (usize, LifeId)) {
        if !self.network.set_up(one, other, true) {
            return;
        }
        self.handle(one, Input::Link(Link::Up(b)));
        self.handle(other, Input::Link(Link::Up(a)));
        self.later(100_000, 600_000, Event::Member { node: one, member: Member::Up(b) });
        self.later(100_000, 600_000, Event::Member { node: other, member: Member::Up(a) });
    }

    pub(super) fn disconnect(&mut self, one: usize, other: usize, least_us: u64, most_us: u64) {
        if !self.network.set_up(one, other, false) {
            return;
        }
        for (node, peer) in [(one, other), (other, one)] {
            if let Some(life) = self.slots[peer].node.as_ref().map(Node::life) {
                self.gone(node, life, least_us, most_us);
            }
        }
    }

    /// A node will learn that its connection with a life is gone; until then it does not get another one.
    pub(super) fn gone(&mut self, node: usize, life: LifeId, least_us: u64, most_us: u64) {
        self.ghosts.insert((node, life));
        self.later(least_us, most_us, Event::PeerGone { node, life });
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Cut(cut) => {
                self.network.cut(cut);
                for other in 0..self.slots.len() {
                    for one in 0..other {
                        if !self.network.both_pass(one, other) {
                            let (least_ms, most_ms) = self.plan.driver.dead_ms;
                            self.later(least_ms * 1_000, most_ms * 1_000, Event::LinkDead { one, other });
                        }
                    }
                }
            }
            Fault::Heal => self.network.heal(),
            Fault::Crash(node) => self.stop(node),
            Fault::Restart(node) => self.start(node),
            Fault::Leave(node) => {
                self.handle(node, Input::Local(Local::Leave));
                self.stop(node);
            }
            Fault::Step(node, ms) => {
                self.slots[node].offset_ms += ms;
                self.handle(node, Input::Elapsed);
            }
            // A new engine process has all of its memory again.
            Fault::WorkerRestart(worker) => {
                self.tokens[worker] += 1;
                self.capacities[worker] = self.plan.capacity_tokens;
            }
            Fault::Shrink(worker, tokens) => self.capacities[worker] = tokens.min(self.capacities[worker]),
            Fault::Reset(node, worker) => {
                let worker = self.traffic.worker(worker);
                self.handle(node, Input::Local(Local::Reset { worker: worker.clone() }));
                self.check_reset(node, &worker);
            }
            Fault::Suspect(one, other) => {
                if let Some(life) = self.slots[other].node.as_ref().map(Node::life) {
                    self.handle(one, Input::Member(Member::Down(life)));
                    self.later(100_000, 2_000_000, Event::Member { node: one, member: Member::Up(life) });
                }
            }
        }
    }

    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.network.calm();
        for slot in 0..self.slots.len() {
            let mended = self.slots[slot].offset_ms.clamp(-100, 100);
            let left = self.plan.left_ms[slot];
            self.slots[slot].offset_ms = if left == 0 { mended } else { left };
            self.start(slot);
            self.handle(slot, Input::Elapsed);
        }
    }
}
