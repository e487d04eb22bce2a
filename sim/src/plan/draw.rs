//! From a seed to a plan: each class of fault is on with probability ½ unless said otherwise, magnitudes are log-uniform.
//!
//! Rarer, because a run says less while they act: lives that fork (0.15), copied names, newer versions, frozen clocks
//! (0.25), clocks far in the future (0.1), faults that last for minutes (0.05).
//!
//! Not here: what the classes do (`world`).

mod links;
mod nodes;
mod workers;

use covey_mesh::limits::Knobs;

use super::{DriverPlan, Event, Fault, NetworkPlan, Plan, Stream};

/// How many nodes a cluster has, each as often as it is named.
const NODES: [usize; 13] = [2, 2, 3, 3, 3, 3, 5, 5, 5, 5, 9, 9, 17];

impl Plan {
    /// The plan a seed stands for.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut plan = Self::sized(seed);
        plan.draw_network();
        plan.draw_stale();
        plan.draw_corruption();
        plan.draw_windows();
        plan.draw_partitions();
        plan.draw_swizzle();
        plan.draw_clocks();
        plan.draw_freezes();
        plan.draw_crashes();
        plan.draw_pauses();
        plan.draw_waves();
        plan.draw_identities();
        plan.draw_versions();
        plan.draw_membership();
        plan.draw_broken();
        plan.draw_engines();
        plan.draw_churn();
        plan.draw_capacities();
        plan.draw_knobs();
        plan.draw_feeds();
        plan.events.sort_by_key(|event| event.at_ms);
        plan
    }

    fn sized(seed: u64) -> Self {
        let mut size = Stream::new(seed, "size");
        let nodes = NODES[size.index(NODES.len())];
        let workers = if size.chance(0.15) { size.between(13, 64) } else { size.magnitude(1, 12) } as usize;
        let mut faults_ms = size.between(4_000, 12_000);
        let mut ops_per_s = size.magnitude(270, 5_400);
        if nodes <= 3 && size.chance(0.1) {
            faults_ms = size.between(90_000, 240_000);
            ops_per_s = ops_per_s.div_ceil(25);
        }
        Self {
            seed,
            nodes,
            workers,
            capacity_tokens: size.magnitude(64, 300_000),
            sessions: size.between(1, 24),
            depth_max: size.magnitude(2, 80),
            ops_per_s,
            faults_ms,
            quiet_ms: 2_000,
            hash_bits: if size.chance(0.2) { 6 } else { 64 },
            knobs: Knobs::default(),
            idle_ms: if size.chance(0.3) { size.between(1_500, 6_000) } else { 3_600_000 },
            starts_ms: Vec::new(),
            offsets_ms: Vec::new(),
            drifts_ppm: Vec::new(),
            network: NetworkPlan { delay_ms: 1, ..NetworkPlan::default() },
            slow: Vec::new(),
            member_late_ms: 0,
            probe_late_ms: 0,
            broken: Vec::new(),
            events: Vec::new(),
            driver: DriverPlan::default(),
            feeds: None,
            turn_blocks: 0,
            end_us: None,
        }
    }

    fn stream(&self, concern: &str) -> Stream {
        Stream::new(self.seed, concern)
    }

    fn event(&mut self, at_ms: u64, fault: Fault) {
        let at_ms = at_ms.min(self.faults_ms);
        self.events.push(Event { at_ms, fault });
    }

    fn moment(&self, draw: &mut Stream) -> u64 {
        draw.below(self.faults_ms)
    }

    /// Small sizes make small clusters meet what large ones do; so small that a walk over the state takes hundreds of
    /// round trips would only make runs long.
    fn draw_knobs(&mut self) {
        let mut draw = self.stream("knobs");
        if draw.chance(0.5) {
            let rows = self.ops_per_s * self.faults_ms / 1_000;
            let blocks = (self.capacity_tokens / 64 + 1) * self.workers as u64;
            let least = (rows.min(blocks) * 80 / 40).max(1);
            self.knobs.slice_bytes = draw.magnitude(1, 8_000).max(least) as usize;
        }
        if draw.chance(0.5) {
            self.knobs.log_bytes = draw.magnitude(300, 60_000) as usize;
        }
        if draw.chance(0.3) {
            self.knobs.log_age_ms = draw.magnitude(200, 8_000);
        }
        if draw.chance(0.3) {
            self.knobs.frame_bytes = draw.magnitude(1, 2_000) as usize;
        }
        if draw.chance(0.5) {
            self.knobs.horizon_ms = draw.magnitude(1_500, 20_000);
        }
        if draw.chance(0.5) {
            self.knobs.bucket_segments = draw.magnitude(1, 16) as usize;
            self.knobs.buckets = draw.magnitude(1, 16) as usize;
            self.knobs.window_workers = draw.magnitude(1, 32) as usize;
        }
        if draw.chance(0.3) {
            self.knobs.permits = 1;
            self.knobs.repair_bytes_per_s = draw.magnitude(200_000, 4_000_000);
        }
    }
}
