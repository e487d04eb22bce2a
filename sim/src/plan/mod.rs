//! Plans: everything a simulated run does, drawn from one seed, printable and replayable.
//!
//! Every class of fault is a field or a kind of event of its own: left out, empty or zero it is off. Each draws from its
//! own stream, so that leaving one out does not shift the rest (shrinking needs that).
//!
//! Here: what a plan can say. Not here: drawing one (`draw`), whether it can be run (`check`), carrying it out (`world`).

mod check;
mod draw;
mod fault;
mod stream;

use covey_mesh::limits::Knobs;
use serde::{Deserialize, Serialize};

pub use check::BadPlan;
pub use fault::{Cut, Event, Fault};
pub use stream::Stream;

/// Losses that come in bursts (Gilbert–Elliott): every ordered pair of nodes is in a good or a bad spell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Chance per frame that a bad spell begins.
    pub enter: f64,
    /// Chance per frame that it ends.
    pub leave: f64,
    /// Share of frames lost while it lasts.
    pub loss: f64,
}

/// One direction between two nodes that loses more than the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairLoss {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// Share of frames lost, 0 to 1.
    pub loss: f64,
}

/// Copies of frames that arrive long after, perhaps when their connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stale {
    /// Share of frames of which a copy arrives late, 0 to 1.
    pub share: f64,
    /// How late at least, in milliseconds.
    pub least_ms: u64,
    /// How late at most, in milliseconds.
    pub most_ms: u64,
}

/// Damaged bytes. The transport authenticates frames, so a damaged one counts as lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corruption {
    /// Share of frames whose end is missing: they reach the node, which must refuse them and close.
    pub truncated: f64,
    /// Share of frames with flipped bits: only a throw-away copy of the node sees them, and must not panic.
    pub flipped: f64,
}

/// Send queues so small that they fill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Whose sends are squeezed.
    pub nodes: Vec<usize>,
    /// Bytes that may wait for one class of one peer.
    pub bytes: u64,
    /// Bytes a second that leave each queue.
    pub bytes_per_s: u64,
}

/// How frames travel while faults are on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPlan {
    /// Share of frames lost, 0 to 1.
    pub loss: f64,
    /// Share of frames doubled, 0 to 1.
    pub duplicate: f64,
    /// Delay of every frame, in milliseconds.
    pub delay_ms: u64,
    /// Further delay, uniform up to this, in milliseconds: reorders.
    pub jitter_ms: u64,
    /// Losses in bursts.
    pub burst: Option<Burst>,
    /// Losses of single directions, instead of `loss`.
    pub pairs: Vec<PairLoss>,
    /// Copies that arrive late.
    pub stale: Option<Stale>,
    /// Damaged bytes.
    pub corruption: Option<Corruption>,
    /// Tiny send windows.
    pub window: Option<Window>,
}

/// A node that stops for a while, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Which.
    pub node: usize,
    /// From one stop to the next, in milliseconds.
    pub every_ms: u64,
    /// How long each lasts, in milliseconds.
    pub for_ms: u64,
}

/// What stays wrong with a node after the faults have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wrong {
    /// It stopped and never comes back.
    Dead,
    /// Nobody reaches it, and it reaches nobody.
    Isolated,
    /// It hears nobody.
    Deaf,
    /// Nobody hears it.
    Mute,
    /// Its wall clock is off by this much, in milliseconds.
    Clock {
        /// Positive: ahead.
        ms: i64,
    },
    /// It stops for a while, again and again.
    Slow {
        /// From one stop to the next, in milliseconds.
        every_ms: u64,
        /// How long each lasts, in milliseconds.
        for_ms: u64,
    },
}

/// A node of the minority that is left broken for good: the others must converge without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broken {
    /// Which.
    pub node: usize,
    /// In what way.
    pub how: Wrong,
}

/// Everything a run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The seed it was drawn from; feeds the remaining chances (losses, workload).
    pub seed: u64,
    /// Gateways, 2 to 64.
    pub nodes: usize,
    /// Workers, 1 to 128.
    pub workers: usize,
    /// Capacity of each worker in tokens (blocks of 64 tokens).
    pub capacity_tokens: u64,
    /// Conversations whose chains branch off one another.
    pub sessions: u64,
    /// Blocks a chain may reach.
    pub depth_max: u64,
    /// Placements a second, over all nodes.
    pub ops_per_s: u64,
    /// Faults and workload last this long, in milliseconds.
    pub faults_ms: u64,
    /// After converging the cluster is watched for this long, in milliseconds: it must stay so, and quiet.
    #[serde(default)]
    pub quiet_ms: u64,
    /// Bits kept of every block hash: few make 64-bit aliases of different paths common.
    pub hash_bits: u32,
    /// Sizes turned down.
    #[serde(default)]
    pub knobs: Knobs,
    /// A placement idle for this long expires, in milliseconds.
    pub idle_ms: u64,
    /// When each node starts, in milliseconds; empty: all within 300 ms.
    #[serde(default)]
    pub starts_ms: Vec<u64>,
    /// Each node's wall clock against true time at the start, in milliseconds; empty: all are right.
    #[serde(default)]
    pub offsets_ms: Vec<i64>,
    /// How much faster each node's wall clock runs, in millionths; empty: all run right.
    #[serde(default)]
    pub drifts_ppm: Vec<i64>,
    /// How frames travel.
    #[serde(default)]
    pub network: NetworkPlan,
    /// Nodes that stall, again and again.
    #[serde(default)]
    pub slow: Vec<Slow>,
    /// Everything the membership service says comes this much later, in milliseconds.
    #[serde(default)]
    pub member_late_ms: u64,
    /// Probes of workers take up to this much longer to be answered, in milliseconds.
    #[serde(default)]
    pub probe_late_ms: u64,
    /// The minority that is left broken for good.
    #[serde(default)]
    pub broken: Vec<Broken>,
    /// What is done to the cluster, in order.
    #[serde(default)]
    pub events: Vec<Event>,
    /// How connections come and go.
    #[serde(default)]
    pub driver: DriverPlan,
    /// Engines' events; none where gateways read none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feeds: Option<FeedPlan>,
    /// Blocks by which a conversation grows each turn; 0 for chains of random depths.
    #[serde(default)]
    pub turn_blocks: u64,
    /// Nothing happens after this, in virtual microseconds; `None` runs until convergence. Set by shrinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_us: Option<u64>,
}

/// Engines' events, and what goes wrong on their way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedPlan {
    /// Batches a second of each engine.
    pub batches_per_s: u64,
    /// Copies of blocks that fit an engine's cache.
    pub copies: u64,
    /// Batches that an engine keeps for replays.
    pub kept: u64,
    /// Delay of every message, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Further delay, uniform up to this, in milliseconds; order is kept.
    #[serde(default)]
    pub jitter_ms: u64,
    /// Share of messages of a subscription that are lost, 0 to 1.
    #[serde(default)]
    pub loss: f64,
    /// Share that come twice.
    #[serde(default)]
    pub duplicate: f64,
    /// Share of replays that end too early, without their marker.
    #[serde(default)]
    pub replay_cut: f64,
    /// Share of replays that are not answered.
    #[serde(default)]
    pub replay_lost: f64,
}

/// How connections come and go: what the driver under the core does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriverPlan {
    /// Pause between two dials of a pair, least and most, in milliseconds.
    pub redial_ms: (u64, u64),
    /// How long after a path fell silent its connection is found dead, least and most, in milliseconds.
    pub dead_ms: (u64, u64),
    /// How long after a process ended its connections are found dead, least and most, in milliseconds.
    pub crash_ms: (u64, u64),
    /// One-way delays that a handshake takes before the first frame.
    pub handshake_delays: u64,
    /// Whether frames of one class between two nodes stay in order, as streams keep them.
    pub in_order: bool,
}

impl Default for DriverPlan {
    fn default() -> Self {
        Self {
            redial_ms: (700, 1_300),
            dead_ms: (1_500, 6_000),
            crash_ms: (50, 3_000),
            handshake_delays: 0,
            in_order: false,
        }
    }
}

impl DriverPlan {
    /// [`Self::crash_ms`] in microseconds.
    #[must_use]
    pub const fn crash_us(&self) -> (u64, u64) {
        (self.crash_ms.0 * 1_000, self.crash_ms.1 * 1_000)
    }
}

impl Plan {
    /// What stays wrong with a node, if anything.
    #[must_use]
    pub fn wrong(&self, node: usize) -> Option<Wrong> {
        self.broken.iter().find(|broken| broken.node == node).map(|broken| broken.how)
    }

    /// Whether some life's log may fork: an identity is used twice.
    #[must_use]
    pub fn forks(&self) -> bool {
        self.events.iter().any(|event| event.fault.forks())
    }
}
