//! How lives end: closing, retired, forgotten (P7–P10).
//!
//! *Closing* is local and final: a life that left, whose name goes on under a newer life, or that nobody heard of for the
//! horizon is not talked to any more, and when it comes back it learns that it must begin anew. *Retired* is an op: the
//! smallest present life says how long the log was once every present member closed it at the same op (P7); who applies
//! it has reached that op (P8) or was covered by a session, whose start names every retired life (P9), and drops the
//! log and its entry. *Forgotten* is an op too, two horizons later: never a local timer, or digests would differ.
//!
//! Whatever the timing, a replica that counts more of a life than it was retired with begins anew: so equal vectors keep
//! meaning equal states (I1) even where horizons were misjudged. Only the larger side of a partition retires, and when two
//! sides meet that closed each other, the smaller one gives way (P10).
//!
//! Not here: when the replica takes a pair (`covey_crdt::lives`), sessions (`repair`).

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::id::{GatewayName, LifeId};
use covey_crdt::lives::{LifeRecord, Retirement};
use covey_crdt::op::{Forget, LifeEnd, Op};
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stamp::Stamp;

use super::Node;
use crate::input::MonoTime;
use crate::limits::{RETIRED_MAX, SUPERSEDED_MS};
use crate::note::{ClockState, Note};
use crate::output::{Output, Rebirth};
use crate::side::Side;
use crate::status::Phase;

/// What a node knows of the ends of lives.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// Lives closed here.
    pub(super) closing: BTreeSet<LifeId>,
    /// When each life last showed a sign of itself: its log's length then, and when that was.
    signs: BTreeMap<LifeId, (u64, MonoTime)>,
    /// Since when each retired life is known here as such.
    retired: BTreeMap<LifeId, MonoTime>,
    /// Up to when retired lives were forgotten when that was last looked at.
    forgotten: Stamp,
}

impl Default for Ends {
    fn default() -> Self {
        Self { closing: BTreeSet::new(), signs: BTreeMap::new(), retired: BTreeMap::new(), forgotten: Stamp::ZERO }
    }
}

impl Node {
    pub(super) fn tend_lives(&mut self) {
        if !self.joined || self.left {
            return;
        }
        self.close_gone();
        let present = self.present();
        if planted(Plant::PrunedByTimer) {
            self.forget_retired(&present);
        }
        let issues = present.first() == Some(&self.life) && self.is_larger_side(&present);
        if issues && self.phase() == Phase::Clean && self.clock != ClockState::Ahead {
            self.retire_closed(&present);
            self.forget_retired(&present);
        }
    }

    /// Members that take part as far as is known here: not closed, not left.
    pub(super) fn present(&self) -> BTreeSet<LifeId> {
        let lives = self.replica.lives().iter();
        lives
            .filter(|(life, record)| !record.left && !self.ends.closing.contains(life))
            .map(|(life, _)| *life)
            .collect()
    }

    fn names<'a>(&'a self, lives: impl Iterator<Item = &'a LifeId>) -> BTreeSet<&'a GatewayName> {
        lives.filter_map(|life| self.replica.lives().get(life)).map(|record| &record.name).collect()
    }

    /// Whether the present members are more than half of all names that did not leave (P10).
    fn is_larger_side(&self, present: &BTreeSet<LifeId>) -> bool {
        let here = self.names(present.iter());
        let absent = self.replica.lives().iter().filter(|(_, record)| !record.left && !here.contains(&record.name));
        let absent: Vec<(LifeId, &GatewayName)> = absent.map(|(life, record)| (*life, &record.name)).collect();
        let away = absent.iter().map(|(_, name)| *name).collect::<BTreeSet<_>>().len();
        let smallest_away = absent.first().map(|(life, _)| *life);
        planted(Plant::MinorityRetires)
            || here.len() > away
            || here.len() == away && present.first().copied() < smallest_away
    }

    /// This node's side, to be compared when two meet that closed each other.
    pub(super) fn side(&self) -> Side {
        let present = self.present();
        let names = u32::try_from(self.names(present.iter()).len()).unwrap_or(u32::MAX);
        Side { names, smallest: present.first().copied().unwrap_or(self.life), own: self.life }
    }

    fn close_gone(&mut self) {
        let signs = std::mem::take(&mut self.ends.signs);
        let others = self.replica.lives().iter().filter(|(life, _)| **life != self.life);
        let others: Vec<(LifeId, LifeRecord)> = others.map(|(life, record)| (*life, record.clone())).collect();
        for (life, record) in others {
            if self.ends.closing.contains(&life) {
                continue;
            }
            let linked = self.peers.get(&life).is_some_and(|peer| peer.linked && peer.admitted);
            let head = self.vector.head(life).seq;
            let mut sign = signs.get(&life).copied().unwrap_or((head, self.now));
            if linked || head > sign.0 {
                sign = (head, self.now);
            }
            self.ends.signs.insert(life, sign);
            let away_ms = self.now.since_ms(sign.1);
            let superseded = away_ms >= SUPERSEDED_MS && self.name_goes_on(life, &record.name);
            if record.left || superseded || away_ms >= self.knobs.horizon_ms {
                self.close(life);
            }
        }
    }

    /// Whether a gateway of this name is here under another life.
    fn name_goes_on(&self, life: LifeId, name: &GatewayName) -> bool {
        let other = self
            .peers
            .iter()
            .any(|(other, peer)| *other != life && peer.linked && peer.admitted && peer.name.as_ref() == Some(name));
        other || *name == self.config.name
    }

    /// Nothing more is taken from the life itself; what is held of its log is dropped (P7).
    fn close(&mut self, life: LifeId) {
        self.ends.closing.insert(life);
        self.ends.signs.remove(&life);
        if let Some(log) = self.logs.get_mut(&life) {
            log.drop_held();
        }
        self.note(Note::Closing { life });
        if self.peers.get(&life).is_some_and(|peer| peer.linked) {
            self.unlink(life);
            self.outbox.push_back(Output::Close { peer: life });
        }
    }

    /// Whether every other present member is here, clean, and agrees with `about`.
    fn all_agree(&self, present: &BTreeSet<LifeId>, about: impl Fn(&crate::peer::Peer) -> bool) -> bool {
        present.iter().filter(|life| **life != self.life).all(|life| {
            let peer = self.peers.get(life);
            peer.is_some_and(|peer| peer.admitted && peer.phase == Some(Phase::Clean) && about(peer))
        })
    }

    fn retire_closed(&mut self, present: &BTreeSet<LifeId>) {
        let closing: Vec<LifeId> = self.ends.closing.iter().copied().collect();
        let closed_by = |peer: &crate::peer::Peer| closing.iter().all(|life| peer.closed.contains(life));
        let hasty = planted(Plant::ClosingSkipped);
        if closing.is_empty() || !(hasty || self.all_agree(present, closed_by)) {
            return;
        }
        for life in closing {
            let last = self.vector.head(life).seq;
            let full = self.replica.retired().len() >= RETIRED_MAX;
            if last > 0 && !full && (hasty || self.all_agree(present, |peer| peer.seq(life) == last)) {
                let stamp = self.stamp();
                self.publish(Op::Retired(LifeEnd { life, last, stamp }));
            }
        }
    }

    fn forget_retired(&mut self, present: &BTreeSet<LifeId>) {
        let mut ends: Vec<(Stamp, LifeId)> = self.replica.retired().iter().map(|(life, end)| (end.at, *life)).collect();
        ends.sort_unstable();
        let old = |life: &LifeId| {
            let since = self.ends.retired.get(life).map_or(0, |since| self.now.since_ms(*since));
            since >= 2 * self.knobs.horizon_ms
        };
        let Some((through, _)) = ends.into_iter().take_while(|(_, life)| old(life)).last() else { return };
        let ends = self.replica.ends_digest();
        if planted(Plant::PrunedByTimer) {
            let _ = self.replica.forget(through);
        } else if self.all_agree(present, |peer| peer.ends == Some(ends)) {
            let stamp = self.stamp();
            self.publish(Op::Forget(Forget { through: through.min(stamp), stamp }));
        }
    }

    /// Whether the end of a life may be applied: its last op is counted here, or its end is known already (P8).
    pub(super) fn is_covered(&self, end: &LifeEnd) -> bool {
        let known = self.replica.retired().get(&end.life).is_some_and(|known| known.last >= end.last);
        let forgotten = end.stamp <= self.replica.forgotten() && !self.replica.lives().contains_key(&end.life);
        end.life == self.life || known || forgotten || self.vector.head(end.life).seq >= end.last
    }

    /// A life is retired: its log and its entry go. A replica that counts more of it begins anew, and so does its own.
    pub(super) fn ended(&mut self, life: LifeId, last: u64) {
        let counted = self.vector.head(life).seq.max(self.targets.get(&life).copied().unwrap_or(0));
        if life == self.life || (counted > last && !planted(Plant::ClosingSkipped)) {
            return self.reborn(Rebirth::Retired);
        }
        if let Some(mut log) = self.logs.remove(&life) {
            let dropped: Vec<_> = log.jump(last).collect();
            for retained in dropped {
                self.forget(&retained);
            }
        }
        self.vector.remove(life);
        self.ends.closing.remove(&life);
        self.ends.signs.remove(&life);
        self.ends.retired.entry(life).or_insert(self.now);
        for peer in self.peers.values_mut() {
            peer.known.remove(&life);
            peer.closed.remove(&life);
        }
        if self.peers.get(&life).is_some_and(|peer| peer.linked) {
            self.unlink(life);
            self.outbox.push_back(Output::Close { peer: life });
        }
        self.note(Note::Retired { life });
        self.meet_targets();
    }

    /// What was forgotten needs no local note any more. Peers may have named lives that are forgotten now: what is left of
    /// their vectors is what they say anew.
    pub(super) fn prune_ends(&mut self) {
        let forgotten = self.replica.forgotten();
        if forgotten > self.ends.forgotten {
            self.ends.forgotten = forgotten;
            let lives = self.replica.lives();
            for peer in self.peers.values_mut() {
                peer.known.retain(|life, _| lives.contains_key(life));
                peer.known_version = 0;
            }
        }
        let (before, retired) = (self.ends.retired.len(), self.replica.retired());
        self.ends.retired.retain(|life, _| retired.contains_key(life));
        let lives = before - self.ends.retired.len();
        if lives > 0 {
            self.note(Note::Forgot { lives: u32::try_from(lives).unwrap_or(u32::MAX) });
        }
    }

    /// Every retired life that is remembered, with the number of its last op.
    pub(super) fn retired_seqs(&self) -> impl Iterator<Item = (LifeId, u64)> + '_ {
        self.replica.retired().iter().map(|(life, end)| (*life, end.last))
    }

    /// Whether a peer counts, or aims at, more of a life than it was retired with here.
    pub(super) fn outlives(&self, mut seqs: impl Iterator<Item = (LifeId, u64)>) -> bool {
        seqs.any(|(life, seq)| self.replica.retired().get(&life).is_some_and(|end| seq > end.last))
    }

    /// Takes the ends that a session covered (P8, P9).
    pub(super) fn take_ends(&mut self, ends: &[(LifeId, Retirement)], forgotten: Stamp) {
        for (life, end) in ends {
            self.ended(*life, end.last);
            if self.over {
                return;
            }
            let _ = self.replica.retire(*life, *end);
        }
        let _ = self.replica.forget(forgotten);
        self.prune_ends();
        self.meet_targets();
    }

    /// Whether this node ended the peer's life: closed or retired it, or found that it came back when it was forgotten.
    pub(super) fn has_closed(&self, life: LifeId) -> bool {
        let stranger = self.peers.get(&life).is_some_and(|peer| peer.stranger);
        stranger || self.ends.closing.contains(&life) || self.replica.retired().contains_key(&life)
    }

    /// Whether the peer is talked to as far as ends go: neither closed the other. A life that a member it knows has closed
    /// begins anew. Of two that closed each other, and of two of which one was away for so long that the other forgot it,
    /// the one on the smaller side does (P10).
    pub(super) fn is_open(&mut self, from: LifeId, closed: &BTreeSet<LifeId>, theirs: Side) -> bool {
        let (here, there) = (self.has_closed(from), closed.contains(&self.life));
        if !there {
            return !here;
        }
        let knows = self.replica.lives().contains_key(&from);
        if !here && knows || self.side() < theirs || planted(Plant::MinorityRetires) {
            self.reborn(Rebirth::Retired);
        } else {
            self.estrange(from);
        }
        false
    }

    /// Whether a member that nothing is known of here may be one that was forgotten: it does not know of the forgetting.
    pub(super) fn is_stranger(&self, from: LifeId, mesh: LifeId, forgotten: Stamp) -> bool {
        let known = self.replica.lives().contains_key(&from);
        self.joined && !known && mesh == self.mesh && forgotten < self.replica.forgotten()
    }

    /// The peer is told on this link that its life is over.
    pub(super) fn estrange(&mut self, from: LifeId) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.stranger = true;
            peer.admitted = false;
        }
    }

    /// Whether the peer's mesh is this one. Two that were founded apart merge, log by log, as long as neither has forgotten a
    /// life: what a forgotten one did is in no log any more, so equal vectors would not mean equal states. Then those on
    /// the smaller side begin anew.
    pub(super) fn is_one_mesh(&mut self, from: LifeId, (mesh, forgotten): (LifeId, Stamp), theirs: Side) -> bool {
        if !self.joined || mesh == LifeId(0) || mesh == self.mesh {
            return true;
        }
        if forgotten.max(self.replica.forgotten()) == Stamp::ZERO {
            self.mesh = self.mesh.min(mesh);
            return true;
        }
        if self.side() < theirs {
            self.reborn(Rebirth::Apart);
        } else if let Some(peer) = self.peers.get_mut(&from) {
            peer.admitted = false;
        }
        false
    }
}
