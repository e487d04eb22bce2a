//! The bounded queue of frames waiting for one stream of one peer.
//!
//! Not here: writing them (`peer`), what to do when it is full (the node decides; it is told). Upholds I9.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::output::Class;

/// What happened to a frame.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It waits for its turn.
    Queued,
    /// It waits, and the queue has just become so full that the sender should pause.
    QueuedLast,
    /// There was no room; it is gone.
    Dropped,
}

/// What the writer finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Popped {
    /// Frames in order; empty only when the queue is closed and drained.
    pub(super) frames: Vec<Bytes>,
    /// The sender was told to pause and may go on.
    pub(super) writable: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    paused: bool,
    closed: bool,
    drained: bool,
}

/// Frames waiting for one stream.
#[derive(Debug)]
pub(super) struct SendQueue {
    waiting: Mutex<Waiting>,
    ready: Notify,
    bytes_max: usize,
}

/// Counted for every frame beside its bytes, so that many tiny frames are bounded too.
const FRAME_OVERHEAD_BYTES: usize = 64;
/// Bytes written in one go, so that a slow stream holds little outside the queue.
const BATCH_BYTES: usize = 64 * 1024;

impl SendQueue {
    /// Bytes that may wait for one class's stream: with the send window, under 4 MiB a peer.
    const fn bytes_max(class: Class) -> usize {
        match class {
            Class::Push => 1 << 20,
            Class::Control => 768 << 10,
            Class::Repair => 1 << 20,
        }
    }

    pub(super) fn new(class: Class) -> Self {
        Self { waiting: Mutex::default(), ready: Notify::new(), bytes_max: Self::bytes_max(class) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame if there is room.
    pub(super) fn push(&self, frame: Bytes) -> Pushed {
        let mut waiting = self.lock();
        let bytes = frame.len() + FRAME_OVERHEAD_BYTES;
        if waiting.closed {
            return Pushed::Dropped;
        }
        let fits = waiting.bytes + bytes <= self.bytes_max;
        let pause = !waiting.paused && (!fits || waiting.bytes + bytes > self.bytes_max / 4 * 3);
        waiting.paused |= pause;
        if fits {
            waiting.bytes += bytes;
            waiting.frames.push_back(frame);
            self.ready.notify_one();
        }
        match (fits, pause) {
            (false, _) => Pushed::Dropped,
            (true, true) => Pushed::QueuedLast,
            (true, false) => Pushed::Queued,
        }
    }

    /// Waits for frames and takes a batch of them. Cancel-safe.
    pub(super) async fn pop(&self) -> Popped {
        loop {
            if let Some(popped) = self.try_pop() {
                return popped;
            }
            self.ready.notified().await;
        }
    }

    fn try_pop(&self) -> Option<Popped> {
        let mut waiting = self.lock();
        let mut frames = Vec::new();
        let mut taken = 0;
        while taken < BATCH_BYTES
            && let Some(frame) = waiting.frames.pop_front()
        {
            taken += frame.len() + FRAME_OVERHEAD_BYTES;
            frames.push(frame);
        }
        waiting.bytes -= taken;
        let writable = waiting.paused && waiting.bytes <= self.bytes_max / 4;
        waiting.paused &= !writable;
        (!frames.is_empty() || waiting.closed).then_some(Popped { frames, writable })
    }

    /// No frame is taken any more; the writer ends its stream once the rest is written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
    }

    /// The peer has everything.
    pub(super) fn set_drained(&self) {
        self.lock().drained = true;
    }

    pub(super) fn is_drained(&self) -> bool {
        self.lock().drained
    }

    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes])
    }

    #[test]
    fn a_full_queue_drops_says_so_once_and_recovers() {
        let queue = SendQueue::new(Class::Push);
        let mut outcomes = Vec::new();
        for _ in 0..40 {
            outcomes.push(queue.push(frame(64 << 10)));
        }
        assert_eq!(outcomes.iter().filter(|o| **o == Pushed::QueuedLast).count(), 1);
        assert!(outcomes.contains(&Pushed::Dropped));
        assert!(queue.bytes() <= SendQueue::bytes_max(Class::Push));
        let mut writable = 0;
        while queue.bytes() > 0 {
            writable += usize::from(queue.try_pop().expect("frames wait").writable);
        }
        assert_eq!(writable, 1);
        assert_eq!(queue.push(frame(1)), Pushed::Queued);
    }

    #[test]
    fn a_frame_that_alone_does_not_fit_pauses_and_is_let_go_again() {
        let queue = SendQueue::new(Class::Push);
        assert_eq!(queue.push(frame(10)), Pushed::Queued);
        assert_eq!(queue.push(frame(2 << 20)), Pushed::Dropped);
        assert!(queue.try_pop().expect("one waits").writable);
    }

    #[test]
    fn tiny_frames_are_bounded_too() {
        let queue = SendQueue::new(Class::Control);
        let queued = (0..1_000_000).take_while(|_| queue.push(frame(0)) != Pushed::Dropped).count();
        assert!(queued <= SendQueue::bytes_max(Class::Control) / FRAME_OVERHEAD_BYTES);
    }

    #[test]
    fn a_closed_queue_drains_and_then_ends() {
        let queue = SendQueue::new(Class::Push);
        assert_eq!(queue.push(frame(1)), Pushed::Queued);
        queue.close();
        assert_eq!(queue.push(frame(1)), Pushed::Dropped);
        assert_eq!(queue.try_pop().expect("the rest").frames.len(), 1);
        assert!(queue.try_pop().expect("the end").frames.is_empty());
    }
}
