//! The virtual network: which frame arrives where and when, in what state, and which connections are up.
//!
//! Frames are lost, doubled, delayed and reordered although QUIC streams do none of that while a connection lives: the
//! core must not depend on it. A partition swallows frames at once; the connection is found dead later. Each kind of
//! mischief draws from its own stream.
//!
//! Not here: what is in a frame.

mod window;

use std::collections::BTreeMap;

use covey_mesh::output::Class;

use crate::plan::{Cut, NetworkPlan, Stream};
use window::{Queued, Queues, Size};

/// In what state a frame arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it was sent.
    Whole,
    /// As it was sent, much later.
    Stale,
    /// With its end missing.
    Truncated,
    /// With flipped bits.
    Flipped,
}

/// One copy of a frame under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// In how many microseconds.
    pub delay_us: u64,
    /// In what state.
    pub state: State,
}

/// The state of all links between nodes.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: usize,
    plan: NetworkPlan,
    cuts: BTreeMap<u64, Cut>,
    cuts_made: u64,
    /// By ordered pair: swallowed by some cut.
    swallowed: Vec<bool>,
    /// By ordered pair: share of frames lost.
    loss: Vec<f64>,
    /// By ordered pair: within a bad spell.
    bad: Vec<bool>,
    queues: Vec<Queues>,
    squeezed: Vec<bool>,
    /// By unordered pair: whether connected, and how often so far.
    up: Vec<(bool, u32)>,
    losses: Stream,
    spells: Stream,
    doubles: Stream,
    delays: Stream,
    stales: Stream,
    damage: Stream,
}

impl Network {
    /// A network of `nodes` without connections.
    #[must_use]
    pub fn new(seed: u64, nodes: usize, plan: NetworkPlan) -> Self {
        let pairs = nodes * nodes;
        let mut network = Self {
            nodes,
            cuts: BTreeMap::new(),
            cuts_made: 0,
            swallowed: vec![false; pairs],
            loss: vec![plan.loss; pairs],
            bad: vec![false; pairs],
            queues: vec![Queues::default(); pairs],
            squeezed: vec![false; nodes],
            up: vec![(false, 0); pairs],
            losses: Stream::new(seed, "losses"),
            spells: Stream::new(seed, "spells"),
            doubles: Stream::new(seed, "doubles"),
            delays: Stream::new(seed, "delays"),
            stales: Stream::new(seed, "stales"),
            damage: Stream::new(seed, "damage"),
            plan,
        };
        for pair in &network.plan.pairs {
            network.loss[pair.from * nodes + pair.to] = pair.loss;
        }
        for node in network.plan.window.iter().flat_map(|window| &window.nodes) {
            network.squeezed[*node] = true;
        }
        network
    }

    /// Begins a partition, and names it.
    pub fn cut(&mut self, cut: Cut) -> u64 {
        self.cuts_made += 1;
        self.cuts.insert(self.cuts_made, cut);
        self.weigh_cuts();
        self.cuts_made
    }

    /// Ends a partition; whether it was still there.
    pub fn end(&mut self, cut: u64) -> bool {
        let ended = self.cuts.remove(&cut).is_some();
        self.weigh_cuts();
        ended
    }

    /// Ends all partitions.
    pub fn heal(&mut self) {
        self.cuts.clear();
        self.weigh_cuts();
    }

    /// Partitions that last, in the order in which they began.
    pub fn cuts(&self) -> impl Iterator<Item = Cut> + '_ {
        self.cuts.values().copied()
    }

    fn weigh_cuts(&mut self) {
        for from in 0..self.nodes {
            for to in 0..self.nodes {
                self.swallowed[from * self.nodes + to] = self.cuts.values().any(|cut| cut.swallows(from, to));
            }
        }
    }

    /// From here on frames only take their delay, and at most 50 ms.
    pub fn calm(&mut self) {
        self.heal();
        self.plan = NetworkPlan { delay_ms: self.plan.delay_ms.min(50), ..NetworkPlan::default() };
        self.loss.fill(0.0);
        self.bad.fill(false);
        self.squeezed.fill(false);
    }

    /// Whether a frame from one node to another gets through at all.
    #[must_use]
    pub fn passes(&self, from: usize, to: usize) -> bool {
        !self.swallowed[from * self.nodes + to]
    }

    /// Whether the two could shake hands.
    #[must_use]
    pub fn both_pass(&self, one: usize, other: usize) -> bool {
        self.passes(one, other) && self.passes(other, one)
    }

    /// Puts a frame into its sender's queue; when it leaves, in microseconds from now, or `None` when there is no room.
    /// The second answer says that the sender is to be told to pause.
    pub fn queue(&mut self, from: usize, to: usize, now_us: u64, class: Class, bytes: usize) -> (Option<u64>, bool) {
        let Some(size) = self.size(from) else { return (Some(0), false) };
        match self.queues[from * self.nodes + to].push(size, now_us, class, bytes as u64) {
            (Queued::Leaves(us), pause) => (Some(us), pause),
            (Queued::Dropped, pause) => (None, pause),
        }
    }

    /// Whether a paused sender may go on; else in how many microseconds to ask again.
    ///
    /// # Errors
    /// The microseconds to wait.
    pub fn resume(&mut self, from: usize, to: usize, now_us: u64) -> Result<(), u64> {
        match self.size(from) {
            Some(size) => self.queues[from * self.nodes + to].resume(size, now_us),
            None => Ok(()),
        }
    }

    /// Whether the sender was told to pause.
    #[must_use]
    pub fn is_paused(&self, from: usize, to: usize) -> bool {
        self.queues[from * self.nodes + to].paused()
    }

    fn size(&self, from: usize) -> Option<Size> {
        let window = self.plan.window.as_ref().filter(|_| self.squeezed[from])?;
        Some(Size { bytes: window.bytes, bytes_per_s: window.bytes_per_s })
    }

    /// Appends when and how the copies of a frame arrive; none when it is lost.
    pub fn arrivals(&mut self, from: usize, to: usize, arrivals: &mut Vec<Arrival>) {
        if self.is_lost(from, to) {
            return;
        }
        let state = self.state();
        arrivals.push(Arrival { delay_us: self.delay_us(), state });
        if self.plan.duplicate > 0.0 && self.doubles.chance(self.plan.duplicate) {
            let later = self.doubles.below(3_000_000);
            arrivals.push(Arrival { delay_us: self.delay_us() + later, state: State::Whole });
        }
        if let Some(stale) = self.plan.stale
            && self.stales.chance(stale.share)
        {
            let delay_us = self.stales.between(stale.least_ms * 1_000, stale.most_ms * 1_000);
            arrivals.push(Arrival { delay_us, state: State::Stale });
        }
    }

    fn is_lost(&mut self, from: usize, to: usize) -> bool {
        let pair = from * self.nodes + to;
        if self.swallowed[pair] {
            return true;
        }
        if let Some(burst) = self.plan.burst {
            let flips = self.spells.chance(if self.bad[pair] { burst.leave } else { burst.enter });
            self.bad[pair] ^= flips;
            if self.bad[pair] && self.spells.chance(burst.loss) {
                return true;
            }
        }
        self.loss[pair] > 0.0 && self.losses.chance(self.loss[pair])
    }

    fn state(&mut self) -> State {
        let Some(corruption) = self.plan.corruption else { return State::Whole };
        let at = self.damage.unit();
        if at < corruption.truncated {
            State::Truncated
        } else if at < corruption.truncated + corruption.flipped {
            State::Flipped
        } else {
            State::Whole
        }
    }

    /// Where a damaged frame is damaged: a number below `bound`.
    pub fn spot(&mut self, bound: usize) -> usize {
        self.damage.index(bound)
    }

    /// The present delay of every frame, in milliseconds, jitter left out.
    #[must_use]
    pub const fn delay_ms(&self) -> u64 {
        self.plan.delay_ms
    }

    fn delay_us(&mut self) -> u64 {
        self.plan.delay_ms * 1_000 + self.delays.below(self.plan.jitter_ms * 1_000 + 100)
    }

    /// A frame's longest way there and back in the calm after the faults, in milliseconds.
    #[must_use]
    pub fn calm_round_trip_ms(&self) -> u64 {
        2 * self.plan.delay_ms.min(50) + 1
    }

    const fn pair(&self, one: usize, other: usize) -> usize {
        if one < other { one * self.nodes + other } else { other * self.nodes + one }
    }

    /// Whether the two are connected.
    #[must_use]
    pub fn is_up(&self, one: usize, other: usize) -> bool {
        self.up[self.pair(one, other)].0
    }

    /// Which connection of the two this is, or was: grows with every new one.
    #[must_use]
    pub fn connection(&self, one: usize, other: usize) -> u32 {
        self.up[self.pair(one, other)].1
    }

    /// Connects or disconnects the two; whether that changed anything.
    pub fn set_up(&mut self, one: usize, other: usize, up: bool) -> bool {
        let pair = self.pair(one, other);
        let (is_up, connections) = &mut self.up[pair];
        if *is_up == up {
            return false;
        }
        *is_up = up;
        *connections += u32::from(up);
        self.queues[one * self.nodes + other] = Queues::default();
        self.queues[other * self.nodes + one] = Queues::default();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Burst, Corruption, PairLoss, Stale};

    fn arrive(network: &mut Network, from: usize, to: usize, frames: usize) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for _ in 0..frames {
            network.arrivals(from, to, &mut arrivals);
        }
        arrivals
    }

    #[test]
    fn a_cut_between_two_leaves_a_way_round_and_ends_by_itself() {
        let mut network = Network::new(1, 3, NetworkPlan::default());
        let cut = network.cut(Cut::Pair { one: 0, other: 2 });
        let other = network.cut(Cut::OneWay { from: 0, to: 2 });
        assert!(!network.passes(0, 2) && !network.passes(2, 0));
        assert!(network.both_pass(0, 1) && network.both_pass(1, 2));
        assert!(network.end(cut) && !network.end(cut));
        assert!(!network.passes(0, 2) && network.passes(2, 0));
        assert!(network.end(other) && network.both_pass(0, 2));
    }

    #[test]
    fn a_deaf_node_speaks_and_a_mute_one_hears() {
        let mut network = Network::new(1, 3, NetworkPlan::default());
        let _ = network.cut(Cut::Deaf { node: 0 });
        let _ = network.cut(Cut::Mute { node: 1 });
        assert!(!network.passes(2, 0) && network.passes(0, 2));
        assert!(!network.passes(1, 2) && network.passes(2, 1));
    }

    #[test]
    fn one_direction_can_lose_what_the_other_does_not() {
        let pairs = vec![PairLoss { from: 0, to: 1, loss: 1.0 }];
        let mut network = Network::new(1, 2, NetworkPlan { pairs, ..NetworkPlan::default() });
        assert_eq!(arrive(&mut network, 0, 1, 50).len(), 0);
        assert_eq!(arrive(&mut network, 1, 0, 50).len(), 50);
    }

    #[test]
    fn losses_come_in_bursts() {
        let burst = Burst { enter: 0.02, leave: 0.1, loss: 1.0 };
        let mut network = Network::new(5, 2, NetworkPlan { burst: Some(burst), ..NetworkPlan::default() });
        let kept: Vec<bool> = (0..20_000).map(|_| !arrive(&mut network, 0, 1, 1).is_empty()).collect();
        let lost = kept.iter().filter(|kept| !**kept).count();
        let begun = kept.windows(2).filter(|pair| pair[0] && !pair[1]).count();
        assert!((2_000..5_000).contains(&lost), "a sixth of the time is bad: {lost}");
        assert!(lost / begun > 5, "a bad spell lasts ten frames: {lost} in {begun}");
    }

    #[test]
    fn late_copies_and_damage_come_as_often_as_asked() {
        let stale = Some(Stale { share: 0.1, least_ms: 1_000, most_ms: 2_000 });
        let corruption = Some(Corruption { truncated: 0.1, flipped: 0.2 });
        let mut network = Network::new(5, 2, NetworkPlan { stale, corruption, ..NetworkPlan::default() });
        let all = arrive(&mut network, 0, 1, 10_000);
        let count = |state: State| all.iter().filter(|arrival| arrival.state == state).count();
        assert!((900..1_100).contains(&count(State::Stale)), "{}", count(State::Stale));
        assert!((900..1_100).contains(&count(State::Truncated)), "{}", count(State::Truncated));
        assert!((1_900..2_100).contains(&count(State::Flipped)), "{}", count(State::Flipped));
        let late = all.iter().filter(|arrival| arrival.state == State::Stale);
        assert!(late.clone().all(|arrival| (1_000_000..=2_000_000).contains(&arrival.delay_us)));
    }
}
