//! Drawing what happens to workers: restarts, tokens, removal, capacities, resets.

use crate::plan::{Fault, FeedPlan, Plan};

impl Plan {
    pub(super) fn draw_engines(&mut self) {
        let mut draw = self.stream("engines");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 4) {
                let (at_ms, worker) = (self.moment(&mut draw), draw.index(self.workers));
                self.event(at_ms, Fault::WorkerRestart { worker });
            }
        }
        let mut draw = self.stream("tokens");
        if draw.chance(0.5) {
            let (at_ms, worker, life) = (self.moment(&mut draw), draw.index(self.workers), draw.below(3));
            self.event(at_ms, Fault::WorkerOldToken { worker, life });
        }
        let mut draw = self.stream("token-flaps");
        if draw.chance(0.5) {
            let (at_ms, worker) = (self.moment(&mut draw), draw.index(self.workers));
            let for_ms = draw.magnitude(300, 8_000);
            self.event(at_ms, Fault::WorkerFlap { worker, for_ms });
        }
        let mut draw = self.stream("probes");
        if draw.chance(0.5) {
            self.probe_late_ms = draw.magnitude(400, 8_000);
        }
    }

    /// Every third run reads engines' events; long runs and large ones are left without, or they would take too long.
    pub(super) fn draw_feeds(&mut self) {
        let mut draw = self.stream("feeds");
        if !draw.chance(0.4) || self.faults_ms > 20_000 || self.workers > 12 {
            return;
        }
        let mut feeds = FeedPlan {
            batches_per_s: draw.magnitude(5, 60),
            copies: draw.magnitude(8, 120),
            kept: draw.magnitude(2, 2_000),
            delay_ms: draw.magnitude(1, 30),
            jitter_ms: 0,
            loss: 0.0,
            duplicate: 0.0,
            replay_cut: 0.0,
            replay_lost: 0.0,
        };
        let mut draw = self.stream("feed-faults");
        if draw.chance(0.5) {
            feeds.jitter_ms = draw.magnitude(1, 300);
        }
        if draw.chance(0.5) {
            feeds.loss = draw.between(1, 100) as f64 / 1_000.0;
        }
        if draw.chance(0.3) {
            feeds.duplicate = 0.05;
        }
        if draw.chance(0.3) {
            (feeds.replay_cut, feeds.replay_lost) = (0.3, 0.2);
        }
        self.feeds = Some(feeds);
        let mut draw = self.stream("subscriptions");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 6) {
                let (at_ms, node, worker) = (self.moment(&mut draw), draw.index(self.nodes), draw.index(self.workers));
                self.event(at_ms, Fault::Unsubscribe { node, worker });
            }
        }
        self.draw_raises();
    }

    /// Half of them just before the engines stop: what an ingester does not say by itself, no batch makes it say then.
    fn draw_raises(&mut self) {
        let mut draw = self.stream("raises");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 3) {
                let (early, late) = (self.moment(&mut draw), self.faults_ms - draw.below(100));
                let at_ms = if draw.chance(0.5) { early } else { late };
                let (node, worker) = (draw.index(self.nodes), draw.index(self.workers));
                self.event(at_ms, Fault::Raise { node, worker });
            }
        }
    }

    pub(super) fn draw_churn(&mut self) {
        let mut draw = self.stream("churn");
        if draw.chance(0.5) {
            for _ in 0..draw.magnitude(1, (self.workers as u64 / 3).max(2)) {
                let (at_ms, worker) = (self.moment(&mut draw), draw.index(self.workers));
                let for_ms = draw.magnitude(50, 6_000);
                self.event(at_ms, Fault::Remove { worker, for_ms });
            }
        }
    }

    pub(super) fn draw_capacities(&mut self) {
        let mut draw = self.stream("capacities");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 4) {
                let (at_ms, worker) = (self.moment(&mut draw), draw.index(self.workers));
                let tokens = draw.magnitude(64, self.capacity_tokens.max(64) * 4);
                self.event(at_ms, Fault::Capacity { worker, tokens });
            }
        }
        let mut draw = self.stream("resets");
        if draw.chance(0.5) {
            let (at_ms, node, worker) = (self.moment(&mut draw), draw.index(self.nodes), draw.index(self.workers));
            self.event(at_ms, Fault::Reset { node, worker });
        }
    }
}
