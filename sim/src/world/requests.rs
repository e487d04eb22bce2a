//! What gateways do by themselves: requests, probes of workers, load registers.
//!
//! Not here: drawing them (`traffic`).

use covey_crdt::id::Incarnation;
use covey_crdt::plant::{Plant, planted};
use covey_mesh::input::{Input, Local};

use super::{Event, World};

/// Share of requests that their worker refuses.
const REFUSED: f64 = 0.03;

impl World {
    pub(super) fn request(&mut self) {
        if self.calm {
            return;
        }
        let gap = self.traffic.gap_us();
        self.at(self.now_us + gap, Event::Request);
        let request = self.traffic.request();
        let slot = request.node;
        let Some(node) = &self.slots[slot].node else { return };
        let Some(record) = node.replica().record(&request.worker) else { return };
        let incarnation = record.incarnation.clone();
        // Full, overloaded, gone: a worker that refuses holds nothing of the request, and no gateway may say it does (I6).
        let accepted = !self.refusals.chance(REFUSED);
        if accepted {
            self.oracle.accept(&request.worker, &incarnation, &request.chain);
        } else if !planted(Plant::PublishesAtSelection) {
            return;
        }
        let place = Local::Place {
            worker: request.worker,
            keyspace: request.keyspace,
            incarnation,
            chain: request.chain.into(),
        };
        self.handle(slot, Input::Local(place));
    }

    pub(super) fn probe(&mut self, slot: usize) {
        self.later(300_000, 1_200_000, Event::Probe { node: slot });
        let Some(node) = &self.slots[slot].node else { return };
        let life = node.life();
        for worker in 0..self.plan.workers {
            let Some(node) = &self.slots[slot].node else { return };
            let id = self.traffic.worker(worker);
            let started_at =
                node.replica().record(&id).map_or_else(Incarnation::unknown, |record| record.incarnation.clone());
            let token = self.traffic.token(worker, self.tokens[worker]);
            let capacity_tokens = self.capacities[worker];
            let answer = Event::Answer { node: slot, life, worker, started_at, token, capacity_tokens };
            self.later(1_000, 400_000, answer);
        }
    }

    pub(super) fn load(&mut self, slot: usize) {
        if self.calm {
            return;
        }
        self.later(20_000, 1_500_000, Event::Load { node: slot });
        let (worker, load) = self.traffic.load();
        self.slots[slot].own_loads.insert(worker.clone(), load);
        self.handle(slot, Input::Local(Local::Load { worker, load }));
    }
}
