//! Nodes that start, stop, pause, and come back as somebody else: anew, under a life used before, as a copy, rolled back.
//!
//! Not here: when (`plan`).

use covey_crdt::id::LifeId;
use covey_crdt::keyspace::HashKeyId;
use covey_mesh::input::{Input, Link, Local, MonoTime};
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::note::ClockState;

use super::World;
use super::event::{Event, Next};
use super::slot::{Pause, Snapshot};
use crate::invariants::{Lookups, Marks};
use crate::marks;
use crate::plan::{Stream, Wrong};

impl World {
    pub(super) fn stop(&mut self, slot: usize) {
        let Some(life) = self.who[slot].take() else { return };
        self.drop_readings(slot);
        let state = &mut self.slots[slot];
        state.node = None;
        state.timer_us = None;
        state.pause = None;
        state.backlog.clear();
        state.ended = Some(life);
        for other in 0..self.slots.len() {
            if other != slot && self.network.set_up(slot, other, false) {
                let (least_us, most_us) = self.plan.driver.crash_us();
                self.gone(other, life, least_us, most_us);
                self.miss(other, life);
            }
        }
    }

    /// A new life, if nothing runs there. Its id and seed depend on the slot and on how many lives it had alone.
    pub(super) fn start(&mut self, slot: usize) {
        if self.slots[slot].node.is_some() || (self.calm && self.plan.wrong(slot) == Some(Wrong::Dead)) {
            return;
        }
        let mut draw = Stream::new(self.plan.seed, &format!("life {slot} {}", self.slots[slot].lives));
        let life = LifeId(u128::from(draw.word()) << 64 | u128::from(draw.word()));
        self.boot(slot, life, 0, draw.word());
    }

    fn boot(&mut self, slot: usize, life: LifeId, branch: u32, seed: u64) {
        let wall = self.wall(slot);
        let state = &mut self.slots[slot];
        let config = NodeConfig {
            name: state.name.clone(),
            cluster: "sim".to_owned(),
            key_id: HashKeyId(0),
            block_bytes: 256,
            placement_idle_ms: self.plan.idle_ms,
            expect_peers: true,
        };
        state.lives += 1;
        state.branch = branch;
        state.mono_zero_us = self.now_us;
        state.says = ClockState::Good;
        state.marks = Marks::default();
        state.sent = [(0, 0); 3];
        state.own_loads.clear();
        state.seen_loads.clear();
        state.lookups = (!self.watch.is_light).then(|| Lookups::new(life));
        let mut node = Node::new(config, life, seed, MonoTime::default(), wall);
        node.set_knobs(self.plan.knobs);
        state.node = Some(node);
        self.who[slot] = Some(life);
        for worker in 0..if self.streams.is_some() { self.engines.len() } else { 0 } {
            let worker = self.traffic.worker(worker);
            self.handle(slot, Input::Local(Local::Ingests { worker, can: true }));
        }
        self.handle(slot, Input::Elapsed);
    }

    pub(super) fn leave(&mut self, slot: usize) {
        self.handle(slot, Input::Local(Local::Leave));
        self.stop(slot);
    }

    /// Comes back empty under the life it has, or had last.
    pub(super) fn reuse(&mut self, slot: usize) {
        let Some(life) = self.who[slot].or(self.slots[slot].ended) else { return };
        self.mark(marks::REUSED);
        self.stop(slot);
        let branch = self.oracle.fork(life, 0);
        let seed = Stream::new(self.plan.seed, &format!("reuse {slot} {}", self.slots[slot].lives)).word();
        self.boot(slot, life, branch, seed);
    }

    pub(super) fn restart_as_namesake(&mut self, slot: usize, of: usize) {
        self.mark(marks::NAMESAKE);
        self.stop(slot);
        self.slots[slot].name = self.slots[of].name.clone();
        self.start(slot);
    }

    fn snapshot(&self, slot: usize) -> Option<Box<Snapshot>> {
        let state = &self.slots[slot];
        let node = state.node.clone()?;
        let linked = (0..self.slots.len()).filter(|other| self.network.is_up(slot, *other));
        let ghosts = self.ghosts.iter().filter(|(node, _)| *node == slot).map(|(_, life)| *life);
        Some(Box::new(Snapshot {
            mono: self.mono(slot),
            own_loads: state.own_loads.clone(),
            seen_loads: state.seen_loads.clone(),
            linked: linked.filter_map(|other| self.who[other]).chain(ghosts).collect(),
            node,
        }))
    }

    pub(super) fn save(&mut self, slot: usize, after_ms: u64) {
        if let Some(snapshot) = self.snapshot(slot) {
            self.slots[slot].snapshot = Some(snapshot);
            self.next_in(after_ms * 1_000, Next::Restore { node: slot });
        }
    }

    /// The machine is rolled back: what it did since was seen by others, and it does not know.
    pub(super) fn restore(&mut self, slot: usize) {
        if let Some(snapshot) = self.slots[slot].snapshot.take() {
            self.mark(marks::ROLLED_BACK);
            self.wake(slot, *snapshot);
        }
    }

    pub(super) fn twin(&mut self, slot: usize, of: usize) {
        if self.slots[of].pause.is_some() {
            return;
        }
        if let Some(snapshot) = self.snapshot(of) {
            self.mark(marks::TWIN);
            self.slots[slot].name = self.slots[of].name.clone();
            self.wake(slot, *snapshot);
        }
    }

    /// A saved node goes on in a slot. All its connections are gone.
    fn wake(&mut self, slot: usize, snapshot: Snapshot) {
        self.stop(slot);
        let life = snapshot.node.life();
        let shared = snapshot.node.vector().head(life).seq;
        let branch = self.oracle.fork(life, shared);
        let state = &mut self.slots[slot];
        state.lives += 1;
        state.branch = branch;
        state.mono_zero_us = self.now_us - snapshot.mono.us;
        state.says = snapshot.node.clock();
        state.marks = Marks::default();
        state.own_loads = snapshot.own_loads;
        state.seen_loads = snapshot.seen_loads;
        state.lookups = None;
        state.node = Some(snapshot.node);
        self.who[slot] = Some(life);
        for peer in snapshot.linked {
            self.handle(slot, Input::Link(Link::Down(peer)));
        }
        self.handle(slot, Input::Elapsed);
    }

    pub(super) fn pause(&mut self, slot: usize, for_ms: u64, drops: bool) {
        if self.slots[slot].node.is_none() {
            return;
        }
        let until_us = self.now_us + for_ms * 1_000;
        let pause = self.slots[slot].pause.get_or_insert(Pause { until_us, drops });
        pause.until_us = pause.until_us.max(until_us);
        self.at(until_us, Event::Resume { node: slot });
        self.mark(marks::PAUSED);
        self.doubt_links();
    }

    /// Goes on: late timers first, then all that waited, in order.
    pub(super) fn resume(&mut self, slot: usize) {
        if self.slots[slot].pause.is_none_or(|pause| pause.until_us > self.now_us) {
            return;
        }
        self.wake_up(slot);
    }

    pub(super) fn wake_up(&mut self, slot: usize) {
        if self.slots[slot].pause.take().is_none() {
            return;
        }
        self.gauges.woke(self.now_us, slot);
        self.handle(slot, Input::Elapsed);
        while let Some(input) = self.slots[slot].backlog.pop_front() {
            self.handle(slot, input);
        }
    }
}
