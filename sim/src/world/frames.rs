//! Frames on their way: queues that fill, losses, copies, damage, newer versions.
//!
//! Not here: the chances (`network`), connections (`links`).

use bytes::Bytes;
use covey_crdt::id::LifeId;
use covey_mesh::input::{Input, Link};
use covey_mesh::limits::WIRE_VERSION;
use covey_mesh::output::Class;

use super::World;
use super::event::{Event, Frame};
use crate::marks;
use crate::network::State;

/// Damaged frames shown to throw-away copies of nodes in one run: copies are dear.
pub(super) const COPIES_MAX: u32 = 30;
/// A wire version nobody speaks yet.
const NEWER_VERSION: u16 = WIRE_VERSION + 1;

impl World {
    pub(super) fn send(&mut self, from: usize, life: LifeId, to: LifeId, class: Class, bytes: Bytes) {
        self.outcome.frames += 1;
        self.outcome.bytes += bytes.len() as u64;
        let Some(slot) = self.linked_slot(from, to) else { return };
        self.count_quiet(from, slot, bytes.len());
        let (leaves_us, pause) = self.network.queue(from, slot, self.now_us, class, bytes.len());
        if pause {
            self.after(0, Event::Blocked { node: from, to: slot });
        }
        let Some(leaves_us) = leaves_us else { return self.mark(marks::QUEUE_FULL) };
        let bytes = if self.slots[from].newer { newer(&bytes) } else { bytes };
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.network.arrivals(from, slot, &mut arrivals);
        let connection = self.network.connection(from, slot);
        for arrival in arrivals.drain(..) {
            let (receiver, bytes) = (to, bytes.clone());
            let (state, sent_us) = (arrival.state, self.now_us);
            let frame = Frame { from, sender: life, to: slot, receiver, bytes, state, connection, sent_us };
            let at_us = self.now_us + leaves_us + arrival.delay_us;
            let at_us = if self.plan.driver.in_order { self.in_order(at_us, (from, slot, class)) } else { at_us };
            self.at(at_us, Event::Deliver(Box::new(frame)));
        }
        self.arrivals = arrivals;
    }

    /// Not before the frame sent last on the same stream.
    fn in_order(&mut self, at_us: u64, stream: (usize, usize, Class)) -> u64 {
        let last_us = self.streams.entry(stream).or_default();
        *last_us = at_us.max(*last_us + 1);
        *last_us
    }

    /// A frame reaches the life it was sent to, or nobody: the transport knows lives apart.
    pub(super) fn deliver(&mut self, frame: &Frame) {
        // An answer to what was asked while faults lasted is no heartbeat, and not what is measured.
        let late = self.measuring && frame.sent_us < self.plan.faults_ms * 1_000;
        if late || self.who[frame.to] != Some(frame.receiver) {
            return;
        }
        let same = self.network.is_up(frame.from, frame.to)
            && self.network.connection(frame.from, frame.to) == frame.connection;
        // Of two processes that run one life, none speaks on the other's connection.
        if !same && self.oracle.has_forked(frame.sender) {
            return;
        }
        match frame.state {
            State::Whole => {}
            State::Stale => {
                self.mark(if same { marks::STALE } else { marks::STALE_RECONNECTED });
            }
            State::Truncated => {
                self.mark(marks::TRUNCATED);
                let bytes = frame.bytes.slice(..self.network.spot(frame.bytes.len()));
                return self.handle(frame.to, Input::Received { from: frame.sender, bytes });
            }
            State::Flipped => return self.show_a_copy(frame),
        }
        match covey_mesh::frame_kind(&frame.bytes) {
            Some("Exchange") => self.gauges.heard(self.now_us, frame.to, frame.sender, frame.sent_us),
            Some("Summary") => self.gauges.told(self.now_us, frame.to, frame.sender, frame.sent_us),
            _ => {}
        }
        self.handle(frame.to, Input::Received { from: frame.sender, bytes: frame.bytes.clone() });
    }

    /// Flipped bits may still parse, and would then be a lie, which members do not tell: the frame is lost, as the
    /// transport would have it, and a copy of the node reads it, which must not panic.
    fn show_a_copy(&mut self, frame: &Frame) {
        self.mark(marks::FLIPPED);
        if self.copies_left == 0 {
            return;
        }
        self.copies_left -= 1;
        let mut bytes = frame.bytes.to_vec();
        for _ in 0..=self.network.spot(4) {
            let at = self.network.spot(bytes.len());
            bytes[at] ^= 1 << self.network.spot(8);
        }
        let (mono, wall) = (self.mono(frame.to), self.wall(frame.to));
        let Some(mut copy) = self.slots[frame.to].node.clone() else { return };
        copy.handle(mono, wall, Input::Received { from: frame.sender, bytes: Bytes::from(bytes) });
        while let Some(output) = copy.poll_output() {
            drop(output);
        }
    }

    pub(super) fn blocked(&mut self, node: usize, to: usize) {
        let Some(life) = self.who[to].filter(|_| self.network.is_up(node, to) && self.network.is_paused(node, to))
        else {
            return;
        };
        self.mark(marks::BLOCKED);
        self.handle(node, Input::Link(Link::Blocked(life)));
        self.writable(node, to);
    }

    /// Looks whether a paused sender may go on.
    pub(super) fn writable(&mut self, node: usize, to: usize) {
        let Some(life) = self.who[to].filter(|_| self.network.is_up(node, to) && self.network.is_paused(node, to))
        else {
            return;
        };
        match self.network.resume(node, to, self.now_us) {
            Ok(()) => {
                self.mark(marks::WRITABLE);
                self.handle(node, Input::Link(Link::Writable(life)));
            }
            Err(wait_us) => self.after(wait_us, Event::Writable { node, to }),
        }
    }
}

fn newer(frame: &Bytes) -> Bytes {
    let mut bytes = frame.to_vec();
    bytes[..2].copy_from_slice(&NEWER_VERSION.to_le_bytes());
    Bytes::from(bytes)
}
