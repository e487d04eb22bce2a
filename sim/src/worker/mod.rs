//! The engine model as a process: an OpenAI-compatible HTTP server over [`Engine`](crate::engine::Engine) and a clock.
//!
//! Routes: `/v1/chat/completions` and `/v1/completions` (streamed and not), their `/render` (the prompt's ids, as vLLM has
//! it), `/v1/models`, `/health`, `/metrics` with vLLM's names. A body field `covey_script: {"answer": "text"}`, or
//! `metadata: {"covey_script": "text"}`, scripts the answer, so that a client knows what the next turn has to carry;
//! without it the answer is a function of the prompt, `max_tokens` tokens long. A prompt of token ids is taken as it is, and
//! its answer has `token_ids` too; with `return_token_ids` every answer has.
//!
//! With `--kv-events` the cache is told on ZMQ sockets (`kv`). `GET /covey/truth` says what it holds after the last batch,
//! `POST /covey/fault` makes something go wrong. With `--data-parallel-size` several engines are behind the address, each a
//! rank (`ranks`); truth and faults are those of the rank that the request names as completions do, otherwise of rank 0 and of
//! all. A restart is the process's, so of all.
//!
//! Not here: cache and timing (`engine`). Absent: sampling, log probabilities, several choices.

mod answer;
mod ask;
mod error;
mod host;
mod kv;
mod metrics;
mod ranks;
mod reply;
mod template;
mod tokenize;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use clap::Args;
use futures_util::future::{join_all, try_join_all};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::engine::{EngineConfig, Job};
use ask::Ask;
use error::ApiError;
use host::Host;
pub(crate) use kv::payload;
use kv::{Fault, FaultKind, Order, Publisher};
pub use kv::{KvArgs, Wire};
use ranks::Ranks;
use tokenize::{FourBytes, Model, Tokenize};

/// Largest body taken: about eight million tokens of text.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How the line begins that says where a worker can be reached: its first line.
pub const READY: &str = "worker listens on http://";
/// How the line begins that says where KV events are published: its second line, with `--kv-events`; those of rank 0.
pub const KV_EVENTS_ON: &str = "kv-events on ";
/// How the line begins that says where replays are served: its third line, with `--replay`.
pub const REPLAY_ON: &str = "replay on ";

/// What `covey-sim worker` is told.
#[derive(Args, Clone, Debug)]
pub struct WorkerArgs {
    /// Address to serve on; port 0 takes a free one, which the first line of output names
    #[arg(long, env = "COVEY_SIM_LISTEN", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Model name it serves under
    #[arg(long, default_value = "demo")]
    pub model: String,
    /// Name it goes by in answers (`system_fingerprint`)
    #[arg(long, default_value = "worker")]
    pub id: String,
    /// Size of its KV cache in tokens
    #[arg(long, default_value_t = 120_000, value_parser = clap::value_parser!(u64).range(16..=1 << 32))]
    pub cache_tokens: u64,
    /// Size of its KV cache in host memory in tokens, which takes what the first one loses; 0 for none
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1 << 34))]
    pub host_cache_tokens: u64,
    /// Tokens in a block of its KV cache
    #[arg(long, default_value_t = crate::engine::BLOCK_TOKENS, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub block_tokens: u32,
    /// Prompt tokens it computes in a second, all requests together
    #[arg(long, default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub prefill_tokens_per_s: u32,
    /// Milliseconds of a step, in which every decoding request gets one token
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub decode_step_ms: u64,
    /// Requests that run at the same time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub running_max: u32,
    /// Data-parallel ranks behind its address, each an engine with a cache of its own; the header X-data-parallel-rank says
    /// which one computes a request, otherwise the one with least to do
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "dp_rank")]
    pub data_parallel_size: u32,
    /// Tokenizer of its model, a tokenizer.json or the directory with it and the chat template, as gateways take it: texts are
    /// tokenized as they do. Without it a token is four bytes of the text
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// Exit when standard input closes, so that it never outlives who started it
    #[arg(long)]
    pub exit_with_stdin: bool,
    /// Its KV events
    #[command(flatten)]
    pub kv: KvArgs,
}

impl WorkerArgs {
    fn engine(&self) -> EngineConfig {
        EngineConfig {
            cache_tokens: self.cache_tokens,
            host_cache_tokens: self.host_cache_tokens,
            block_tokens: self.block_tokens,
            prefill_tokens_per_s: self.prefill_tokens_per_s,
            decode_step_us: self.decode_step_ms * 1_000,
            running_max: self.running_max as usize,
            ..EngineConfig::default()
        }
    }
}

/// A worker that is bound but does not serve yet.
pub struct Worker {
    listener: TcpListener,
    server: Arc<Server>,
    /// None, or those of each rank.
    events: Vec<Events>,
}

/// Bound sockets, and what the engine will tell them.
struct Events {
    publisher: Publisher,
    orders: mpsc::UnboundedReceiver<Order>,
}

/// What every request sees.
struct Server {
    model: String,
    id: String,
    ranks: Ranks,
    tokenizer: Box<dyn Tokenize>,
}

impl Server {
    /// What a rank goes by in answers: as gateways name it.
    fn named(&self, rank: usize) -> String {
        if rank == 0 { self.id.clone() } else { format!("{}#{rank}", self.id) }
    }
}

impl Worker {
    /// Binds the address, and those for KV events.
    ///
    /// # Errors
    /// When one is taken or not this machine's, or the tokenizer cannot be loaded.
    pub async fn bind(args: &WorkerArgs) -> io::Result<Self> {
        let listener = TcpListener::bind(args.listen).await?;
        let tokenizer: Box<dyn Tokenize> = match &args.tokenizer {
            Some(path) => Box::new(Model::load(path).map_err(io::Error::other)?),
            None => Box::new(FourBytes),
        };
        let publishers = args.kv.bind(args.block_tokens, args.data_parallel_size).await.map_err(io::Error::other)?;
        let mut publishers = publishers.into_iter();
        let (mut hosts, mut events) = (Vec::new(), Vec::new());
        for _ in 0..args.data_parallel_size {
            let sender = publishers.next().map(|publisher| {
                let (sender, orders) = mpsc::unbounded_channel();
                events.push(Events { publisher, orders });
                sender
            });
            hosts.push(Host::new(args.engine(), sender));
        }
        let (model, id) = (args.model.clone(), args.id.clone());
        Ok(Self { listener, server: Arc::new(Server { model, id, ranks: Ranks::new(hosts), tokenizer }), events })
    }

    /// Where rank 0 publishes KV events, like `tcp://127.0.0.1:5557`; `None` when none are.
    #[must_use]
    pub fn kv_events(&self) -> Option<&str> {
        self.events.first().map(|events| events.publisher.events.as_str())
    }

    /// Where replays of rank 0's KV events are served.
    #[must_use]
    pub fn replay(&self) -> Option<&str> {
        self.events.first().and_then(|events| events.publisher.replay.as_deref())
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    ///
    /// # Errors
    /// When the listener breaks, or after a restart an address for KV events is gone.
    pub async fn serve(self) -> io::Result<()> {
        let server = Arc::clone(&self.server);
        let run = join_all(server.ranks.all().iter().map(|host| host.run()));
        let listener = self.listener.tap_io(|stream| {
            // Without it each token of a stream may wait for the acknowledgement of the one before.
            let _ = stream.set_nodelay(true);
        });
        tokio::select! {
            served = axum::serve(listener, router(self.server)) => served,
            _ = run => Ok(()),
            ended = publish(self.events) => ended,
        }
    }

    /// The lines that say where it can be reached.
    fn ready(&self) -> io::Result<String> {
        let events = self.kv_events().map(|address| format!("{KV_EVENTS_ON}{address}\n"));
        let replay = self.replay().map(|address| format!("{REPLAY_ON}{address}\n"));
        let ready = format!("{READY}{}\n", self.address()?);
        Ok(std::iter::once(ready).chain(events).chain(replay).collect())
    }
}

/// Publishes KV events, if there are to be any.
async fn publish(events: Vec<Events>) -> io::Result<()> {
    if events.is_empty() {
        return std::future::pending().await;
    }
    let publishing = events.into_iter().map(|Events { publisher, orders }| publisher.run(orders));
    try_join_all(publishing).await.map(drop).map_err(io::Error::other)
}

/// Serves until interrupted, terminated or (with `--exit-with-stdin`) orphaned. When it is reachable it prints where: the
/// address of HTTP ([`READY`]), then those of KV events ([`KV_EVENTS_ON`]) and replays ([`REPLAY_ON`]), a line each.
///
/// # Errors
/// When the address cannot be bound or the listener breaks, in words for a terminal.
pub async fn run(args: &WorkerArgs) -> Result<(), String> {
    let cannot = |why: io::Error| format!("worker cannot serve on {}: {why}", args.listen);
    let worker = Worker::bind(args).await.map_err(cannot)?;
    let ready = worker.ready().map_err(cannot)?;
    io::stdout().write_all(ready.as_bytes()).map_err(cannot)?;
    tokio::select! {
        served = worker.serve() => served.map_err(cannot),
        () = asked_to_stop() => Ok(()),
        () = orphaned(), if args.exit_with_stdin => Ok(()),
    }
}

/// Ends when the process is interrupted, terminated or loses its terminal.
pub(crate) async fn asked_to_stop() {
    let listen = |kind| signal(kind).expect("signal handlers can be installed on a running runtime");
    let mut interrupted = listen(SignalKind::interrupt());
    let mut terminated = listen(SignalKind::terminate());
    let mut hung_up = listen(SignalKind::hangup());
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
}

/// Ends when standard input closes. Reads on a thread of its own: a terminal cannot be read asynchronously.
async fn orphaned() {
    let (sender, closed) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(sender);
    });
    let _ = closed.await;
}

fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(text))
        .route("/v1/chat/completions/render", post(render_chat))
        .route("/v1/completions/render", post(render_text))
        .route("/v1/models", get(models))
        .route("/health", get(|| async {}))
        .route("/metrics", get(scrape))
        .route("/covey/truth", get(truth))
        .route("/covey/fault", post(fault))
        .fallback(|| async { ApiError::no_such_route() })
        .method_not_allowed_fallback(|| async { ApiError::wrong_method() })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(server)
}

type Body = Result<Bytes, BytesRejection>;

/// What an engine without a tokenizer computes for a chat's body.
///
/// # Errors
/// The engine's own refusal, in words.
pub(crate) fn chat_job(body: &[u8]) -> Result<Job, String> {
    Ask::chat(body, &FourBytes).map(|ask| ask.job).map_err(|why| why.to_string())
}

async fn chat(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let ask = Ask::chat(&body?, &*server.tokenizer)?;
    answer(&server, &headers, ask).await
}

async fn text(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let ask = Ask::text(&body?, &*server.tokenizer)?;
    answer(&server, &headers, ask).await
}

async fn render_chat(State(server): State<Arc<Server>>, body: Body) -> Result<Response, ApiError> {
    let ask = Ask::chat(&body?, &*server.tokenizer)?;
    Ok(axum::Json(reply::rendered(&ask, &server.model)).into_response())
}

async fn render_text(State(server): State<Arc<Server>>, body: Body) -> Result<Response, ApiError> {
    let ask = Ask::text(&body?, &*server.tokenizer)?;
    Ok(axum::Json(reply::rendered(&ask, &server.model)).into_response())
}

async fn answer(server: &Server, headers: &HeaderMap, ask: Ask) -> Result<Response, ApiError> {
    if let Some(asked) = ask.model.as_ref().filter(|asked| **asked != server.model) {
        return Err(ApiError::unknown_model(asked, &server.model));
    }
    let (rank, host) = server.ranks.take(headers)?;
    let ticket = host.submit(ask.job.clone())?;
    let reply = reply::Reply::new(ask, ticket, &server.model, &server.named(rank));
    if reply.streams() { Ok(reply.stream()) } else { reply.whole().await }
}

async fn models(State(server): State<Arc<Server>>) -> Response {
    let config = server.ranks.first().config();
    let tokens_max = u64::from(config.blocks()) * u64::from(config.block_tokens);
    axum::Json(reply::models(&server.model, tokens_max)).into_response()
}

async fn scrape(State(server): State<Arc<Server>>) -> Response {
    let text = metrics::render(&server.ranks, &server.model);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn truth(State(server): State<Arc<Server>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let host = &server.ranks.all()[server.ranks.named(&headers)?.unwrap_or_default()];
    let truth = host.truth().await;
    let token = format!("{:.3}", truth.started_unix_s);
    Ok(axum::Json(kv::truth_json(&truth.kv, &token, host.config().block_tokens)).into_response())
}

async fn fault(State(server): State<Arc<Server>>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let fault: Fault =
        serde_json::from_slice(&body?).map_err(|why| ApiError::bad("body", &format!("body is not a fault: {why}")))?;
    fault.check().map_err(|why| ApiError::bad("body", &why))?;
    let all = server.ranks.all();
    let concerned = match server.ranks.named(&headers)? {
        Some(rank) if fault.kind != FaultKind::Restart => &all[rank..=rank],
        Some(_) | None => all,
    };
    // Each is told, whatever the one before said.
    let refused = concerned.iter().filter(|host| !host.fault(&fault)).count();
    if refused > 0 { Err(ApiError::in_use()) } else { Ok(axum::Json(serde_json::json!({"ok": true})).into_response()) }
}
