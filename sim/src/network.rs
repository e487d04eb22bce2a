//! The virtual network: which frame arrives where and when, and which connections are up.
//!
//! Frames are lost, doubled, delayed and reordered although QUIC streams do none of that while a connection lives: the
//! core must not depend on it. A partition swallows frames at once; the connection is found dead later.
//!
//! Not here: what is in a frame.

use std::collections::BTreeSet;

use crate::plan::{Cut, NetworkPlan, Stream};

/// The state of all links between nodes.
#[derive(Clone, Debug)]
pub struct Network {
    plan: NetworkPlan,
    cuts: Vec<Cut>,
    up: BTreeSet<(usize, usize)>,
    chance: Stream,
}

impl Network {
    /// A network without connections.
    #[must_use]
    pub fn new(seed: u64, plan: NetworkPlan) -> Self {
        Self { plan, cuts: Vec::new(), up: BTreeSet::new(), chance: Stream::new(seed, "frames") }
    }

    /// Begins a partition.
    pub fn cut(&mut self, cut: Cut) {
        self.cuts.push(cut);
    }

    /// Ends all partitions.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// From here on frames only take their delay, and at most 50 ms.
    pub fn calm(&mut self) {
        self.heal();
        self.plan = NetworkPlan { delay_ms: self.plan.delay_ms.min(50), ..NetworkPlan::default() };
    }

    /// Whether a frame from one node to another gets through at all.
    #[must_use]
    pub fn passes(&self, from: usize, to: usize) -> bool {
        !self.cuts.iter().any(|cut| match cut {
            Cut::Split(mask) => mask >> from & 1 != mask >> to & 1,
            Cut::OneWay(one, other) => (*one, *other) == (from, to),
        })
    }

    /// Whether the two could shake hands.
    #[must_use]
    pub fn both_pass(&self, one: usize, other: usize) -> bool {
        self.passes(one, other) && self.passes(other, one)
    }

    /// When the copies of a frame arrive, in microseconds from now; none when it is lost.
    pub fn arrivals_us(&mut self, from: usize, to: usize) -> Vec<u64> {
        if !self.passes(from, to) || self.chance.chance(self.plan.loss) {
            return Vec::new();
        }
        let mut arrivals = vec![self.delay_us()];
        if self.chance.chance(self.plan.duplicate) {
            arrivals.push(self.delay_us() + self.chance.below(3_000_000));
        }
        arrivals
    }

    /// The present delay of every frame, in milliseconds, jitter left out.
    #[must_use]
    pub const fn delay_ms(&self) -> u64 {
        self.plan.delay_ms
    }

    fn delay_us(&mut self) -> u64 {
        self.plan.delay_ms * 1_000 + self.chance.below(self.plan.jitter_ms * 1_000 + 100)
    }

    /// Whether the two are connected.
    #[must_use]
    pub fn is_up(&self, one: usize, other: usize) -> bool {
        self.up.contains(&(one.min(other), one.max(other)))
    }

    /// Connects or disconnects the two; whether that changed anything.
    pub fn set_up(&mut self, one: usize, other: usize, up: bool) -> bool {
        let pair = (one.min(other), one.max(other));
        if up { self.up.insert(pair) } else { self.up.remove(&pair) }
    }
}
