//! A repair session at its receiver: one walk over one donor's state. And the permits of a donor.
//!
//! Not here: what is asked (`covey_crdt::walk`), merging and answering (`node`). Upholds P4 to P6 together with the node's
//! targets, and I9: a donor serves few receivers at once.

use std::collections::BTreeMap;

use covey_crdt::id::LifeId;
use covey_crdt::lives::Retirement;
use covey_crdt::stamp::Stamp;
use covey_crdt::walk::{Ask, Walk};

use crate::input::MonoTime;
use crate::limits::BURST_SLICES;
use crate::note::RepairCost;
use crate::vector::Head;
use crate::wire::SliceReply;

/// A running session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) donor: LifeId,
    pub(crate) id: u64,
    pub(crate) walk: Walk,
    pub(crate) question: Question,
    /// Whether it was asked for with all chain content.
    pub(crate) whole: bool,
    /// The donor's vector when the walk began; adopted when all slices are in.
    pub(crate) start: Option<Vec<(LifeId, Head)>>,
    /// The ends of lives that the donor knew then; taken with its vector (P9).
    pub(crate) ends: Vec<(LifeId, Retirement)>,
    pub(crate) forgotten: Stamp,
    /// The founder of the donor's mesh.
    pub(crate) mesh: LifeId,
    /// Whether a slice was merged: from then on the replica is dirty (P4).
    pub(crate) merged: bool,
    pub(crate) asked: MonoTime,
    pub(crate) progress: MonoTime,
    /// The donor named this time to be asked again.
    pub(crate) wait_until: Option<MonoTime>,
    pub(crate) cost: RepairCost,
}

/// What is asked, and how much of an answer is in. A question may be asked several times; the parts of one answer belong
/// together, and once any of them was merged, what is left is another question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    pub(crate) ask: Ask,
    /// The numbers it was asked under.
    asks: std::ops::Range<u32>,
    /// The answer that is being merged.
    answer: Option<u32>,
    /// The next part of it.
    part: u32,
    /// Parts that overtook it.
    early: Vec<SliceReply>,
}

impl Question {
    /// Whether nothing of an answer was merged, so that it may be asked again as it is.
    pub(crate) const fn is_open(&self) -> bool {
        self.part == 0 && self.asks.end > 0
    }

    /// The question after this one.
    pub(crate) fn follow(&mut self, ask: Ask) {
        *self = Self { ask, asks: self.asks.end..self.asks.end, ..Self::default() };
    }

    /// Another number to ask it under.
    pub(crate) const fn number(&mut self) -> u32 {
        let number = self.asks.end;
        self.asks.end += 1;
        number
    }

    /// Asks so far, in the whole session.
    pub(crate) const fn count(&self) -> u32 {
        self.asks.end
    }

    /// Whether this is the part to merge next. One that overtook others is kept for its turn, any other is dropped.
    pub(crate) fn is_next(&mut self, reply: &SliceReply) -> bool {
        let ours = self.asks.contains(&reply.nth) && self.answer.is_none_or(|answer| answer == reply.answer);
        let ahead = ours && reply.part > self.part && reply.part < BURST_SLICES;
        if ahead && self.early.len() < BURST_SLICES as usize {
            self.early.push(reply.clone());
        }
        ours && reply.part == self.part
    }

    /// A part was merged.
    pub(crate) const fn merged(&mut self, reply: &SliceReply) {
        self.answer = Some(reply.answer);
        self.part += 1;
    }

    /// The part that comes next, if it came early.
    pub(crate) fn early(&mut self) -> Option<SliceReply> {
        let (answer, part) = (self.answer?, self.part);
        let at = self.early.iter().position(|reply| (reply.answer, reply.part) == (answer, part))?;
        Some(self.early.swap_remove(at))
    }
}

/// What a donor remembers of a receiver for a while.
#[derive(Clone, Copy, Debug)]
struct Permit {
    session: u64,
    /// Whether it counts; an ended session stays known so that its late frames do not open it again.
    open: bool,
    until: MonoTime,
}

/// Whom a donor serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits {
    receivers: BTreeMap<LifeId, Permit>,
    answers: u32,
}

/// What a donor does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It answers.
    Served,
    /// It has no permit left.
    Full,
    /// The session is over: the frame is a late one.
    Over,
}

impl Permits {
    /// Takes or renews a permit for a session of `receiver` until `until`; at most `most` are out at once.
    pub(crate) fn admit(
        &mut self,
        receiver: LifeId,
        session: u64,
        most: usize,
        (now, until): (MonoTime, MonoTime),
    ) -> Admission {
        self.receivers.retain(|_, permit| permit.until > now);
        if let Some(permit) = self.receivers.get(&receiver) {
            if permit.session == session && !permit.open {
                return Admission::Over;
            }
            // A receiver has one session at a time: a new one takes the permit of the one before.
            if permit.open {
                self.receivers.insert(receiver, Permit { session, open: true, until });
                return Admission::Served;
            }
        }
        if self.open() >= most {
            return Admission::Full;
        }
        self.receivers.insert(receiver, Permit { session, open: true, until });
        Admission::Served
    }

    /// The receiver asks no more in this session.
    pub(crate) fn end(&mut self, receiver: LifeId, session: u64) {
        if let Some(permit) = self.receivers.get_mut(&receiver).filter(|permit| permit.session == session) {
            permit.open = false;
        }
    }

    /// A number for the next answer.
    pub(crate) const fn number(&mut self) -> u32 {
        self.answers = self.answers.wrapping_add(1);
        self.answers
    }

    /// The link with the receiver is gone.
    pub(crate) fn drop_link(&mut self, receiver: LifeId) {
        self.receivers.remove(&receiver);
    }

    /// Permits out.
    pub(crate) fn open(&self) -> usize {
        self.receivers.values().filter(|permit| permit.open).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(nth: u32, answer: u32, part: u32) -> SliceReply {
        let empty = serde_bytes::ByteBuf::new;
        let (vector, target, ends, forgotten, slice, outcome) = (empty(), empty(), empty(), empty(), empty(), empty());
        let (session, more, dirty) = (1, true, false);
        SliceReply {
            session,
            nth,
            answer,
            part,
            vector,
            target,
            ends,
            forgotten,
            mesh: LifeId(1).into(),
            slice,
            outcome,
            more,
            dirty,
        }
    }

    /// An ask that the network doubled is answered twice, and the donor may have changed in between: where one answer
    /// stops the other need not go on.
    #[test]
    fn parts_of_two_answers_to_one_question_are_never_mixed() {
        let mut question = Question::default();
        question.follow(Ask::default());
        let (first, again) = (question.number(), question.number());
        assert!(!question.is_next(&part(again + 1, 9, 0)), "nobody asked that yet");
        assert!(!question.is_next(&part(again, 8, 1)), "too early, but kept");
        assert!(question.is_next(&part(first, 7, 0)), "a late answer is as good");
        question.merged(&part(first, 7, 0));
        assert_eq!(question.early(), None, "it belongs to the other answer");
        assert!(!question.is_next(&part(again, 8, 0)) && !question.is_next(&part(again, 8, 1)));
        assert!(!question.is_next(&part(first, 7, 2)));
        assert!(question.is_next(&part(first, 7, 1)));
        question.merged(&part(first, 7, 1));
        assert_eq!(question.early(), Some(part(first, 7, 2)));
        assert!(!question.is_open(), "what is left is another question");
        question.follow(Ask::default());
        assert_eq!(question.number(), again + 1);
        assert!(!question.is_next(&part(first, 7, 0)), "of the question before");
    }

    #[test]
    fn an_ended_session_does_not_take_its_permit_again_and_a_new_one_replaces_the_old() {
        let mut permits = Permits::default();
        let times = |ms| (MonoTime::from_ms(ms), MonoTime::from_ms(ms + 100));
        let (a, b, c) = (LifeId(1), LifeId(2), LifeId(3));
        assert_eq!(permits.admit(a, 1, 2, times(0)), Admission::Served);
        assert_eq!(permits.admit(b, 1, 2, times(0)), Admission::Served);
        assert_eq!(permits.admit(c, 1, 2, times(0)), Admission::Full);
        permits.end(a, 9);
        assert_eq!(permits.admit(c, 1, 2, times(0)), Admission::Full, "another session ended");
        assert_eq!(permits.admit(a, 2, 2, times(0)), Admission::Served, "in place of its first");
        permits.end(a, 2);
        assert_eq!(permits.admit(a, 2, 2, times(1)), Admission::Over);
        assert_eq!(permits.admit(c, 1, 2, times(1)), Admission::Served);
        assert_eq!(permits.admit(a, 3, 2, times(2)), Admission::Full);
        assert_eq!(
            (permits.open(), permits.admit(a, 3, 2, times(101))),
            (2, Admission::Served),
            "the idle lose theirs"
        );
    }
}
