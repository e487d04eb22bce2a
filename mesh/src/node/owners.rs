//! Who ingests a worker's events. Rendezvous over the gateways that are fit for it: the first two ingest, the first
//! publishes. Fit is who reads events, is clean, and has been reachable for a while, so who flaps owns nothing.
//!
//! Nobody has to agree: an op is the same whoever publishes it. A standby does not look for a failed publisher but at what
//! is published: an op of its own that is still missing after 300 ms it publishes itself. Each side of a partition owns
//! every worker for itself.
//!
//! Also here: placements in a keyspace that a complete feed speaks about are overruled once they are older than the events
//! can be late. These floors are ops of the publisher's own log, apart from the feed's (P3).

use std::sync::Arc;

use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_crdt::limits::WORKERS_MAX;
use covey_crdt::op::{FloorRaise, Op};
use covey_crdt::stamp::{Hlc, Rank, Stamp};

use super::Node;
use crate::blob::BlobKind;
use crate::feed::{FeedReport, FeedState, Role};
use crate::limits::{
    BRIDGE_MS, BRIDGE_QUEUED_MS, EXCHANGE_MS, FEED_STARTS, FEED_STUCK_MS, LINGER_MS, SEQ_MAX, SETTLE_MS, TAKEOVER_MS,
};
use crate::note::{ClockState, Note};
use crate::output::{FeedOrder, Output};
use crate::ownership::first_two;
use crate::status::Phase;

impl Node {
    /// This gateway can read a worker's events from now on, or cannot any more.
    pub(super) fn can_ingest(&mut self, worker: WorkerId, can: bool) {
        if can && self.can_ingest.len() < WORKERS_MAX {
            self.can_ingest.insert(worker);
        } else if !can && self.can_ingest.remove(&worker) {
            self.set_role(&worker, Role::Off);
        }
    }

    pub(super) fn reported(&mut self, worker: &WorkerId, report: FeedReport) {
        let now = self.now;
        let Some(log) = self.feeds.get_mut(worker) else { return };
        if log.report.state != report.state {
            self.report_version += 1;
            log.report_version = self.report_version;
            self.summary_at = self.summary_at.min(now.plus_ms(50));
        }
        log.report = report;
        log.report_at = now;
    }

    /// The own ingester wants another's state.
    pub(super) fn ask_hand_off(&mut self, worker: WorkerId) {
        let can_give = |seen: &&crate::summary::FeedSeen| {
            seen.worker == worker.name() && seen.rank == worker.rank() && seen.report.state != FeedState::Stale
        };
        let givers: Vec<LifeId> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.live())
            .filter(|(_, peer)| {
                peer.said.as_ref().is_some_and(|said| said.feeds.values().any(|(_, seen)| can_give(&&**seen)))
            })
            .map(|(life, _)| *life)
            .collect();
        self.fetches.give_up(BlobKind::Ingest, &worker);
        match self.pick(&givers) {
            Some(giver) => {
                self.fetches.queue(BlobKind::Ingest, worker, giver);
                self.fetch_next();
            }
            None => self.outbox.push_back(Output::Feed(FeedOrder::HandedOff { worker, state: None })),
        }
    }

    /// Looks at who owns what, and publishes what nobody else did.
    pub(super) fn tend_feeds(&mut self) {
        self.judge_fitness();
        self.assign_roles();
        self.take_over();
        self.chase_fetches();
        self.pull_feeds();
        self.tidy_feeds();
        self.overrule_placements();
    }

    fn judge_fitness(&mut self) {
        let now = self.now;
        for peer in self.peers.values_mut() {
            let is_fit = peer.live() && peer.ingests && peer.phase != Some(Phase::Joining);
            peer.fit_since = is_fit.then(|| peer.fit_since.unwrap_or(now));
        }
        let is_fit = self.joined && !self.left && !self.can_ingest.is_empty();
        self.fit_since = is_fit.then(|| self.fit_since.unwrap_or(now));
    }

    /// The gateways that may own feeds, by name: who has been there for a while, oneself included. Who is alone on purpose
    /// does not wait.
    fn fit(&self) -> Vec<(covey_crdt::id::GatewayName, LifeId)> {
        let peers = self.peers.iter().filter_map(|(life, peer)| Some((peer.name.clone()?, *life, peer.fit_since?)));
        // Oneself a little later than the others do, or everybody would own everything for a moment.
        let own = self.fit_since.map(|since| (self.config.name.clone(), self.life, since.plus_ms(2 * EXCHANGE_MS)));
        let all: Vec<_> = peers.chain(own).collect();
        let settled = |since: crate::input::MonoTime| self.now.since_ms(since) >= SETTLE_MS;
        let counts = |since| settled(since) || !self.config.expect_peers;
        all.into_iter().filter(|(_, _, since)| counts(*since)).map(|(name, life, _)| (name, life)).collect()
    }

    fn assign_roles(&mut self) {
        if self.can_ingest.is_empty() {
            return;
        }
        let fit = self.fit();
        // Who begins without a state costs the engine a replay: no more begin than can be handed one in time.
        let mut starts = self.fetches.count(BlobKind::Ingest);
        for worker in self.can_ingest.clone() {
            let (first, second) = first_two(&worker, &fit);
            let wanted = match () {
                () if first == Some(self.life) => Role::Publisher,
                () if second == Some(self.life) => Role::Standby,
                () => Role::Off,
            };
            let (role, since) = self.feeds.get(&worker).map_or((Role::Off, self.now), |log| (log.role, log.role_at));
            let removed = self.replica.record(&worker).is_some_and(|record| record.incarnation.is_removed());
            let next = match (role, wanted) {
                _ if removed || self.fit_since.is_none() => Role::Off,
                (Role::Standby | Role::Publisher, Role::Off) => Role::Leaving,
                (Role::Leaving, Role::Off) if self.now.since_ms(since) < LINGER_MS => Role::Leaving,
                _ => wanted,
            };
            if next == role {
                continue;
            }
            if role == Role::Off {
                starts += 1;
                // Many subscriptions at once would load engines and this gateway alike; the rest follows in a moment.
                if starts > FEED_STARTS {
                    continue;
                }
            }
            self.set_role(&worker, next);
        }
    }

    fn set_role(&mut self, worker: &WorkerId, role: Role) {
        let now = self.now;
        if !self.feeds.contains_key(worker) && (role == Role::Off || self.feeds.len() >= WORKERS_MAX) {
            return;
        }
        let log = self.feeds.entry(worker.clone()).or_default();
        if log.role == role {
            return;
        }
        (log.role, log.role_at) = (role, now);
        if role == Role::Off {
            log.clear_outbox();
            log.report = FeedReport::default();
        }
        self.report_version += 1;
        log.report_version = self.report_version;
        self.summary_at = self.summary_at.min(now.plus_ms(50));
        self.outbox.push_back(Output::Feed(FeedOrder::Role { worker: worker.clone(), role }));
        if role == Role::Publisher {
            let _ = self.publish_feed(worker);
        }
    }

    /// Publishes own ops that somebody else should have published long ago.
    fn take_over(&mut self) {
        let late = |log: &crate::feed::FeedLog| {
            log.role.ingests() && log.unpublished().is_some_and(|(_, made)| self.now.since_ms(*made) >= TAKEOVER_MS)
        };
        let due: Vec<WorkerId> =
            self.feeds.iter().filter(|(_, log)| late(log)).map(|(worker, _)| worker.clone()).collect();
        for worker in due {
            if self.publish_feed(&worker) {
                self.note(Note::TakenOver { worker });
                continue;
            }
            // What lies between was made by somebody who died before it was out, and handed on: nobody can make it again.
            let log = self.feeds.get_mut(&worker).expect("it has ops");
            let waits = log.unpublished().map(|(_, made)| *made);
            if waits.is_some_and(|made| self.now.since_ms(made) >= FEED_STUCK_MS) {
                log.clear_outbox();
                self.outbox.push_back(Output::Feed(FeedOrder::Restart { worker }));
            }
        }
    }

    /// Raises the floors of placements that events have overruled, for the feeds this gateway publishes.
    fn overrule_placements(&mut self) {
        if self.now < self.bridge_at || self.phase() != Phase::Clean || self.clock != ClockState::Good || self.left {
            return;
        }
        self.bridge_at = self.now.plus_ms(BRIDGE_MS / 4);
        let exact: Vec<(WorkerId, Vec<Arc<Keyspace>>)> = self
            .feeds
            .iter()
            .filter(|(_, log)| log.role == Role::Publisher && log.report.state == FeedState::Exact)
            .filter(|(worker, _)| self.replica.feed(worker).is_some_and(|state| state.is_complete))
            .map(|(worker, log)| (worker.clone(), log.speaks.iter().cloned().collect()))
            .collect();
        for (worker, keyspaces) in exact {
            let Some(through) = self.wall.0.checked_sub(self.bridge_ms(&worker)) else { continue };
            let through = Stamp { hlc: Hlc::new(through, 0), life: LifeId(0) };
            let Some(record) = self.replica.record(&worker) else { continue };
            let incarnation = record.incarnation.clone();
            let overruled: Vec<Arc<Keyspace>> = self
                .replica
                .holders_in(&worker)
                .filter(|(keyspace, placed)| {
                    let oldest = placed.segments(None).next();
                    keyspaces.contains(keyspace) && oldest.is_some_and(|(oldest, _)| oldest < through)
                })
                .map(|(keyspace, _)| Arc::clone(keyspace))
                .collect();
            for keyspace in overruled {
                let stamp = self.stamp();
                let floor = Rank::whole(through.min(stamp));
                let (worker, incarnation) = (worker.clone(), incarnation.clone());
                self.publish(Op::Floor(FloorRaise { worker, keyspace, incarnation, floor, stamp }));
            }
        }
    }

    /// How old placements of a worker may be that its events have not caught up with: those of prompts that still wait there
    /// count.
    fn bridge_ms(&mut self, worker: &WorkerId) -> u64 {
        let theirs = self.peers.values().filter(|peer| peer.live()).map(|peer| peer.loads.queued_tokens(worker));
        let is_queued = self.own_loads.queued_tokens(worker) > 0 || theirs.into_iter().any(|tokens| tokens > 0);
        let now = self.now;
        let Some(log) = self.feeds.get_mut(worker) else { return BRIDGE_MS };
        log.queued_since = is_queued.then(|| log.queued_since.unwrap_or(now));
        let queued_ms = log.queued_since.map_or(0, |since| now.since_ms(since));
        BRIDGE_MS + queued_ms.min(BRIDGE_QUEUED_MS)
    }

    /// What this gateway is for a worker's feed.
    #[must_use]
    pub fn feed_role(&self, worker: &WorkerId) -> Role {
        self.feeds.get(worker).map_or(Role::Off, |log| log.role)
    }

    /// The feeds it ingests, those first whose state changed last.
    pub(super) fn feeds_seen(&self) -> Vec<crate::summary::FeedSeen> {
        let mut ingested: Vec<_> = self.feeds.iter().filter(|(_, log)| log.role.ingests()).collect();
        ingested.sort_by_key(|(_, log)| std::cmp::Reverse(log.report_version));
        let aged = |log: &crate::feed::FeedLog| {
            let age = self.now.since_ms(log.report_at);
            let mut report = log.report;
            report.since_ms = report.since_ms.saturating_add(age);
            report.proven_ms = report.proven_ms.map(|ms| ms.saturating_add(age));
            // Engines number as they like; a summary does not.
            report.position = report.position.min(SEQ_MAX);
            // An ingester that says nothing any more knows nothing (I12).
            if age > crate::limits::REPORT_MS {
                report.state = FeedState::Stale;
            }
            report
        };
        let seen = |(worker, log): (&WorkerId, &crate::feed::FeedLog)| crate::summary::FeedSeen {
            worker: worker.name().to_owned(),
            rank: worker.rank(),
            role: log.role,
            report: aged(log),
        };
        ingested.into_iter().map(seen).collect()
    }
}
