//! What gateways do by themselves: requests, probes of workers, load registers.
//!
//! Not here: drawing them (`traffic`).

use covey_crdt::id::Incarnation;
use covey_crdt::plant::{Plant, planted};
use covey_mesh::input::{Input, Local};

use super::World;
use super::event::{Answer, Event};

/// Workers a gateway probes in one round; more take several.
const PROBES_MAX: usize = 12;

/// Share of requests that their worker refuses.
const REFUSED: f64 = 0.03;

impl World {
    pub(super) fn request(&mut self) {
        if self.calm {
            return;
        }
        let gap = self.traffic.gap_us();
        self.after(gap, Event::Request);
        let mut request = self.traffic.request();
        if let Some(streams) = self.kv_streams.as_mut().filter(|_| request.chain.len().is_multiple_of(3)) {
            (request.keyspace, request.chain) = (crate::caches::keyspace(), streams.any_chain().into());
        }
        let slot = request.node;
        if self.slots[slot].pause.is_some() {
            return;
        }
        let Some(node) = &self.slots[slot].node else { return };
        let worker = self.traffic.worker(request.worker);
        let Some(record) = node.replica().record(&worker).filter(|record| !record.incarnation.is_removed()) else {
            return;
        };
        let incarnation = record.incarnation.clone();
        // Full, overloaded, gone: a worker that refuses holds nothing of the request, and no gateway may say it does (I6).
        if !self.draws.refusals.chance(REFUSED) {
            self.oracle.accept(&worker, &incarnation, &request.chain);
        } else if !planted(Plant::PublishesAtSelection) {
            return;
        }
        let place = Local::Place { worker, keyspace: request.keyspace, incarnation, chain: request.chain };
        self.handle(slot, Input::Local(place));
    }

    pub(super) fn probe(&mut self, slot: usize) {
        let again = self.draws.probes.between(300_000, 1_200_000);
        self.after(again, Event::Probe { node: slot });
        let workers = self.engines.len();
        let first = if workers > PROBES_MAX { self.draws.probes.index(workers) } else { 0 };
        for nth in 0..workers.min(PROBES_MAX) {
            self.probe_one(slot, (first + nth) % workers);
        }
    }

    pub(super) fn probe_one(&mut self, slot: usize, worker: usize) {
        let (Some(life), None) = (self.who[slot], self.slots[slot].pause) else { return };
        let engine = &self.engines[worker];
        if engine.removed {
            return;
        }
        let mut token = *engine.tokens.last().expect("an engine has had a token");
        if engine.flaps && self.draws.probes.chance(0.5) {
            token = token.wrapping_add(1_000);
        }
        let capacity_tokens = engine.capacity_tokens;
        let token = self.traffic.token(worker, token);
        let Some(node) = &self.slots[slot].node else { return };
        let record = node.replica().record(&self.traffic.worker(worker));
        let started_at = record.map_or_else(Incarnation::unknown, |record| record.incarnation.clone());
        let late_ms = if self.calm { 0 } else { self.plan.probe_late_ms };
        // Nothing that was asked while faults last is answered long after them.
        let left_us = (self.plan.faults_ms * 1_000).saturating_sub(self.now_us);
        let us =
            self.draws.probes.between(1_000, 400_000).max(self.draws.probes.below(late_ms * 1_000 + 1).min(left_us));
        let answer = Answer { node: slot, life, worker, started_at, token, capacity_tokens };
        self.after(us, Event::Answer(Box::new(answer)));
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        if self.who[answer.node] != Some(answer.life) {
            return;
        }
        let Answer { node, worker, started_at, token, capacity_tokens, .. } = answer;
        let (worker, capacity_tokens) = (self.traffic.worker(worker), Some(capacity_tokens));
        self.handle(node, Input::Local(Local::Probed { worker, started_at, token, capacity_tokens }));
    }

    pub(super) fn load(&mut self, slot: usize) {
        if self.calm {
            return;
        }
        let again = self.draws.loads.between(20_000, 1_500_000);
        self.after(again, Event::Load { node: slot });
        if self.slots[slot].pause.is_some() || self.who[slot].is_none() {
            return;
        }
        let (worker, load) = self.traffic.load();
        self.slots[slot].own_loads.insert(worker.clone(), load);
        self.handle(slot, Input::Local(Local::Load { worker, load }));
    }
}
