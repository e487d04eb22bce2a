//! `/mesh`: one gateway's whole state as JSON, for `covey status`, the demo and whoever scripts against it.
//!
//! Not here: the verdict (`verdict`). What is unknown is `null`.

use std::collections::BTreeMap;

use covey_mesh::status::Status;
use serde::{Deserialize, Serialize};

use crate::frame::{FeedCounts, MeshFrame};
use crate::plugin::Outcome;
use crate::server::{Fault, Gateway, Latency, Readiness};

/// What a histogram says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Values recorded; the others are 0 when this is.
    pub count: u64,
    /// Half of them are at most this.
    pub p50: u64,
    /// 99 % of them are at most this.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl Quantiles {
    fn of(latency: &Latency) -> Self {
        let (count, _, [p50, p99, max]) = latency.quantiles([0.5, 0.99, 1.0]);
        Self { count, p50, p99, max }
    }
}

impl From<covey_mesh::net::Quantiles> for Quantiles {
    fn from(q: covey_mesh::net::Quantiles) -> Self {
        Self { count: q.count, p50: q.p50, p99: q.p99, max: q.max }
    }
}

/// One worker as this gateway sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its id in the mesh.
    pub id: String,
    /// Where it listens.
    pub url: String,
    /// Whether this gateway can reach it; `None` before the first check.
    pub up: Option<bool>,
    /// Its life's token as last probed.
    pub token: Option<String>,
    /// Its capacity as last probed (or as configured).
    pub capacity_tokens: Option<u64>,
    /// The counter of its incarnation in this replica.
    pub incarnation: u64,
}

/// The verdict of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameReport {
    /// The word.
    pub verdict: String,
    /// Why.
    pub why: String,
    /// Workers by the state of their feeds.
    #[serde(default)]
    pub feeds: FeedCounts,
}

/// How the gateway was configured, as far as others may know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigReport {
    /// Whether it is a mesh member.
    pub mesh: bool,
    /// The cluster.
    pub cluster: String,
    /// The UDP address that peers dial.
    pub advertised: Option<String>,
    /// The policy.
    pub policy: String,
    /// Bytes in a block.
    pub block_bytes: u32,
    /// The hash key's public name, 16 hex digits.
    pub key_id: String,
    /// Models served.
    pub models: Vec<String>,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshReport {
    /// The gateway's version.
    pub version: String,
    /// Seconds since it was started.
    pub uptime_s: u64,
    /// Whether clients should be sent here.
    pub ready: bool,
    /// Why not, or `ready`.
    pub ready_reason: String,
    /// The node's view of itself and its peers.
    pub status: Status,
    /// What this gateway's latest frame says, with what others told: may be worse than its own status.
    #[serde(default)]
    pub frame: Option<FrameReport>,
    /// Milliseconds since the mesh thread last finished a turn.
    pub silent_ms: u64,
    /// How it was configured.
    pub config: ConfigReport,
    /// Its workers.
    pub workers: Vec<WorkerReport>,
    /// Decisions by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Things gone wrong by reason.
    pub errors: BTreeMap<String, u64>,
    /// Requests under way.
    pub in_flight: u64,
    /// Requests sent to a second worker.
    pub retries: u64,
    /// Clients that went away early.
    pub client_aborts: u64,
    /// Placements handed to the mesh.
    pub placements: u64,
    /// Local ops dropped.
    pub ops_dropped: u64,
    /// Requests whose worker reported cached tokens; the sums below are over these.
    pub measured_requests: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Of these, predicted to be cached.
    pub predicted_tokens: u64,
    /// Of these, reported as cached.
    pub cached_tokens: u64,
    /// Thread CPU time of hash, lookup and policy, microseconds.
    pub lookup_cpu_us: Quantiles,
    /// From a request being read to its first byte, microseconds.
    pub first_byte_us: Quantiles,
    /// From a peer's stamp to its op being applied here, milliseconds.
    pub propagation_ms: Quantiles,
    /// Round trips of the mesh's connections, microseconds.
    pub quic_rtt_us: Quantiles,
    /// Lives restarted since the process started.
    pub restarts: u64,
    /// What the node observed so far, `what` or `what.why`; kinds that never happened are left out.
    pub notes: BTreeMap<String, u64>,
}

impl MeshReport {
    /// The gateway at this moment.
    #[must_use]
    pub fn of(gateway: &Gateway, frame: Option<&MeshFrame>) -> Self {
        let (counters, stats, net) = (gateway.counters(), gateway.plugin().stats(), gateway.mesh().metrics());
        let (readiness, sums) = (gateway.readiness(), counters.token_sums());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: gateway.uptime().as_secs(),
            ready: readiness == Readiness::Ready,
            ready_reason: readiness.reason(),
            status: (*gateway.mesh().status()).clone(),
            frame: frame.map(|frame| FrameReport {
                verdict: frame.verdict.word.clone(),
                why: frame.verdict.why.clone(),
                feeds: frame.feeds,
            }),
            silent_ms: u64::try_from(gateway.mesh().silent_for().as_millis()).unwrap_or(u64::MAX),
            config: config(gateway),
            workers: workers(gateway),
            outcomes: Outcome::ALL.iter().map(|o| (o.name().to_owned(), counters.outcome_count(*o))).collect(),
            errors: Fault::ALL.iter().map(|f| (f.name().to_owned(), counters.fault_count(*f))).collect(),
            in_flight: counters.in_flight(),
            retries: counters.retry_count(),
            client_aborts: counters.client_gone_count(),
            placements: stats.placements,
            ops_dropped: stats.dropped,
            measured_requests: sums.requests,
            prompt_tokens: sums.prompt,
            predicted_tokens: sums.predicted,
            cached_tokens: sums.cached,
            lookup_cpu_us: Quantiles::of(&counters.lookup_cpu),
            first_byte_us: Quantiles::of(&counters.first_byte),
            propagation_ms: net.propagation_ms.into(),
            quic_rtt_us: net.quic_rtt_us.into(),
            restarts: net.restarts_panicked + net.restarts_stalled + net.restarts_reborn + net.restarts_failed,
            notes: notes(gateway),
        }
    }
}

fn notes(gateway: &Gateway) -> BTreeMap<String, u64> {
    let counts = gateway.plugin().notes().counts.into_iter().filter(|(_, _, count)| *count > 0);
    counts
        .map(|(what, why, count)| (if why.is_empty() { what.to_owned() } else { format!("{what}.{why}") }, count))
        .collect()
}

fn config(gateway: &Gateway) -> ConfigReport {
    let config = gateway.config();
    ConfigReport {
        mesh: config.mesh.net.is_some(),
        cluster: config.mesh.cluster.clone(),
        advertised: gateway.mesh().advertised_address().map(|address| address.to_string()),
        policy: config.policy.to_string(),
        block_bytes: config.block_bytes,
        key_id: format!("{:016x}", config.mesh.hash_key.id().0),
        models: config.models.iter().map(ToString::to_string).collect(),
    }
}

fn workers(gateway: &Gateway) -> Vec<WorkerReport> {
    let of = |worker: &std::sync::Arc<crate::server::Worker>| {
        let probed = worker.last_probe();
        let configured = gateway.config().worker_capacity_tokens;
        WorkerReport {
            id: worker.id.to_string(),
            url: worker.url.clone(),
            up: worker.is_up(),
            capacity_tokens: configured.or(probed.as_ref().and_then(|probed| probed.capacity_tokens)),
            token: probed.map(|probed| probed.token),
            incarnation: gateway.plugin().incarnation(&worker.id).counter,
        }
    };
    gateway.workers().all().iter().map(of).collect()
}
