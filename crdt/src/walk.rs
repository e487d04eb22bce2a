//! A receiver's way through a donor's state: what it asks next, and what an answer leaves to be asked.
//!
//! The walk over workers goes on beside the comparing of holders that differ, so a session takes one round trip more than
//! there are slices to send, however many holders differ. Questions are built anew from the replica as it is whenever
//! they are asked: an answer that was lost is asked for again.
//!
//! Not here: sessions, timeouts, vectors (`covey-mesh`), what the donor does (`slice`).

use std::collections::VecDeque;

use crate::outline::{Compare, HolderAsk, Outcome, Window};
use crate::replica::Replica;
use crate::slice::Cursor;
use crate::stamp::Stamp;

/// Holders waiting to be compared: far above what honest donors outline ahead of being asked.
const PENDING_MAX: usize = 16_384;

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

/// How large questions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskSizes {
    /// Workers in one window.
    pub window_workers: usize,
    /// Bytes of questions about holders, roughly.
    pub ask_bytes: usize,
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
}

impl Walk {
    /// A walk over everything. `salt` is the session's number.
    #[must_use]
    pub fn new(salt: u64, sizes: AskSizes) -> Self {
        Self { salt, sizes, cursor: Some(Cursor::Start), pending: VecDeque::new(), asked: Vec::new(), walked: false }
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
            ask.holders = replica.holder_asks(&self.pending, self.sizes.ask_bytes, self.salt);
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

    /// Takes an answer, after its slice was merged. `next` is the slice's.
    ///
    /// # Errors
    /// [`Mismatched`] when it cannot be an answer to what was asked.
    pub fn take(&mut self, replica: &Replica, next: Option<&Cursor>, outcome: Outcome) -> Result<(), Mismatched> {
        let done = outcome.done as usize;
        if done > self.asked.len() || (outcome.after.is_some() && done == self.asked.len()) {
            return Err(Mismatched);
        }
        let mut rest = None;
        for end in self.asked.drain(..).take(done) {
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
