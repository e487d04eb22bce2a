//! Flags and environment variables, as clap reads them. Every flag says its default and unit.
//!
//! Not here: what values mean together (`config`).

mod tools;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::tools::{DiffArgs, DoctorArgs, ExplainArgs, RecordArgs, StatusArgs, TopArgs};
use super::quantity::{parse_bytes, parse_duration};
use crate::policy::Policy;

/// Covey: a coverage mesh for LLM gateways.
#[derive(Debug, Parser)]
#[command(name = "covey", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `covey` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an OpenAI-compatible gateway that routes each request to the worker that has most of it cached.
    Gateway(Box<GatewayArgs>),
    /// Ask a running gateway how it and its peers are. Exit 0: converged, 1: converging or degraded, 2: diverged or
    /// partitioned, 3: unknown.
    Status(StatusArgs),
    /// Compare two running gateways: which holders and blocks differ, since when and why. Exit 0: equal but for what is
    /// under way, 1: they differ and something explains it (lag, held, dirty, cut), 2: something is LOST, 3: one could not
    /// be asked.
    Diff(DiffArgs),
    /// Write what a gateway's dashboard shows to a file, one frame a line, to look at it later. Exit 0: recorded as asked,
    /// 1: the file cannot be written, 3: nobody could be asked.
    Record(RecordArgs),
    /// Watch the mesh on a terminal: verdict, lag, state groups, gateways, workers, traffic, events. Exit 0: left with q,
    /// 1: no terminal, 3: nobody could be asked (with --once).
    Top(TopArgs),
    /// Why is my hit ratio zero? Asks a running gateway what it predicted of each worker and what that reported, or judges
    /// recorded engine events with --capture. Exit 0: nothing is wrong (all requests predicted exactly), 1: a mismatch is named
    /// (some were not), 3: nobody could be asked (the capture cannot be used).
    Doctor(DoctorArgs),
    /// Why did a request go where it went? Says what the worker was compared with, what was predicted of it and what came of
    /// it. Exit 0: told, 3: no gateway that was asked knows the request.
    Explain(ExplainArgs),
}

/// Whether the gateway joins a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Share coverage with other gateways.
    On,
    /// A replica of one.
    Off,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormatArg {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Flags of `covey gateway`. Each is also an environment variable; a flag wins.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// TCP address that clients connect to.
    #[arg(long, env = "COVEY_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// TCP address of /metrics, /mesh, /healthz and /readyz for operators.
    #[arg(long, env = "COVEY_ADMIN_LISTEN", default_value = "127.0.0.1:9080", value_name = "ADDR:PORT")]
    pub admin_listen: SocketAddr,
    /// An inference worker (repeatable; comma-separated in the environment). The id names it to the whole mesh; without
    /// one its URL does. At least one is needed.
    #[arg(long, env = "COVEY_WORKER", value_delimiter = ',', value_name = "[ID=]URL")]
    pub worker: Vec<String>,
    /// A worker's engine has SIZE data-parallel ranks behind its one address, 1 to 64 (repeatable; comma-separated in the
    /// environment); WORKER is its id, or its URL when it has none. Each rank is a worker of its own: rank 0 goes by the id,
    /// rank R by ID#R. Requests name theirs in the header X-data-parallel-rank, which vLLM reads, and SGLang since March 2026
    /// (an older SGLang reads it from the body only, which is never altered). KV events and replays of rank R are R ports
    /// above those given. Tell every gateway of a mesh the same. Default: 1, and no such header.
    #[arg(long, env = "COVEY_DATA_PARALLEL", value_delimiter = ',', value_name = "WORKER=SIZE")]
    pub data_parallel: Vec<String>,
    /// KV cache of each worker (of each rank), in tokens. Default: what the worker's own metrics say.
    #[arg(long, env = "COVEY_WORKER_CAPACITY_TOKENS", value_name = "TOKENS")]
    pub worker_capacity_tokens: Option<u64>,
    /// A model (or adapter) that the workers serve (repeatable; comma-separated in the environment). Requests that name
    /// no model mean the first. At least one is needed.
    #[arg(long, env = "COVEY_MODEL", value_delimiter = ',', value_name = "NAME")]
    pub model: Vec<String>,
    /// How workers are chosen. mesh: most of the prompt cached against load; least-load; round-robin; random; sticky: by
    /// session (see --session-header; x-session-id or the `user` field when nothing is said); prefix-hash: by the prompt's beginning; local: like mesh, counting
    /// only this gateway's own load.
    #[arg(long, env = "COVEY_POLICY", default_value = "mesh", value_name = "POLICY")]
    pub policy: Policy,
    /// Request header that names a request's session. With --policy sticky it decides; with mesh and local it only breaks ties:
    /// of equally good workers the session's, the same one on every gateway. Default: none (sticky: x-session-id).
    #[arg(long, env = "COVEY_SESSION_HEADER", value_name = "NAME")]
    pub session_header: Option<String>,
    /// The `user` field of a request names its session where no header does. Default: off (sticky without --session-header: on).
    #[arg(long, env = "COVEY_SESSION_FROM_USER")]
    pub session_from_user: bool,
    /// Decisions kept for `covey explain` and /decisions, about 1 kB each, 0 to 100000; 0 keeps none.
    #[arg(long, env = "COVEY_DECISIONS", default_value_t = 4_096, value_name = "COUNT")]
    pub decisions: usize,
    /// Bytes of prompt text in one block; the same on every gateway of a mesh.
    #[arg(long, env = "COVEY_BLOCK_BYTES", default_value_t = 256, value_name = "BYTES")]
    pub block_bytes: u32,
    /// A placement that no request touched for this long is forgotten (seconds, or with a unit: ms, s, m, h).
    #[arg(long, env = "COVEY_PLACEMENT_IDLE", default_value = "1h", value_parser = parse_duration, value_name = "TIME")]
    pub placement_idle: Duration,

    /// Flags of token ids.
    #[command(flatten, next_help_heading = "Tokens")]
    pub tokens: TokenArgs,
    /// Flags of engines' events.
    #[command(flatten, next_help_heading = "KV events")]
    pub events: EventArgs,
    /// Flags of the mesh.
    #[command(flatten, next_help_heading = "Mesh")]
    pub mesh: MeshArgs,
    /// Flags about limits.
    #[command(flatten, next_help_heading = "Limits (times in seconds, or with a unit: ms, s, m, h)")]
    pub limits: LimitArgs,

    /// What to log: error, warn, info, debug, trace, or a filter such as `info,covey_mesh=debug`.
    #[arg(long, env = "COVEY_LOG", help_heading = "Logging", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// How log lines look.
    #[arg(long, env = "COVEY_LOG_FORMAT", help_heading = "Logging", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormatArg,

    /// Flags of traces.
    #[command(flatten, next_help_heading = "Traces (OpenTelemetry; builds with feature `otel`)")]
    pub traces: TraceArgs,

    /// Lets whoever reaches the admin port break the mesh thread (POST /test/mesh/panic, /test/mesh/stall). For tests
    /// alone, therefore not an environment variable and not in the help; wants --admin-listen on loopback.
    #[arg(long, hide = true)]
    pub test_hooks: bool,
}

/// Flags of token ids: how prompts are looked up by the tokens that the workers compute.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Tokenizer of a model, or of all: a tokenizer.json, or the directory with it, tokenizer_config.json and
    /// chat_template.jinja (repeatable; comma-separated in the environment). Default: none, text is looked up by its bytes.
    #[arg(long, env = "COVEY_TOKENIZER", value_delimiter = ',', value_name = "[MODEL=]PATH")]
    pub tokenizer: Vec<String>,
    /// Tokens in one block of the workers' caches. Default: what their events say; events win over the flag.
    #[arg(long, env = "COVEY_BLOCK_TOKENS", value_name = "TOKENS")]
    pub block_tokens: Option<u32>,
    /// A LoRA adapter of the first model, served under this name (repeatable; comma-separated in the environment). Default:
    /// none.
    #[arg(long, env = "COVEY_ADAPTER", value_delimiter = ',', value_name = "NAME")]
    pub adapter: Vec<String>,
    /// Token ids kept of texts encoded before, so that a growing conversation costs what is new; in bytes or with a unit (KiB,
    /// MiB), for each tokenizer. 0 encodes every prompt whole.
    #[arg(long, env = "COVEY_TOKENIZER_CACHE_BYTES", default_value = "64MiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub tokenizer_cache_bytes: u64,
    /// Render the chat_template that a request brings, as workers with the flag of that name do; for trusted clients alone: a
    /// template can ask for any amount of memory. Default: off, such requests are looked up by their bytes.
    #[arg(long, env = "COVEY_TRUST_REQUEST_CHAT_TEMPLATE")]
    pub trust_request_chat_template: bool,
}

/// Flags of engines' KV events. Two gateways of a mesh read each worker, whichever are told where: tell all of them.
#[derive(Debug, Default, Args)]
pub struct EventArgs {
    /// Where a worker publishes its KV events over ZMQ (repeatable; comma-separated in the environment); WORKER is its id, or
    /// its URL when it has none. With --data-parallel it is the port of rank 0, and the next ranks have the next ports.
    /// Default: none, its cache is known by placements alone.
    #[arg(long, env = "COVEY_KV_EVENTS", value_delimiter = ',', value_name = "WORKER=tcp://HOST:PORT")]
    pub kv_events: Vec<String>,
    /// Where it answers replays of them (repeatable; comma-separated in the environment). Default: none, what is missed is lost
    /// until its cache is cleared.
    #[arg(long, env = "COVEY_KV_REPLAY", value_delimiter = ',', value_name = "WORKER=tcp://HOST:PORT")]
    pub kv_replay: Vec<String>,
    /// TCP port of the events of every worker without --kv-events, on the worker's own host. Default: none.
    #[arg(long, env = "COVEY_KV_EVENTS_PORT", value_name = "PORT")]
    pub kv_events_port: Option<u16>,
    /// TCP port of replays, likewise. Default: none.
    #[arg(long, env = "COVEY_KV_REPLAY_PORT", value_name = "PORT")]
    pub kv_replay_port: Option<u16>,
    /// Only events whose topic begins so. Default: all.
    #[arg(long, env = "COVEY_KV_TOPIC", default_value = "", value_name = "TEXT")]
    pub kv_topic: String,
}

/// Flags of the mesh; read only with `--mesh on`.
#[derive(Debug, Args)]
pub struct MeshArgs {
    /// Whether to share coverage with other gateways.
    #[arg(long, env = "COVEY_MESH", default_value = "off", value_name = "on|off")]
    pub mesh: Switch,
    /// This gateway's name, unique in the mesh. Needed with --mesh on.
    #[arg(long, env = "COVEY_MESH_NAME", value_name = "NAME")]
    pub mesh_name: Option<String>,
    /// UDP address that peers connect to; port 0 takes a free one.
    #[arg(long, env = "COVEY_MESH_LISTEN", default_value = "127.0.0.1:7080", value_name = "ADDR:PORT")]
    pub mesh_listen: SocketAddr,
    /// UDP address that peers are told. Default: the one of --mesh-listen, which must then not be a wildcard.
    #[arg(long, env = "COVEY_MESH_ADVERTISE", value_name = "ADDR:PORT")]
    pub mesh_advertise: Option<SocketAddr>,
    /// Peers to connect to (repeatable or comma-separated). Names are resolved again at every attempt; one's own address
    /// among them does no harm. Default: none, which founds a mesh.
    #[arg(long, env = "COVEY_MESH_SEEDS", value_delimiter = ',', value_name = "HOST:PORT")]
    pub mesh_seeds: Vec<String>,
    /// Only gateways that name the same cluster talk to each other.
    #[arg(long, env = "COVEY_MESH_CLUSTER", default_value = "covey", value_name = "NAME")]
    pub mesh_cluster: String,
    /// File with the mesh's shared secret: at least 32 random bytes, never readable by others (chmod 600). Needed with --mesh on.
    #[arg(long, env = "COVEY_MESH_SECRET_FILE", value_name = "FILE")]
    pub mesh_secret_file: Option<PathBuf>,
    /// File with the key of block hashes: 64 hex digits (or 32 raw bytes). Default: derived from the secret.
    #[arg(long, env = "COVEY_MESH_HASH_KEY_FILE", value_name = "FILE")]
    pub mesh_hash_key_file: Option<PathBuf>,
}

/// Flags of traces.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// OpenTelemetry collector that gets a trace of each request's decision, OTLP over HTTP with protobuf: URL without a
    /// path means /v1/traces. Default: none, nothing is traced. One that cannot be reached delays no request.
    #[arg(long, env = "COVEY_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Share of requests traced, 0 to 1. A client that sends a `traceparent` decides for its requests itself.
    #[arg(long, env = "COVEY_OTLP_SAMPLE", default_value_t = 1.0, value_name = "SHARE")]
    pub otlp_sample: f64,
}

/// Flags about limits. Times are in seconds unless they carry a unit (ms, s, m, h).
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// How long connecting to a worker may take.
    #[arg(long, env = "COVEY_CONNECT_TIMEOUT", default_value = "2s", value_parser = parse_duration, value_name = "TIME")]
    pub connect_timeout: Duration,
    /// How long a worker may take until the first byte of its answer.
    #[arg(long, env = "COVEY_REQUEST_TIMEOUT", default_value = "10m", value_parser = parse_duration, value_name = "TIME")]
    pub request_timeout: Duration,
    /// How long a worker may be silent in the middle of its answer.
    #[arg(long, env = "COVEY_IDLE_TIMEOUT", default_value = "60s", value_parser = parse_duration, value_name = "TIME")]
    pub idle_timeout: Duration,
    /// How long requests under way may take after SIGTERM or SIGINT.
    #[arg(long, env = "COVEY_DRAIN_TIMEOUT", default_value = "30s", value_parser = parse_duration, value_name = "TIME")]
    pub drain_timeout: Duration,
    /// Pause between two health checks of a worker.
    #[arg(long, env = "COVEY_HEALTH_INTERVAL", default_value = "1s", value_parser = parse_duration, value_name = "TIME")]
    pub health_interval: Duration,
    /// Pause between two probes of a worker (its life, capacity and requests); 1s at most while half of the other gateways is not
    /// heard.
    #[arg(long, env = "COVEY_PROBE_INTERVAL", default_value = "3s", value_parser = parse_duration, value_name = "TIME")]
    pub probe_interval: Duration,
    /// Largest request body, in bytes or with a unit (KiB, MiB).
    #[arg(long, env = "COVEY_MAX_BODY_BYTES", default_value = "64MiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub max_body_bytes: u64,
}
