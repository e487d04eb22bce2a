//! Drawing what happens between nodes: losses, delays, late copies, damage, full queues, partitions.

use crate::plan::{Burst, Corruption, Cut, Fault, PairLoss, Plan, Stale, Stream, Window};

impl Plan {
    pub(super) fn draw_network(&mut self) {
        let mut draw = self.stream("network");
        let network = &mut self.network;
        if draw.chance(0.5) {
            network.loss = draw.share(0.001, 0.4);
        }
        if draw.chance(0.5) {
            network.duplicate = draw.share(0.001, 0.3);
        }
        if draw.chance(0.5) {
            network.delay_ms = draw.magnitude(1, 300);
        }
        if draw.chance(0.5) {
            network.jitter_ms = draw.magnitude(1, 400);
        }
        let mut draw = self.stream("bursts");
        if draw.chance(0.5) {
            let (enter, leave) = (draw.share(0.001, 0.1), draw.share(0.01, 0.5));
            self.network.burst = Some(Burst { enter, leave, loss: draw.share(0.2, 1.0) });
        }
        let mut draw = self.stream("pairs");
        if draw.chance(0.5) {
            for _ in 0..draw.magnitude(1, self.nodes as u64) {
                let (from, to) = (draw.index(self.nodes), draw.index(self.nodes));
                let loss = draw.share(0.01, 0.9);
                if from != to && !self.network.pairs.iter().any(|pair| (pair.from, pair.to) == (from, to)) {
                    self.network.pairs.push(PairLoss { from, to, loss });
                }
            }
        }
    }

    pub(super) fn draw_stale(&mut self) {
        let mut draw = self.stream("stale");
        if draw.chance(0.5) {
            let share = draw.share(0.0005, 0.03);
            let most_ms = draw.magnitude(1_500, self.faults_ms);
            self.network.stale = Some(Stale { share, least_ms: (most_ms / 4).max(1), most_ms });
        }
    }

    pub(super) fn draw_corruption(&mut self) {
        let mut draw = self.stream("corruption");
        if draw.chance(0.5) {
            let truncated = if draw.chance(0.7) { draw.share(0.0001, 0.01) } else { 0.0 };
            self.network.corruption = Some(Corruption { truncated, flipped: draw.share(0.0003, 0.02) });
        }
    }

    pub(super) fn draw_windows(&mut self) {
        let mut draw = self.stream("windows");
        if draw.chance(0.5) {
            let mut nodes: Vec<usize> = (0..self.nodes).filter(|_| draw.chance(0.5)).collect();
            if nodes.is_empty() {
                nodes.push(draw.index(self.nodes));
            }
            let (bytes, bytes_per_s) = (draw.magnitude(200, 40_000), draw.magnitude(2_000, 400_000));
            self.network.window = Some(Window { nodes, bytes, bytes_per_s });
        }
    }

    fn draw_cut(&self, draw: &mut Stream) -> Cut {
        let (one, other) = (draw.index(self.nodes), draw.index(self.nodes));
        let all = (1 << self.nodes) - 1;
        match draw.below(6) {
            0 => Cut::Split { side: draw.word() & all },
            1 => Cut::Isolate { node: one },
            2 => Cut::OneWay { from: one, to: other },
            3 => Cut::Pair { one, other },
            4 => Cut::Deaf { node: one },
            _ => Cut::Mute { node: one },
        }
    }

    pub(super) fn draw_partitions(&mut self) {
        let mut draw = self.stream("partitions");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 4) {
                let cut = self.draw_cut(&mut draw);
                let (at_ms, for_ms) = (self.moment(&mut draw), draw.magnitude(10, 8_000));
                self.event(at_ms, Fault::Cut { cut, for_ms });
            }
        }
        let mut draw = self.stream("flaps");
        if draw.chance(0.5) {
            let cut = self.draw_cut(&mut draw);
            let (on_ms, off_ms) = (draw.magnitude(20, 4_000), draw.magnitude(20, 4_000));
            let (at_ms, for_ms) = (self.moment(&mut draw), draw.magnitude(500, 20_000));
            self.event(at_ms, Fault::Flap { cut, on_ms, off_ms, for_ms });
        }
    }

    pub(super) fn draw_swizzle(&mut self) {
        let mut draw = self.stream("swizzle");
        if draw.chance(0.5) {
            let nodes = (draw.word() & ((1 << self.nodes) - 1)).max(1);
            let (at_ms, step_ms) = (self.moment(&mut draw), draw.magnitude(10, 1_500));
            self.event(at_ms, Fault::Swizzle { nodes, step_ms });
        }
    }
}
