//! The gateway's parts, as every request and task shares them.
//!
//! Not here: starting and stopping (`run`), handling a request (`proxy`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use covey_crdt::id::{ModelName, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_mesh::net::Mesh;
use covey_mesh::status::Phase;

use super::counters::Counters;
use super::decisions::Decisions;
use super::ingest::Board;
use super::predictions::Predictions;
use super::request_id::RequestIds;
use super::scoring::Scoring;
use super::workers::Workers;
use crate::cli::Config;
use crate::plugin::Plugin;
use crate::tokens::BlockSizes;

/// Whether clients should be sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Yes.
    Ready,
    /// The replica has not been clean yet: its view of the mesh is empty or partial.
    Joining(Phase),
    /// The replica has not been clean yet, and gateways of the mesh refused this one: a flag or its name is wrong.
    Refused,
    /// This many workers have not been checked for the first time.
    Checking(usize),
    /// The gateway is shutting down.
    Draining,
}

impl Readiness {
    /// What to tell whoever asks.
    #[must_use]
    pub fn reason(self) -> String {
        match self {
            Self::Ready => "ready".to_owned(),
            Self::Joining(phase) => {
                let phase = match phase {
                    Phase::Joining => "joining",
                    Phase::Clean => "clean",
                    Phase::Dirty => "dirty",
                };
                format!("the replica is {phase}: waiting until it has all coverage of the mesh, or is alone")
            }
            Self::Refused => {
                "a gateway of the mesh refuses this one; the log says why (name, cluster and block size must fit)"
                    .to_owned()
            }
            Self::Checking(workers) => format!("{workers} workers have not been checked yet"),
            Self::Draining => "shutting down: finishing requests under way".to_owned(),
        }
    }
}

/// Now, in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)
}

/// A running gateway.
pub struct Gateway {
    config: Config,
    plugin: Arc<Plugin>,
    mesh: Mesh,
    workers: Workers,
    counters: Arc<Counters>,
    client: reqwest::Client,
    keyspaces: Vec<(ModelName, Arc<Keyspace>)>,
    scoring: Scoring,
    block_sizes: Arc<BlockSizes>,
    predictions: Predictions,
    decisions: Decisions,
    request_ids: RequestIds,
    feeds: Board,
    was_clean: AtomicBool,
    draining: AtomicBool,
    started: Instant,
    started_unix: u64,
}

impl Gateway {
    pub(super) fn new(config: Config, plugin: Arc<Plugin>, mesh: Mesh, client: reqwest::Client) -> Self {
        let workers = Workers::new(&config.workers);
        let key_id = config.mesh.hash_key.id();
        let keyspace = |model: &ModelName| {
            let keyspace = Keyspace::new(model.clone(), Unit::Bytes, config.block_bytes, key_id);
            Arc::new(keyspace.expect("the configuration's block size is in range"))
        };
        let start = format!("{} {} {}", config.mesh.name, std::process::id(), unix_ms());
        let seed = xxhash_rust::xxh3::xxh3_64(start.as_bytes());
        let served = config.models.iter().chain(&config.tokens.adapters);
        let keyspaces = served.map(|model| (model.clone(), keyspace(model))).collect();
        Self {
            plugin,
            mesh,
            workers,
            counters: Arc::default(),
            client,
            keyspaces,
            scoring: Scoring::new(config.tokens.clone()),
            block_sizes: Arc::new(BlockSizes::new(&config.models, config.tokens.block_tokens, key_id)),
            predictions: Predictions::default(),
            decisions: Decisions::new(config.decisions),
            request_ids: RequestIds::new(seed),
            feeds: Board::default(),
            was_clean: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            started: Instant::now(),
            started_unix: unix_ms() / 1_000,
            config,
        }
    }

    /// How it was configured.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The routing seam.
    #[must_use]
    pub const fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// The mesh member.
    #[must_use]
    pub const fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The workers.
    #[must_use]
    pub const fn workers(&self) -> &Workers {
        &self.workers
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(super) const fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// How long it has been running.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// When it was started, seconds since 1970.
    #[must_use]
    pub const fn started_unix(&self) -> u64 {
        self.started_unix
    }

    pub(super) const fn scoring(&self) -> &Scoring {
        &self.scoring
    }

    /// Whether requests can be sent to the worker from here.
    pub(crate) fn has_worker(&self, worker: &WorkerId) -> bool {
        self.workers.find(worker).is_some()
    }

    /// How many tokens blocks have, by model. Workers' feeds say so.
    #[must_use]
    pub const fn block_sizes(&self) -> &Arc<BlockSizes> {
        &self.block_sizes
    }

    /// What feeds said last.
    pub(super) const fn feeds(&self) -> &Board {
        &self.feeds
    }

    /// How predictions came out.
    #[must_use]
    pub const fn predictions(&self) -> &Predictions {
        &self.predictions
    }

    /// The last decisions.
    #[must_use]
    pub const fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    pub(super) const fn request_ids(&self) -> &RequestIds {
        &self.request_ids
    }

    /// Requests that were looked up by their bytes although there is a block size, by why.
    pub(crate) fn untokenized(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.scoring.untokenized()
    }

    /// Bytes of token ids kept of texts encoded before.
    pub(crate) fn tokenizer_cache_bytes(&self) -> usize {
        self.scoring.cached_bytes()
    }

    /// The names that requests may give as their model.
    pub(super) fn served(&self) -> impl Iterator<Item = &ModelName> {
        self.keyspaces.iter().map(|(model, _)| model)
    }

    /// The byte keyspace of a model, the first one's for `None`.
    pub(super) fn keyspace(&self, model: Option<&str>) -> Option<&Arc<Keyspace>> {
        let found = match model {
            None => self.keyspaces.first(),
            Some(name) => self.keyspaces.iter().find(|(model, _)| model.as_str() == name),
        };
        found.map(|(_, keyspace)| keyspace)
    }

    /// From now on no new client should come.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether clients should be sent here. A replica that was clean once stays good enough to route on; what it lacks
    /// meanwhile is labelled request by request.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Acquire) {
            return Readiness::Draining;
        }
        if !self.was_clean.load(Ordering::Acquire) {
            let phase = self.mesh.status().phase;
            if phase != Phase::Clean {
                let refused = self.plugin.notes().of("refused_by", "") > 0;
                return if refused { Readiness::Refused } else { Readiness::Joining(phase) };
            }
            self.was_clean.store(true, Ordering::Release);
        }
        match self.workers.unknown() {
            0 => Readiness::Ready,
            unknown => Readiness::Checking(unknown),
        }
    }
}
