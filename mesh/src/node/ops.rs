//! Logs: publishing own ops, taking others', applying them strictly in sequence.
//!
//! Not here: asking for what is missing (`pull`). An op is applied when it is next in its log, its stamp is not beyond
//! the local clock's tolerance, and the chain it names is stored; the vector counts applied ops only (rule b).

use std::sync::Arc;

use covey_crdt::chain::{ChainPiece, Tip};
use covey_crdt::change::Place;
use covey_crdt::codec::{decode_chains, decode_ops, encode_chains, encode_ops};
use covey_crdt::id::LifeId;
use covey_crdt::lattice::Merged;
use covey_crdt::op::Op;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::replica::ApplyError;
use covey_crdt::stamp::Hlc;
use serde_bytes::ByteBuf;

use super::Node;
use crate::limits::{EPS_MS, HELD_OPS_MAX, PUSH_DELAY_MS, STAGED_MAX};
use crate::log::{HeldOp, Retained, step};
use crate::note::{Note, RepairWhy};
use crate::output::{Class, Rebirth};
use crate::vector::{Head, ROWS_MAX};
use crate::wire::{Content, Message, Ops};

impl Node {
    /// Appends an op to the own log and applies it.
    pub(super) fn publish(&mut self, op: Op) {
        let life = self.life;
        let head = self.vector.head(life);
        let (hash, bytes) = step(head.hash, &op);
        let places = self.chains_of(&op);
        let applied = self.apply(life, &op);
        assert!(applied.is_ok(), "an own op names a chain that is stored");
        self.advance(life, head, hash, Retained { op: Arc::new(op), before: head.hash, places, bytes, at: self.now });
        if self.push_at.is_none() {
            self.push_at = Some(self.now.plus_ms(PUSH_DELAY_MS));
        }
    }

    fn apply(&mut self, life: LifeId, op: &Op) -> Result<Merged, ApplyError> {
        let applied =
            if self.loses && matches!(op, Op::Touch(_)) { Ok(Merged::Unchanged) } else { self.replica.apply(life, op) };
        self.sync_feeds();
        applied
    }

    /// Keeps the chains an op names, as far as they are stored.
    fn chains_of(&mut self, op: &Op) -> Vec<Place> {
        if planted(Plant::ChainsFreedEarly) {
            return Vec::new();
        }
        op.tips().filter_map(|tip| self.replica.retain(tip)).collect()
    }

    /// Counts an applied op and retains it.
    fn advance(&mut self, life: LifeId, head: Head, hash: u64, retained: Retained) {
        self.vector.advance(life, Head { seq: head.seq + 1, hash });
        self.ops_applied += 1;
        self.log_bytes += retained.bytes;
        let op = Arc::clone(&retained.op);
        self.logs.entry(life).or_default().retain(head.seq + 1, retained);
        match &*op {
            Op::Retired(end) => self.ended(end.life, end.last),
            Op::Forget(_) => self.prune_ends(),
            Op::Joined { .. } | Op::Left | Op::Touch(_) | Op::Floor(_) | Op::Worker(_) | Op::Restated(_) => {}
        }
    }

    /// Pushes own ops that were not pushed yet, straight to every live peer.
    pub(super) fn push(&mut self) {
        self.push_at = None;
        let (first, last) = (self.pushed + 1, self.vector.head(self.life).seq);
        if first > last {
            return;
        }
        self.pushed = last;
        let open: Vec<LifeId> =
            self.peers.iter().filter(|(_, peer)| peer.admitted && !peer.blocked).map(|(life, _)| *life).collect();
        for peer in open {
            let sent = self.send_ops(peer, self.life, first, last, Class::Push, usize::MAX);
            debug_assert!(sent.is_some(), "what was just published is retained");
        }
    }

    /// Sends retained ops `first..=last` of a log, with the chain content the peer lacks, at most about `bytes_max`
    /// bytes of them. How many bytes that were; `None` when the log is not retained that far back.
    pub(super) fn send_ops(
        &mut self,
        to: LifeId,
        life: LifeId,
        first: u64,
        last: u64,
        class: Class,
        bytes_max: usize,
    ) -> Option<usize> {
        let retained = self.logs.get(&life).and_then(|log| log.from(first))?;
        let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        let mut spent = 0;
        let ops: Vec<(Arc<Op>, u64, Vec<Place>, usize)> = retained
            .take(count)
            .take_while(|op| {
                spent += op.bytes;
                spent - op.bytes < bytes_max
            })
            .map(|op| (Arc::clone(&op.op), op.before, op.places.clone(), op.bytes))
            .collect();
        let middle = ops.len() / 2;
        let dropped = planted(Plant::PullDropsMiddle) && class == Class::Control && ops.len() > 2;
        let ops = ops.into_iter().enumerate().filter(|(nth, _)| !dropped || *nth != middle).map(|(_, op)| op);
        let mut batch = Batch::new(first);
        for (op, before, places, bytes) in ops {
            if batch.ops.is_empty() {
                batch.before = before;
            }
            for place in places {
                self.add_content(to, place, class, &mut batch.chains, &mut batch.chain_bytes);
            }
            batch.ops.push(op);
            batch.op_bytes += bytes;
            if batch.op_bytes + batch.chain_bytes >= self.knobs.frame_bytes {
                let next = batch.first + batch.ops.len() as u64;
                let full = std::mem::replace(&mut batch, Batch::new(next));
                self.send_batch(to, life, class, &full);
            }
        }
        self.send_batch(to, life, class, &batch);
        Some(spent)
    }

    fn send_batch(&mut self, to: LifeId, life: LifeId, class: Class, batch: &Batch) {
        if batch.ops.is_empty() {
            return;
        }
        let message = Message::Ops(Ops {
            life: life.into(),
            first: batch.first,
            before: batch.before,
            chains: ByteBuf::from(encode_chains(&batch.chains)),
            ops: ByteBuf::from(encode_ops(batch.ops.iter().map(|op| &**op))),
        });
        self.send(to, class, &message);
    }

    /// Adds the content of a chain that the peer lacks; what does not fit beside the rest goes ahead on its own.
    pub(super) fn add_content(
        &mut self,
        to: LifeId,
        place: Place,
        class: Class,
        chains: &mut Vec<ChainPiece>,
        bytes: &mut usize,
    ) {
        self.pass_changes();
        let slot = self.peers.get(&to).and_then(|peer| peer.slot);
        let masks = &self.masks;
        let pieces = self.replica.chains().pieces(place, &|run| masks.has(slot, run));
        for (end, piece) in pieces {
            if self.replica.chains().is_end(end) {
                self.masks.set(slot, end.run);
            }
            *bytes += 24 + 8 * piece.hashes.len();
            chains.push(piece);
            if *bytes >= self.knobs.frame_bytes {
                self.send_content(to, class, chains);
                *bytes = 0;
            }
        }
    }

    /// Sends chain content on its own and empties the list.
    pub(super) fn send_content(&mut self, to: LifeId, class: Class, chains: &mut Vec<ChainPiece>) {
        if !chains.is_empty() {
            let content = Content { chains: ByteBuf::from(encode_chains(&*chains)) };
            chains.clear();
            self.send(to, class, &Message::Content(content));
        }
    }

    pub(super) fn on_ops(&mut self, from: LifeId, frame: &Ops) {
        let life = LifeId::from(frame.life);
        let (Ok(chains), Ok(ops)) = (decode_chains(&frame.chains), decode_ops(&frame.ops, life)) else {
            return self.malformed(from, 0);
        };
        let Some(last) = frame.first.checked_add(ops.len() as u64).filter(|_| frame.first > 0) else {
            return self.malformed(from, 0);
        };
        if life == self.life {
            if last - 1 > self.vector.head(life).seq {
                self.reborn(Rebirth::Forked);
            }
            return;
        }
        if !self.is_admitted(from, life) {
            return self.note(Note::UnknownLife { life });
        }
        self.learn(from, &chains);
        if !self.hold(life, frame, ops) {
            return self.fork(from, life);
        }
        self.drain(life, Some(from));
    }

    /// Whether ops of `life` may be taken from `from`: its own, or those of a life an admitted member counts.
    fn is_admitted(&self, from: LifeId, life: LifeId) -> bool {
        if self.replica.retired().contains_key(&life) {
            return false;
        }
        let known = life == from || self.replica.lives().contains_key(&life) || self.logs.contains_key(&life);
        let counted = || self.peers.values().any(|peer| peer.admitted && peer.seq(life) > 0);
        known || (self.logs.len() < ROWS_MAX && counted())
    }

    /// Holds the frame's ops that are new; `false` when they are not of the log known here.
    fn hold(&mut self, life: LifeId, frame: &Ops, ops: Vec<Op>) -> bool {
        let head = self.vector.head(life);
        let looks = !planted(Plant::ForkUnnoticed);
        if looks && frame.first == head.seq + 1 && frame.before != head.hash {
            return false;
        }
        let crowded = self.logs.values().map(crate::log::Log::held).sum::<usize>() >= HELD_OPS_MAX;
        let log = self.logs.entry(life).or_default();
        let mut hash = frame.before;
        let mut duplicates = 0;
        for (seq, op) in (frame.first..).zip(ops) {
            let before = hash;
            let (after, bytes) = step(before, &op);
            hash = after;
            if looks && seq == head.seq && hash != head.hash {
                return false;
            }
            if seq <= head.seq || log.holds(seq).is_some() {
                duplicates += 1;
            } else if !crowded || seq == head.seq + 1 {
                log.hold(seq, HeldOp { op: Arc::new(op), before, hash, bytes });
            }
        }
        if duplicates > 0 {
            self.note(Note::Duplicate { ops: duplicates });
        }
        true
    }

    /// Two logs go by one name. Nothing of either is taken from here on; whose life it is finds out by exchange (R3).
    /// When it is gone and a peer went further on its branch, no pull can ever make the vectors equal: the peer's state is
    /// merged whole, and both branches' effects are everywhere in the end.
    pub(super) fn fork(&mut self, peer: LifeId, life: LifeId) {
        if let Some(log) = self.logs.get_mut(&life) {
            log.drop_held();
        }
        self.note(Note::Fork { life, peer });
        let alive = self.peers.get(&life).is_some_and(|owner| owner.admitted);
        if alive || self.session.is_some() || !self.joined {
            return;
        }
        let head = self.vector.head(life).seq;
        let further = self.donors(|peer| peer.seq(life) > head);
        if let Some(donor) = self.pick(&further) {
            self.start_session(donor, RepairWhy::Mismatch);
        }
    }

    /// Stores chain content until its op comes.
    pub(super) fn learn(&mut self, from: LifeId, pieces: &[ChainPiece]) {
        let slot = self.peers.get(&from).and_then(|peer| peer.slot);
        self.pass_changes();
        for piece in pieces {
            let Ok(Some(place)) = self.replica.learn(piece) else { continue };
            if self.replica.chains().is_end(place) {
                self.masks.set(slot, place.run);
            }
            self.staged.push_back((self.now, place));
            if self.staged.len() > STAGED_MAX {
                let (_, oldest) = self.staged.pop_front().expect("longer than its bound");
                self.replica.release(oldest);
            }
        }
    }

    /// Applies what is held and next. `sender` is whom to ask for missing content first.
    pub(super) fn drain(&mut self, life: LifeId, sender: Option<LifeId>) {
        loop {
            let head = self.vector.head(life);
            let Some(held) = self.logs.get(&life).and_then(|log| log.holds(head.seq + 1)).cloned() else { return };
            let (hash, bytes) = (held.hash, held.bytes);
            let first_is_join = (head.seq == 0) == matches!(&*held.op, Op::Joined { .. });
            if (held.before != head.hash && !planted(Plant::ForkUnnoticed)) || !first_is_join {
                return self.fork(sender.unwrap_or(life), life);
            }
            if held.op.latest().is_some_and(|stamp| self.is_future(stamp)) {
                if self.planted_instead_of_holding(life, head, &held) {
                    continue;
                }
                self.log_mut(life).ahead = true;
                return;
            }
            if let Op::Retired(end) = &*held.op
                && !self.is_covered(end)
            {
                let now = self.now;
                self.log_mut(life).unresolved.get_or_insert(now);
                return;
            }
            // Kept before it is applied: an op that changes nothing here may still have to be handed on with its chain.
            let places = self.chains_of(&held.op);
            if let Err(ApplyError::Unresolved(tip)) = self.apply(life, &held.op) {
                places.into_iter().for_each(|place| self.replica.release(place));
                return self.unresolved(life, tip, sender);
            }
            let _ = self.log_mut(life).unhold(head.seq + 1);
            if !planted(Plant::ClockNotMerged) {
                self.hlc = self.hlc.max(held.op.latest().map_or(self.hlc, |stamp| stamp.hlc));
            }
            if let Some(stamp) = held.op.stamp() {
                self.note(Note::Applied { delay_ms: self.wall.0.saturating_sub(stamp.hlc.ms()) });
            }
            self.advance(life, head, hash, Retained { op: held.op, before: head.hash, places, bytes, at: self.now });
            if self.targets.contains_key(&life) {
                self.target_progress = self.now;
                self.meet_targets();
            }
            if self.over {
                return;
            }
        }
    }

    /// [`Plant::FutureClamped`] and [`Plant::HeldCounted`]: what is done with an op from beyond the clock's tolerance in
    /// place of holding it. Whether anything was.
    fn planted_instead_of_holding(&mut self, life: LifeId, head: Head, held: &HeldOp) -> bool {
        let mut op = (*held.op).clone();
        if let Op::Touch(touch) = &mut op {
            touch.stamp.hlc = Hlc::new(self.wall.0 + EPS_MS, 0);
        }
        let mut clamped = || planted(Plant::FutureClamped) && self.replica.apply(life, &op).is_ok();
        if !planted(Plant::HeldCounted) && !clamped() {
            return false;
        }
        let (hash, bytes) = step(head.hash, &held.op);
        let places = self.chains_of(&held.op);
        let _ = self.log_mut(life).unhold(head.seq + 1);
        let op = Arc::clone(&held.op);
        self.advance(life, head, hash, Retained { op, before: head.hash, places, bytes, at: self.now });
        true
    }

    fn unresolved(&mut self, life: LifeId, tip: Tip, sender: Option<LifeId>) {
        let now = self.now;
        let log = self.log_mut(life);
        if log.unresolved.is_none() {
            log.unresolved = Some(now);
            self.want(life, tip, sender);
        }
    }

    pub(super) fn log_mut(&mut self, life: LifeId) -> &mut crate::log::Log {
        self.logs.entry(life).or_default()
    }
}

/// Ops and content of a frame being filled.
struct Batch {
    first: u64,
    before: u64,
    ops: Vec<Arc<Op>>,
    chains: Vec<ChainPiece>,
    op_bytes: usize,
    chain_bytes: usize,
}

impl Batch {
    const fn new(first: u64) -> Self {
        Self { first, before: 0, ops: Vec::new(), chains: Vec::new(), op_bytes: 0, chain_bytes: 0 }
    }
}
