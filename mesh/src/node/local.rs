//! What the gateway tells its node, turned into ops of the node's own log.
//!
//! Not here: applying and pushing them (`ops`). A node stamps nothing before it has joined (rule e) and nothing while
//! its clock is ahead of the mesh (rule a): what it would say then is dropped and counted, never delayed into a request.

use std::sync::Arc;

use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, Token, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_crdt::limits::{KEYSPACES_PER_WORKER_MAX, WORKERS_MAX};
use covey_crdt::op::{FloorRaise, Op, Touch, WorkerUpdate};
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stamp::Rank;

use super::Node;
use crate::blob::BlobKind;
use crate::input::Local;
use crate::limits::{FLAP_MS, FLAPS_MAX, LOAD_MS, WAITING_MAX};
use crate::note::{ClockState, Drop, Note};

impl Node {
    pub(super) fn on_local(&mut self, local: Local) {
        match local {
            Local::Load { worker, load } => {
                if self.own_loads.set(worker, load) && self.load_at.is_none() {
                    self.load_at = Some(self.now.plus_ms(LOAD_MS));
                }
            }
            Local::Effect(effect) => self.effect = Some(*effect),
            Local::Leave => self.leave(),
            Local::Ingests { worker, can } => self.can_ingest(worker, can),
            Local::Ingested(op) => self.ingested(*op),
            Local::FeedReport { worker, report } => self.reported(&worker, report),
            Local::AskHandOff { worker } => self.ask_hand_off(worker),
            Local::HandOff { to, worker, state } => self.give(to, &worker, BlobKind::Ingest, state),
            Local::Place { .. }
            | Local::Probed { .. }
            | Local::Removed { .. }
            | Local::Reset { .. }
            | Local::Raise { .. } => {
                if self.joined || planted(Plant::StampsBeforeJoining) {
                    self.act(local);
                } else if self.waiting.len() < WAITING_MAX {
                    self.waiting.push_back(local);
                } else {
                    self.drop_local(Drop::Bound);
                }
            }
        }
    }

    /// The node has joined: what waited for that is done now.
    pub(super) fn act_on_waiting(&mut self) {
        for local in std::mem::take(&mut self.waiting) {
            self.act(local);
        }
    }

    fn act(&mut self, local: Local) {
        if self.left {
            return;
        }
        let silent = self.clock == ClockState::Behind && planted(Plant::BehindIsSilent);
        let silent = silent || (self.clock == ClockState::Ahead && !planted(Plant::AheadPublishes));
        if silent {
            return self.drop_local(Drop::Clock);
        }
        match local {
            Local::Place { worker, keyspace, incarnation, chain } => {
                self.place(worker, &keyspace, incarnation, &chain);
            }
            Local::Probed { worker, started_at, token, capacity_tokens } => {
                self.probed(worker, &started_at, token, capacity_tokens);
            }
            Local::Removed { worker } => {
                // Every gateway's discovery says so; one op is enough, and a late one must not remove the worker's next life.
                if !self.replica.record(&worker).is_some_and(|record| record.incarnation.is_removed()) {
                    self.raise_incarnation(worker, Token::removed(), None);
                }
            }
            Local::Reset { worker } => self.reset(&worker),
            Local::Raise { worker } => self.raise(worker),
            Local::Load { .. }
            | Local::Effect(_)
            | Local::Leave
            | Local::Ingests { .. }
            | Local::Ingested(_)
            | Local::FeedReport { .. }
            | Local::AskHandOff { .. }
            | Local::HandOff { .. } => {}
        }
    }

    fn drop_local(&mut self, why: Drop) {
        self.note(Note::Dropped { why });
    }

    fn place(&mut self, worker: WorkerId, keyspace: &Arc<Keyspace>, incarnation: Incarnation, chain: &[BlockHash]) {
        if chain.is_empty() {
            return;
        }
        let Some(record) = self.replica.record(&worker).filter(|record| !record.incarnation.is_removed()) else {
            return self.drop_local(Drop::UnknownWorker);
        };
        if record.incarnation != incarnation {
            return self.drop_local(Drop::Incarnation);
        }
        let holders =
            self.replica.holders().filter(|(other, other_space, _)| **other == worker && *other_space != keyspace);
        if holders.count() >= KEYSPACES_PER_WORKER_MAX / 2 {
            return self.drop_local(Drop::Bound);
        }
        let Ok((place, tip)) = self.replica.learn_chain(chain) else {
            return self.drop_local(Drop::Bound);
        };
        let stamp = self.stamp();
        self.publish(Op::Touch(Touch { worker, keyspace: Arc::clone(keyspace), incarnation, tip, stamp }));
        self.replica.release(place);
    }

    fn probed(&mut self, worker: WorkerId, started_at: &Incarnation, token: Token, capacity_tokens: Option<u64>) {
        let unknown = Incarnation::unknown();
        let record = self.replica.record(&worker);
        let current = record.map_or(&unknown, |record| &record.incarnation);
        // A probe that was under way while the incarnation changed may carry the dead engine's token (P12).
        if current != started_at && !planted(Plant::LateProbeBelieved) {
            return self.drop_local(Drop::Incarnation);
        }
        let earlier = planted(Plant::TokenByOrder) && token < current.token;
        if (current.token != token && !earlier) || current.counter == 0 {
            return self.raise_incarnation(worker, token, capacity_tokens);
        }
        let known = record.and_then(|record| record.capacity_tokens);
        let smaller = capacity_tokens.is_some_and(|tokens| known.is_none_or(|known| tokens < known));
        if smaller {
            let incarnation = current.clone();
            let stamp = self.stamp();
            self.publish(Op::Worker(WorkerUpdate { worker, incarnation, capacity_tokens, meta: None, stamp }));
        }
    }

    /// The engine is the same and its cache is taken for another one (R11).
    fn raise(&mut self, worker: WorkerId) {
        let record = self.replica.record(&worker).filter(|record| !record.incarnation.is_removed());
        let Some((token, capacity)) = record.map(|record| (record.incarnation.token.clone(), record.capacity_tokens))
        else {
            return self.drop_local(Drop::UnknownWorker);
        };
        self.raise_incarnation(worker, token, capacity);
    }

    fn raise_incarnation(&mut self, worker: WorkerId, token: Token, capacity_tokens: Option<u64>) {
        let current = self.replica.record(&worker).map(|record| record.incarnation.clone());
        if current.is_none() && self.replica.records().count() >= WORKERS_MAX / 2 {
            return self.drop_local(Drop::Bound);
        }
        if current.is_some() && self.flaps(&worker) {
            return self.note(Note::TokenFlaps { worker });
        }
        let incarnation = current.unwrap_or_else(Incarnation::unknown).next(token);
        let stamp = self.stamp();
        self.publish(Op::Worker(WorkerUpdate { worker, incarnation, capacity_tokens, meta: None, stamp }));
    }

    /// Counts a token change; whether there were too many of late.
    fn flaps(&mut self, worker: &WorkerId) -> bool {
        let now = self.now;
        let recent = self.token_changes.entry(worker.clone()).or_default();
        recent.retain(|at| now.since_ms(*at) < FLAP_MS);
        if recent.len() >= FLAPS_MAX {
            return true;
        }
        recent.push_back(now);
        false
    }

    fn reset(&mut self, worker: &WorkerId) {
        let Some(record) = self.replica.record(worker) else {
            return self.drop_local(Drop::UnknownWorker);
        };
        let incarnation = record.incarnation.clone();
        let keyspaces: Vec<_> = self
            .replica
            .holders()
            .filter(|(other, _, _)| *other == worker)
            .map(|(_, keyspace, _)| Arc::clone(keyspace))
            .collect();
        for keyspace in keyspaces {
            let stamp = self.stamp();
            let (worker, incarnation) = (worker.clone(), incarnation.clone());
            self.publish(Op::Floor(FloorRaise { worker, keyspace, incarnation, floor: Rank::whole(stamp), stamp }));
        }
    }

    fn leave(&mut self) {
        if !self.left {
            self.publish(Op::Left);
            self.left = true;
            self.push();
            self.push_feeds();
        }
    }
}
