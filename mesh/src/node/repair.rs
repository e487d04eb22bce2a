//! Repair sessions and what makes a replica clean: joining, targets, giving up (P4, P5, P6, R7).
//!
//! A session walks one donor's state, answer by answer, as the receiver asks, and leaves out what the receiver has
//! (`covey_crdt::walk`). The receiver is dirty from the first merged slice, adopts the donor's first vector after the
//! last, and is clean again when its own vector reaches the largest target any answer ever named, aborted sessions
//! included.
//!
//! Adopting the first vector is exact: what was found equal was, at that moment, at the receiver as it was at the donor,
//! which then held at least what its first vector counts; what was found to differ was sent; and both only grow.
//!
//! Not here: when to look at timeouts (`house`), the donor's side (`donate`).

use std::collections::BTreeSet;

use covey_crdt::codec::{decode_outcome, decode_slice, encode_cursor, encode_holder_asks, encode_window};
use covey_crdt::id::LifeId;
use covey_crdt::op::Op;
use covey_crdt::outline::{Outcome, Room, Window};
use covey_crdt::plant::{Plant, planted};
use covey_crdt::slice::{Cursor, Slice};
use covey_crdt::stamp::{Floor, Stamp};
use covey_crdt::walk::{AskSizes, Walk};
use rand_chacha::rand_core::Rng;
use serde_bytes::ByteBuf;

use super::Node;
use crate::limits::{
    ALONE_MS, ASK_BYTES_MIN, BURST_SLICES, FOUND_MS, REFUSED_MS, RETRY_AFTER_MS_MAX, RETRY_MS, SESSION_MS, STUCK_MS,
};
use crate::note::{AbortWhy, ClockState, Note, RepairCost, RepairWhy};
use crate::output::{Class, Rebirth};
use crate::peer::Peer;
use crate::session::{Question, Session};
use crate::status::Phase;
use crate::vector::{Head, read_ends, read_rows, read_seqs, read_stamp};
use crate::wire::{Message, SliceAsk, SliceEnd, SliceRefused, SliceReply};

/// Bytes of state in one restating op.
const RESTATE_BYTES: usize = 8 * 1024;

/// A donor that failed is not asked again for this long, in milliseconds.
const SHUN_MS: u64 = 1_000;
/// One whose state lies beyond the local clock's tolerance, in milliseconds.
const SHUN_FUTURE_MS: u64 = 5_000;

impl Node {
    /// Peers that could donate their state and satisfy `fits`; clean ones if there are any.
    pub(super) fn donors(&self, fits: impl Fn(&Peer) -> bool) -> Vec<LifeId> {
        let able = |phase: Phase| {
            let fits = &fits;
            self.peers.iter().filter_map(move |(life, peer)| {
                (peer.admitted && peer.phase == Some(phase) && !peer.shunned(self.now) && fits(peer)).then_some(*life)
            })
        };
        let clean: Vec<LifeId> = able(Phase::Clean).collect();
        if clean.is_empty() { able(Phase::Dirty).collect() } else { clean }
    }

    pub(super) fn start_session(&mut self, donor: LifeId, why: RepairWhy) {
        let id = self.random.next_u64();
        let ask_bytes = self.knobs.slice_bytes.max(ASK_BYTES_MIN);
        let room = Room { ask_bytes, answer_bytes: BURST_SLICES as usize * ask_bytes };
        let sizes = AskSizes { window_workers: self.knobs.window_workers, room };
        let session = Session {
            donor,
            id,
            walk: Walk::new(id, sizes),
            question: Question::default(),
            whole: false,
            start: None,
            ends: Vec::new(),
            forgotten: Stamp::ZERO,
            mesh: LifeId(0),
            merged: false,
            asked: self.now,
            progress: self.now,
            wait_until: None,
            cost: RepairCost::default(),
        };
        self.note(Note::RepairStarted { donor, why });
        self.session = Some(session);
        self.ask_slice();
    }

    /// Asks for what is left, or again for what was not answered.
    fn ask_slice(&mut self) {
        let now = self.now;
        let Some(session) = &mut self.session else { return };
        session.asked = now;
        session.wait_until = None;
        if !session.question.is_open() {
            session.question.follow(session.walk.ask(&self.replica));
        }
        let nth = session.question.number();
        let asked = &session.question.ask;
        let empty = Window::default();
        let ask = SliceAsk {
            session: session.id,
            nth,
            cursor: ByteBuf::from(asked.cursor.as_ref().map_or_else(Vec::new, encode_cursor)),
            window: ByteBuf::from(if asked.window == empty { Vec::new() } else { encode_window(&asked.window) }),
            holders: ByteBuf::from(if asked.holders.is_empty() {
                Vec::new()
            } else {
                encode_holder_asks(&asked.holders)
            }),
            whole: session.whole,
        };
        session.cost.summary_bytes += (ask.cursor.len() + ask.window.len() + ask.holders.len()) as u64;
        let donor = session.donor;
        let class = if asked.holders.is_empty() { Class::Control } else { Class::Repair };
        self.send(donor, class, &Message::SliceAsk(ask));
    }

    pub(super) fn on_slice_reply(&mut self, from: LifeId, reply: &SliceReply) {
        let Some(session) = &mut self.session else { return };
        if session.donor != from || session.id != reply.session || !session.question.is_next(reply) {
            return;
        }
        self.take_part(from, reply);
        while let Some(early) = self.session.as_mut().and_then(|session| session.question.early()) {
            self.take_part(from, &early);
        }
    }

    fn take_part(&mut self, from: LifeId, reply: &SliceReply) {
        let Some(session) = &self.session else { return };
        let whole = session.whole;
        let (Ok(mut slice), Some(vector), Some(target), Some(ends), Some(forgotten), Ok(outcome)) = (
            decode_slice(&reply.slice),
            read_rows(&reply.vector),
            read_seqs(&reply.target),
            read_ends(&reply.ends),
            read_stamp(&reply.forgotten),
            decode_outcome(&reply.outcome),
        ) else {
            self.abort_session(AbortWhy::Malformed);
            return self.malformed(from, 0);
        };
        // What counts more of a life than it was retired with must not spread.
        if self.outlives(target.iter().copied()) {
            return self.abort_session(AbortWhy::Outlived);
        }
        let future = slice.newest().is_some_and(|stamp| self.is_future(stamp));
        if future && !planted(Plant::FutureSliceAccepted) {
            return self.abort_session(AbortWhy::FutureStamp);
        }
        if vector.iter().any(|(life, head)| *life == self.life && head.seq > self.vector.head(self.life).seq) {
            return self.reborn(Rebirth::Forked);
        }
        if self.loses {
            slice.holders.clear();
        }
        let Ok((_, fresh)) = self.replica.merge_counted(&slice) else {
            if whole {
                return self.abort_session(AbortWhy::Malformed);
            }
            if let Some(session) = &mut self.session {
                session.whole = true;
            }
            return self.ask_slice();
        };
        if let Some(session) = &mut self.session {
            session.cost.segments_new += u64::from(fresh);
        }
        self.hlc = self.hlc.max(slice.newest().map_or(self.hlc, |stamp| stamp.hlc));
        if let Some(session) = self.session.as_mut().filter(|session| session.start.is_none()) {
            session.ends = ends;
            session.forgotten = forgotten;
            session.mesh = reply.mesh.into();
        }
        self.merged(reply, &slice, vector, target);
        self.go_on(from, reply.more, &slice, outcome);
    }

    fn merged(&mut self, reply: &SliceReply, slice: &Slice, vector: Vec<(LifeId, Head)>, target: Vec<(LifeId, u64)>) {
        let too_late = planted(Plant::DirtyAtSessionEnd) && (reply.more || slice.next.is_some());
        for (life, seq) in target.into_iter().filter(|_| !too_late) {
            let most = self.targets.entry(life).or_default();
            *most = (*most).max(seq);
        }
        self.target_progress = self.now;
        let now = self.now;
        let Some(session) = &mut self.session else { return };
        session.merged = !too_late;
        session.progress = now;
        session.asked = now;
        let segments = slice.holders.iter().map(|holder| holder.segments.len()).sum::<usize>();
        let cost = &mut session.cost;
        cost.pieces += 1;
        cost.dirty_pieces += u32::from(reply.dirty);
        cost.segments += segments as u64;
        cost.slice_bytes += (reply.slice.len() + reply.target.len() + reply.vector.len()) as u64;
        cost.summary_bytes += reply.outcome.len() as u64;
        if planted(Plant::AdoptsVEnd) {
            session.start = None;
        }
        session.start.get_or_insert(vector);
        session.whole = false;
        session.question.merged(reply);
    }

    /// Asks for what is left, once the answer is complete, or ends the session.
    fn go_on(&mut self, donor: LifeId, more: bool, slice: &Slice, outcome: Outcome) {
        let Some(session) = &mut self.session else { return };
        if session.walk.take(&self.replica, slice.next.as_ref(), outcome).is_err() {
            self.abort_session(AbortWhy::Malformed);
            return self.malformed(donor, 0);
        }
        if session.walk.is_done() {
            self.finish_session();
        } else if !more {
            self.ask_slice();
        }
    }

    fn finish_session(&mut self) {
        let Some(session) = self.session.take() else { return };
        self.take_ends(&session.ends, session.forgotten);
        if self.over {
            return;
        }
        for (life, head) in session.start.unwrap_or_default() {
            let retired = self.replica.retired().contains_key(&life);
            let further = head.seq > self.vector.head(life).seq || planted(Plant::VectorJumpsBack);
            if life != self.life && !retired && further {
                self.jump(life, head);
            }
        }
        self.end_permit(session.donor, session.id);
        let cost = RepairCost { asks: session.question.count(), ..session.cost };
        self.note(Note::RepairDone { donor: session.donor, cost });
        let logs: Vec<LifeId> = self.logs.keys().copied().collect();
        for life in logs {
            self.drain(life, None);
        }
        self.meet_targets();
        if !self.joined {
            self.joined = true;
            self.mesh = session.mesh;
            self.act_on_waiting();
        }
    }

    /// The vector jumps to where a session left the state; the log's retained part no longer connects.
    fn jump(&mut self, life: LifeId, head: Head) {
        let dropped: Vec<_> = self.log_mut(life).jump(head.seq).collect();
        for retained in dropped {
            self.forget(&retained);
        }
        self.vector.advance(life, head);
    }

    /// Drops the targets that the vector has reached.
    pub(super) fn meet_targets(&mut self) {
        let (vector, retired) = (&self.vector, self.replica.retired());
        self.targets.retain(|life, seq| {
            let end = retired.get(life).map_or(0, |end| end.last);
            vector.head(*life).seq.max(end) < *seq
        });
    }

    /// A donor says when to come back. While it has no permit for this session and nothing was merged, another one may do as
    /// well; afterwards only this one can complete the walk.
    pub(super) fn on_slice_refused(&mut self, from: LifeId, refused: &SliceRefused) {
        let Some(session) = &mut self.session else { return };
        if session.donor != from || session.id != refused.session {
            return;
        }
        if refused.retry_after_ms == 0 {
            return self.abort_session(AbortWhy::Refused);
        }
        let retry_after_ms = refused.retry_after_ms.min(RETRY_AFTER_MS_MAX);
        let until = self.now.plus_ms(retry_after_ms);
        if session.merged || refused.kept {
            session.wait_until = Some(until);
            session.progress = until;
        } else {
            self.session = None;
            if let Some(peer) = self.peers.get_mut(&from) {
                peer.busy_until = Some(until);
            }
        }
        self.note(Note::RepairRefused { donor: from, retry_after_ms });
    }

    fn end_permit(&mut self, donor: LifeId, session: u64) {
        if self.peers.get(&donor).is_some_and(|peer| peer.admitted) {
            self.send(donor, Class::Control, &Message::SliceEnd(SliceEnd { session }));
        }
    }

    /// Chain content that came from the donor is the session's.
    pub(super) fn count_content(&mut self, from: LifeId, bytes: usize) {
        if let Some(session) = self.session.as_mut().filter(|session| session.donor == from) {
            session.cost.content_bytes += bytes as u64;
        }
    }

    pub(super) fn abort_session(&mut self, why: AbortWhy) {
        let Some(session) = self.session.take() else { return };
        if planted(Plant::AbortForgetsTargets) {
            self.targets.clear();
        }
        // A clock that is behind does not come right in a second, and every try costs the donor what others wait for.
        let until = self.now.plus_ms(if why == AbortWhy::FutureStamp { SHUN_FUTURE_MS } else { SHUN_MS });
        if let Some(peer) = self.peers.get_mut(&session.donor) {
            peer.shunned_until = Some(until);
        }
        self.end_permit(session.donor, session.id);
        self.note(Note::RepairAborted { donor: session.donor, why });
    }

    /// Asks a silent donor again, and gives it up after a while.
    pub(super) fn watch_session(&mut self) {
        let Some(session) = &self.session else { return };
        let Some(peer) = self.peers.get(&session.donor).filter(|peer| peer.admitted) else {
            return self.abort_session(AbortWhy::LinkDown);
        };
        if let Some(until) = session.wait_until {
            if until <= self.now {
                self.ask_slice();
            }
            return;
        }
        let (again, enough) = (peer.patience_ms(RETRY_MS, 2), peer.patience_ms(SESSION_MS, 8));
        if self.now.since_ms(session.progress) >= enough {
            self.abort_session(AbortWhy::Timeout);
        } else if self.now.since_ms(session.asked) >= again {
            // The answer, or content sent ahead of it, was lost: ask for all of it.
            if let Some(session) = &mut self.session {
                session.whole = true;
            }
            self.ask_slice();
        }
    }

    /// A joiner looks for a donor, or finds that it must found (R7, rule e).
    pub(super) fn try_join(&mut self) {
        if self.joined || self.session.is_some() {
            return;
        }
        let admitted: Vec<(LifeId, Option<Phase>)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.admitted && peer.phase.is_some())
            .map(|(life, peer)| (*life, peer.phase))
            .collect();
        let donors = self.donors(|_| true);
        if let Some(donor) = self.pick(&donors) {
            self.all_joining = None;
            return self.start_session(donor, RepairWhy::Bootstrap);
        }
        if admitted.is_empty() {
            self.all_joining = None;
            let refused = self.refused.as_ref().is_some_and(|(at, _)| self.now.since_ms(*at) < REFUSED_MS);
            let linked = self.peers.values().any(|peer| peer.linked);
            if self.now.since_ms(self.started) >= ALONE_MS && !refused && !linked {
                self.found();
            }
            return;
        }
        if admitted.iter().any(|(_, phase)| *phase != Some(Phase::Joining)) {
            self.all_joining = None;
            return;
        }
        let since = *self.all_joining.get_or_insert(self.now);
        let smallest = admitted.iter().all(|(life, _)| self.life < *life);
        if smallest && self.now.since_ms(since) >= FOUND_MS {
            self.found();
        }
    }

    /// The node's own state, empty but for itself, is the mesh's from here on.
    pub(super) fn found(&mut self) {
        self.joined = true;
        self.mesh = self.life;
        self.note(Note::Founded);
        self.act_on_waiting();
    }

    /// A replica that stays dirty without getting on holds effects of ops that died with their writers (P6). It says
    /// them again as ops of its own, and is clean: nothing is lost, and nobody has to agree. Waiting for the own slow
    /// clock is no reason, and while the clock is ahead nothing is published.
    pub(super) fn watch_stuck(&mut self) {
        let waits = self.phase() != Phase::Dirty || self.session.is_some() || self.clock == ClockState::Ahead;
        if waits || planted(Plant::NeverRestates) || self.left || self.now.since_ms(self.target_progress) < STUCK_MS {
            return;
        }
        // What a life that is gone stamped far ahead (its clock was wrong, and it ended for that) may not come due for years.
        let lives = |life: &LifeId| self.peers.get(life).is_some_and(|peer| peer.admitted);
        let ahead = |life: &LifeId| self.logs.get(life).is_some_and(|log| log.ahead);
        if !self.targets.keys().any(|life| lives(life) && ahead(life)) {
            self.restate();
        }
    }

    fn restate(&mut self) {
        let lost: BTreeSet<LifeId> = self.targets.keys().copied().collect();
        // A lost op may itself have restated touches of a life that is gone: only those of the living are left out.
        let counted = |life: LifeId| {
            let lives = life == self.life || self.peers.get(&life).is_some_and(|peer| peer.admitted);
            lives && !lost.contains(&life)
        };
        self.replica.name_tips();
        let mut cursor = Some(Cursor::Start);
        let (mut slices, mut named) = (Vec::new(), Vec::new());
        while let Some(from) = cursor {
            let piece = self.replica.piece(&from, RESTATE_BYTES, &|_| true);
            // A tip that a cut left inside a run has no name here yet.
            named.extend(piece.chains.iter().filter_map(|chain| self.replica.learn(chain).ok().flatten()));
            let mut slice = piece.slice;
            cursor = slice.next.take();
            for holder in &mut slice.holders {
                holder.segments.retain(|(stamp, _)| !counted(stamp.life));
            }
            slice.holders.retain(|holder| !holder.segments.is_empty() || holder.floor > Floor::LOWEST);
            if slice != Slice::default() {
                slices.push(slice);
            }
        }
        self.note(Note::Restated { lives: u32::try_from(lost.len()).unwrap_or(u32::MAX) });
        for slice in slices {
            self.publish(Op::Restated(Box::new(slice)));
        }
        named.into_iter().for_each(|place| self.replica.release(place));
        self.targets.clear();
    }
}
