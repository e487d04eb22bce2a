//! Fetching what is missing: from the engine by replay, from the other gateway by hand-off, and giving up.
//!
//! A replay is asked from the last batch that was applied, not from the next: the engine's copy of it proves that the engine
//! is the same life. A state without such a proof is not gone on with.
//!
//! Not here: connections. Every question has a deadline, and ends.

use covey_mesh::input::MonoTime;

use super::batch::Batch;
use super::machine::Intake;
use super::{Note, Output, Phase, ReplayEnd, Why};

/// How long a replay may be silent, in milliseconds. An idle engine answers within 100 ms.
const SILENT_MS_MAX: u64 = 2_000;
/// How long until a replay that could not begin is tried again.
const AGAIN_MS: u64 = 300;
/// Replays in a row that may bring nothing.
const TRIES_MAX: u32 = 3;
/// How long another gateway may take to hand its state over.
const HAND_OFF_MS_MAX: u64 = 2_000;

/// A replay that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) ask: u64,
    from: u64,
    /// The number of its first batch.
    first: Option<u64>,
    /// It brought a batch that was applied.
    is_useful: bool,
    /// Replays before it that brought nothing.
    tries: u32,
    /// When it is given up, or, when it is over already, when the next is asked.
    pub(super) deadline: MonoTime,
    is_over: bool,
}

/// A hand-off that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// What for; `None`: to begin with.
    pub(super) why: Option<Why>,
    pub(super) deadline: MonoTime,
}

impl Intake {
    /// Whether the engine answers replays, as far as is known.
    pub(super) const fn has_replay(&self) -> bool {
        self.config.has_replay && !self.is_mute
    }

    pub(super) const fn can_replay(&self) -> bool {
        self.has_replay() && !self.is_alone
    }

    /// Whether there is a connection, and a name for the life of the engine there.
    pub(super) fn has_engine(&self) -> bool {
        self.is_connected && self.incarnation.as_ref().is_some_and(|incarnation| !incarnation.is_removed())
    }

    /// Begins, once there is an engine and a name for its life: with another gateway's state, or with the engine's past.
    pub(super) fn begin(&mut self, now: MonoTime) {
        if self.is_open || self.waiting.is_some() || !self.has_engine() {
            return;
        }
        if self.asks_gateways { self.wait(now, None) } else { self.ask(now, 0) }
    }

    pub(super) fn wait(&mut self, now: MonoTime, why: Option<Why>) {
        if self.waiting.is_none() {
            self.waiting = Some(Waiting { why, deadline: now.plus_ms(HAND_OFF_MS_MAX) });
            self.counters.hand_offs_asked += 1;
            self.outputs.push_back(Output::AskHandOff);
        }
    }

    /// Asks the engine, unless it is being asked.
    pub(super) fn ask(&mut self, now: MonoTime, tries: u32) {
        if self.asking.is_some() || !self.is_connected {
            return;
        }
        if !self.can_replay() {
            return self.give_up(now);
        }
        let from = if self.is_open { self.position.saturating_sub(1) } else { 0 };
        self.asks += 1;
        self.counters.replays += 1;
        let (ask, deadline) = (self.asks, now.plus_ms(SILENT_MS_MAX));
        self.asking = Some(Asking { ask, from, first: None, is_useful: false, tries, deadline, is_over: false });
        self.outputs.push_back(Output::Ask { ask, from });
        self.asked_at(now);
    }

    /// Asks whether the engine is the life that the state is of, and for what came since.
    pub(super) fn verify(&mut self, now: MonoTime) {
        self.asking = None;
        self.ask(now, 0);
    }

    /// Asks for what is missing before what is kept.
    pub(super) fn fill(&mut self, now: MonoTime) {
        let is_ready = self.is_open && self.is_verified && self.waiting.is_none() && self.asking.is_none();
        if !is_ready {
            return;
        }
        if let Some(to) = self.buffer.first() {
            self.counters.gaps += 1;
            self.outputs.push_back(Output::Note(Note::Gap { from: self.position, to }));
            self.ask(now, 0);
        } else if std::mem::take(&mut self.buffer.has_overflowed) {
            self.ask(now, 0);
        }
    }

    /// One batch of the present replay.
    pub(super) fn replayed(&mut self, now: MonoTime, batch: Batch) {
        let Some(asking) = &mut self.asking else { return };
        asking.deadline = now.plus_ms(SILENT_MS_MAX);
        let (from, is_first) = (asking.from, asking.first.is_none());
        asking.first = asking.first.or(Some(batch.seq));
        if !self.is_open {
            // The engine keeps the last so many batches: an answer that starts later than asked is all there is. One that was
            // asked for later batches, while there was a state, says nothing of what was before.
            let position = batch.seq;
            self.owes_past = from > 0;
            self.open_at(position, position == 0);
        } else if !self.is_verified {
            let is_proof = batch.seq == from && self.prints.of(from).is_none_or(|print| print == batch.print);
            if is_proof {
                self.is_verified = true;
            } else if batch.seq == from {
                return self.restart(now, Some(batch));
            } else {
                if is_first {
                    self.outputs.push_back(Output::Probe);
                    self.keep(now, batch);
                    return self.unfillable(now);
                }
                return self.keep(now, batch);
            }
        }
        if self.waiting.is_some() {
            return self.keep(now, batch);
        }
        let before = self.position;
        let ask = self.asking.as_ref().map(|asking| asking.ask);
        self.arrive(now, batch, false);
        if let Some(asking) = &mut self.asking
            && Some(asking.ask) == ask
        {
            asking.is_useful |= self.position > before;
        }
        self.drain(now);
    }

    pub(super) fn on_replay_ended(&mut self, now: MonoTime, ask: u64, how: ReplayEnd) {
        let Some(asking) = self.asking.take_if(|asking| asking.ask == ask && !asking.is_over) else { return };
        if how == ReplayEnd::Marked {
            self.proven_at = now;
            return self.answered(now, &asking);
        }
        self.counters.replays_cut += 1;
        if asking.is_useful {
            return self.ask(now, 0);
        }
        if asking.tries + 1 >= TRIES_MAX {
            self.counters.replays_failed += 1;
            return self.give_up(now);
        }
        let deadline = now.plus_ms(AGAIN_MS);
        self.asking = Some(Asking { is_over: true, tries: asking.tries + 1, deadline, ..asking });
    }

    /// A replay is whole: the engine has no more.
    fn answered(&mut self, now: MonoTime, asking: &Asking) {
        if self.waiting.is_some() {
            return;
        }
        if !self.is_open {
            // It has published nothing, or keeps nothing; what is kept shows which.
            let first = self.buffer.first().unwrap_or_default();
            self.open_at(first, first == 0);
            return self.drain(now);
        }
        if asking.first.is_none() && asking.from < self.position {
            // It has not even the last batch here. If it published that on this very connection and never replayed any, it
            // keeps none; else its numbers started anew.
            if self.has_replayed || !self.is_heard {
                return self.restart(now, None);
            }
            self.is_mute = true;
        }
        if !self.is_verified {
            self.is_verified = true;
            return self.drain(now);
        }
        match self.buffer.first() {
            Some(_) if asking.is_useful => self.ask(now, 0),
            Some(_) => self.unfillable(now),
            None if self.owes_past && !self.cache.is_whole() => {
                self.forget();
                self.ask(now, 0);
            }
            None => self.fill(now),
        }
    }

    /// The engine answers no replays, or not now.
    fn give_up(&mut self, now: MonoTime) {
        self.asking = None;
        (self.is_alone, self.owes_past) = (true, self.has_replay());
        if !self.is_open {
            return self.begin_alone(now);
        }
        if !self.is_verified {
            // Nothing proves that this is the life the state is of, so it is not gone on with.
            self.outputs.push_back(Output::Probe);
            self.unfillable(now);
        } else if self.buffer.first().is_some_and(|first| first <= self.position) {
            self.drain(now);
        } else if self.buffer.first().is_some() {
            self.unfillable(now);
        }
    }

    /// Begins with the first batch that comes, when nobody knows what was before.
    pub(super) fn begin_alone(&mut self, now: MonoTime) {
        let can_begin = self.waiting.is_none() && self.asking.is_none() && self.has_engine();
        if let (true, false, false, Some(first)) = (can_begin, self.is_open, self.can_replay(), self.buffer.first()) {
            self.open_at(first, first == 0);
            self.drain(now);
        }
    }

    /// The engine does not have what is missing: perhaps the other gateway does.
    fn unfillable(&mut self, now: MonoTime) {
        self.wait(now, Some(Why::Gap));
    }

    /// Nobody hands a state over.
    pub(super) fn alone_after(&mut self, now: MonoTime, waiting: Waiting) {
        match waiting.why {
            None => {
                self.ask(now, 0);
                self.begin_alone(now);
            }
            Some(Why::Gap) => {
                self.cache.doubt();
                let first = self.buffer.first();
                self.jump_to(first.unwrap_or(self.position), Why::Gap);
                // Where nothing was heard of the engine since the doubt, it begins with what is heard next.
                (self.is_open, self.is_verified) = match first {
                    Some(_) => (true, true),
                    None => (self.is_verified, self.is_verified),
                };
                self.drain(now);
            }
            Some(why @ (Why::Late | Why::Restart | Why::Recovered | Why::Outrun | Why::Stranded | Why::Raised)) => {
                self.open_next(why);
                // What is kept may be of another life than the state, until something proves the opposite.
                if self.is_verified {
                    self.drain(now);
                } else {
                    self.ask(now, 0);
                }
            }
        }
    }

    /// What is due at a time.
    pub(super) fn on_time(&mut self, now: MonoTime) {
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.deadline <= now) {
            self.alone_after(now, waiting);
        }
        if let Some(asking) = self.asking.as_ref().filter(|asking| asking.deadline <= now) {
            let (ask, tries, is_over) = (asking.ask, asking.tries, asking.is_over);
            if is_over {
                self.asking = None;
                self.ask(now, tries);
            } else {
                self.on_replay_ended(now, ask, ReplayEnd::Cut);
            }
        }
        let is_idle = self.asking.is_none() && self.waiting.is_none();
        if is_idle && self.has_engine() && self.has_replay() && self.check_at <= now {
            self.is_alone = false;
            self.ask(now, 0);
        }
    }

    /// Whether batches are known to be missing, or not proven to follow.
    pub(super) fn phase_of_gaps(&self) -> Option<Phase> {
        let is_whole = self.is_verified && self.waiting.is_none() && self.buffer.first().is_none();
        (!is_whole || self.buffer.has_overflowed).then_some(Phase::Gap)
    }
}
