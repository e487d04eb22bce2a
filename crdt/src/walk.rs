//! A receiver's way through a donor's state: what it asks next, and what an answer leaves to be asked.
//!
//! The walk over workers goes on beside the comparing of holders that differ, so a session takes one round trip more than
//! there are slices to send, however many holders differ. Questions are built anew from the replica as it is whenever
//! they are asked: an answer that was lost is asked for again.
//!
//! Not here: sessions, timeouts, vectors (`covey-mesh`), what the donor does (`slice`).

use std::collections::VecDeque;

use crate::outline::{Compare, HolderAsk, Outcome, Room, Window};
use crate::replica::Replica;
use crate::slice::Cursor;
use crate::stamp::Stamp;

/// Holders waiting to be compared: far above what honest donors outline ahead of being asked.
const PENDING_MAX: usize = 16_384;

/// How many full answers are asked for at once, at most, when they turn out to be mostly in common.
const ANSWERS_MAX: usize = 8;

/// A donor's answer does not belong to what was asked. Fault: the donor's. Give the session up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatched;

/// What a receiver asks in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// About holders that differ.
    pub holders: Vec<HolderAsk>,
    /// Where the walk goes on, when there is room beside the holders.
    pub cursor: Option<Cursor>,
    /// What is here of the workers after the cursor.
    pub window: Window,
}

impl Ask {
    /// What is left of the question after an answer, at the donor, which may answer on unasked; `false`: nothing, or
    /// nothing before the receiver has said more of itself.
    #[must_use]
    pub fn advance(&mut self, next: Option<&Cursor>, outcome: &Outcome) -> bool {
        self.holders.drain(..self.holders.len().min(outcome.done as usize));
        if let (Some(after), Some(first)) = (outcome.after, self.holders.first_mut()) {
            first.after = Some(after);
            first.buckets.retain(|(end, _)| end.is_none_or(|end| end > after));
        }
        let until = self.window.until.as_ref();
        let ends = |next: &Cursor| until.is_some_and(|until| next == &Cursor::Worker(Some(until.clone())));
        self.cursor = self.cursor.take().and(next.filter(|next| !ends(next)).cloned());
        !self.holders.is_empty() || self.cursor.is_some()
    }
}

/// How large questions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskSizes {
    /// Workers in one window.
    pub window_workers: usize,
    /// Of questions about holders.
    pub room: Room,
}

/// A walk under way.
#[derive(Clone, Debug)]
pub struct Walk {
    salt: u64,
    sizes: AskSizes,
    cursor: Option<Cursor>,
    pending: VecDeque<Compare>,
    /// Where each question asked last ends (`None`: at the holder's end).
    asked: Vec<Option<Stamp>>,
    /// Whether the walk went on with it.
    walked: bool,
    /// Bytes of answers asked for at once: halved when the last answer left some of the question open, since chain
    /// content takes room as well, doubled when it did not.
    answer_bytes: usize,
}

impl Walk {
    /// A walk over everything. `salt` is the session's number.
    #[must_use]
    pub fn new(salt: u64, sizes: AskSizes) -> Self {
        Self {
            salt,
            sizes,
            cursor: Some(Cursor::Start),
            pending: VecDeque::new(),
            asked: Vec::new(),
            walked: false,
            answer_bytes: sizes.room.answer_bytes,
        }
    }

    /// Whether everything was asked and answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.cursor.is_none() && self.pending.is_empty()
    }

    /// What to ask next, or again.
    pub fn ask(&mut self, replica: &Replica) -> Ask {
        let mut ask = Ask::default();
        if !self.pending.is_empty() {
            let most = ANSWERS_MAX * self.sizes.room.answer_bytes;
            let open = !self.asked.is_empty();
            self.answer_bytes = if open { self.answer_bytes / 2 } else { self.answer_bytes * 2 }.clamp(1, most.max(1));
            let room = Room { answer_bytes: self.answer_bytes, ..self.sizes.room };
            ask.holders = replica.holder_asks(&self.pending, room, self.salt);
        }
        self.asked = ask.holders.iter().map(|ask| ask.buckets.last().and_then(|(end, _)| *end)).collect();
        // New holders are not looked for while there are more than one question takes.
        let all = ask.holders.len() == self.pending.len() && self.asked.iter().all(Option::is_none);
        ask.cursor = self.cursor.clone().filter(|_| all);
        self.walked = ask.cursor.is_some();
        if let Some(cursor) = &ask.cursor {
            ask.window = replica.window(cursor.worker(), self.sizes.window_workers, self.salt);
        }
        ask
    }

    /// Takes an answer, or the next part of one, after its slice was merged. `next` is the slice's.
    ///
    /// # Errors
    /// [`Mismatched`] when it cannot be an answer to what was asked.
    pub fn take(&mut self, replica: &Replica, next: Option<&Cursor>, outcome: Outcome) -> Result<(), Mismatched> {
        let done = outcome.done as usize;
        if done > self.asked.len() || (outcome.after.is_some() && done == self.asked.len()) {
            return Err(Mismatched);
        }
        let mut rest = None;
        for end in self.asked.drain(..done) {
            rest = self.pending.pop_front().filter(|_| end.is_some()).map(|compare| Compare { after: end, ..compare });
        }
        if let Some(rest) = rest {
            self.pending.push_front(rest);
        }
        if let (Some(after), Some(first)) = (outcome.after, self.pending.front_mut()) {
            first.after = first.after.max(Some(after));
        }
        if self.walked {
            self.cursor = next.cloned();
        }
        self.pending.extend(
            replica.differing(outcome.outlines, self.salt).into_iter().map(|outline| Compare { outline, after: None }),
        );
        if self.pending.len() > PENDING_MAX { Err(Mismatched) } else { Ok(()) }
    }
}
