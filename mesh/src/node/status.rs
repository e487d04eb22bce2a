//! The node's view of itself and its peers, for people and metrics.
//!
//! Not here: a verdict. Upholds I12: what is not known is `None`.

use std::collections::BTreeMap;

use covey_crdt::id::{GatewayName, LifeId};

use super::Node;
use crate::input::MonoTime;
use crate::limits::{HOUSEKEEPING_MS, PUSH_DELAY_MS};
use crate::peer::Peer;
use crate::status::{PeerStatus, Phase, Status};

impl Node {
    /// The node's view of itself and its peers.
    #[must_use]
    pub fn status(&self, now: MonoTime) -> Status {
        let phase = self.phase();
        let (mut holders, mut blocks) = (0, 0);
        for (_, _, placed) in self.replica.holders() {
            holders += u64::from(placed.blocks() > 0);
            blocks += u64::from(placed.blocks());
        }
        Status {
            name: self.config.name.to_string(),
            life: self.life.to_string(),
            phase,
            digest: (phase == Phase::Clean).then(|| self.replica.digest().to_string()),
            vector: format!("{:016x}", self.vector.hash()),
            clock: self.clock.name().to_owned(),
            clock_ahead_ms: self.clock_ahead_ms(),
            workers: self.replica.records().count() as u64,
            holders,
            blocks,
            ops_applied: self.ops_applied,
            ops_held: self.ops_held(),
            log_bytes: (self.log_bytes + self.feed_bytes) as u64,
            lives: self.vector.lives().count() as u64,
            closing: self.ends.closing.len() as u64,
            retired: self.replica.retired().len() as u64,
            repairing: self.session.is_some(),
            refused: self.refused.as_ref().filter(|_| !self.joined).map(|(_, why)| why.clone()),
            has_met_nobody: self.config.expect_peers && !self.has_met,
            peers: self.peer_statuses(now),
        }
    }

    /// Bytes of retained ops that at least one turn of housekeeping has looked at since they came: never more than the
    /// bound of retained bytes (I9). For the simulator, O(ops retained).
    #[must_use]
    pub fn settled_log_bytes(&self) -> usize {
        let settled = |at: MonoTime| self.now.since_ms(at) > HOUSEKEEPING_MS + 2 * PUSH_DELAY_MS;
        self.logs.values().map(|log| log.bytes_of(settled)).sum()
    }

    /// Ops received and held, of lives and of feeds.
    pub(super) fn ops_held(&self) -> u64 {
        let lives = self.logs.values().map(|log| log.held() as u64);
        lives.chain(self.feeds.values().map(|log| log.held() as u64)).sum()
    }

    /// Whether an op was received and waits to be applied.
    #[must_use]
    pub fn holds(&self, life: LifeId, seq: u64) -> bool {
        self.logs.get(&life).is_some_and(|log| log.holds(seq).is_some())
    }

    /// Whether some op is held until the local clock reaches it.
    #[must_use]
    pub fn waits_for_clock(&self) -> bool {
        self.logs.values().any(|log| log.ahead)
    }

    /// One entry a name: the life that is linked, else the one heard last. A newer life of a name replaces its dead ones.
    pub(super) fn newest_lives(&self) -> BTreeMap<GatewayName, (LifeId, Option<&Peer>)> {
        let mut newest: BTreeMap<GatewayName, (LifeId, Option<&Peer>)> = BTreeMap::new();
        let lives = self.replica.lives().iter().map(|(life, record)| (*life, record.name.clone()));
        let linked = self.peers.iter().filter(|(_, peer)| peer.linked);
        let linked = linked.filter_map(|(life, peer)| peer.name.clone().map(|name| (*life, name)));
        for (life, name) in lives.chain(linked) {
            if life == self.life || name == self.config.name {
                continue;
            }
            let peer = self.peers.get(&life);
            let rank = |peer: Option<&Peer>| (peer.is_some_and(|peer| peer.admitted), peer.and_then(|peer| peer.heard));
            match newest.get(&name) {
                Some((_, known)) if rank(*known) >= rank(peer) => {}
                _ => {
                    newest.insert(name, (life, peer));
                }
            }
        }
        newest
    }

    pub(super) fn peer_statuses(&self, now: MonoTime) -> Vec<PeerStatus> {
        let newest = self.newest_lives().into_iter();
        newest.map(|(name, (life, peer))| self.peer_status(now, &name, life, peer)).collect()
    }

    fn peer_status(&self, now: MonoTime, name: &GatewayName, life: LifeId, peer: Option<&Peer>) -> PeerStatus {
        let left = self.replica.lives().get(&life).is_some_and(|record| record.left);
        let mut status = PeerStatus { name: name.to_string(), life: life.to_string(), left, ..PeerStatus::default() };
        let Some(peer) = peer else { return status };
        status.linked = peer.linked && peer.admitted;
        status.member = peer.member;
        status.heard_ms = peer.heard.map(|heard| now.since_ms(heard));
        status.phase = peer.phase;
        status.digest = peer.digest.map(|digest| digest.to_string());
        status.vector = peer.vector_hash.map(|hash| format!("{hash:016x}"));
        // On a new connection the first exchange may only say what changed since the last one: until its whole vector has
        // come, how far apart the two are is not known.
        if let Some(heard) = peer.heard.filter(|_| peer.known_version > 0) {
            let (feed_ms, feeds) = self.feeds_lacking(now, peer);
            status.lag_ms = Some(self.lag_ms(now, peer).max(feed_ms));
            status.their_lag_ms = Some(self.their_lag_ms(heard, peer));
            let lag: u64 =
                peer.known.iter().map(|(life, head)| head.seq.saturating_sub(self.vector.head(*life).seq)).sum();
            let theirs = self.vector.lives().map(|(life, head)| head.seq.saturating_sub(peer.seq(life))).sum();
            status.lag_ops = Some(lag + feeds);
            status.their_lag_ops = Some(theirs);
            status.their_held_ops = Some(peer.held);
        }
        status.rtt_us = peer.rtt_us;
        let wall = peer.reading.and_then(|reading| reading.wall_ms(now));
        // The local clock was read in the last turn.
        let here = i128::from(self.wall.0) + i128::from(now.since_ms(self.now));
        status.offset_ms = wall.and_then(|wall| i64::try_from(wall - here).ok());
        status
    }

    fn lag_ms(&self, now: MonoTime, peer: &Peer) -> u64 {
        let lacking = peer.known.iter().filter(|(life, head)| head.seq > self.vector.head(**life).seq);
        let since = lacking.filter_map(|(life, _)| self.logs.get(life)?.gap);
        since.map(|since| now.since_ms(since)).max().unwrap_or(0)
    }

    /// What a peer lacks is as old as the first op it lacks; an op not retained any more is as old as this life.
    fn their_lag_ms(&self, heard: MonoTime, peer: &Peer) -> u64 {
        let lacking = self.vector.lives().filter(|(life, head)| head.seq > peer.seq(*life));
        let since = lacking.map(|(life, _)| {
            let first = self.logs.get(&life).and_then(|log| log.from(peer.seq(life) + 1)?.next());
            first.map_or(self.started, |first| first.at)
        });
        since.map(|since| heard.since_ms(since)).max().unwrap_or(0)
    }
}
