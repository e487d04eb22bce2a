//! Everything a node may ask of the world.
//!
//! Not here: how it is done (`net`, or the simulator).

use bytes::Bytes;
use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};

use crate::feed::Role;
use crate::input::Load;
use crate::note::Note;

/// Which stream a frame belongs on. Frames of one class and peer stay in order; classes overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Fresh ops and load registers: latency matters.
    Push,
    /// Vectors, pulls and their answers.
    Control,
    /// Whole-state pieces: bulk, lowest priority.
    Repair,
}

impl Class {
    /// Every class, in order of priority.
    pub const ALL: [Self; 3] = [Self::Push, Self::Control, Self::Repair];

    /// The word for it in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Control => "control",
            Self::Repair => "repair",
        }
    }
}

/// Why a life must end. The host makes a new node under a fresh life; the replica is not carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rebirth {
    /// The clock stepped back behind the stamps already seen (rule d, ruling R8).
    ClockStepped,
    /// A peer knows more of this life's log than this node wrote, or other ops: the identity is used twice.
    Forked,
    /// Two meshes that were founded apart met after one had forgotten lives, and this node is on the smaller side.
    Apart,
    /// The mesh closed or retired this life while it was away, or retired another with fewer ops than are applied here.
    Retired,
}

/// What a node wants of whoever reads engines' events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedOrder {
    /// What this gateway is for the worker's feed from now on.
    Role {
        /// Which worker.
        worker: WorkerId,
        /// What.
        role: Role,
    },
    /// A peer wants the ingester's state: answer with [`Local::HandOff`](crate::input::Local::HandOff).
    Export {
        /// Who wants it.
        to: LifeId,
        /// Of which worker.
        worker: WorkerId,
    },
    /// The state of another ingester that was asked for; `None`: nobody has one.
    HandedOff {
        /// Of which worker.
        worker: WorkerId,
        /// The state.
        state: Option<Bytes>,
    },
    /// The ingester's ops lead nowhere any more (too many waited, or another state stands under the same key): it has to
    /// open a generation.
    Restart {
        /// Of which worker.
        worker: WorkerId,
    },
}

/// One thing a node asks for.
#[must_use = "a dropped output is a lost message"]
#[derive(Clone, Debug)]
pub enum Output {
    /// Send one frame. It may be lost, doubled, delayed or overtaken; the protocol copes.
    Send {
        /// To whom.
        to: LifeId,
        /// On which stream.
        class: Class,
        /// The frame.
        bytes: Bytes,
    },
    /// Close the connection: the peer broke the protocol or was refused. It may be dialled again later.
    Close {
        /// Whose.
        peer: LifeId,
    },
    /// The replica changed; the read index applies it.
    Changed(Change),
    /// A gateway's load on a worker, as far as this node knows.
    Load {
        /// Whose.
        life: LifeId,
        /// On what.
        worker: WorkerId,
        /// How much; `None` when that gateway is not live: what it had there is not known any more.
        load: Option<Load>,
    },
    /// Something about reading a worker's events.
    Feed(FeedOrder),
    /// Something worth counting or logging.
    Note(Note),
    /// This life is over.
    Reborn(Rebirth),
}
