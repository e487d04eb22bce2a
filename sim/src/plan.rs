//! Plans: everything a simulated run does, drawn from one seed, printable and replayable.
//!
//! Each class of fault is on with probability ½, magnitudes are log-uniform; every concern draws from its own stream, so
//! that leaving one fault out does not shift the rest.
//!
//! Not here: carrying a plan out (`world`).

use std::fmt;

use covey_mesh::limits::Knobs;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A seeded stream of random numbers for one concern.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `concern` under `seed`.
    #[must_use]
    pub fn new(seed: u64, concern: &str) -> Self {
        Self(ChaCha8Rng::seed_from_u64(xxh3_64_with_seed(concern.as_bytes(), seed)))
    }

    /// Any number.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound` (0 for a bound of 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.word() % bound }
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// `true` with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Log-uniform between `from` and `to` (both > 0).
    pub fn log_uniform(&mut self, from: f64, to: f64) -> f64 {
        (from.ln() + self.unit() * (to.ln() - from.ln())).exp()
    }
}

/// How frames travel while faults are on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Share of frames lost, 0 to 1.
    pub loss: f64,
    /// Share of frames doubled, 0 to 1.
    pub duplicate: f64,
    /// Delay of every frame, in milliseconds.
    pub delay_ms: u64,
    /// Further delay, uniform up to this, in milliseconds: reorders.
    pub jitter_ms: u64,
}

/// Which frames a partition swallows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Cut {
    /// Between nodes whose bit in the mask differs.
    Split(u64),
    /// From the first node to the second, not back.
    OneWay(usize, usize),
}

/// A thing done to the cluster at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// A partition begins.
    Cut(Cut),
    /// All partitions end.
    Heal,
    /// A node stops without a word.
    Crash(usize),
    /// It comes back empty, under a new life.
    Restart(usize),
    /// A node leaves gracefully.
    Leave(usize),
    /// A node's wall clock jumps, in milliseconds.
    Step(usize, i64),
    /// A worker's engine restarts: a new token.
    WorkerRestart(usize),
    /// A worker shrinks to this many tokens.
    Shrink(usize, u64),
    /// A worker's placements are reset by this node's operator.
    Reset(usize, usize),
    /// The membership service wrongly suspects the second node at the first.
    Suspect(usize, usize),
}

/// A fault and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Virtual milliseconds after the start.
    pub at_ms: u64,
    /// What happens.
    pub fault: Fault,
}

/// Everything a run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The seed it was drawn from; feeds the remaining chances (losses, workload).
    pub seed: u64,
    /// Gateways, 2 to 17.
    pub nodes: usize,
    /// Workers, 1 to 64.
    pub workers: usize,
    /// Capacity of each worker in tokens (blocks of 64 tokens).
    pub capacity_tokens: u64,
    /// Conversations whose chains branch off one another.
    pub sessions: u64,
    /// Blocks a chain may reach.
    pub depth_max: u64,
    /// Placements a second, over all nodes.
    pub ops_per_s: u64,
    /// Faults and workload last this long, in milliseconds.
    pub faults_ms: u64,
    /// Bits kept of every block hash: few make 64-bit aliases of different paths common.
    pub hash_bits: u32,
    /// Sizes turned down.
    pub knobs: Knobs,
    /// A placement idle for this long expires, in milliseconds.
    pub idle_ms: u64,
    /// Each node's wall clock against true time at the start, in milliseconds.
    pub offsets_ms: Vec<i64>,
    /// Each node's wall clock against true time from the end of the faults on, in milliseconds; 0 for a mended one. A
    /// minority may stay wrong, and must not keep the others from converging.
    pub left_ms: Vec<i64>,
    /// How frames travel.
    pub network: NetworkPlan,
    /// What is done to the cluster, in order.
    pub events: Vec<Event>,
}

/// A plan that cannot be carried out, and the field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPlan(pub String);

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plan cannot be run: {}", self.0)
    }
}

impl std::error::Error for BadPlan {}

impl Plan {
    /// The plan a seed stands for.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut size = Stream::new(seed, "size");
        let nodes = [2, 2, 3, 3, 3, 3, 5, 5, 5, 5, 9, 9, 17][size.below(13) as usize];
        let workers = size.log_uniform(1.0, 12.9) as usize;
        let faults_ms = size.between(4_000, 14_000);
        let mut plan = Self {
            seed,
            nodes,
            workers,
            capacity_tokens: size.log_uniform(64.0, 300_000.0) as u64,
            sessions: size.between(1, 24),
            depth_max: size.log_uniform(2.0, 80.0) as u64,
            ops_per_s: size.log_uniform(4.0, 160.0) as u64,
            faults_ms,
            hash_bits: if size.chance(0.2) { 6 } else { 64 },
            knobs: Knobs::default(),
            idle_ms: if size.chance(0.3) { size.between(1_500, 6_000) } else { 3_600_000 },
            offsets_ms: vec![0; nodes],
            left_ms: vec![0; nodes],
            network: NetworkPlan { delay_ms: 1, ..NetworkPlan::default() },
            events: Vec::new(),
        };
        plan.draw_knobs();
        plan.draw_network();
        plan.draw_clocks();
        plan.draw_broken();
        plan.draw_partitions();
        plan.draw_crashes();
        plan.draw_workers();
        plan.events.sort_by_key(|event| event.at_ms);
        plan
    }

    fn draw_knobs(&mut self) {
        let mut draw = Stream::new(self.seed, "knobs");
        if draw.chance(0.5) {
            // With few permits many receivers wait for one another: sessions of one row a slice are for small meshes.
            let least = if self.nodes > 4 { 400.0 } else { 1.0 };
            self.knobs.slice_bytes = draw.log_uniform(least, 8_000.0) as usize;
        }
        if draw.chance(0.5) {
            self.knobs.log_bytes = draw.log_uniform(300.0, 30_000.0) as usize;
        }
        if draw.chance(0.3) {
            self.knobs.log_age_ms = draw.log_uniform(200.0, 8_000.0) as u64;
        }
        if draw.chance(0.3) {
            self.knobs.frame_bytes = draw.log_uniform(1.0, 2_000.0) as usize;
        }
        if draw.chance(0.5) {
            self.knobs.bucket_segments = draw.log_uniform(1.0, 16.0) as usize;
            self.knobs.buckets = draw.log_uniform(1.0, 16.0) as usize;
            self.knobs.window_workers = draw.log_uniform(1.0, 32.0) as usize;
        }
        if draw.chance(0.3) {
            self.knobs.permits = 1;
            self.knobs.repair_bytes_per_s = draw.log_uniform(3_000.0, 1_000_000.0) as u64;
        }
    }

    fn draw_network(&mut self) {
        let mut draw = Stream::new(self.seed, "network");
        if draw.chance(0.5) {
            self.network.loss = draw.log_uniform(0.001, 0.4);
        }
        if draw.chance(0.5) {
            self.network.duplicate = draw.log_uniform(0.001, 0.3);
        }
        if draw.chance(0.5) {
            self.network.delay_ms = draw.log_uniform(1.0, 300.0) as u64;
        }
        if draw.chance(0.5) {
            self.network.jitter_ms = draw.log_uniform(1.0, 400.0) as u64;
        }
    }

    fn draw_clocks(&mut self) {
        let mut draw = Stream::new(self.seed, "clocks");
        if draw.chance(0.5) {
            for offset in &mut self.offsets_ms {
                let ms = draw.log_uniform(1.0, 2_000.0) as i64;
                *offset = if draw.chance(0.5) { ms } else { -ms };
            }
        }
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 3) {
                let ms = draw.log_uniform(10.0, 60_000.0) as i64;
                let node = draw.below(self.nodes as u64) as usize;
                let at_ms = draw.below(self.faults_ms);
                let fault = Fault::Step(node, if draw.chance(0.5) { ms } else { -ms });
                self.events.push(Event { at_ms, fault });
            }
        }
    }

    fn draw_broken(&mut self) {
        let mut draw = Stream::new(self.seed, "broken");
        if self.nodes < 3 || !draw.chance(0.25) {
            return;
        }
        let slow = draw.chance(0.6);
        for _ in 0..draw.between(1, (self.nodes as u64 - 1) / 2) {
            let ms = draw.log_uniform(700.0, 90_000.0) as i64;
            let node = draw.below(self.nodes as u64) as usize;
            self.left_ms[node] = if slow { -ms } else { ms };
        }
    }

    fn draw_partitions(&mut self) {
        let mut draw = Stream::new(self.seed, "partitions");
        if !draw.chance(0.5) {
            return;
        }
        for _ in 0..draw.between(1, 3) {
            let from = draw.below(self.faults_ms);
            let lasts = draw.log_uniform(10.0, 8_000.0) as u64;
            let (one, other) = (draw.below(self.nodes as u64) as usize, draw.below(self.nodes as u64) as usize);
            let cut = match draw.below(3) {
                0 => Cut::Split(draw.word()),
                1 => Cut::Split(1 << one),
                _ => Cut::OneWay(one, other),
            };
            self.events.push(Event { at_ms: from, fault: Fault::Cut(cut) });
            self.events.push(Event { at_ms: (from + lasts).min(self.faults_ms), fault: Fault::Heal });
        }
    }

    fn draw_crashes(&mut self) {
        let mut draw = Stream::new(self.seed, "crashes");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 4) {
                let node = draw.below(self.nodes as u64) as usize;
                let at_ms = draw.below(self.faults_ms);
                let fault = if draw.chance(0.3) { Fault::Leave(node) } else { Fault::Crash(node) };
                self.events.push(Event { at_ms, fault });
                if draw.chance(0.8) {
                    let back = at_ms + draw.log_uniform(1.0, 5_000.0) as u64;
                    self.events.push(Event { at_ms: back, fault: Fault::Restart(node) });
                }
            }
        }
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 6) {
                let (one, other) = (draw.below(self.nodes as u64) as usize, draw.below(self.nodes as u64) as usize);
                self.events.push(Event { at_ms: draw.below(self.faults_ms), fault: Fault::Suspect(one, other) });
            }
        }
    }

    fn draw_workers(&mut self) {
        let mut draw = Stream::new(self.seed, "workers");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 3) {
                let worker = draw.below(self.workers as u64) as usize;
                self.events.push(Event { at_ms: draw.below(self.faults_ms), fault: Fault::WorkerRestart(worker) });
            }
        }
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 3) {
                let worker = draw.below(self.workers as u64) as usize;
                let tokens = draw.log_uniform(64.0, self.capacity_tokens.max(65) as f64) as u64;
                self.events.push(Event { at_ms: draw.below(self.faults_ms), fault: Fault::Shrink(worker, tokens) });
            }
        }
        if draw.chance(0.3) {
            let (node, worker) = (draw.below(self.nodes as u64) as usize, draw.below(self.workers as u64) as usize);
            self.events.push(Event { at_ms: draw.below(self.faults_ms), fault: Fault::Reset(node, worker) });
        }
    }

    /// Checks that the plan can be carried out.
    ///
    /// # Errors
    /// [`BadPlan`] naming the field.
    pub fn check(&self) -> Result<(), BadPlan> {
        let wrong = |what: &str| Err(BadPlan(what.to_owned()));
        if !(2..=64).contains(&self.nodes) {
            return wrong("nodes must be 2 to 64");
        }
        if !(1..=64).contains(&self.workers) {
            return wrong("workers must be 1 to 64");
        }
        if self.offsets_ms.len() != self.nodes {
            return wrong("offsets_ms must have one entry a node");
        }
        if self.left_ms.len() != self.nodes || self.left_ms.iter().filter(|ms| **ms != 0).count() * 2 >= self.nodes {
            return wrong("left_ms must have one entry a node, and only a minority may stay wrong");
        }
        if self.ops_per_s == 0 || self.sessions == 0 || self.depth_max == 0 || !(1..=64).contains(&self.hash_bits) {
            return wrong("ops_per_s, sessions, depth_max must be above 0 and hash_bits 1 to 64");
        }
        if !(0.0..=1.0).contains(&self.network.loss) || !(0.0..=1.0).contains(&self.network.duplicate) {
            return wrong("network.loss and network.duplicate are shares, 0 to 1");
        }
        for (nth, event) in self.events.iter().enumerate() {
            if !self.names_things(event.fault) {
                return wrong(&format!("events[{nth}] names a node or worker that does not exist"));
            }
        }
        Ok(())
    }

    fn names_things(&self, fault: Fault) -> bool {
        let (node, worker) = (|node| node < self.nodes, |worker| worker < self.workers);
        match fault {
            Fault::Cut(Cut::Split(_)) | Fault::Heal => true,
            Fault::Cut(Cut::OneWay(one, other)) | Fault::Suspect(one, other) => node(one) && node(other),
            Fault::Crash(one) | Fault::Restart(one) | Fault::Leave(one) | Fault::Step(one, _) => node(one),
            Fault::WorkerRestart(one) | Fault::Shrink(one, _) => worker(one),
            Fault::Reset(one, other) => node(one) && worker(other),
        }
    }
}
