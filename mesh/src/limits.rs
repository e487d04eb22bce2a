//! Every bound and period of the mesh, in one place and tied together at compile time.
//!
//! Not here: bounds of replicated state (`covey_crdt::limits`). Upholds I9.

use covey_crdt::limits::{
    HASHES_PER_OP_MAX, LIVES_MAX, NAME_BYTES_MAX, OP_BYTES_MAX, RUN_BLOCKS_MAX, STORED_BLOCKS_MAX,
};

/// Wire version; peers of another major line do not get a connection, of a newer minor one are named and counted.
pub const WIRE_VERSION: u16 = 1;
/// Bytes in one frame.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Bytes of ops or chain content after which a frame is closed.
pub const FRAME_BYTES_GOAL: usize = 32 * 1024;
/// Own ops are pushed this long after the first of a batch, in milliseconds.
pub const PUSH_DELAY_MS: u64 = 2;
/// Vectors are exchanged with every peer this often, in milliseconds (jittered by a quarter).
pub const EXCHANGE_MS: u64 = 250;
/// Gateways tell one another about themselves this often, in milliseconds (jittered by a quarter), and a moment after
/// links or phase changed.
pub const SUMMARY_MS: u64 = 1_000;
/// Workers in one summary; all of a replica's take turns.
pub const SUMMARY_WORKERS: usize = 32;
/// Gateways in one summary, those that are present first.
pub const SUMMARY_PEERS_MAX: usize = 128;
/// Kinds of outcomes in one summary.
pub const SUMMARY_OUTCOMES_MAX: usize = 32;
/// Changed load registers are sent this often, in milliseconds.
pub const LOAD_MS: u64 = 2;
/// How often timeouts are looked at, in milliseconds.
pub const HOUSEKEEPING_MS: u64 = 100;
/// A gap in a log is pulled after this long, since the push may only be late, in milliseconds.
pub const PULL_GRACE_MS: u64 = 60;
/// An unanswered pull, want or slice is asked again after this long (and at least two round trips), in milliseconds.
pub const RETRY_MS: u64 = 400;
/// Bytes of ops answered to one pull.
pub const PULL_BYTES_MAX: usize = 512 * 1024;
/// Logs in one pull.
pub const PULL_LOGS_MAX: usize = 256;
/// Tips in one want.
pub const WANT_TIPS_MAX: usize = 64;
/// Bytes in one repair slice, the content sent ahead of it included.
pub const SLICE_BYTES: usize = 96 * 1024;
/// Slices that one question is answered with, one frame each: fewer round trips for much state.
pub const BURST_SLICES: u32 = 4;
/// Segments in one bucket of a holder that is compared, at least.
pub const BUCKET_SEGMENTS: usize = 16;
/// Buckets of one holder, at most: larger holders have larger buckets.
pub const BUCKETS_MAX: usize = 128;
/// Workers that one question of a receiver describes, 12 bytes each.
pub const WINDOW_WORKERS: usize = 1_024;
/// Bytes of one question at least, however small slices are: a question cut short costs a round trip and saves nothing.
pub const ASK_BYTES_MIN: usize = 2_048;
/// Receivers that a donor serves at once.
pub const PERMITS_MAX: usize = 2;
/// A receiver that asks nothing for this long (and at least eight round trips) loses its permit, in milliseconds.
pub const PERMIT_IDLE_MS: u64 = 1_500;
/// A receiver that finds no permit free is told to ask again after this long, in milliseconds.
pub const PERMIT_RETRY_MS: u64 = 300;
/// A receiver waits this long at most, whatever it is told, in milliseconds.
pub const RETRY_AFTER_MS_MAX: u64 = 10_000;
/// Bytes a second that a donor answers in repair sessions, chain content included; a second's worth may go at once.
pub const REPAIR_BYTES_PER_S: u64 = 32 * 1024 * 1024;

/// An op that cannot be resolved for this long makes its replica ask for a repair session, in milliseconds.
pub const UNRESOLVED_MS: u64 = 1_000;
/// A repair session without progress is given up after this long (and at least eight round trips), in milliseconds.
pub const SESSION_MS: u64 = 3_000;
/// A replica that stays dirty without progress for this long says what it holds of lost ops again, as ops of its own (P6),
/// in milliseconds.
pub const STUCK_MS: u64 = 5_000;
/// When every reachable peer has been joining for this long, the smallest life founds (ruling R7), in milliseconds.
pub const FOUND_MS: u64 = 1_000;
/// A joiner that reaches nobody for this long decides that it is alone, in milliseconds.
pub const ALONE_MS: u64 = 3_000;
/// A joiner that a mesh refused within this time does not decide that it is alone, in milliseconds (redials are 5 s apart).
pub const REFUSED_MS: u64 = 15_000;
/// A peer's clock reading counts for this long, in milliseconds.
pub const READING_MS: u64 = 5_000;
/// A name is free again when its life was not heard for this long, in milliseconds.
pub const NAME_SILENT_MS: u64 = 700;
/// Clock tolerance, in milliseconds: what lies further ahead of the local clock is held back.
pub const EPS_MS: u64 = 500;
/// A life that nobody heard of for this long is closed, and when it comes back it begins anew; what was retired is
/// forgotten after two of these. In milliseconds.
pub const HORIZON_MS: u64 = 15 * 60_000;
/// A life whose name goes on under a newer one is closed after so much silence, in milliseconds.
pub const SUPERSEDED_MS: u64 = 5_000;
/// Retired lives remembered at once; further ones stay closing until some are forgotten.
pub const RETIRED_MAX: usize = 1_024;
/// Ops received but not applied, per log and in all.
pub const HELD_OPS_PER_LOG_MAX: usize = 8_192;
/// Ops received but not applied, over all logs.
pub const HELD_OPS_MAX: usize = 65_536;
/// Bytes of applied ops retained for pulls, over all logs.
pub const LOG_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Applied ops are retained for this long, in milliseconds.
pub const LOG_AGE_MS: u64 = 120_000;
/// Local ops waiting for the node to have joined.
pub const WAITING_MAX: usize = 4_096;
/// Chain content that arrived before its op is kept for this long, in milliseconds.
pub const STAGED_MS: u64 = 5_000;
/// Pieces of such content.
pub const STAGED_MAX: usize = 16_384;
/// Lives remembered, gone ones included.
pub const PEERS_MAX: usize = 2 * LIVES_MAX;
/// Linked peers whose chain knowledge is remembered; further ones are sent every chain whole.
pub const SLOTS_MAX: usize = 64;
/// A worker's token may change this often within [`FLAP_MS`] before it is called flapping.
pub const FLAPS_MAX: usize = 4;
/// The window for [`FLAPS_MAX`], in milliseconds.
pub const FLAP_MS: u64 = 60_000;
/// How often idle placements are looked for, in milliseconds.
pub const EXPIRY_MS: u64 = 5_000;

/// An ingester's op that the feed's publisher did not publish within this time is published by whoever has it, in
/// milliseconds.
pub const TAKEOVER_MS: u64 = 300;
/// An ingester's op that cannot be applied for this long, because what lies before it died with whoever had it, makes the
/// ingester open a generation, in milliseconds.
pub const FEED_STUCK_MS: u64 = 2_000;
/// A gateway owns no feed before it has been clean and reachable for this long, in milliseconds: who flaps owns nothing.
pub const SETTLE_MS: u64 = 3_000;
/// Who loses a feed goes on ingesting it for this long, in milliseconds, so that its successor has somebody to ask.
pub const LINGER_MS: u64 = 10_000;
/// Feeds that a gateway begins to ingest in one turn of housekeeping.
pub const FEED_STARTS: usize = 16;
/// An ingester reports this often at least; one silent for longer knows nothing, in milliseconds.
pub const REPORT_MS: u64 = 2_000;
/// Placements of the last while bridge what events have not said yet, in milliseconds; a complete feed overrules older ones.
pub const BRIDGE_MS: u64 = 1_000;
/// They do so longer where prompts wait at a worker: what is not computed yet has had no event. In milliseconds, at most.
pub const BRIDGE_QUEUED_MS: u64 = 30_000;
/// Ops of one feed that an ingester made and nobody published yet.
pub const FEED_OUTBOX_MAX: usize = 8_192;
/// Ops of one feed received ahead of one that is missing.
pub const FEED_HELD_MAX: usize = 1_024;
/// Bytes of such ops, over all feeds: what does not fit is asked for again.
pub const FEED_HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Such ops are dropped when what lies before them did not come for this long, in milliseconds.
pub const FEED_HELD_MS: u64 = 5_000;
/// Two states under one key make a feed's publisher begin anew, but not again within this time, in milliseconds, doubled
/// each time up to [`FORKED_DOUBLINGS`] times.
pub const FORKED_MS: u64 = 5_000;
/// See [`FORKED_MS`]: about five minutes in the end.
pub const FORKED_DOUBLINGS: u32 = 6;
/// Bytes of feeds' ops retained for pulls, over all feeds.
pub const FEED_LOG_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Feeds in one frame: asked for, or told of in an exchange.
pub const FEEDS_PER_FRAME: usize = 128;
/// Bytes of one piece of something large.
pub const BLOB_PIECE_BYTES: usize = 96 * 1024;
/// Large things under way at once, in each direction.
pub const BLOBS_MAX: usize = 8;
/// Bytes of one large thing.
pub const BLOB_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A transfer without progress is given up after this long (and at least eight round trips), in milliseconds.
pub const BLOB_MS: u64 = 3_000;
/// Feeds in one summary, those whose state changed first; who reads more sends several a second.
pub const SUMMARY_FEEDS: usize = 128;
/// A feed of a gateway that reads so many is forgotten when it was not told of for this long, in milliseconds.
pub const FEED_TOLD_MS: u64 = 3_000;

/// Sizes that the simulator turns down so that small clusters meet what large ones do: sessions of many slices, logs that
/// no longer reach back, frames of one op. Everybody else uses the defaults, which are the constants above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knobs {
    /// Bytes in one repair slice: [`SLICE_BYTES`].
    pub slice_bytes: usize,
    /// Bytes of retained ops: [`LOG_BYTES_MAX`].
    pub log_bytes: usize,
    /// Age of retained ops in milliseconds: [`LOG_AGE_MS`].
    pub log_age_ms: u64,
    /// Bytes after which a frame is closed: [`FRAME_BYTES_GOAL`].
    pub frame_bytes: usize,
    /// Silence after which a life is closed, in milliseconds: [`HORIZON_MS`].
    pub horizon_ms: u64,
    /// Segments in one bucket: [`BUCKET_SEGMENTS`].
    pub bucket_segments: usize,
    /// Buckets of one holder: [`BUCKETS_MAX`].
    pub buckets: usize,
    /// Workers in one question: [`WINDOW_WORKERS`].
    pub window_workers: usize,
    /// Receivers served at once: [`PERMITS_MAX`].
    pub permits: usize,
    /// Bytes a second of repair answers: [`REPAIR_BYTES_PER_S`].
    pub repair_bytes_per_s: u64,
}

impl Knobs {
    /// These sizes, but none above its default and none so small that nothing would move.
    #[must_use]
    pub fn bounded(self) -> Self {
        let most = Self::default();
        Self {
            slice_bytes: self.slice_bytes.min(most.slice_bytes),
            log_bytes: self.log_bytes.min(most.log_bytes),
            log_age_ms: self.log_age_ms.min(most.log_age_ms),
            frame_bytes: self.frame_bytes.min(most.frame_bytes),
            horizon_ms: self.horizon_ms.min(most.horizon_ms),
            bucket_segments: self.bucket_segments.clamp(1, most.bucket_segments),
            buckets: self.buckets.clamp(1, most.buckets),
            window_workers: self.window_workers.clamp(1, most.window_workers),
            permits: self.permits.clamp(1, most.permits),
            repair_bytes_per_s: self.repair_bytes_per_s.clamp(1, most.repair_bytes_per_s),
        }
    }
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            slice_bytes: SLICE_BYTES,
            log_bytes: LOG_BYTES_MAX,
            log_age_ms: LOG_AGE_MS,
            frame_bytes: FRAME_BYTES_GOAL,
            bucket_segments: BUCKET_SEGMENTS,
            buckets: BUCKETS_MAX,
            window_workers: WINDOW_WORKERS,
            permits: PERMITS_MAX,
            repair_bytes_per_s: REPAIR_BYTES_PER_S,
            horizon_ms: HORIZON_MS,
        }
    }
}

/// The largest sequence number a frame may name: no log gets there, and a sum over every row of a frame cannot overflow.
pub const SEQ_MAX: u64 = 1 << 52;

const _: () = assert!(FRAME_BYTES_GOAL + 24 + 8 * (RUN_BLOCKS_MAX as usize) + OP_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(LIVES_MAX * 32 < FRAME_BYTES_GOAL);
const _: () =
    assert!((SUMMARY_PEERS_MAX + SUMMARY_WORKERS + SUMMARY_FEEDS) * (NAME_BYTES_MAX + 96) + 8_192 < FRAME_BYTES_MAX);
const _: () = assert!(FEEDS_PER_FRAME * (2 * NAME_BYTES_MAX + 96) < FRAME_BYTES_MAX / 2);
const _: () = assert!(8 * HASHES_PER_OP_MAX + 2_048 + FRAME_BYTES_GOAL < FRAME_BYTES_MAX);
const _: () = assert!(8 * STORED_BLOCKS_MAX < BLOB_BYTES_MAX / 2 && BLOB_PIECE_BYTES + 2_048 < FRAME_BYTES_MAX);
const _: () = assert!(2 * SLICE_BYTES < FRAME_BYTES_MAX);
const _: () = assert!(2 * SLICE_BYTES + 16 * WINDOW_WORKERS < FRAME_BYTES_MAX);
const _: () = assert!(18 * BUCKETS_MAX + 28 < SLICE_BYTES);
const _: () = assert!(PERMIT_IDLE_MS > 2 * RETRY_MS && PERMIT_IDLE_MS < SESSION_MS);
const _: () = assert!(NAME_SILENT_MS > 2 * EXCHANGE_MS);
