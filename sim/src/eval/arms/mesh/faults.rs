//! What befalls gateways: the first one cut off for a while, or replaced by one that knows nothing; all cut off from each other.
//!
//! Not here: when (`mesh`).

use covey_mesh::input::{Input, Link, Member};

use super::gateway::Gateway;
use super::{MeshRouter, What};
use crate::eval::arms::Setting;

/// After so long a gateway that says nothing is taken to be unheard, in microseconds.
const UNHEARD_US: u64 = 1_200_000;

impl MeshRouter {
    /// Cuts the first gateway off, or joins it to the others again.
    pub(super) fn link_first(&mut self, is_up: bool) {
        self.is_cut = !is_up;
        let lives: Vec<_> = self.gateways.iter().map(Gateway::life).collect();
        for other in 1..lives.len() {
            for (nth, life) in [(0, lives[other]), (other, lives[0])] {
                self.handle(nth, Input::Link(if is_up { Link::Up(life) } else { Link::Down(life) }));
                self.handle(nth, Input::Member(if is_up { Member::Up(life) } else { Member::Down(life) }));
            }
        }
        let others = lives.len().saturating_sub(1).max(1) as f64;
        let noticed_us = self.now_us + if is_up { 0 } else { UNHEARD_US };
        for gateway in 0..self.gateways.len() {
            let lost = if gateway == 0 { 1.0 } else { 1.0 / others };
            self.at(noticed_us, What::Unheard { gateway, share: if is_up { 0.0 } else { lost } });
        }
    }

    /// Cuts every gateway off from every other, for good.
    pub(super) fn part(&mut self) {
        let lives: Vec<_> = self.gateways.iter().map(Gateway::life).collect();
        for nth in 0..lives.len() {
            for life in lives.iter().filter(|life| **life != lives[nth]) {
                self.handle(nth, Input::Link(Link::Down(*life)));
                self.handle(nth, Input::Member(Member::Down(*life)));
            }
            self.gateways[nth].plugin.set_unheard(1.0);
        }
    }

    /// Replaces the first gateway's process by a new one. What the old one had under way it does not hear of.
    pub(super) fn replace_first(&mut self) {
        let old = self.gateways[0].life();
        let setting = Setting { seed: self.setting.seed ^ (1 << 63), ..self.setting };
        let gateway = Gateway::new(0, &setting, self.now_us, false);
        let life = gateway.life();
        self.gateways[0] = gateway;
        self.by_life.remove(&old);
        self.by_life.insert(life, 0);
        for nth in 1..self.gateways.len() {
            let other = self.gateways[nth].life();
            for input in [
                Input::Link(Link::Down(old)),
                Input::Member(Member::Down(old)),
                Input::Link(Link::Up(life)),
                Input::Member(Member::Up(life)),
            ] {
                self.handle(nth, input);
            }
            self.handle(0, Input::Link(Link::Up(other)));
            self.handle(0, Input::Member(Member::Up(other)));
        }
        self.wake(0);
        self.meet_workers(0);
    }
}
