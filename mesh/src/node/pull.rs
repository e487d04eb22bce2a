//! Gaps: pulling ops a peer has and this node lacks, and chain content an op names and this node lacks.
//!
//! Not here: what to do when nobody retains them (`repair`). What is held for the clock is not pulled again.

use std::collections::BTreeMap;

use covey_crdt::chain::Tip;
use covey_crdt::codec::decode_chains;
use covey_crdt::hash::PathId;
use covey_crdt::id::LifeId;
use covey_crdt::op::Op;
use covey_crdt::plant::{Plant, planted};
use serde_bytes::ByteBuf;

use super::Node;
use crate::limits::{
    HELD_OPS_PER_LOG_MAX, PULL_BYTES_MAX, PULL_GRACE_MS, PULL_LOGS_MAX, RETRY_MS, UNRESOLVED_MS, WANT_TIPS_MAX,
};
use crate::note::{Note, RepairWhy};
use crate::output::Class;
use crate::wire::{Message, Pull, Row, Trimmed, Want, rows};

impl Node {
    /// Asks for what peers are known to have and this node lacks.
    pub(super) fn pull_gaps(&mut self) {
        if !self.joined {
            return;
        }
        let mut ahead: BTreeMap<LifeId, u64> = BTreeMap::new();
        for peer in self.peers.values().filter(|peer| peer.admitted) {
            for (life, head) in &peer.known {
                let most = ahead.entry(*life).or_default();
                *most = (*most).max(head.seq);
            }
        }
        let mut asks: BTreeMap<LifeId, Vec<u8>> = BTreeMap::new();
        for (life, most) in ahead {
            if life != self.life
                && let Some((peer, first)) = self.gap(life, most)
            {
                let row = asks.entry(peer).or_default();
                row.extend_from_slice(&life.0.to_le_bytes());
                row.extend_from_slice(&first.to_le_bytes());
                row.extend_from_slice(&most.to_le_bytes());
            }
        }
        for (peer, mut wants) in asks {
            wants.truncate(32 * PULL_LOGS_MAX);
            self.note(Note::Pulled { logs: u32::try_from(wants.len() / 32).unwrap_or(u32::MAX) });
            self.send(peer, Class::Control, &Message::Pull(Pull { wants: ByteBuf::from(wants) }));
        }
    }

    /// Whom to ask for a life's ops, and from which number on, if it is time to ask.
    fn gap(&mut self, life: LifeId, most: u64) -> Option<(LifeId, u64)> {
        let head = self.vector.head(life).seq;
        let now = self.now;
        let log = self.log_mut(life);
        let from = log.held_to(head) + 1;
        // What would be dropped again is not asked for.
        let full = from > head + 1 && log.held() >= HELD_OPS_PER_LOG_MAX;
        if from > most || full {
            log.gap = None;
            return None;
        }
        let since = *log.gap.get_or_insert(now);
        let patience = log.asked;
        if now.since_ms(since) < PULL_GRACE_MS {
            return None;
        }
        let mut having: Vec<LifeId> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.admitted && peer.seq(life) >= from)
            .map(|(life, _)| *life)
            .collect();
        if patience.is_none() && having.contains(&life) {
            having = vec![life];
        }
        let peer = self.pick(&having)?;
        let wait = self.peers.get(&peer)?.patience_ms(RETRY_MS, 2);
        if patience.is_some_and(|asked| now.since_ms(asked) < wait) {
            return None;
        }
        self.log_mut(life).asked = Some(now);
        Some((peer, from))
    }

    pub(super) fn on_pull(&mut self, from: LifeId, pull: &Pull) {
        let Some(wants) = rows::<32>(&pull.wants, PULL_LOGS_MAX) else { return self.malformed(from, 0) };
        let mut left = PULL_BYTES_MAX;
        for want in wants {
            let mut row = Row(want);
            let (life, first, last) = (LifeId(row.u128()), row.u64(), row.u64());
            let head = self.vector.head(life).seq;
            if self.replica.retired().contains_key(&life) {
                self.send(from, Class::Control, &Message::Trimmed(Trimmed { life: life.into() }));
                continue;
            }
            if first == 0 || first > head || last < first || left == 0 {
                continue;
            }
            match self.send_ops(from, life, first, last.min(head), Class::Control, left) {
                Some(spent) => left = left.saturating_sub(spent),
                None if planted(Plant::TrimmedUnsaid) => {}
                None => self.send(from, Class::Control, &Message::Trimmed(Trimmed { life: life.into() })),
            }
        }
    }

    pub(super) fn on_trimmed(&mut self, from: LifeId, life: LifeId) {
        let head = self.vector.head(life).seq;
        let missing = self.peers.get(&from).is_some_and(|peer| peer.seq(life) > head && !peer.shunned(self.now));
        if missing && self.session.is_none() {
            self.start_session(from, RepairWhy::Trimmed);
        }
    }

    /// Asks for the content of the chain that the next op of `life` names.
    pub(super) fn want(&mut self, life: LifeId, tip: Tip, from: Option<LifeId>) {
        let having: Vec<LifeId> = self
            .peers
            .iter()
            .filter(|(id, peer)| peer.admitted && (**id == life || peer.seq(life) > self.vector.head(life).seq))
            .map(|(life, _)| *life)
            .collect();
        let linked = from.filter(|from| self.peers.get(from).is_some_and(|peer| peer.admitted));
        let Some(peer) = linked.or_else(|| self.pick(&having)) else { return };
        let mut tips = tip.path.0.to_le_bytes().to_vec();
        tips.extend_from_slice(&tip.depth.to_le_bytes());
        self.log_mut(life).asked = Some(self.now);
        self.note(Note::Wanted);
        self.send(peer, Class::Control, &Message::Want(Want { tips: ByteBuf::from(tips) }));
    }

    /// Asks again for content that did not come; after a second, for everything.
    pub(super) fn chase_unresolved(&mut self) {
        let waiting: Vec<(LifeId, bool, bool)> = self
            .logs
            .iter()
            .filter_map(|(life, log)| {
                let since = log.unresolved?;
                let again = log.asked.is_none_or(|asked| self.now.since_ms(asked) >= RETRY_MS);
                Some((*life, again, self.now.since_ms(since) >= UNRESOLVED_MS))
            })
            .collect();
        for (life, again, too_long) in waiting {
            let next = self.vector.head(life).seq + 1;
            let held = self.logs.get(&life).and_then(|log| log.holds(next)).map(|held| std::sync::Arc::clone(&held.op));
            let chains = self.replica.chains();
            let tip = held.as_deref().and_then(|op| op.tips().find(|tip| chains.resolve(*tip).is_none()));
            let waits = matches!(held.as_deref(), Some(Op::Retired(end)) if !self.is_covered(end));
            if let Some(tip) = tip.filter(|_| again) {
                self.want(life, tip, None);
            }
            if tip.is_none() && !waits {
                self.log_mut(life).unresolved = None;
                self.drain(life, None);
                continue;
            }
            if too_long && self.session.is_none() {
                let donors = self.donors(|peer| peer.seq(life) >= next);
                if let Some(donor) = self.pick(&donors) {
                    self.start_session(donor, RepairWhy::Unresolved);
                }
            }
        }
    }

    pub(super) fn on_want(&mut self, from: LifeId, want: &Want) {
        let Some(tips) = rows::<20>(&want.tips, WANT_TIPS_MAX) else { return self.malformed(from, 0) };
        let tips: Vec<Tip> = tips
            .map(|tip| {
                let mut row = Row(tip);
                Tip { path: PathId(row.u128()), depth: row.u32() }
            })
            .collect();
        // What the peer asks for contradicts what it was thought to have: nothing on this link is certain any more.
        if let Some(slot) = self.peers.get(&from).and_then(|peer| peer.slot) {
            self.masks.forget(slot);
        }
        let (mut chains, mut bytes) = (Vec::new(), 0);
        for tip in tips {
            if let Some(place) = self.replica.chains().resolve(tip) {
                self.add_content(from, place, Class::Control, &mut chains, &mut bytes);
            }
        }
        self.send_content(from, Class::Control, &mut chains);
    }

    pub(super) fn on_content(&mut self, from: LifeId, chains: &[u8]) {
        let Ok(pieces) = decode_chains(chains) else { return self.malformed(from, 0) };
        self.learn(from, &pieces);
        self.count_content(from, chains.len());
        let waiting: Vec<LifeId> =
            self.logs.iter().filter(|(_, log)| log.unresolved.is_some()).map(|(life, _)| *life).collect();
        for life in waiting {
            self.drain(life, None);
        }
    }
}
