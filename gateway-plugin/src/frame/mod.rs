//! The mesh frame: the whole mesh at one moment, as one gateway sees it (its own view, and the summaries that its peers
//! gossip) or as the simulator's observer does. One schema for the live page, playback, recordings, `covey top`, `/plain`.
//!
//! A stream of frames is JSON objects in the order of `seq`: server-sent events on the admin port, lines of a recording.
//! What is not known is `null` (I12), never a default. Times are milliseconds since 1970, in the simulator since its start.
//!
//! `maker` makes them, from what `rows`, `workers` and `feeds` gather; `groups` tells which replicas are the same,
//! `verdict` and `judge` what it comes to, `news` what happened.
//!
//! Not here: where frames are served (`dashboard`).

mod feeds;
mod groups;
mod judge;
mod maker;
mod news;
mod rows;
mod verdict;
mod workers;

pub use maker::{FrameMaker, Scene, Viewer};
pub use verdict::{HEARD_MS_MAX, Judged, LAG_MS_MAX, SILENT_MS_MAX, Verdict, verdict};
pub use workers::WorkerFacts;

use std::collections::BTreeMap;

/// A replica in numbers.
pub use covey_mesh::summary::ReplicaCounts as ReplicaView;

use covey_mesh::feed::FeedState;
use covey_mesh::status::Phase;
use serde::{Deserialize, Serialize};

/// The name in every frame.
pub const SCHEMA: &str = "covey-mesh-frame";
/// Grows when a field changes its meaning or goes; further fields may come at any time.
pub const VERSION: u32 = 1;
/// Workers in one frame at most; those on which replicas disagree come first.
pub const WORKERS_MAX: usize = 64;

/// The mesh at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshFrame {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// Counts the frames of a source, from 1. A gateway that restarts begins again.
    pub seq: u64,
    /// When.
    pub t_ms: u64,
    /// Who says so.
    pub source: Source,
    /// What it comes to.
    pub verdict: VerdictView,
    /// Every gateway, in the order of their names.
    pub gateways: Vec<GatewayView>,
    /// Workers, those on which replicas disagree first, then by name; [`WORKERS_MAX`] at most.
    pub workers: Vec<WorkerView>,
    /// Workers left out.
    pub workers_hidden: u64,
    /// Feeds by state, of the workers left out too.
    #[serde(default)]
    pub feeds: FeedCounts,
    /// What happened since the frame before, oldest first.
    pub events: Vec<EventView>,
    /// Faults that last at this moment (simulator only).
    pub faults: Vec<FaultView>,
    /// Upper bounds of the propagation buckets, milliseconds; one more bucket takes the rest.
    pub propagation_bounds_ms: Vec<u64>,
}

/// Who says what a frame says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `live` or `simulated`.
    pub kind: String,
    /// The gateway whose view it is; `None` for the simulator's observer, who sees everything.
    pub viewer: Option<String>,
    /// The cluster.
    pub cluster: String,
    /// The version of Covey.
    pub package_version: String,
    /// The simulator's seed.
    pub seed: Option<u64>,
}

/// The verdict, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictView {
    /// `converged`, `converging`, `degraded`, `diverged`, `partitioned` or `unknown`.
    pub word: String,
    /// Why, in a sentence.
    pub why: String,
    /// Since when it is this word.
    pub since_ms: u64,
    /// When all present gateways were last known to be equal; `None` while they never were.
    pub converged_ms: Option<u64>,
    /// The most ops that any present gateway lacks from another; `None` when nobody knows.
    pub worst_lag_ops: Option<u64>,
    /// For how long it has lacked something, milliseconds.
    pub worst_lag_ms: Option<u64>,
    /// While converging: milliseconds until the lag is gone at its present rate; `None` when it does not shrink.
    pub eta_ms: Option<u64>,
    /// Gateways that have not left and are heard of now, the viewer included.
    pub seen: u64,
    /// Gateways that have not left and are not heard of.
    pub missing: u64,
}

/// One gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GatewayView {
    /// Its name.
    pub name: String,
    /// Its life, 32 hex digits.
    pub life: String,
    /// Whether it is the viewer.
    pub me: bool,
    /// Whether it said goodbye.
    pub left: bool,
    /// How old its summary is, milliseconds; 0 for the viewer, `None` when there is none. What follows is as old.
    pub age_ms: Option<u64>,
    /// How far it is.
    pub phase: Option<Phase>,
    /// Its root digest, 32 hex digits; clean replicas have one.
    pub digest: Option<String>,
    /// The hash of its vector, 16 hex digits.
    pub vector: Option<String>,
    /// The state group: gateways with one number have the same state, or lack of each other only what is under way.
    /// Numbered by size, 0 the largest; `None` when its state is not known now.
    pub group: Option<u32>,
    /// `good`, `ahead` or `behind`.
    pub clock: Option<String>,
    /// Its clock against the median of those it hears, milliseconds.
    pub clock_ahead_ms: Option<i64>,
    /// Its replica in numbers.
    pub replica: Option<ReplicaView>,
    /// What it sent since its life began, by class.
    pub traffic: Option<TrafficView>,
    /// Repair and redundancy since its life began.
    pub repair: Option<RepairView>,
    /// Ops of peers applied since its life began, by age at that moment: one count a bucket.
    pub propagation: Option<Vec<u64>>,
    /// What routing came to since the process started; `None` where nobody routes.
    pub effect: Option<EffectView>,
    /// What it sees of every gateway, in the order of `gateways`; `None` for itself and for those it does not know.
    pub sees: Vec<Option<Cell>>,
}

/// What one gateway knows of another. In JSON an array:
/// `[linked, heard_ms, lag_ops, lag_ms, rtt_us, offset_ms]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CellRow", into = "CellRow")]
pub struct Cell {
    /// Whether frames can be sent to it.
    pub linked: bool,
    /// Milliseconds since its last exchange.
    pub heard_ms: Option<u64>,
    /// Ops that it has applied and this gateway has not.
    pub lag_ops: Option<u64>,
    /// For how long this gateway has lacked something of it, milliseconds.
    pub lag_ms: Option<u64>,
    /// Round trip of the last exchange, microseconds.
    pub rtt_us: Option<u64>,
    /// Its clock against this gateway's, milliseconds, known to half a round trip.
    pub offset_ms: Option<i64>,
}

type CellRow = (bool, Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<i64>);

impl From<CellRow> for Cell {
    fn from((linked, heard_ms, lag_ops, lag_ms, rtt_us, offset_ms): CellRow) -> Self {
        Self { linked, heard_ms, lag_ops, lag_ms, rtt_us, offset_ms }
    }
}

impl From<Cell> for CellRow {
    fn from(cell: Cell) -> Self {
        (cell.linked, cell.heard_ms, cell.lag_ops, cell.lag_ms, cell.rtt_us, cell.offset_ms)
    }
}

/// Frames and bytes of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a gateway sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficView {
    /// Fresh ops and load registers.
    pub push: Sent,
    /// Exchanges, pulls and their answers, summaries.
    pub control: Sent,
    /// Repair sessions.
    pub repair: Sent,
}

/// Repair, and how much of what came was news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairView {
    /// Ops of peers applied.
    pub applied_ops: u64,
    /// Ops that came and were known already.
    pub duplicate_ops: u64,
    /// Logs asked for by pulls.
    pub pulled_logs: u64,
    /// Repair sessions begun.
    pub started: u64,
    /// Sessions that ended with everything in.
    pub done: u64,
    /// Sessions given up.
    pub aborted: u64,
    /// Times a donor was busy.
    pub refused: u64,
    /// Segments that came in sessions.
    pub segments: u64,
    /// Those of them that changed something.
    pub segments_new: u64,
    /// Equal clean vectors with different digests. Must be 0 for ever.
    pub mismatches: u64,
}

/// What knowing coverage did for requests, over those whose worker reported cached tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectView {
    /// Such requests.
    pub measured: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Of these, predicted to be cached.
    pub predicted_tokens: u64,
    /// Of these, reported as cached.
    pub cached_tokens: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// Decisions by outcome, of all requests.
    pub outcomes: BTreeMap<String, u64>,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerView {
    /// Its id.
    pub id: String,
    /// Where the viewer reaches it; `None` for a worker it is not configured with.
    pub url: Option<String>,
    /// Whether the viewer can reach it.
    pub up: Option<bool>,
    /// Its capacity in tokens.
    pub capacity_tokens: Option<u64>,
    /// Where the viewer has that from: `configured`, `probed`, or `mesh` (only peers told).
    pub capacity_source: Option<String>,
    /// Requests under way on it, over all live gateways.
    pub requests: u64,
    /// Prompt tokens waiting to be computed on it, over all live gateways.
    pub queued_tokens: u64,
    /// Whether replicas that should be equal differ on it.
    pub differs: bool,
    /// Its feed; `None` when no gateway reads its events and no replica has any.
    pub feed: Option<FeedView>,
    /// What each gateway's replica says of it, in the order of `gateways`.
    pub by: Vec<Option<CoverageView>>,
}

/// Who reads a worker's events, and how well its cache is known by them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedView {
    /// Gateways that read its events and publish: one, unless they disagree for a moment. Silent ones only while no other
    /// gateway reads them.
    pub publishers: Vec<String>,
    /// Gateways that read them and stand by.
    pub standbys: Vec<String>,
    /// What a publisher says, while there is none a standby; `stale` when that is too old or nobody reads.
    pub state: FeedState,
    /// For how long it has been so, milliseconds, when that was said; like what follows `None` when nobody knows now.
    pub for_ms: Option<u64>,
    /// From an event's making to its reading, milliseconds, as far as the clocks tell.
    pub lag_ms: Option<u64>,
    /// The engine's number of the next batch.
    pub position: Option<u64>,
    /// Blocks that the events say the worker holds, in the viewer's replica or whichever told last.
    pub stored_blocks: Option<u64>,
    /// Whether these are all that it holds.
    pub is_complete: Option<bool>,
    /// How old what is said is, milliseconds; `None` when nobody reads.
    pub age_ms: Option<u64>,
}

/// Workers by the state of their feeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedCounts {
    /// What is known is what the cache held at the last event.
    pub exact: u64,
    /// An event is missing and being fetched.
    pub gap: u64,
    /// What the cache held before somebody read its events is not known.
    pub bootstrapping: u64,
    /// Nothing is heard of the worker, or of who reads its events.
    pub stale: u64,
    /// Nobody reads its events, and no replica has any.
    pub unread: u64,
}

/// What one replica says of a worker. In JSON an array:
/// `[incarnation, blocks, digest, floor_ms, newest_ms, age_ms]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CoverageRow", into = "CoverageRow")]
pub struct CoverageView {
    /// The counter of its incarnation.
    pub incarnation: u64,
    /// Blocks covered.
    pub blocks: u64,
    /// Digest of record and coverage, 16 hex digits.
    pub digest: String,
    /// The highest floor of its holders: what was touched before is cut. `None` before the first cut.
    pub floor_ms: Option<u64>,
    /// The latest touch.
    pub newest_ms: Option<u64>,
    /// How old this is, milliseconds.
    pub age_ms: u64,
}

type CoverageRow = (u64, u64, String, Option<u64>, Option<u64>, u64);

impl From<CoverageRow> for CoverageView {
    fn from((incarnation, blocks, digest, floor_ms, newest_ms, age_ms): CoverageRow) -> Self {
        Self { incarnation, blocks, digest, floor_ms, newest_ms, age_ms }
    }
}

impl From<CoverageView> for CoverageRow {
    fn from(of: CoverageView) -> Self {
        (of.incarnation, of.blocks, of.digest, of.floor_ms, of.newest_ms, of.age_ms)
    }
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    /// When.
    pub t_ms: u64,
    /// Where; `None` for the mesh as a whole.
    pub gateway: Option<String>,
    /// `verdict`, `link`, `phase`, `repair`, `clock`, `life`, `mismatch`, `feed` or `fault`.
    pub kind: String,
    /// `info`, `warn` or `bad`.
    pub level: String,
    /// In words.
    pub text: String,
}

/// A fault that the simulator inflicts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultView {
    /// What: `partition`, `crash`, `pause`, `clock`, `loss` …
    pub kind: String,
    /// On whom; empty for all.
    pub gateways: Vec<String>,
    /// In words.
    pub text: String,
    /// Since when.
    pub since_ms: u64,
}
