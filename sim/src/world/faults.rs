//! What is done to the cluster, and how it goes on until faults are over.
//!
//! Not here: when (`plan`), the calm that undoes it all (`calm`).

use covey_mesh::input::{Input, Local, Member};

use super::World;
use super::event::Next;
use crate::marks;
use crate::plan::{Cut, Fault};

/// A clock that steps this far is far off: ten years, in milliseconds.
const FAR_MS: i64 = 315_360_000_000;
/// Discovery tells all gateways of a removed worker within this, in microseconds.
const REMOVED_US: u64 = 2_000_000;

impl World {
    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Cut { cut, for_ms } => self.cut(cut, for_ms),
            Fault::Flap { cut, on_ms, off_ms, for_ms } => {
                self.mark(marks::FLAP);
                self.flap(cut, on_ms, off_ms, self.now_us + for_ms * 1_000);
            }
            Fault::Swizzle { nodes, step_ms } => self.swizzle(nodes, step_ms),
            Fault::Heal => {
                self.network.heal();
                self.mark(marks::HEAL);
            }
            Fault::Crash { node } => self.stop(node),
            Fault::Restart { node } => self.start(node),
            Fault::Leave { node } => self.leave(node),
            Fault::Pause { node, for_ms, drops } => self.pause(node, for_ms, drops),
            Fault::Roll { gap_ms, down_ms, leave } => self.roll(gap_ms, down_ms, leave),
            Fault::Reuse { node } => self.reuse(node),
            Fault::Rollback { node, after_ms } => self.save(node, after_ms),
            Fault::Namesake { node, of } => self.restart_as_namesake(node, of),
            Fault::Twin { node, of } => self.twin(node, of),
            Fault::Newer { node, for_ms } => {
                self.slots[node].newer = true;
                self.next_in(for_ms * 1_000, Next::OldVersion { node });
            }
            Fault::Step { node, ms } => self.step_clock(node, ms),
            Fault::Freeze { node, for_ms, catches_up } => {
                self.mark(marks::FROZEN);
                self.slots[node].clock.stop(self.now_us);
                self.next_in(for_ms * 1_000, Next::ClockRuns { node, catches_up });
            }
            Fault::Suspect { node, of, for_ms } => self.suspect(node, of, for_ms),
            Fault::MemberFlap { node, every_ms, for_ms } => {
                self.mark(marks::MEMBERSHIP_WRONG);
                let until_us = self.now_us + for_ms * 1_000;
                self.next(Next::MemberFlap { node, up: false, every_ms, until_us });
            }
            Fault::Ghost { node } => self.ghost(node),
            Fault::WorkerRestart { worker } => {
                let tokens = &mut self.engines[worker].tokens;
                let fresh = tokens.iter().max().map_or(0, |most| most + 1);
                tokens.push(fresh);
                self.engine_restarts(worker);
            }
            Fault::Unsubscribe { node, worker } => self.unsubscribe(node, worker),
            Fault::WorkerOldToken { worker, life } => self.repeat_token(worker, life),
            Fault::WorkerFlap { worker, for_ms } => {
                let engine = &mut self.engines[worker];
                (engine.flaps, engine.flapped) = (true, true);
                self.next_in(for_ms * 1_000, Next::OneEngine { worker });
            }
            Fault::Remove { worker, for_ms } => self.remove(worker, for_ms),
            Fault::Capacity { worker, tokens } => {
                let engine = &mut self.engines[worker];
                let grew = tokens > engine.capacity_tokens;
                engine.capacity_tokens = tokens;
                self.mark(if grew { marks::CAPACITY_GREW } else { marks::CAPACITY_SHRANK });
            }
            Fault::Raise { node, worker } => {
                self.engines[worker].raised += 1;
                let worker = self.traffic.worker(worker);
                self.handle(node, Input::Local(Local::Raise { worker }));
            }
            Fault::Reset { node, worker } => {
                let worker = self.traffic.worker(worker);
                self.handle(node, Input::Local(Local::Reset { worker: worker.clone() }));
                self.check_reset(node, &worker);
            }
        }
    }

    fn step_clock(&mut self, node: usize, ms: i64) {
        if ms.abs() > FAR_MS {
            self.mark(marks::FAR_FUTURE);
        }
        self.slots[node].clock.step(ms);
        self.handle(node, Input::Elapsed);
    }

    fn suspect(&mut self, node: usize, of: usize, for_ms: u64) {
        if let Some(life) = self.who[of] {
            self.mark(marks::MEMBERSHIP_WRONG);
            self.handle(node, Input::Member(Member::Down(life)));
            self.say(node, Member::Up(life), for_ms * 1_000, for_ms * 1_000);
        }
    }

    fn ghost(&mut self, node: usize) {
        if let Some(life) = self.slots[node].ended {
            self.mark(marks::MEMBERSHIP_WRONG);
            self.tell_all(node, Member::Up(life));
        }
    }

    fn tell_all(&mut self, but: usize, member: Member) {
        for other in (0..self.slots.len()).filter(|other| *other != but) {
            self.handle(other, Input::Member(member));
        }
    }

    fn repeat_token(&mut self, worker: usize, life: u64) {
        let tokens = &mut self.engines[worker].tokens;
        if tokens.contains(&life) && tokens.last() != Some(&life) {
            tokens.push(life);
            self.mark(marks::TOKEN_REPEATED);
            self.engine_restarts(worker);
        }
    }

    fn remove(&mut self, worker: usize, for_ms: u64) {
        let engine = &mut self.engines[worker];
        (engine.removed, engine.was_removed) = (true, true);
        for node in 0..self.slots.len() {
            let us = self.draws.faults.below(REMOVED_US);
            self.next_in(us, Next::Removed { node, worker });
        }
        self.next_in(for_ms * 1_000, Next::Returned { worker });
    }

    fn cut(&mut self, cut: Cut, for_ms: u64) {
        let cut = self.network.cut(cut);
        self.mark(marks::CUT);
        self.doubt_links();
        self.next_in(for_ms * 1_000, Next::CutEnds { cut });
    }

    fn flap(&mut self, cut: Cut, on_ms: u64, off_ms: u64, until_us: u64) {
        if self.now_us < until_us {
            self.cut(cut, on_ms);
            self.next_in((on_ms + off_ms) * 1_000, Next::Flap { cut, on_ms, off_ms, until_us });
        }
    }

    /// Nodes fall silent one by one in one order, and come back one by one in another.
    fn swizzle(&mut self, nodes: u64, step_ms: u64) {
        self.mark(marks::SWIZZLE);
        let mut down: Vec<usize> = (0..self.slots.len()).filter(|node| nodes >> node & 1 == 1).collect();
        let mut up = down.clone();
        self.draws.faults.shuffle(&mut down);
        self.draws.faults.shuffle(&mut up);
        let steps = down.len() as u64;
        for (nth, node) in (0..).zip(down) {
            let back = up.iter().position(|other| *other == node).unwrap_or(0) as u64;
            let for_ms = (steps + back - nth) * step_ms;
            self.next_in(nth * step_ms * 1_000, Next::Cut { cut: Cut::Isolate { node }, for_ms });
        }
    }

    fn roll(&mut self, gap_ms: u64, down_ms: u64, leave: bool) {
        self.mark(marks::ROLLING_RESTART);
        for node in 0..self.slots.len() {
            let at_us = node as u64 * gap_ms * 1_000;
            self.next_in(at_us, Next::Stop { node, leave });
            self.next_in(at_us + down_ms * 1_000, Next::Start { node });
        }
    }

    pub(super) fn next(&mut self, next: Next) {
        match next {
            Next::Cut { cut, for_ms } => self.cut(cut, for_ms),
            Next::CutEnds { cut } => {
                if self.network.end(cut) {
                    self.mark(marks::HEAL);
                }
            }
            Next::Flap { cut, on_ms, off_ms, until_us } => self.flap(cut, on_ms, off_ms, until_us),
            Next::Stop { node, leave: true } => self.leave(node),
            Next::Stop { node, leave: false } => self.stop(node),
            Next::Start { node } => self.start(node),
            Next::Stall { nth } => {
                let slow = self.plan.slow[nth];
                self.pause(slow.node, slow.for_ms, false);
                self.next_in(slow.every_ms * 1_000, Next::Stall { nth });
            }
            Next::Restore { node } => self.restore(node),
            Next::ClockRuns { node, catches_up } => {
                self.slots[node].clock.go_on(self.now_us, catches_up);
                self.handle(node, Input::Elapsed);
            }
            Next::OldVersion { node } => self.slots[node].newer = false,
            Next::MemberFlap { node, up, every_ms, until_us } => {
                if let Some(life) = self.who[node] {
                    self.tell_all(node, if up { Member::Up(life) } else { Member::Down(life) });
                }
                if self.now_us < until_us || !up {
                    self.next_in(every_ms * 1_000, Next::MemberFlap { node, up: !up, every_ms, until_us });
                }
            }
            Next::OneEngine { worker } => self.engines[worker].flaps = false,
            Next::Removed { node, worker } => {
                let worker = self.traffic.worker(worker);
                self.mark(marks::WORKER_REMOVED);
                self.handle(node, Input::Local(Local::Removed { worker }));
            }
            Next::Returned { worker } => {
                self.engines[worker].removed = false;
                self.mark(marks::WORKER_RETURNED);
            }
        }
    }
}
