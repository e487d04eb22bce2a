//! Drawing what happens to nodes: clocks, crashes, pauses, restarts in waves, identities used twice, versions,
//! membership, and the minority that stays broken.

use crate::plan::{Broken, Fault, Plan, Slow, Stream, Wrong};

/// Clocks that are far off: the year 2106, and half of what a stamp can hold.
const FAR_MS: [i64; 2] = [4_294_967_296_000 - 1_764_000_000_000, 1 << 47];

impl Plan {
    fn some_node(&self, draw: &mut Stream) -> usize {
        draw.index(self.nodes)
    }

    pub(super) fn draw_clocks(&mut self) {
        let mut draw = self.stream("offsets");
        if draw.chance(0.5) {
            self.offsets_ms = (0..self.nodes).map(|_| draw.magnitude(1, 2_000)).map(|ms| ms as i64).collect();
            for offset in &mut self.offsets_ms {
                *offset = draw.sign(offset.unsigned_abs());
            }
        }
        let mut draw = self.stream("drifts");
        if draw.chance(0.5) {
            self.drifts_ppm = (0..self.nodes).map(|_| draw.magnitude(1, 500)).map(|ppm| ppm as i64).collect();
            for drift in &mut self.drifts_ppm {
                *drift = draw.sign(drift.unsigned_abs());
            }
        }
        let mut draw = self.stream("steps");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 3) {
                let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
                let size = draw.magnitude(10, 60_000);
                let ms = draw.sign(size);
                self.event(at_ms, Fault::Step { node, ms });
            }
        }
        let mut draw = self.stream("far");
        if draw.chance(0.1) {
            let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
            let (ms, back_ms) = (FAR_MS[draw.index(2)], draw.magnitude(50, 8_000));
            self.event(at_ms, Fault::Step { node, ms });
            if at_ms + back_ms < self.faults_ms {
                self.event(at_ms + back_ms, Fault::Step { node, ms: -ms });
            }
        }
    }

    pub(super) fn draw_freezes(&mut self) {
        let mut draw = self.stream("freezes");
        if draw.chance(0.25) {
            let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
            let (for_ms, catches_up) = (draw.magnitude(50, 6_000), draw.chance(0.5));
            self.event(at_ms, Fault::Freeze { node, for_ms, catches_up });
        }
    }

    pub(super) fn draw_crashes(&mut self) {
        let mut draw = self.stream("crashes");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 4) {
                let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
                let leaves = draw.chance(0.3);
                self.event(at_ms, if leaves { Fault::Leave { node } } else { Fault::Crash { node } });
                let back_ms = at_ms + draw.magnitude(1, 5_000);
                if draw.chance(0.8) {
                    self.event(back_ms, Fault::Restart { node });
                }
            }
        }
    }

    pub(super) fn draw_pauses(&mut self) {
        let mut draw = self.stream("pauses");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 3) {
                let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
                let (for_ms, drops) = (draw.magnitude(10, 10_000), draw.chance(0.4));
                self.event(at_ms, Fault::Pause { node, for_ms, drops });
            }
        }
        let mut draw = self.stream("slow");
        if draw.chance(0.5) {
            let (node, for_ms) = (self.some_node(&mut draw), draw.magnitude(10, 1_500));
            self.slow.push(Slow { node, every_ms: for_ms + draw.magnitude(50, 4_000), for_ms });
        }
    }

    /// Most nodes start at once, late; all nodes restart one after the other.
    pub(super) fn draw_waves(&mut self) {
        let mut draw = self.stream("storm");
        if draw.chance(0.5) {
            let at_ms = draw.magnitude(500, self.faults_ms / 2);
            let early = draw.index(self.nodes);
            let late = |draw: &mut Stream| at_ms + draw.below(100);
            self.starts_ms =
                (0..self.nodes).map(|node| if node == early { draw.below(100) } else { late(&mut draw) }).collect();
        }
        let mut draw = self.stream("roll");
        if draw.chance(0.5) {
            let at_ms = self.moment(&mut draw);
            let (gap_ms, down_ms, leave) = (draw.magnitude(50, 3_000), draw.magnitude(1, 2_000), draw.chance(0.5));
            self.event(at_ms, Fault::Roll { gap_ms, down_ms, leave });
        }
    }

    pub(super) fn draw_identities(&mut self) {
        let mut draw = self.stream("forks");
        if draw.chance(0.15) {
            for _ in 0..draw.between(1, 2) {
                let at_ms = self.moment(&mut draw);
                let (node, of) = (self.some_node(&mut draw), self.some_node(&mut draw));
                let after_ms = draw.magnitude(100, 5_000);
                match draw.below(3) {
                    0 => self.event(at_ms, Fault::Reuse { node }),
                    1 => self.event(at_ms, Fault::Rollback { node, after_ms }),
                    _ if node != of => self.event(at_ms, Fault::Twin { node, of }),
                    _ => {}
                }
            }
        }
        let mut draw = self.stream("names");
        if draw.chance(0.25) {
            let at_ms = self.moment(&mut draw);
            let (node, of) = (self.some_node(&mut draw), self.some_node(&mut draw));
            if node != of {
                self.event(at_ms, Fault::Namesake { node, of });
            }
        }
    }

    pub(super) fn draw_versions(&mut self) {
        let mut draw = self.stream("versions");
        if draw.chance(0.25) {
            let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
            let for_ms = draw.magnitude(200, 8_000);
            self.event(at_ms, Fault::Newer { node, for_ms });
        }
    }

    pub(super) fn draw_membership(&mut self) {
        let mut draw = self.stream("suspects");
        if draw.chance(0.5) {
            for _ in 0..draw.between(1, 6) {
                let (node, of) = (self.some_node(&mut draw), self.some_node(&mut draw));
                let (at_ms, for_ms) = (self.moment(&mut draw), draw.magnitude(100, 5_000));
                self.event(at_ms, Fault::Suspect { node, of, for_ms });
            }
        }
        let mut draw = self.stream("members");
        if draw.chance(0.5) {
            self.member_late_ms = draw.magnitude(100, 4_000);
        }
        if draw.chance(0.5) {
            let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
            let (every_ms, for_ms) = (draw.magnitude(20, 1_500), draw.magnitude(200, 8_000));
            self.event(at_ms, Fault::MemberFlap { node, every_ms, for_ms });
        }
        if draw.chance(0.5) {
            let (at_ms, node) = (self.moment(&mut draw), self.some_node(&mut draw));
            self.event(at_ms, Fault::Ghost { node });
        }
    }

    /// A liveness run: a minority stays broken for good.
    pub(super) fn draw_broken(&mut self) {
        let mut draw = self.stream("broken");
        if self.nodes < 3 || !draw.chance(0.5) {
            return;
        }
        let mut nodes: Vec<usize> = (0..self.nodes).collect();
        draw.shuffle(&mut nodes);
        nodes.truncate(draw.between(1, (self.nodes as u64 - 1) / 2) as usize);
        for node in nodes {
            let how = match draw.below(8) {
                0 => Wrong::Dead,
                1 => Wrong::Isolated,
                2 => Wrong::Deaf,
                3 => Wrong::Mute,
                4 | 5 => {
                    let size = draw.magnitude(700, 90_000);
                    Wrong::Clock { ms: draw.sign(size) }
                }
                _ => {
                    let for_ms = draw.magnitude(20, 2_500);
                    Wrong::Slow { every_ms: for_ms + draw.magnitude(100, 3_000), for_ms }
                }
            };
            self.broken.push(Broken { node, how });
        }
    }
}
