//! Connections: dialled, found dead, closed, and learned to be gone on the other side later; and what membership says.
//!
//! Not here: frames on them (`frames`).

use covey_crdt::id::LifeId;
use covey_mesh::input::{Input, Link, Member};

use super::World;
use super::event::Event;
use crate::marks;

impl World {
    /// The slot that runs `life` and is connected with `from`: at most one, as a node keeps one connection a life.
    pub(super) fn linked_slot(&self, from: usize, life: LifeId) -> Option<usize> {
        (0..self.who.len()).find(|slot| self.who[*slot] == Some(life) && self.network.is_up(from, *slot))
    }

    fn can_shake_hands(&self, one: usize, other: usize) -> Option<(LifeId, LifeId)> {
        let (a, b) = (self.who[one]?, self.who[other]?);
        let paused = self.slots[one].pause.is_some() || self.slots[other].pause.is_some();
        let ghost = self.ghosts.contains(&(one, b)) || self.ghosts.contains(&(other, a));
        (a != b && !paused && !ghost && self.network.both_pass(one, other)).then_some((a, b))
    }

    pub(super) fn dial(&mut self, one: usize, other: usize) {
        let (least_ms, most_ms) = self.plan.driver.redial_ms;
        let again = self.draws.dials.between(least_ms * 1_000, most_ms * 1_000);
        self.after(again, Event::Dial { one, other });
        let Some((a, b)) = self.can_shake_hands(one, other) else { return };
        match self.plan.driver.handshake_delays {
            0 => self.connect((one, a), (other, b)),
            _ if self.network.is_up(one, other) => {}
            delays => {
                let took_us = delays * self.network.delay_ms() * 1_000;
                self.after(took_us, Event::Shaken { one, other, a, b });
            }
        }
    }

    /// The handshake is through, if both are still there and the path still is.
    pub(super) fn shaken(&mut self, (one, a): (usize, LifeId), (other, b): (usize, LifeId)) {
        if self.can_shake_hands(one, other) == Some((a, b)) {
            self.connect((one, a), (other, b));
        }
    }

    fn connect(&mut self, (one, a): (usize, LifeId), (other, b): (usize, LifeId)) {
        // Of two slots that run one life, a node is connected with one.
        for (node, life, peer) in [(one, b, other), (other, a, one)] {
            if let Some(rival) = self.linked_slot(node, life).filter(|slot| *slot != peer) {
                if self.draws.dials.chance(0.5) {
                    return;
                }
                self.network.set_up(node, rival, false);
                self.handle(node, Input::Link(Link::Down(life)));
                if let Some(own) = self.who[node] {
                    self.gone(rival, own, 50_000, 3_000_000);
                }
            }
        }
        let still = (self.who[one], self.who[other]) == (Some(a), Some(b));
        if still && self.network.set_up(one, other, true) {
            self.handle(one, Input::Link(Link::Up(b)));
            self.handle(other, Input::Link(Link::Up(a)));
            self.say(one, Member::Up(b), 100_000, 600_000);
            self.say(other, Member::Up(a), 100_000, 600_000);
        }
    }

    /// The membership service will tell a node something.
    pub(super) fn say(&mut self, node: usize, member: Member, least_us: u64, most_us: u64) {
        let late_us = if self.calm { 0 } else { self.plan.member_late_ms * 1_000 };
        let us = self.draws.members.between(least_us, most_us) + late_us;
        self.after(us, Event::Member { node, member });
    }

    pub(super) fn disconnect(&mut self, one: usize, other: usize, least_us: u64, most_us: u64) {
        if !self.network.set_up(one, other, false) {
            return;
        }
        for (node, peer) in [(one, other), (other, one)] {
            if let Some(life) = self.who[peer] {
                self.gone(node, life, least_us, most_us);
            }
        }
    }

    pub(super) fn close(&mut self, node: usize, peer: LifeId) {
        if let Some(other) = self.linked_slot(node, peer) {
            self.disconnect(node, other, 0, 200_000);
        }
    }

    /// A node will learn that its connection with a life is gone; until then it does not get another one.
    pub(super) fn gone(&mut self, node: usize, life: LifeId, least_us: u64, most_us: u64) {
        self.ghosts.insert((node, life));
        let us = self.draws.deaths.between(least_us, most_us);
        self.after(us, Event::PeerGone { node, life });
    }

    pub(super) fn peer_gone(&mut self, node: usize, life: LifeId) {
        self.ghosts.remove(&(node, life));
        self.handle(node, Input::Link(Link::Down(life)));
    }

    /// Whether the two do not reach each other: cut apart, or one of them does nothing.
    fn is_silent(&self, one: usize, other: usize) -> bool {
        let long = |node: usize| self.slots[node].pause.is_some();
        !self.network.both_pass(one, other) || long(one) || long(other)
    }

    pub(super) fn link_dead(&mut self, one: usize, other: usize) {
        if self.is_silent(one, other) {
            if self.slots[one].pause.is_some() || self.slots[other].pause.is_some() {
                self.mark(marks::PAUSED_LONG);
            }
            self.disconnect(one, other, 0, 1_000_000);
        }
    }

    /// Connections that carry nothing any more will be found dead.
    pub(super) fn doubt_links(&mut self) {
        for other in 0..self.slots.len() {
            for one in 0..other {
                if self.network.is_up(one, other) && self.is_silent(one, other) {
                    let (least_ms, most_ms) = self.plan.driver.dead_ms;
                    let us = self.draws.deaths.between(least_ms * 1_000, most_ms * 1_000);
                    self.after(us, Event::LinkDead { one, other });
                }
            }
        }
    }
}
