//! The links of one life: at most one per peer life, both sides agreeing which.
//!
//! Not here: the tasks on a link (`peer`), what the node makes of it. Everything here runs on the loop.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use covey_crdt::id::LifeId;
use tokio::sync::oneshot;
use tracing::info;

use super::context::{Context, Event, LinkId};
use super::link::Link;
use super::metrics::{LinkFailure, LinkSnapshot};
use super::queue::Pushed;
use super::transport::CloseCode;
use crate::input::{Input, Link as LinkInput, MonoTime};
use crate::output::Class;

/// Links at once: more lives than a replica admits.
const LINKS_MAX: usize = 300;

/// The links of one life, and the inputs they caused that the node has not seen yet.
pub(super) struct Links {
    context: Arc<Context>,
    links: BTreeMap<LifeId, Link>,
    inputs: VecDeque<Input>,
}

impl Links {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, links: BTreeMap::new(), inputs: VecDeque::new() }
    }

    /// The next input for the node. To be asked until there is none, after everything that happens.
    pub(super) fn poll_input(&mut self) -> Option<Input> {
        self.inputs.pop_front()
    }

    /// Takes what a connection task tells.
    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Established { link, verdict } => self.on_established(*link, verdict),
            Event::Frame { link, from, bytes } => {
                if self.is_current(from, link) {
                    self.inputs.push_back(Input::Received { from, bytes });
                }
            }
            Event::Writable { link, to } => {
                if self.is_current(to, link) {
                    self.inputs.push_back(Input::Link(LinkInput::Writable(to)));
                }
            }
            Event::Closed { link, life, why, refused } => {
                if self.is_current(life, link) {
                    self.remove(life, why, refused);
                }
            }
        }
    }

    fn is_current(&self, life: LifeId, id: LinkId) -> bool {
        self.links.get(&life).is_some_and(|link| link.id == id)
    }

    fn on_established(&mut self, link: Link, verdict: oneshot::Sender<bool>) {
        let life = link.peer.life;
        let better = self.links.get(&life).is_some_and(|old| !old.is_over() && !link.beats(old));
        if better || (self.links.len() >= LINKS_MAX && !self.links.contains_key(&life)) {
            link.close(if better { CloseCode::Duplicate } else { CloseCode::Refused }, b"");
            return;
        }
        if let Some(old) = self.remove(life, LinkFailure::Duplicate, false) {
            old.close(CloseCode::Duplicate, b"");
        }
        let (now, addresses) = (self.context.now(), [link.remote(), link.advertised]);
        self.context.plan().linked(life, link.dialer, &addresses, now);
        info!(peer = %link.peer.name, %life, address = %link.remote(), "link up");
        // The task is waiting for this; when it is gone, its end is noticed at the next tick.
        let _ = verdict.send(true);
        self.links.insert(life, link);
        self.inputs.push_back(Input::Link(LinkInput::Up(life)));
    }

    fn remove(&mut self, life: LifeId, why: LinkFailure, refused: bool) -> Option<Link> {
        let link = self.links.remove(&life)?;
        info!(peer = %link.peer.name, %life, address = %link.remote(), why = why.name(), "link down");
        self.context.plan().unlinked(life, refused, self.context.now());
        self.context.replan.notify_one();
        self.inputs.push_back(Input::Link(LinkInput::Down(life)));
        Some(link)
    }

    /// Queues one frame, or drops and counts it.
    pub(super) fn send(&mut self, to: LifeId, class: Class, frame: Bytes) {
        let Some(link) = self.links.get(&to) else {
            self.context.counters().frames_dropped.add(class, 1);
            return;
        };
        match link.send(class, frame) {
            Pushed::Queued => {}
            Pushed::QueuedLast if class == Class::Push => {
                self.inputs.push_back(Input::Link(LinkInput::Blocked(to)));
            }
            Pushed::QueuedLast => {}
            Pushed::Dropped => self.context.counters().frames_dropped.add(class, 1),
        }
    }

    /// The node wants nothing more to do with a peer: what is queued for it (a refusal, say) still goes out.
    pub(super) fn close(&mut self, peer: LifeId) {
        if let Some(link) = self.remove(peer, LinkFailure::Closed, true) {
            link.close_after_flush(&self.context, CloseCode::Refused);
        }
    }

    /// Finds links whose task died without a word, and samples round trips.
    pub(super) fn tick(&mut self, now: MonoTime) -> Vec<LinkSnapshot> {
        let over: Vec<LifeId> =
            self.links.iter().filter(|(_, link)| link.task.is_finished()).map(|(life, _)| *life).collect();
        for life in over {
            if let Some(link) = self.remove(life, LinkFailure::Closed, false) {
                link.close(CloseCode::Protocol, b"");
            }
        }
        let snapshots: Vec<LinkSnapshot> = self.links.values().map(|link| link.snapshot(now)).collect();
        for snapshot in &snapshots {
            self.context.counters().quic_rtt_us.record(snapshot.rtt_us);
        }
        snapshots
    }

    /// No frame is queued any more; what is waiting goes out.
    pub(super) fn close_queues(&self) {
        for link in self.links.values() {
            link.queues.close();
        }
    }

    /// Whether every peer has everything, or will never have it.
    pub(super) fn are_drained(&self) -> bool {
        self.links.values().all(|link| link.is_over() || link.queues.are_drained())
    }
}
