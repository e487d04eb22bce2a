//! Everything that can happen to a node. Closed on purpose: this list is the protocol's contract.
//!
//! Not here: what the node does about it (`node`), sockets and clocks (`net`).

use std::sync::Arc;

use bytes::Bytes;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, LifeId, Token, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_crdt::stored::StoredOp;

use crate::feed::FeedReport;
use crate::summary::Effect;

/// Monotonic time since the node's host started, for timers. Never compared between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime {
    /// Microseconds.
    pub us: u64,
}

impl MonoTime {
    /// The time `ms` milliseconds after the start.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self { us: ms * 1_000 }
    }

    /// The time `ms` milliseconds later.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self { us: self.us.saturating_add(ms * 1_000) }
    }

    /// Whole milliseconds since `earlier`, 0 when that is later.
    #[must_use]
    pub const fn since_ms(self, earlier: Self) -> u64 {
        self.us.saturating_sub(earlier.us) / 1_000
    }
}

/// One thing that happens to a node.
#[derive(Clone, Debug)]
pub enum Input {
    /// The gateway this node is embedded in did or learned something.
    Local(Local),
    /// One frame arrived from a peer whose life the transport has authenticated.
    Received {
        /// The peer.
        from: LifeId,
        /// The frame, whole.
        bytes: Bytes,
    },
    /// A connection changed.
    Link(Link),
    /// The membership service says something about a life. It may be late, wrong or flapping.
    Member(Member),
    /// The deadline that [`Node::next_deadline`](crate::node::Node::next_deadline) named has passed.
    Elapsed,
}

/// What a gateway tells its node.
#[derive(Clone, Debug)]
pub enum Local {
    /// A worker accepted a prompt (or finished an answer): it now caches this chain, from the root.
    Place {
        /// Who accepted it.
        worker: WorkerId,
        /// The space of the hashes.
        keyspace: Arc<Keyspace>,
        /// The worker's incarnation when the request was routed; an older one places nothing.
        incarnation: Incarnation,
        /// Every block of the chain, from the root.
        chain: Arc<[BlockHash]>,
    },
    /// A worker answered a probe.
    Probed {
        /// Who answered.
        worker: WorkerId,
        /// The replicated incarnation when the probe was started (P12).
        started_at: Incarnation,
        /// The engine's token.
        token: Token,
        /// Its cache capacity in tokens, when it says one.
        capacity_tokens: Option<u64>,
    },
    /// The operator or discovery removed a worker.
    Removed {
        /// Which.
        worker: WorkerId,
    },
    /// The operator wants a worker's placements forgotten, whatever they are.
    Reset {
        /// Which.
        worker: WorkerId,
    },
    /// The operator wants everything forgotten that anybody holds of a worker, also what is still on its way: another life
    /// of its cache begins under the engine's own token. Where events are read they say again what it holds.
    Raise {
        /// Which.
        worker: WorkerId,
    },
    /// This gateway's load on a worker is now this.
    Load {
        /// Which.
        worker: WorkerId,
        /// How much.
        load: Load,
    },
    /// This gateway can read the worker's KV events, or cannot any more.
    Ingests {
        /// Which.
        worker: WorkerId,
        /// Whether it can.
        can: bool,
    },
    /// The own ingester made an op of a worker's feed.
    Ingested(Box<StoredOp>),
    /// How the own ingester stands.
    FeedReport {
        /// Of which worker.
        worker: WorkerId,
        /// What it says.
        report: FeedReport,
    },
    /// The own ingester wants the state of another ingester of the worker.
    AskHandOff {
        /// Which.
        worker: WorkerId,
    },
    /// The own ingester's state, for another gateway that asked.
    HandOff {
        /// Who asked.
        to: LifeId,
        /// Of which worker.
        worker: WorkerId,
        /// The state; `None`: there is none worth giving.
        state: Option<Bytes>,
    },
    /// What routing came to so far; peers are told, nothing is decided by it.
    Effect(Box<Effect>),
    /// The gateway is shutting down: tell the peers.
    Leave,
}

/// What one gateway has outstanding on one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// Requests sent and not ended.
    pub requests: u32,
    /// Prompt tokens sent, not predicted to be cached, whose first answer byte has not come yet.
    pub queued_tokens: u64,
}

/// What happens to the connection with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Frames can be sent to this life, and it has proved who it is.
    Up(LifeId),
    /// No frame can be sent any more.
    Down(LifeId),
    /// Its queue is full: what is sent now would be dropped.
    Blocked(LifeId),
    /// Its queue has room again.
    Writable(LifeId),
}

impl Link {
    /// The peer.
    #[must_use]
    pub const fn life(self) -> LifeId {
        match self {
            Self::Up(life) | Self::Down(life) | Self::Blocked(life) | Self::Writable(life) => life,
        }
    }
}

/// What the membership service says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The life is a live member.
    Up(LifeId),
    /// The life is suspected dead.
    Down(LifeId),
}
