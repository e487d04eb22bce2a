//! The configuration of a gateway. Parsed, not validated: what is held here can be started.
//!
//! Not here: whether ports are free.

use std::net::SocketAddr;
use std::time::Duration;

use covey_crdt::id::{ModelName, WorkerId};
use covey_crdt::limits::BLOCK_UNITS_MAX;
use tracing_subscriber::EnvFilter;

use super::args::{GatewayArgs, LogFormatArg};
use super::error::ConfigError;
use super::events::sources;
use super::mesh::MeshSettings;
use super::ranks;
use super::session::SessionSettings;
use super::tokens::TokenSettings;
use super::traces::Traces;
use super::worker::WorkerSpec;
use crate::ingest::runner::Source;
use crate::policy::Policy;

/// How log lines look.
pub type LogFormat = LogFormatArg;

/// Most decisions that a gateway keeps.
const DECISIONS_MAX: usize = 100_000;

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Connecting to a worker.
    pub connect: Duration,
    /// From the request until the first byte of the answer.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// Requests under way after a signal to stop.
    pub drain: Duration,
    /// Between two health checks of a worker.
    pub health_interval: Duration,
    /// Between two probes of a worker.
    pub probe_interval: Duration,
}

/// A gateway's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where operators connect.
    pub admin_listen: SocketAddr,
    /// At least one, ids all different; those of one URL are the ranks of one engine, in order.
    pub workers: Vec<WorkerSpec>,
    /// The capacity of each worker, when the operator overrides what it says.
    pub worker_capacity_tokens: Option<u64>,
    /// At least one; the first is meant by requests that name none.
    pub models: Vec<ModelName>,
    /// How workers are chosen.
    pub policy: Policy,
    /// What names a request's session.
    pub session: SessionSettings,
    /// Decisions kept, at most 100,000.
    pub decisions: usize,
    /// Bytes in a block, 1 to [`BLOCK_UNITS_MAX`].
    pub block_bytes: u32,
    /// After how long an untouched placement is forgotten.
    pub placement_idle: Duration,
    /// How prompts become token ids.
    pub tokens: TokenSettings,
    /// Where workers' KV events are; a worker that is not among them is known by its placements alone.
    pub events: Vec<(WorkerId, Source)>,
    /// How the gateway stands to others.
    pub mesh: MeshSettings,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Largest request body in bytes.
    pub max_body_bytes: usize,
    /// What is logged; parses as a filter.
    pub log: String,
    /// How it is logged.
    pub log_format: LogFormat,
    /// Where traces of decisions go; `None`: nowhere.
    pub traces: Option<Traces>,
    /// Whether the operators' port, then a loopback one, can break the mesh thread.
    pub test_hooks: bool,
}

impl Config {
    /// Reads flags (and the files they name) into a configuration.
    ///
    /// # Errors
    /// [`ConfigError`] naming the flag that is missing or wrong.
    pub fn parse(args: &GatewayArgs) -> Result<Self, ConfigError> {
        if !(1..=BLOCK_UNITS_MAX).contains(&args.block_bytes) {
            return Err(ConfigError::BlockBytes { given: args.block_bytes });
        }
        if args.listen == args.admin_listen && args.listen.port() != 0 {
            return Err(ConfigError::SameAddress { address: args.listen });
        }
        if args.worker_capacity_tokens == Some(0) {
            let must = "at least 1; leave the flag out to use what the worker says";
            return Err(ConfigError::Range { flag: "worker-capacity-tokens", given: 0, must });
        }
        if args.decisions > DECISIONS_MAX {
            let must = "at most 100000; 4096 is the default, 0 keeps none";
            return Err(ConfigError::Range { flag: "decisions", given: args.decisions as u64, must });
        }
        if args.test_hooks && !args.admin_listen.ip().is_loopback() {
            return Err(ConfigError::TestHooks { address: args.admin_listen });
        }
        EnvFilter::try_new(&args.log)
            .map_err(|error| ConfigError::LogFilter { given: args.log.clone(), why: error.to_string() })?;
        let mesh = MeshSettings::parse(&args.mesh)?;
        let workers = ranks::spread(&args.data_parallel, &workers(&args.worker, mesh.remote_peers)?)?;
        let models = models(&args.model)?;
        let tokens = TokenSettings::parse(&args.tokens, &models)?;
        let events = sources(&args.events, &workers)?;
        let limits = &args.limits;
        Ok(Self {
            listen: args.listen,
            admin_listen: args.admin_listen,
            workers,
            worker_capacity_tokens: args.worker_capacity_tokens,
            models,
            policy: args.policy,
            session: SessionSettings::parse(args)?,
            decisions: args.decisions,
            block_bytes: args.block_bytes,
            placement_idle: args.placement_idle,
            tokens,
            events,
            mesh,
            timeouts: Timeouts {
                connect: limits.connect_timeout,
                first_byte: limits.request_timeout,
                idle: limits.idle_timeout,
                drain: limits.drain_timeout,
                health_interval: limits.health_interval,
                probe_interval: limits.probe_interval,
            },
            max_body_bytes: usize::try_from(limits.max_body_bytes).unwrap_or(usize::MAX),
            log: args.log.clone(),
            log_format: args.log_format,
            traces: Traces::parse(&args.traces)?,
            test_hooks: args.test_hooks,
        })
    }
}

fn workers(given: &[String], remote_peers: bool) -> Result<Vec<WorkerSpec>, ConfigError> {
    let mut workers: Vec<WorkerSpec> = Vec::new();
    for text in given.iter().filter(|text| !text.trim().is_empty()) {
        let worker = WorkerSpec::parse(text)?;
        if remote_peers && worker.loopback && !worker.named {
            return Err(ConfigError::LoopbackWorker { url: worker.url });
        }
        if workers.iter().any(|other| other.id == worker.id) {
            return Err(ConfigError::DuplicateWorker { id: worker.id.to_string() });
        }
        if let Some(other) = workers.iter().find(|other| other.url == worker.url) {
            let (first, second) = (other.id.to_string(), worker.id.to_string());
            return Err(ConfigError::DuplicateUrl { first, second, url: worker.url });
        }
        workers.push(worker);
    }
    if workers.is_empty() { Err(ConfigError::NoWorker) } else { Ok(workers) }
}

fn models(given: &[String]) -> Result<Vec<ModelName>, ConfigError> {
    let mut models = Vec::new();
    for text in given.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let name = |why| ConfigError::Name { flag: "model", given: text.to_owned(), why };
        let model = ModelName::new(text).map_err(name)?;
        if !models.contains(&model) {
            models.push(model);
        }
    }
    if models.is_empty() { Err(ConfigError::NoModel) } else { Ok(models) }
}
