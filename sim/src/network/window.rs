//! Send queues of one node towards its peers, one a class: what fits, what waits, when the node is told to pause.
//!
//! As the driver does it: a frame that does not fit is dropped, the node is told `Blocked` when its push queue is three
//! quarters full and `Writable` when it has drained to one quarter. A frame larger than the whole queue passes when the
//! queue is empty, as it would through a stream.
//!
//! Not here: which nodes are squeezed (`plan`), what is told to whom (`world`).

use covey_mesh::output::Class;

/// One class's queue towards one peer.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    bytes: u64,
    at_us: u64,
}

/// The three queues of one link's sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queues {
    queues: [Queue; 3],
    paused: bool,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// It leaves this much later, in microseconds.
    Leaves(u64),
    /// There was no room.
    Dropped,
}

/// How large the queues are and how fast they drain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) bytes_per_s: u64,
}

impl Size {
    const fn drain_us(self, bytes: u64) -> u64 {
        bytes * 1_000_000 / self.bytes_per_s
    }
}

impl Queue {
    fn drain(&mut self, size: Size, now_us: u64) {
        let gone = u128::from(now_us - self.at_us) * u128::from(size.bytes_per_s) / 1_000_000;
        if gone > 0 {
            self.bytes = self.bytes.saturating_sub(u64::try_from(gone).unwrap_or(u64::MAX));
            self.at_us = now_us;
        }
    }
}

impl Queues {
    /// Queues a frame. The second answer says that the node must be told to pause from now on.
    pub(super) fn push(&mut self, size: Size, now_us: u64, class: Class, bytes: u64) -> (Queued, bool) {
        let queue = &mut self.queues[class as usize];
        queue.drain(size, now_us);
        let fits = queue.bytes == 0 || queue.bytes + bytes <= size.bytes;
        let full = !fits || queue.bytes + bytes > size.bytes / 4 * 3;
        let pause = class == Class::Push && full && !self.paused;
        self.paused |= pause;
        if !fits {
            return (Queued::Dropped, pause);
        }
        queue.bytes += bytes;
        (Queued::Leaves(size.drain_us(queue.bytes)), pause)
    }

    /// Whether the node may go on; else in how many microseconds to look again.
    pub(super) fn resume(&mut self, size: Size, now_us: u64) -> Result<(), u64> {
        let queue = &mut self.queues[Class::Push as usize];
        queue.drain(size, now_us);
        let most = size.bytes / 4;
        if queue.bytes <= most {
            self.paused = false;
            return Ok(());
        }
        Err(size.drain_us(queue.bytes - most) + 1)
    }

    pub(super) const fn paused(&self) -> bool {
        self.paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { bytes: 1_000, bytes_per_s: 1_000_000 };

    #[test]
    fn a_full_queue_drops_and_pauses_pushes_only_and_drains_with_time() {
        let mut queues = Queues::default();
        assert_eq!(queues.push(SIZE, 0, Class::Push, 700), (Queued::Leaves(700), false));
        assert_eq!(queues.push(SIZE, 0, Class::Push, 200), (Queued::Leaves(900), true));
        assert_eq!(queues.push(SIZE, 0, Class::Push, 200), (Queued::Dropped, false));
        assert_eq!(queues.push(SIZE, 0, Class::Control, 900), (Queued::Leaves(900), false));
        assert_eq!(queues.push(SIZE, 0, Class::Control, 900), (Queued::Dropped, false));
        assert_eq!(queues.resume(SIZE, 0), Err(651));
        assert_eq!(queues.resume(SIZE, 651), Ok(()));
        assert!(!queues.paused());
        assert_eq!(queues.push(SIZE, 900, Class::Push, 500), (Queued::Leaves(500), false));
    }

    #[test]
    fn a_frame_larger_than_the_queue_passes_when_it_is_empty() {
        let mut queues = Queues::default();
        assert_eq!(queues.push(SIZE, 0, Class::Repair, 5_000), (Queued::Leaves(5_000), false));
        assert_eq!(queues.push(SIZE, 10, Class::Repair, 1), (Queued::Dropped, false));
    }
}
