//! The things that are done to a cluster at a moment.
//!
//! Not here: how (`world`), when (`draw`).

use serde::{Deserialize, Serialize};

/// Which frames a partition swallows. Nodes are bits of a mask, or numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Cut {
    /// Between nodes whose bit in the mask differs.
    Split {
        /// One side.
        side: u64,
    },
    /// Between this node and everybody.
    Isolate {
        /// Which.
        node: usize,
    },
    /// From the first node to the second, not back.
    OneWay {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
    /// Between two nodes, both ways: what they both reach still connects them.
    Pair {
        /// One.
        one: usize,
        /// The other.
        other: usize,
    },
    /// From everybody to this node.
    Deaf {
        /// Which.
        node: usize,
    },
    /// From this node to everybody.
    Mute {
        /// Which.
        node: usize,
    },
}

impl Cut {
    /// Whether it swallows frames from one node to another.
    #[must_use]
    pub const fn swallows(self, from: usize, to: usize) -> bool {
        match self {
            Self::Split { side } => side >> from & 1 != side >> to & 1,
            Self::Isolate { node } => from == node || to == node,
            Self::OneWay { from: one, to: other } => one == from && other == to,
            Self::Pair { one, other } => (one == from && other == to) || (one == to && other == from),
            Self::Deaf { node } => to == node,
            Self::Mute { node } => from == node,
        }
    }
}

/// A thing done to the cluster at a moment. Everything is undone when faults end at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// A partition begins, and ends by itself.
    Cut {
        /// Which.
        cut: Cut,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// A partition comes and goes.
    Flap {
        /// Which.
        cut: Cut,
        /// There for this long, in milliseconds.
        on_ms: u64,
        /// Gone for this long, in milliseconds.
        off_ms: u64,
        /// For how long in all, in milliseconds.
        for_ms: u64,
    },
    /// Some nodes' links stop one node after the other, and heal in another order.
    Swizzle {
        /// The nodes, as bits.
        nodes: u64,
        /// From one to the next, in milliseconds.
        step_ms: u64,
    },
    /// All partitions end.
    Heal,
    /// A node stops without a word.
    Crash {
        /// Which.
        node: usize,
    },
    /// A stopped node comes back empty, under a new life.
    Restart {
        /// Which.
        node: usize,
    },
    /// A node leaves gracefully.
    Leave {
        /// Which.
        node: usize,
    },
    /// A node does nothing for a while, and goes on with all its state: frames wait for it, or are lost.
    Pause {
        /// Which.
        node: usize,
        /// For how long, in milliseconds.
        for_ms: u64,
        /// Whether frames are lost.
        drops: bool,
    },
    /// Every node restarts, one after the other.
    Roll {
        /// From one to the next, in milliseconds.
        gap_ms: u64,
        /// Each is away for this long, in milliseconds.
        down_ms: u64,
        /// Whether they say goodbye.
        leave: bool,
    },
    /// A node restarts without state, but under the life it had.
    Reuse {
        /// Which.
        node: usize,
    },
    /// A node's state is saved, and put back later: everything since is undone (a machine rolled back).
    Rollback {
        /// Which.
        node: usize,
        /// How much later, in milliseconds.
        after_ms: u64,
    },
    /// A node restarts with another one's name (its configuration was copied).
    Namesake {
        /// Which.
        node: usize,
        /// Whose name.
        of: usize,
    },
    /// A node is replaced by an exact copy of another, life and state included (a machine was cloned).
    Twin {
        /// Which.
        node: usize,
        /// Of whom.
        of: usize,
    },
    /// A node's frames are in a newer wire version for a while.
    Newer {
        /// Which.
        node: usize,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// A node's wall clock jumps.
    Step {
        /// Which.
        node: usize,
        /// How far, in milliseconds.
        ms: i64,
    },
    /// A node's wall clock stands still for a while.
    Freeze {
        /// Which.
        node: usize,
        /// For how long, in milliseconds.
        for_ms: u64,
        /// Whether it jumps to where it should be afterwards.
        catches_up: bool,
    },
    /// The membership service wrongly suspects a node at another for a while.
    Suspect {
        /// At whom.
        node: usize,
        /// Who is suspected.
        of: usize,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// The membership service keeps changing its mind about a node.
    MemberFlap {
        /// Who is doubted, at everybody.
        node: usize,
        /// From one change to the next, in milliseconds.
        every_ms: u64,
        /// For how long in all, in milliseconds.
        for_ms: u64,
    },
    /// The membership service says at every node that a life which is gone is alive.
    Ghost {
        /// The last life that this node has ended.
        node: usize,
    },
    /// A worker's engine restarts: a new token.
    WorkerRestart {
        /// Which.
        worker: usize,
    },
    /// A node's subscription to a worker's events breaks.
    Unsubscribe {
        /// Whose.
        node: usize,
        /// To which worker.
        worker: usize,
    },
    /// A worker's engine restarts with a token that an earlier life of it had.
    WorkerOldToken {
        /// Which.
        worker: usize,
        /// Which life's, 0 for the first.
        life: u64,
    },
    /// Two engines answer behind one worker's address for a while.
    WorkerFlap {
        /// Which.
        worker: usize,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// Discovery removes a worker, and finds it again.
    Remove {
        /// Which.
        worker: usize,
        /// Away for this long, in milliseconds.
        for_ms: u64,
    },
    /// A worker's engine says another capacity from now on.
    Capacity {
        /// Which.
        worker: usize,
        /// How many tokens; more than before must change nothing before the engine restarts.
        tokens: u64,
    },
    /// A worker's placements are reset by a node's operator.
    Reset {
        /// The node.
        node: usize,
        /// The worker.
        worker: usize,
    },
    /// A node's operator has everything forgotten that is held of a worker, whose engine lives on.
    Raise {
        /// The node.
        node: usize,
        /// The worker.
        worker: usize,
    },
}

impl Fault {
    /// Whether it may make some life's log fork.
    #[must_use]
    pub const fn forks(self) -> bool {
        matches!(self, Self::Reuse { .. } | Self::Rollback { .. } | Self::Twin { .. })
    }
}

/// A fault and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Virtual milliseconds after the start.
    pub at_ms: u64,
    /// What happens.
    pub fault: Fault,
}
