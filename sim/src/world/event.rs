//! What can happen in the simulated world at a moment.
//!
//! Not here: what comes of it (`world`).

use bytes::Bytes;
use covey_crdt::id::{Incarnation, LifeId, Token};
use covey_mesh::input::Member;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::streams::{Doing, FeedEvent};
use crate::network::State;
use crate::plan::Cut;

/// One frame under way.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) from: usize,
    pub(super) sender: LifeId,
    pub(super) to: usize,
    pub(super) receiver: LifeId,
    pub(super) bytes: Bytes,
    pub(super) state: State,
    /// Which connection of the two it was sent on.
    pub(super) connection: u32,
    /// When, in virtual microseconds.
    pub(super) sent_us: u64,
}

/// A probe's answer under way.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) node: usize,
    pub(super) life: LifeId,
    pub(super) worker: usize,
    pub(super) started_at: Incarnation,
    pub(super) token: Token,
    pub(super) capacity_tokens: u64,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Deliver(Box<Frame>),
    Timer {
        node: usize,
    },
    Start {
        node: usize,
    },
    Dial {
        one: usize,
        other: usize,
    },
    /// A handshake begun between these two lives is through.
    Shaken {
        one: usize,
        other: usize,
        a: LifeId,
        b: LifeId,
    },
    /// The connection is found dead if the two still do not reach each other.
    LinkDead {
        one: usize,
        other: usize,
    },
    PeerGone {
        node: usize,
        life: LifeId,
    },
    Member {
        node: usize,
        member: Member,
    },
    /// The membership service notices that a life is gone, if it is.
    Missed {
        node: usize,
        life: LifeId,
    },
    Fault {
        nth: usize,
    },
    /// What a fault that has begun does next. Nothing once faults are over.
    Next(Next),
    /// A sender is told to pause, or whether it may go on is looked at.
    Blocked {
        node: usize,
        to: usize,
    },
    Writable {
        node: usize,
        to: usize,
    },
    /// A node that stays slow for good stops again, or goes on.
    Stall {
        broken: usize,
    },
    Resume {
        node: usize,
    },
    Request,
    /// An engine's scheduler steps.
    Engine {
        worker: usize,
    },
    /// Something reaches an intake.
    Feed(Box<FeedEvent>),
    Probe {
        node: usize,
    },
    Answer(Box<Answer>),
    Load {
        node: usize,
    },
    Check {
        heavy: bool,
    },
    Calm,
}

/// How a fault goes on.
#[derive(Clone, Debug)]
pub(super) enum Next {
    Cut { cut: Cut, for_ms: u64 },
    CutEnds { cut: u64 },
    Flap { cut: Cut, on_ms: u64, off_ms: u64, until_us: u64 },
    Stop { node: usize, leave: bool },
    Start { node: usize },
    Stall { nth: usize },
    Restore { node: usize },
    ClockRuns { node: usize, catches_up: bool },
    OldVersion { node: usize },
    MemberFlap { node: usize, up: bool, every_ms: u64, until_us: u64 },
    OneEngine { worker: usize },
    Removed { node: usize, worker: usize },
    Returned { worker: usize },
}

impl Event {
    /// The rolling hash after this event.
    pub(super) fn trace(&self, now_us: u64, before: u64) -> u64 {
        let mix = |word: u64| (before ^ now_us).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ word;
        match self {
            Self::Deliver(frame) => {
                let ends = (frame.from as u64) << 32 | (frame.to as u64) << 8 | frame.state as u64;
                xxh3_64_with_seed(&frame.bytes, mix(ends))
            }
            Self::Timer { node } => mix(*node as u64),
            Self::Answer(answer) => mix((answer.node as u64) << 32 | answer.worker as u64 | 1 << 63),
            Self::Request => mix(1 << 62),
            Self::Engine { worker } => mix(*worker as u64 | 1 << 61),
            Self::Feed(feed) => {
                let kind = match &feed.doing {
                    Doing::Connect => 0,
                    Doing::Message(batch) => 1 | batch.seq << 3,
                    Doing::Replayed { batch, .. } => 2 | batch.seq << 3,
                    Doing::ReplayEnded { .. } => 3,
                    Doing::Lost => 4,
                    Doing::Timer => 5,
                    Doing::Report => 6,
                };
                mix((feed.node as u64) << 40 | (feed.worker as u64) << 32 | kind | 1 << 60)
            }
            Self::Start { .. }
            | Self::Dial { .. }
            | Self::Shaken { .. }
            | Self::LinkDead { .. }
            | Self::PeerGone { .. }
            | Self::Member { .. }
            | Self::Missed { .. }
            | Self::Fault { .. }
            | Self::Next(_)
            | Self::Blocked { .. }
            | Self::Writable { .. }
            | Self::Stall { .. }
            | Self::Resume { .. }
            | Self::Probe { .. }
            | Self::Load { .. }
            | Self::Check { .. }
            | Self::Calm => xxh3_64_with_seed(format!("{self:?}").as_bytes(), mix(0)),
        }
    }
}
