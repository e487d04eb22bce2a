//! What a node observes about itself, as values. Hosts turn them into metric names and log lines in one place each;
//! tests assert on the values.
//!
//! Not here: names of metrics.

use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use serde::{Deserialize, Serialize};

use crate::output::Class;

/// Why a peer was refused. State is untouched; the peer is told, and may come back when it is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It belongs to another cluster.
    Cluster {
        /// Whose name it gives.
        theirs: String,
    },
    /// Its byte keyspace has another block size: coverage would never match (hazard 14).
    BlockBytes {
        /// Its block size.
        theirs: u32,
    },
    /// Another live gateway has its name.
    NameTaken {
        /// The name.
        name: GatewayName,
        /// The life that holds it.
        holder: LifeId,
    },
    /// The mesh already knows as many lives as it can.
    LivesFull {
        /// How many.
        lives: usize,
    },
}

/// Why local ops are not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drop {
    /// This gateway's clock is ahead of the mesh (P11).
    Clock,
    /// The op speaks of an incarnation that is over.
    Incarnation,
    /// A bound was reached (workers, keyspaces, blocks, ops waiting while joining).
    Bound,
    /// The worker was never seen or has been removed.
    UnknownWorker,
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A peer's op was applied, this long after its stamp by the local wall clock.
    Applied {
        /// Milliseconds, 0 when the stamp is ahead of the local clock.
        delay_ms: u64,
    },
    /// Ops arrived that were already applied.
    Duplicate {
        /// How many.
        ops: u32,
    },
    /// A local op was dropped.
    Dropped {
        /// Why.
        why: Drop,
    },
    /// A peer was refused.
    Refused {
        /// Which life.
        peer: LifeId,
        /// Its name.
        name: GatewayName,
        /// Why.
        why: Refusal,
    },
    /// A peer refused this gateway.
    RefusedBy {
        /// Which life.
        peer: LifeId,
        /// The reason as it words it.
        why: String,
    },
    /// A frame did not parse, or broke a bound.
    Malformed {
        /// From whom.
        peer: LifeId,
        /// On which byte, when known.
        offset: usize,
    },
    /// A frame was in a newer wire version.
    NewerVersion {
        /// From whom.
        peer: LifeId,
        /// Its version.
        got: u16,
    },
    /// Ops of a life nobody admitted were refused.
    UnknownLife {
        /// Which.
        life: LifeId,
    },
    /// Two different logs go by one life's name.
    Fork {
        /// The life.
        life: LifeId,
        /// Who told.
        peer: LifeId,
    },
    /// An op of a feed was applied that this gateway did not make, or not first.
    FeedApplied {
        /// How many hashes it carried.
        hashes: u32,
    },
    /// A feed began a new generation: an engine's events were lost, or its ingesters were.
    Generation {
        /// Of which worker.
        worker: WorkerId,
    },
    /// Two states stand under one key of a feed: a mistake in an ingester. The publisher opens a generation.
    FeedForked {
        /// Of which worker.
        worker: WorkerId,
        /// Who told.
        peer: LifeId,
    },
    /// The standby published what the publisher did not.
    TakenOver {
        /// Of which worker.
        worker: WorkerId,
    },
    /// An op of a feed was dropped: nothing can be made of it.
    FeedDropped,
    /// A feed's ops were asked of a peer.
    FeedPulled {
        /// How many feeds.
        feeds: u32,
    },
    /// A feed's whole state came from a peer.
    FeedFetched {
        /// Of which worker.
        worker: WorkerId,
        /// How many bytes.
        bytes: u64,
    },
    /// A pull was asked of a peer.
    Pulled {
        /// How many logs.
        logs: u32,
    },
    /// Chain content named by an op was missing and asked for.
    Wanted,
    /// A repair session started.
    RepairStarted {
        /// The donor.
        donor: LifeId,
        /// Why.
        why: RepairWhy,
    },
    /// A repair session ended with all pieces in.
    RepairDone {
        /// The donor.
        donor: LifeId,
        /// What it took.
        cost: RepairCost,
    },
    /// A donor does not serve this gateway now: too many receivers, or its budget is spent. Another is asked, or it again.
    RepairRefused {
        /// The donor.
        donor: LifeId,
        /// After how many milliseconds it may be asked again.
        retry_after_ms: u64,
    },
    /// A repair session was given up; what was merged stays, and the replica stays dirty until it catches up.
    RepairAborted {
        /// The donor.
        donor: LifeId,
        /// Why.
        why: AbortWhy,
    },
    /// Equal clean vectors, different digests: corruption or a bug. Must never happen; repaired all the same.
    DigestMismatch {
        /// With whom.
        peer: LifeId,
    },
    /// Effects of ops that were lost with their writers were published again (P6).
    Restated {
        /// Whose ops were lost.
        lives: u32,
    },
    /// A life is closed here: it left, its name goes on under a newer one, or nobody heard of it for the horizon (P7).
    Closing {
        /// Which.
        life: LifeId,
    },
    /// A life is retired: its log and vector entry are gone.
    Retired {
        /// Which.
        life: LifeId,
    },
    /// Retired lives are not remembered any more.
    Forgot {
        /// How many.
        lives: u32,
    },
    /// The node found itself alone and founded the mesh, or was the smallest of several joiners.
    Founded,
    /// The replica describes its vector exactly from now on.
    Clean,
    /// It no longer does.
    Dirty,
    /// The local clock left or re-entered the mesh's.
    Clock {
        /// Where it stands.
        state: ClockState,
        /// Milliseconds ahead of the median (negative: behind).
        ahead_ms: i64,
    },
    /// A worker's token keeps changing: two engines behind one URL. It is not believed.
    TokenFlaps {
        /// Which worker.
        worker: WorkerId,
    },
    /// Frames sent, for traffic accounting.
    Sent {
        /// Their class.
        class: Class,
        /// Their bytes.
        bytes: u32,
    },
}

/// What a repair session took, at its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairCost {
    /// Questions asked: round trips, when none was lost.
    pub asks: u32,
    /// Parts of answers merged.
    pub pieces: u32,
    /// Bytes that tell what differs, both ways: windows, outlines, questions about holders.
    pub summary_bytes: u64,
    /// Bytes of slices, and of the vectors that come with them.
    pub slice_bytes: u64,
    /// Bytes of chain content.
    pub content_bytes: u64,
    /// Segments sent.
    pub segments: u64,
    /// Those of them that changed something here.
    pub segments_new: u64,
    /// Answers of a donor that was dirty itself (P5).
    pub dirty_pieces: u32,
}

/// Why a repair session starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepairWhy {
    /// A newcomer has nothing yet.
    Bootstrap,
    /// No log reaches back far enough.
    Trimmed,
    /// Digests differ at equal clean vectors, or a gone life's log has two branches.
    Mismatch,
    /// An op could not be resolved for 1 s.
    Unresolved,
}

/// Why a repair session is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AbortWhy {
    /// The donor fell silent.
    Timeout,
    /// The connection went.
    LinkDown,
    /// The donor refused (joining, or busy).
    Refused,
    /// A piece carried stamps beyond the local clock's tolerance (rule c).
    FutureStamp,
    /// A piece did not parse or did not resolve.
    Malformed,
    /// The donor counts more of a life than it was retired with.
    Outlived,
}

/// Where the local clock stands against the live members' median (P11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockState {
    /// Within tolerance, or nobody to compare with.
    #[default]
    Good,
    /// Ahead: nothing of this gateway's own is published or applied.
    Ahead,
    /// Behind: labelled, not silent.
    Behind,
}

impl ClockState {
    /// The word for it in status lines and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Ahead => "ahead",
            Self::Behind => "behind",
        }
    }
}
