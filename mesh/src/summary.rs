//! What gateways tell one another about themselves, once a second, so that any of them can answer for the whole mesh: a
//! small, bounded piece of plain numbers. Nothing is decided by it.
//!
//! Not here: when it is sent (`node::gossip`), how it is shown (a host's matter). What is not known is `None` (I12).

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use serde::{Deserialize, Serialize};

use crate::feed::{FeedReport, Role};
use crate::input::Load;
use crate::limits::{SEQ_MAX, SUMMARY_FEEDS, SUMMARY_OUTCOMES_MAX, SUMMARY_PEERS_MAX, SUMMARY_WORKERS};
use crate::note::{ClockState, Note};
use crate::status::{PeerStatus, Phase};

/// Upper bounds of the buckets that the age of applied ops is counted in, in milliseconds; one more takes the rest.
pub const DELAY_BOUNDS_MS: [u64; 20] =
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1_000, 2_000, 5_000];

/// A gateway in numbers, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its clock when it said so, milliseconds since 1970.
    pub wall_ms: u64,
    /// How far it is.
    pub phase: Phase,
    /// The root digest of a clean replica, 32 hex digits.
    pub digest: Option<String>,
    /// The hash of its vector.
    pub vector: u64,
    /// Where its clock stands.
    pub clock: ClockState,
    /// Its clock against the median of those it hears, in milliseconds.
    pub clock_ahead_ms: Option<i64>,
    /// Its replica.
    pub replica: ReplicaCounts,
    /// What it noted since its life began.
    pub tally: Tally,
    /// What routing came to; `None` where nobody routes.
    pub effect: Option<Effect>,
    /// Every gateway it knows, by name; [`SUMMARY_PEERS_MAX`] at most.
    pub peers: Vec<PeerSeen>,
    /// Some of its workers: all of them, [`SUMMARY_WORKERS`] at a time.
    pub workers: Vec<WorkerSeen>,
    /// The feeds it ingests, those first whose state changed; on the wire [`SUMMARY_FEEDS`] at most, and all of them in
    /// several summaries.
    pub feeds: Vec<FeedSeen>,
}

/// A feed that a gateway ingests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedSeen {
    /// The worker's name.
    pub worker: String,
    /// Its data-parallel rank.
    pub rank: u16,
    /// What the gateway is for it.
    pub role: Role,
    /// What its ingester says.
    pub report: FeedReport,
}

/// A replica in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaCounts {
    /// Ops applied in this life.
    pub ops_applied: u64,
    /// Ops received and held.
    pub ops_held: u64,
    /// Lives the vector has an entry for.
    pub lives: u64,
    /// Lives closed and not retired yet.
    pub closing: u64,
    /// Retired lives still remembered.
    pub retired: u64,
    /// Workers recorded.
    pub workers: u64,
    /// Holders with coverage.
    pub holders: u64,
    /// Blocks covered, summed over holders.
    pub blocks: u64,
    /// Bytes of retained logs.
    pub log_bytes: u64,
    /// Whether a repair session is running, as receiver.
    pub repairing: bool,
}

/// What a node counted of its own notes since its life began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Ops of peers applied, by age at that moment: one count a bucket of [`DELAY_BOUNDS_MS`], the last for the rest.
    pub delays: [u64; DELAY_BOUNDS_MS.len() + 1],
    /// Ops that came and were known already.
    pub duplicate_ops: u64,
    /// Logs asked for by pulls.
    pub pulled_logs: u64,
    /// Repair sessions begun.
    pub repairs_started: u64,
    /// Sessions that ended with everything in.
    pub repairs_done: u64,
    /// Sessions given up.
    pub repairs_aborted: u64,
    /// Times a donor was busy.
    pub repairs_refused: u64,
    /// Segments that came in sessions.
    pub segments: u64,
    /// Those of them that changed something.
    pub segments_new: u64,
    /// Equal clean vectors with different digests.
    pub mismatches: u64,
    /// Frames sent, by class.
    pub frames: [u64; 3],
    /// Their bytes.
    pub bytes: [u64; 3],
}

impl Tally {
    /// Ops of peers applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.delays.iter().sum()
    }

    pub(crate) fn count(&mut self, note: &Note) {
        match note {
            Note::Applied { delay_ms } => {
                self.delays[DELAY_BOUNDS_MS.partition_point(|bound| bound < delay_ms)] += 1;
            }
            Note::Duplicate { ops } => self.duplicate_ops += u64::from(*ops),
            Note::Pulled { logs } => self.pulled_logs += u64::from(*logs),
            Note::RepairStarted { .. } => self.repairs_started += 1,
            Note::RepairDone { cost, .. } => {
                self.repairs_done += 1;
                self.segments += cost.segments;
                self.segments_new += cost.segments_new;
            }
            Note::RepairAborted { .. } => self.repairs_aborted += 1,
            Note::RepairRefused { .. } => self.repairs_refused += 1,
            Note::DigestMismatch { .. } => self.mismatches += 1,
            Note::Sent { class, bytes } => {
                self.frames[*class as usize] += 1;
                self.bytes[*class as usize] += u64::from(*bytes);
            }
            Note::Dropped { .. }
            | Note::Refused { .. }
            | Note::RefusedBy { .. }
            | Note::Malformed { .. }
            | Note::NewerVersion { .. }
            | Note::UnknownLife { .. }
            | Note::Fork { .. }
            | Note::Wanted
            | Note::Restated { .. }
            | Note::Closing { .. }
            | Note::Retired { .. }
            | Note::Forgot { .. }
            | Note::Founded
            | Note::Clean
            | Note::Dirty
            | Note::Clock { .. }
            | Note::TokenFlaps { .. }
            | Note::FeedApplied { .. }
            | Note::Generation { .. }
            | Note::FeedForked { .. }
            | Note::TakenOver { .. }
            | Note::FeedDropped
            | Note::FeedPulled { .. }
            | Note::FeedFetched { .. } => {}
        }
    }
}

/// What knowing coverage did for requests; the host counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Requests whose worker reported cached tokens; the token sums are over these.
    pub measured: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Of these, predicted to be cached.
    pub predicted_tokens: u64,
    /// Of these, reported as cached.
    pub cached_tokens: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// Decisions by outcome; at most [`SUMMARY_OUTCOMES_MAX`].
    pub outcomes: Vec<(String, u64)>,
}

/// What a gateway knows of another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerSeen {
    /// Its name.
    pub name: String,
    /// Whether frames can be sent to it.
    pub linked: bool,
    /// Whether it said goodbye.
    pub left: bool,
    /// Milliseconds since its last exchange.
    pub heard_ms: Option<u64>,
    /// Ops it has applied that this gateway has not.
    pub lag_ops: Option<u64>,
    /// For how long this gateway has lacked something of it, in milliseconds.
    pub lag_ms: Option<u64>,
    /// Round trip of the last exchange, in microseconds.
    pub rtt_us: Option<u64>,
    /// Its clock against this gateway's, in milliseconds.
    pub offset_ms: Option<i64>,
}

impl From<PeerStatus> for PeerSeen {
    fn from(peer: PeerStatus) -> Self {
        Self {
            name: peer.name,
            linked: peer.linked,
            left: peer.left,
            heard_ms: peer.heard_ms,
            lag_ops: peer.lag_ops,
            lag_ms: peer.lag_ms,
            rtt_us: peer.rtt_us,
            offset_ms: peer.offset_ms,
        }
    }
}

/// What a replica says of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSeen {
    /// Its name.
    pub worker: String,
    /// Its data-parallel rank.
    pub rank: u16,
    /// The counter of its incarnation.
    pub incarnation: u64,
    /// Blocks covered, over its holders.
    pub blocks: u64,
    /// Blocks that its engine's events say it holds; `None`: no events of this incarnation are known.
    pub stored: Option<u64>,
    /// Whether these are all that the engine holds.
    pub is_complete: bool,
    /// Sum of the digests of its record and holders, the low 64 bits.
    pub digest: u64,
    /// The highest floor of its holders, milliseconds since 1970.
    pub floor_ms: Option<u64>,
    /// The latest touch.
    pub newest_ms: Option<u64>,
}

impl Summary {
    /// Whether a peer may say so: within bounds, and every name well formed.
    pub(crate) fn is_sound(&self) -> bool {
        let hex = |text: &String| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let outcome = |(name, _): &(String, u64)| name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_graphic());
        self.numbers().all(|number| number <= SEQ_MAX)
            && self.digest.iter().all(hex)
            && self.peers.len() <= SUMMARY_PEERS_MAX
            && self.peers.iter().all(|peer| GatewayName::new(&peer.name).is_ok())
            && self.workers.len() <= SUMMARY_WORKERS
            && self.workers.iter().all(|seen| WorkerId::new(&seen.worker, seen.rank).is_ok())
            && self.feeds.len() <= SUMMARY_FEEDS
            && self.feeds.iter().all(|seen| WorkerId::new(&seen.worker, seen.rank).is_ok())
            && self
                .effect
                .iter()
                .all(|effect| effect.outcomes.len() <= SUMMARY_OUTCOMES_MAX && effect.outcomes.iter().all(outcome))
    }
}

impl Summary {
    /// Every number but hashes, by its size: none is so large that a sum of them could overflow.
    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let ReplicaCounts {
            ops_applied, ops_held, lives, closing, retired, workers, holders, blocks, log_bytes, ..
        } = self.replica;
        let tally = &self.tally;
        let counts = [
            [self.wall_ms, ops_applied, ops_held, lives, closing, retired, workers, holders, blocks, log_bytes],
            [
                self.clock_ahead_ms.map_or(0, i64::unsigned_abs),
                tally.duplicate_ops,
                tally.pulled_logs,
                tally.repairs_started,
                tally.repairs_done,
                tally.repairs_aborted,
                tally.repairs_refused,
                tally.segments,
                tally.segments_new,
                tally.mismatches,
            ],
        ];
        let tallies = tally.delays.into_iter().chain(tally.frames).chain(tally.bytes);
        let effect = self.effect.iter().flat_map(|of| {
            let sums = [of.measured, of.prompt_tokens, of.predicted_tokens, of.cached_tokens, of.in_flight];
            sums.into_iter().chain(of.outcomes.iter().map(|(_, count)| *count))
        });
        let peers = self.peers.iter().flat_map(|peer| {
            let offset = peer.offset_ms.map(i64::unsigned_abs);
            [peer.heard_ms, peer.lag_ops, peer.lag_ms, peer.rtt_us, offset].into_iter().flatten()
        });
        let workers = self.workers.iter().flat_map(|seen| {
            [Some(seen.incarnation), Some(seen.blocks), seen.stored, seen.floor_ms, seen.newest_ms]
                .into_iter()
                .flatten()
        });
        let feeds = self.feeds.iter().flat_map(|seen| {
            let report = seen.report;
            [Some(report.since_ms), report.proven_ms, report.lag_ms, Some(report.position)].into_iter().flatten()
        });
        counts.into_iter().flatten().chain(tallies).chain(effect).chain(peers).chain(workers).chain(feeds)
    }
}

/// A worker in a replica, and when that was true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated<T> {
    /// What.
    pub of: T,
    /// How old it is, in milliseconds.
    pub age_ms: u64,
}

/// What a node knows of one gateway's own view.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// Whose.
    pub life: LifeId,
    /// Its name.
    pub name: GatewayName,
    /// What it last said.
    pub summary: Arc<Summary>,
    /// How old that is, in milliseconds; 0 for the node itself.
    pub age_ms: u64,
    /// Every worker it told of in this life, with the age of that.
    pub workers: BTreeMap<WorkerId, Dated<Arc<WorkerSeen>>>,
    /// Every feed it ingests, with the age of that.
    pub feeds: BTreeMap<WorkerId, Dated<Arc<FeedSeen>>>,
}

/// All that a node knows of the mesh, for people: its own summary first, then those of its peers, the newest life of each
/// name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Of the node itself, then of peers by name.
    pub sights: Vec<Sight>,
    /// Load per worker, over all live gateways.
    pub loads: BTreeMap<WorkerId, Load>,
    /// Capacity per worker in tokens, as replicated.
    pub capacities: BTreeMap<WorkerId, Option<u64>>,
}
