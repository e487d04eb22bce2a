//! What becomes of batches between an engine and its subscribers: they lag, and whatever was asked for goes wrong.
//!
//! A value: batches and times in, what to keep for replays and what to send out. Sequence numbers are the engine's and are
//! never altered. Upholds: without a fault every batch is kept and sent once, in order, `delay` after it was made.
//!
//! Not here: sockets (`publisher`), answers to a replay (`replay`).

use std::collections::VecDeque;

use bytes::Bytes;

use super::fault::{Fault, FaultKind};

/// Batches that wait at most, as many as vLLM queues; then new ones are lost, and their numbers show it.
const HELD_MAX: usize = 100_000;

/// A batch as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) seq: u64,
    pub(super) payload: Bytes,
}

/// What to do with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// Replays have it from now on.
    Keep(Message),
    /// Subscribers get it.
    Send(Message),
}

/// One life's stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    delay_us: u64,
    /// Due times and batches, the first to be made first.
    held: VecDeque<(u64, Message)>,
    paused_until_us: u64,
    late: u64,
    late_us: u64,
    dropped: u64,
    doubled: u64,
    /// How many more are to be collected and sent in reverse, when to give up waiting for them, and those that came.
    reversed: u64,
    reversed_us: u64,
    collected_due_us: u64,
    collected: Vec<Message>,
    outs: VecDeque<Out>,
}

impl Line {
    /// A line whose batches lag by `delay_us`.
    pub(super) fn new(delay_us: u64) -> Self {
        Self { delay_us, ..Self::default() }
    }

    /// Something goes wrong from now on. Faults of replays and engines are none of the line's.
    pub(super) fn fault(&mut self, now_us: u64, fault: &Fault) {
        match fault.kind {
            FaultKind::Drop => self.dropped = fault.batches(),
            FaultKind::Delay => (self.late, self.late_us) = (fault.batches(), fault.us()),
            FaultKind::Reorder => (self.reversed, self.reversed_us) = (fault.batches(), fault.us()),
            FaultKind::Duplicate => self.doubled = fault.batches(),
            FaultKind::Pause => self.paused_until_us = now_us + fault.us(),
            FaultKind::LoseReplay | FaultKind::TruncateReplay | FaultKind::Restart | FaultKind::Reset => {}
        }
    }

    /// The engine made a batch.
    pub(super) fn push(&mut self, now_us: u64, message: Message) {
        let extra = if self.late > 0 { self.late_us } else { 0 };
        self.late = self.late.saturating_sub(1);
        if self.held.len() < HELD_MAX {
            self.held.push_back((now_us + self.delay_us + extra, message));
        }
    }

    /// What is to be done by `now_us`, in order.
    pub(super) fn poll(&mut self, now_us: u64) -> Option<Out> {
        while self.outs.is_empty() && self.paused_until_us <= now_us {
            if !self.collected.is_empty() && self.collected_due_us <= now_us {
                self.flush();
            } else if let Some((_, message)) = self.held.pop_front_if(|(due, _)| *due <= now_us) {
                self.release(now_us, message);
            } else {
                break;
            }
        }
        self.outs.pop_front()
    }

    /// When to poll again; `None` when nothing waits.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let held = self.held.front().map(|(due, _)| *due);
        let collected = (!self.collected.is_empty()).then_some(self.collected_due_us);
        let due = [held, collected].into_iter().flatten().min()?;
        Some(due.max(self.paused_until_us))
    }

    fn release(&mut self, now_us: u64, message: Message) {
        self.outs.push_back(Out::Keep(message.clone()));
        if take(&mut self.dropped) {
            return;
        }
        if take(&mut self.reversed) {
            if self.collected.is_empty() {
                self.collected_due_us = now_us + self.reversed_us;
            }
            self.collected.push(message);
            if self.reversed == 0 {
                self.flush();
            }
            return;
        }
        let again = take(&mut self.doubled).then(|| Out::Send(message.clone()));
        self.outs.push_back(Out::Send(message));
        self.outs.extend(again);
    }

    fn flush(&mut self) {
        self.reversed = 0;
        self.outs.extend(self.collected.drain(..).rev().map(Out::Send));
    }
}

/// Whether one more is due; it is used up.
fn take(left: &mut u64) -> bool {
    let is_due = *left > 0;
    *left = left.saturating_sub(1);
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64) -> Message {
        Message { seq, payload: Bytes::new() }
    }

    fn fault(json: &str) -> Fault {
        serde_json::from_str(json).expect("a fault")
    }

    /// What is sent and kept by then.
    fn poll(line: &mut Line, now_us: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut sent, mut kept) = (Vec::new(), Vec::new());
        while let Some(out) = line.poll(now_us) {
            match out {
                Out::Send(message) => sent.push(message.seq),
                Out::Keep(message) => kept.push(message.seq),
            }
        }
        (sent, kept)
    }

    /// Pushes four batches under a fault and gives what was sent and kept at once.
    fn four(json: &str) -> (Vec<u64>, Vec<u64>) {
        let mut line = Line::new(0);
        line.fault(0, &fault(json));
        (0..4).for_each(|seq| line.push(0, message(seq)));
        poll(&mut line, 0)
    }

    #[test]
    fn a_dropped_batch_is_kept_for_replays_and_the_next_is_sent() {
        assert_eq!(four(r#"{"kind":"drop","batches":2}"#), (vec![2, 3], vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_doubled_batch_is_sent_twice_and_kept_once() {
        assert_eq!(four(r#"{"kind":"duplicate","batches":2}"#), (vec![0, 0, 1, 1, 2, 3], vec![0, 1, 2, 3]));
    }

    #[test]
    fn reordered_batches_are_sent_in_reverse_and_kept_in_order() {
        assert_eq!(four(r#"{"kind":"reorder","batches":3}"#), (vec![2, 1, 0, 3], vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_reversal_that_waits_in_vain_ends() {
        let mut line = Line::new(0);
        line.fault(0, &fault(r#"{"kind":"reorder","batches":3,"ms":5}"#));
        line.push(7, message(0));
        line.push(7, message(1));
        assert_eq!(poll(&mut line, 8).0, [0_u64; 0]);
        assert_eq!(line.next_deadline(), Some(5_008));
        assert_eq!(poll(&mut line, 5_008).0, [1, 0]);
        line.push(5_009, message(2));
        assert_eq!(poll(&mut line, 5_009).0, [2], "and nothing is reversed any more");
    }

    #[test]
    fn a_late_batch_keeps_those_behind_it_waiting() {
        let mut line = Line::new(10);
        line.fault(0, &fault(r#"{"kind":"delay","batches":1,"ms":1}"#));
        (0..2).for_each(|seq| line.push(0, message(seq)));
        assert_eq!((poll(&mut line, 1_009).0, line.next_deadline()), (vec![], Some(1_010)));
        assert_eq!(poll(&mut line, 1_010).0, [0, 1]);
        line.push(2_000, message(2));
        assert_eq!((poll(&mut line, 2_009).0, poll(&mut line, 2_010).0), (vec![], vec![2]), "the usual lag again");
    }

    #[test]
    fn a_pause_holds_everything_back_and_then_nothing() {
        let mut line = Line::new(0);
        line.fault(100, &fault(r#"{"kind":"pause","ms":1}"#));
        (0..2).for_each(|seq| line.push(150, message(seq)));
        assert_eq!((poll(&mut line, 1_099), line.next_deadline()), ((vec![], vec![]), Some(1_100)));
        assert_eq!(poll(&mut line, 1_100), (vec![0, 1], vec![0, 1]));
    }
}
