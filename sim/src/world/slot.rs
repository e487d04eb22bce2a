//! One place where a gateway runs: its node, clocks, configuration, and what its host remembers.
//!
//! Not here: what happens to it (`lives`, `links`, `faults`).

use std::collections::{BTreeMap, VecDeque};

use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use covey_mesh::input::{Input, Load, MonoTime};
use covey_mesh::node::Node;
use covey_mesh::note::ClockState;

use super::clock::Clock;
use crate::invariants::{Lookups, Marks};

/// Frames that wait for a paused node; a real host's queues are bounded too.
const BACKLOG_MAX: usize = 20_000;

/// A node that does nothing for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) until_us: u64,
    /// Whether frames are lost meanwhile.
    pub(super) drops: bool,
}

/// A node saved at a moment.
pub(super) struct Snapshot {
    pub(super) node: Node,
    pub(super) mono: MonoTime,
    pub(super) own_loads: BTreeMap<WorkerId, Load>,
    pub(super) seen_loads: BTreeMap<(LifeId, WorkerId), Load>,
    /// Whom it was connected with.
    pub(super) linked: Vec<LifeId>,
}

/// One place.
pub(super) struct Slot {
    /// The name it was configured with at first.
    pub(super) home: GatewayName,
    /// The name it goes by now.
    pub(super) name: GatewayName,
    pub(super) node: Option<Node>,
    /// Lives begun here.
    pub(super) lives: u64,
    /// The last life here that ended.
    pub(super) ended: Option<LifeId>,
    /// Which branch of its life's log the node writes.
    pub(super) branch: u32,
    pub(super) mono_zero_us: u64,
    pub(super) clock: Clock,
    /// Where the node last said its clock stands.
    pub(super) says: ClockState,
    pub(super) timer_us: Option<u64>,
    pub(super) pause: Option<Pause>,
    pub(super) backlog: VecDeque<Input>,
    pub(super) snapshot: Option<Box<Snapshot>>,
    /// Whether its frames are in a newer version.
    pub(super) newer: bool,
    pub(super) marks: Marks,
    pub(super) own_loads: BTreeMap<WorkerId, Load>,
    pub(super) seen_loads: BTreeMap<(LifeId, WorkerId), Load>,
    /// Its read index, fed as a gateway feeds it; none where a saved node went on.
    pub(super) lookups: Option<Lookups>,
    /// Frames and bytes sent to healthy peers since the cluster fell quiet.
    pub(super) quiet_sent: (u64, u64),
    /// Frames and bytes its present life sent, by class.
    pub(super) sent: [(u64, u64); 3],
}

impl Slot {
    pub(super) fn new(name: GatewayName, clock: Clock) -> Self {
        Self {
            home: name.clone(),
            name,
            node: None,
            lives: 0,
            ended: None,
            branch: 0,
            mono_zero_us: 0,
            clock,
            says: ClockState::Good,
            timer_us: None,
            pause: None,
            backlog: VecDeque::new(),
            snapshot: None,
            newer: false,
            marks: Marks::default(),
            own_loads: BTreeMap::new(),
            seen_loads: BTreeMap::new(),
            lookups: None,
            quiet_sent: (0, 0),
            sent: [(0, 0); 3],
        }
    }

    /// Puts an input aside while the node is paused. A process that does not run sends no requests and probes nobody.
    pub(super) fn wait(&mut self, input: Input) {
        let Some(pause) = self.pause else { return };
        let kept = match input {
            Input::Received { .. } => !pause.drops && self.backlog.len() < BACKLOG_MAX,
            Input::Local(_) | Input::Elapsed => false,
            Input::Link(_) | Input::Member(_) => true,
        };
        if kept {
            self.backlog.push_back(input);
        }
    }
}
