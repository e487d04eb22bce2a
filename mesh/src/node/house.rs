//! Timers: pushes, exchanges, load frames, retries, retention, expiry.
//!
//! Not here: what each does. Upholds I9 (retained and staged memory is bounded by bytes, count and age).

use std::sync::Arc;

use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::op::{FloorRaise, Op};
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stamp::{Hlc, Rank, Stamp};

use super::Node;
use crate::limits::{EXPIRY_MS, HOUSEKEEPING_MS, LOAD_MS, PEERS_MAX, PUSH_DELAY_MS, STAGED_MS};
use crate::log::Retained;
use crate::note::ClockState;
use crate::ownership::owner;
use crate::status::Phase;

impl Node {
    pub(super) fn on_elapsed(&mut self) {
        if self.push_at.is_some_and(|at| at <= self.now) {
            self.push();
            self.push_feeds();
        }
        let due: Vec<LifeId> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.linked && peer.exchange_at <= self.now)
            .map(|(life, _)| *life)
            .collect();
        for peer in due {
            self.send_exchange(peer);
        }
        if self.load_at.is_some_and(|at| at <= self.now) {
            self.spread_load();
        }
        if self.house_at <= self.now {
            self.house_at = self.now.plus_ms(HOUSEKEEPING_MS);
            self.keep_house();
        }
    }

    fn spread_load(&mut self) {
        self.load_at = None;
        let version = self.own_loads.version();
        let behind: Vec<(LifeId, u64)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.admitted && peer.load_sent < version)
            .map(|(life, peer)| (*life, peer.load_sent))
            .collect();
        for (peer, since) in behind {
            if self.peers.get(&peer).is_some_and(|peer| peer.blocked) {
                self.load_at = Some(self.now.plus_ms(LOAD_MS));
            } else {
                self.send_loads(peer, since);
            }
        }
    }

    fn keep_house(&mut self) {
        self.judge_clock();
        self.drain_ahead();
        self.pull_gaps();
        self.chase_unresolved();
        self.watch_session();
        self.try_join();
        self.watch_stuck();
        self.tend_lives();
        self.drop_old();
        self.forget_peers();
        self.expire();
        self.tend_feeds();
        self.tell_of_self();
    }

    /// Peers that are long gone make room for new ones.
    fn forget_peers(&mut self) {
        while self.peers.len() > PEERS_MAX {
            let gone = self.peers.iter().filter(|(_, peer)| !peer.linked);
            let Some(life) = gone.min_by_key(|(_, peer)| peer.heard).map(|(life, _)| *life) else { return };
            self.peers.remove(&life);
        }
    }

    /// Ops that waited for the local clock.
    fn drain_ahead(&mut self) {
        let waiting: Vec<LifeId> = self.logs.iter().filter(|(_, log)| log.ahead).map(|(life, _)| *life).collect();
        for life in waiting {
            self.log_mut(life).ahead = false;
            self.drain(life, None);
        }
    }

    /// Retained ops and staged content that are too old or too many.
    fn drop_old(&mut self) {
        let limit = self.now.us.checked_sub(self.knobs.log_age_ms * 1_000).map(|us| crate::input::MonoTime { us });
        let lives: Vec<LifeId> = self.logs.keys().copied().collect();
        for life in &lives {
            while let Some(limit) = limit
                && let Some(retained) = self.log_mut(*life).drop_oldest(Some(limit))
            {
                self.forget(&retained);
            }
        }
        while self.log_bytes > self.knobs.log_bytes && !planted(Plant::LogUnbounded) {
            let oldest = self.logs.iter().filter_map(|(life, log)| log.oldest().map(|at| (at, *life))).min();
            // What was published a moment ago must stay until it was pushed.
            let old = |(at, _): &(crate::input::MonoTime, LifeId)| self.now.since_ms(*at) > 2 * PUSH_DELAY_MS;
            let Some((_, life)) = oldest.filter(old) else { break };
            if let Some(retained) = self.log_mut(life).drop_oldest(None) {
                self.forget(&retained);
            }
        }
        while self.staged.front().is_some_and(|(at, _)| self.now.since_ms(*at) >= STAGED_MS) {
            if let Some((_, place)) = self.staged.pop_front() {
                self.replica.release(place);
            }
        }
    }

    /// A retained op is let go, and with it the chain it kept.
    pub(super) fn forget(&mut self, retained: &Retained) {
        self.log_bytes -= retained.bytes;
        for place in &retained.places {
            self.replica.release(*place);
        }
    }

    /// Raises the floors of idle placements, for the workers this gateway owns.
    fn expire(&mut self) {
        if self.now < self.expiry_at || self.phase() != Phase::Clean || self.clock != ClockState::Good || self.left {
            return;
        }
        self.expiry_at = self.now.plus_ms(EXPIRY_MS);
        let Some(limit) = self.wall.0.checked_sub(self.config.placement_idle_ms) else { return };
        let limit = Stamp { hlc: Hlc::new(limit, 0), life: LifeId(0) };
        let idle: Vec<_> = self
            .replica
            .holders()
            .filter(|(_, _, placed)| placed.segments(None).next().is_some_and(|(oldest, _)| oldest < limit))
            .map(|(worker, keyspace, _)| (worker.clone(), Arc::clone(keyspace)))
            .collect();
        for (worker, keyspace) in idle {
            let Some(record) = self.replica.record(&worker).filter(|_| self.owns(&worker)) else { continue };
            let incarnation = record.incarnation.clone();
            let stamp = self.stamp();
            let mut floor = Rank::whole(limit.min(stamp));
            if planted(Plant::ExpiryAboveStamp) {
                floor.stamp.hlc = Hlc::new(stamp.hlc.ms() + 1_000, 0);
            }
            self.publish(Op::Floor(FloorRaise { worker, keyspace, incarnation, floor, stamp }));
        }
    }

    fn owns(&self, worker: &WorkerId) -> bool {
        let live = self.peers.values().filter(|peer| peer.live()).filter_map(|peer| peer.name.as_ref());
        owner(worker, live.chain(std::iter::once(&self.config.name))) == Some(&self.config.name)
    }
}
