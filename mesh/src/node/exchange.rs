//! Exchanges: who a peer is and whether it is talked to, what its clock says, what it has, and whether the digests agree.
//!
//! Not here: fetching what it has more (`pull`, `repair`). Every exchange says clean or dirty, the clock reading and
//! what is held (ruling R13); digests are compared only by clean replicas at equal vectors.

use std::collections::BTreeSet;

use covey_crdt::digest::Digest;
use covey_crdt::id::{GatewayName, LifeId};
use covey_crdt::limits::LIVES_MAX;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stamp::{Stamp, WallMs};
use serde_bytes::ByteBuf;

use super::Node;
use crate::clocks::Reading;
use crate::limits::{EXCHANGE_MS, NAME_SILENT_MS};
use crate::note::{Note, Refusal, RepairWhy};
use crate::output::{Class, Output, Rebirth};
use crate::side::Side;
use crate::status::Phase;
use crate::vector::{
    Head, ROWS_MAX, read_lives, read_rows, read_seqs, read_stamp, write_lives, write_seqs, write_stamp,
};
use crate::wire::{Exchange, Loads, Message, Refused};

/// Load registers in one frame.
const LOADS_PER_FRAME: usize = 256;

impl Node {
    pub(super) fn send_exchange(&mut self, to: LifeId) {
        let next = self.next_exchange();
        let Some(peer) = self.peers.get_mut(&to) else { return };
        peer.exchange_at = next;
        let (since, echo_us) = (peer.acked_version, peer.mono_us);
        let held_us = peer.heard.map_or(0, |heard| self.now.us.saturating_sub(heard.us));
        let (vector_acked, load_acked) = (peer.known_version, peer.loads.known);
        let held = self.logs.iter().filter(|(_, log)| log.held() > 0);
        let held = held.map(|(life, log)| (*life, log.held_to(self.vector.head(*life).seq)));
        let version = self.vector.version_within(since);
        let lies = planted(Plant::AdvertisesWhileDirty) && self.phase() == Phase::Dirty;
        let phase = if lies { Phase::Clean } else { self.phase() };
        let digest = self.replica.digest().0.to_be_bytes();
        let side = self.side();
        // What is closed is said together with the whole vector, so that both are of one moment (P7).
        let retired = Some(&to).filter(|to| self.has_closed(**to) && !self.ends.closing.contains(to));
        let closing = self.ends.closing.iter().filter(|_| version == self.vector.version());
        let closed = write_lives(closing.chain(retired));
        let exchange = Exchange {
            name: self.config.name.to_string(),
            cluster: self.config.cluster.clone(),
            block_bytes: self.config.block_bytes,
            wall_ms: self.wall.0,
            mono_us: self.now.us.max(1),
            echo_us,
            held_us,
            phase: phase_byte(phase),
            digest: ByteBuf::from(if phase == Phase::Clean { digest.to_vec() } else { Vec::new() }),
            vector: self.vector.hash(),
            version,
            since,
            vector_acked,
            load_acked,
            lives: ByteBuf::from(self.vector.rows_between(since, version)),
            feeds: self.feed_entries(since, version),
            held: ByteBuf::from(write_seqs(held)),
            closed: ByteBuf::from(closed),
            side: side.names,
            smallest: side.smallest.into(),
            ends: ByteBuf::from(self.replica.ends_digest().0.to_be_bytes().to_vec()),
            mesh: self.mesh.into(),
            forgotten: ByteBuf::from(write_stamp(self.replica.forgotten())),
            ingests: !self.can_ingest.is_empty(),
        };
        self.send(to, Class::Control, &Message::Exchange(Box::new(exchange)));
        if let Some(peer) = self.peers.get_mut(&to).filter(|_| planted(Plant::SentIsAcked)) {
            peer.acked_version = version;
        }
    }

    pub(super) fn on_exchange(&mut self, from: LifeId, exchange: &Exchange) {
        let rows = read_rows(&exchange.lives);
        let digest = read_digest(&exchange.digest);
        let (closed, ends) = (read_lives(&exchange.closed), read_digest(&exchange.ends));
        let (held, forgotten) = (read_seqs(&exchange.held), read_stamp(&exchange.forgotten));
        let (Some(rows), Some(digest), Some(held), Some(closed), Some(ends), Some(forgotten)) =
            (rows, digest, held, closed, ends, forgotten)
        else {
            return self.malformed(from, 0);
        };
        let (Ok(name), Some(phase)) = (GatewayName::new(&exchange.name), phase_of(exchange.phase)) else {
            return self.malformed(from, 0);
        };
        if let Some(why) = self.refusal(from, &name, exchange) {
            return self.refuse(from, name, why, phase);
        }
        let side = Side { names: exchange.side, smallest: exchange.smallest.into(), own: from };
        if phase != Phase::Joining && self.is_stranger(from, exchange.mesh.into(), forgotten) {
            self.estrange(from);
        }
        let apart = (exchange.mesh.into(), forgotten);
        if !self.is_open(from, &closed, side) || !self.is_one_mesh(from, apart, side) || !self.admit(from, &name) {
            return;
        }
        self.read_clock(from, exchange);
        if self.is_forked(&rows) {
            return self.reborn(Rebirth::Forked);
        }
        if !self.take_feeds(from, &exchange.feeds) {
            return self.malformed(from, 0);
        }
        self.take_vector(from, exchange, &rows, (phase, forgotten), digest);
        self.take_closed(from, exchange, closed, ends);
        self.take_held(from, &held);
        self.resend_loads(from);
        self.compare(from);
        self.pull_gaps();
        self.pull_feeds();
    }

    /// Why the peer cannot be talked to at all.
    fn refusal(&self, from: LifeId, name: &GatewayName, exchange: &Exchange) -> Option<Refusal> {
        if exchange.cluster != self.config.cluster {
            let theirs: String = exchange.cluster.chars().take(64).collect();
            return Some(Refusal::Cluster { theirs });
        }
        if exchange.block_bytes != self.config.block_bytes {
            return Some(Refusal::BlockBytes { theirs: exchange.block_bytes });
        }
        if *name == self.config.name {
            return Some(Refusal::NameTaken { name: name.clone(), holder: self.life });
        }
        let lives = self.replica.lives();
        if lives.len() >= LIVES_MAX && !lives.contains_key(&from) {
            return Some(Refusal::LivesFull { lives: lives.len() });
        }
        let contact = self.peers.get(&from).and_then(|peer| peer.contact)?;
        // A restarted gateway finds its old life still linked for a moment. Only when both keep talking is the name taken.
        let rival = self.rival(from, name)?;
        let both = self.peers.get(&rival)?.heard.is_some_and(|heard| heard.since_ms(contact) > EXCHANGE_MS);
        both.then(|| Refusal::NameTaken { name: name.clone(), holder: rival })
    }

    /// Another admitted life with the same name.
    fn rival(&self, life: LifeId, name: &GatewayName) -> Option<LifeId> {
        let same = |other: &LifeId, peer: &crate::peer::Peer| {
            *other != life && peer.admitted && peer.name.as_ref() == Some(name)
        };
        self.peers.iter().find(|(other, peer)| same(other, peer)).map(|(other, _)| *other)
    }

    fn refuse(&mut self, peer: LifeId, name: GatewayName, mut why: Refusal, phase: Phase) {
        // A newcomer that does not fit what is there must not found a second mesh beside it; of two newcomers with one
        // name the larger life waits. Whoever was there first says no, a newcomer only notes it. Two others that share a
        // name are no reason to wait.
        let of_others = matches!(&why, Refusal::NameTaken { name, .. } if *name != self.config.name);
        let yields = !self.joined && !of_others && (phase != Phase::Joining || peer < self.life);
        if let Refusal::NameTaken { holder, .. } = &mut why
            && yields
        {
            *holder = peer;
        }
        let text = match &why {
            Refusal::Cluster { theirs } => {
                format!("cluster is {:?} here, {theirs:?} there: set --mesh-cluster alike", self.config.cluster)
            }
            Refusal::BlockBytes { theirs } => {
                format!("block size is {} bytes here, {theirs} there: set --block-bytes alike", self.config.block_bytes)
            }
            Refusal::NameTaken { name, holder } => {
                format!("the name {name} belongs to the live gateway {holder}: give each gateway its own --mesh-name")
            }
            Refusal::LivesFull { lives } => {
                format!(
                    "the mesh knows {lives} lives already, which is its bound: restart all gateways to forget dead ones"
                )
            }
        };
        if yields {
            self.on_refused(peer, text);
        } else {
            self.send(peer, Class::Control, &Message::Refused(Refused { why: text }));
            self.note(Note::Refused { peer, name, why });
        }
        self.outbox.push_back(Output::Close { peer });
        self.hush(peer);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.admitted = false;
        }
    }

    pub(super) fn on_refused(&mut self, peer: LifeId, why: String) {
        let why: String = why.chars().filter(|c| !c.is_control()).take(256).collect();
        self.refused = Some((self.now, why.clone()));
        self.note(Note::RefusedBy { peer, why });
    }

    /// Whether the peer takes part from here on.
    fn admit(&mut self, from: LifeId, name: &GatewayName) -> bool {
        let now = self.now;
        let rival = self.rival(from, name);
        let rival_heard = rival.and_then(|rival| self.peers.get(&rival)).and_then(|peer| peer.heard);
        let Some(peer) = self.peers.get_mut(&from) else { return false };
        peer.contact.get_or_insert(now);
        peer.name = Some(name.clone());
        if peer.admitted {
            return true;
        }
        if rival_heard.is_some_and(|heard| now.since_ms(heard) < NAME_SILENT_MS) {
            return false;
        }
        peer.admitted = true;
        self.has_met = true;
        // The peer may have been put back to an earlier state (a machine rolled back, a life begun again): what it had on
        // the last link says nothing of what it has now, and pulls would ask for it for ever.
        peer.known.clear();
        peer.known_version = 0;
        peer.acked_version = 0;
        if let Some(rival) = rival {
            self.unlink(rival);
            self.outbox.push_back(Output::Close { peer: rival });
        }
        // What was pushed before it was admitted is told at once, not a quarter of a second later.
        self.send_exchange(from);
        true
    }

    fn read_clock(&mut self, from: LifeId, exchange: &Exchange) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.heard = Some(now);
        peer.mono_us = exchange.mono_us;
        let travelled = now.us.checked_sub(exchange.echo_us).and_then(|us| us.checked_sub(exchange.held_us));
        if let Some(rtt) = travelled.filter(|_| exchange.echo_us > 0) {
            peer.rtt_us = Some(rtt);
            peer.reading = Some(Reading::new(now, WallMs(exchange.wall_ms), rtt));
        }
        self.judge_clock();
    }

    /// Whether somebody counts more of this life's log than it wrote, or other ops.
    pub(super) fn is_forked(&self, rows: &[(LifeId, Head)]) -> bool {
        if planted(Plant::ForkUnnoticed) {
            return false;
        }
        let own = self.vector.head(self.life);
        rows.iter().any(|(life, head)| {
            let other = |hash: u64| head.hash != hash;
            *life == self.life
                && match head.seq.cmp(&own.seq) {
                    std::cmp::Ordering::Greater => true,
                    std::cmp::Ordering::Equal => other(own.hash),
                    std::cmp::Ordering::Less => {
                        let log = self.logs.get(life);
                        head.seq > 0 && log.and_then(|log| log.hash_before(head.seq + 1)).is_some_and(other)
                    }
                }
        })
    }

    fn take_vector(
        &mut self,
        from: LifeId,
        exchange: &Exchange,
        rows: &[(LifeId, Head)],
        (phase, forgotten): (Phase, Stamp),
        digest: Option<Digest>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        // What a peer counts that has not forgotten yet, or had not when it sent this, may be a life forgotten here. If it
        // is none it is told again.
        let behind = forgotten < self.replica.forgotten();
        let mut whole = true;
        for (life, head) in rows {
            let (lives, retired) = (self.replica.lives(), self.replica.retired());
            let strange = behind && !lives.contains_key(life) && !retired.contains_key(life);
            whole &= !strange;
            let full = peer.known.len() >= ROWS_MAX && !peer.known.contains_key(life);
            if retired.contains_key(life) || strange || full {
                continue;
            }
            let known = peer.known.entry(*life).or_default();
            *known = (*known).max(*head);
        }
        if exchange.since <= peer.known_version && whole {
            peer.known_version = peer.known_version.max(exchange.version);
        }
        if !planted(Plant::SentIsAcked) {
            peer.acked_version = exchange.vector_acked.min(self.vector.version());
        }
        peer.load_acked = exchange.load_acked;
        peer.ingests = exchange.ingests;
        peer.phase = Some(phase);
        peer.digest = digest;
        peer.vector_hash = Some(exchange.vector);
        let forks: Vec<LifeId> = rows
            .iter()
            .filter(|(life, head)| {
                let own = self.vector.head(*life);
                head.seq > 0 && head.seq == own.seq && head.hash != own.hash
            })
            .map(|(life, _)| *life)
            .collect();
        for life in forks {
            self.note(Note::Fork { life, peer: from });
        }
    }

    /// What the peer closed counts only together with its whole vector of the same moment.
    fn take_closed(&mut self, from: LifeId, exchange: &Exchange, closed: BTreeSet<LifeId>, ends: Option<Digest>) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let whole = exchange.version <= peer.known_version && exchange.since <= peer.known_version;
        peer.closed = if whole { closed } else { BTreeSet::new() };
        peer.ends = ends;
    }

    fn take_held(&mut self, from: LifeId, held: &[(LifeId, u64)]) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.held = held.iter().map(|(life, to)| to.saturating_sub(peer.seq(*life))).sum();
    }

    fn resend_loads(&mut self, to: LifeId) {
        let Some(peer) = self.peers.get(&to) else { return };
        let since = peer.load_acked;
        if since < self.own_loads.version() && !planted(Plant::LoadLostForGood) {
            self.send_loads(to, since);
        }
    }

    pub(super) fn send_loads(&mut self, to: LifeId, since: u64) {
        let version = self.own_loads.version();
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.load_sent = version;
        }
        for loads in self.own_loads.frames(since, LOADS_PER_FRAME) {
            self.send(to, Class::Push, &Message::Loads(loads));
        }
    }

    pub(super) fn on_loads(&mut self, from: LifeId, loads: &Loads) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let changed = peer.loads.take(loads.version, loads.since, &loads.entries);
        if peer.live() {
            for (worker, load) in changed {
                self.outbox.push_back(Output::Load { life: from, worker, load: Some(load) });
            }
        }
    }

    /// Equal clean vectors must mean equal digests (I1).
    fn compare(&mut self, from: LifeId) {
        let Some(peer) = self.peers.get(&from) else { return };
        let comparable = self.phase() == Phase::Clean
            && peer.phase == Some(Phase::Clean)
            && peer.vector_hash == Some(self.vector.hash());
        if comparable && peer.digest != Some(self.replica.digest()) {
            let ready = !peer.shunned(self.now);
            self.note(Note::DigestMismatch { peer: from });
            if self.session.is_none() && ready {
                self.start_session(from, RepairWhy::Mismatch);
            }
        }
    }
}

const fn phase_byte(phase: Phase) -> u8 {
    match phase {
        Phase::Joining => 0,
        Phase::Clean => 1,
        Phase::Dirty => 2,
    }
}

const fn phase_of(byte: u8) -> Option<Phase> {
    match byte {
        0 => Some(Phase::Joining),
        1 => Some(Phase::Clean),
        2 => Some(Phase::Dirty),
        _ => None,
    }
}

/// `Some(None)` for an empty one; `None` when it is no digest.
fn read_digest(bytes: &[u8]) -> Option<Option<Digest>> {
    if bytes.is_empty() {
        return Some(None);
    }
    bytes.try_into().ok().map(|bytes| Some(Digest(u128::from_be_bytes(bytes))))
}
