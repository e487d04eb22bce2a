//! The seam a gateway embeds. No async, no lock on a request's path, nothing that can fail a request (I11).
//!
//! ```text
//! key    = RequestKey::of_bytes(..)          hash the rendered prompt, once
//! routed = plugin.route(&key, &hints)?       look up, choose, count as pending        -> Routed { worker, ticket, .. }
//!          plugin.accepted(&mut ticket, &key)     first byte of the answer: the placement is published
//!          plugin.ended(ticket, &key, output, end)   the chain is extended by what was produced
//! ```
//! A worker that fails before its first byte: drop the ticket and route again with the worker in `Hints::exclude`.
//!
//! Not here: HTTP (`server`), gossip (`covey-mesh`). Upholds I6 (a placement is published only after a worker accepted).

#[cfg(feature = "server")]
mod host;
mod outcome;
mod request_key;
mod sink;
mod stats;
mod ticket;
pub mod view;

use std::fmt;
use std::sync::{Arc, OnceLock};

use covey_crdt::id::{Incarnation, Token, WorkerId};
use covey_mesh::input::Local;

pub use self::outcome::{End, Outcome, Skipped};
pub use self::request_key::RequestKey;
pub use self::sink::Sink;
pub use self::stats::PluginStats;
pub use self::ticket::Ticket;
use self::view::View;
use crate::load::Workers;
use crate::policy::{Policy, Reason};

/// What a plugin is told once.
#[derive(Clone, Debug, Default)]
pub struct PluginConfig {
    /// How workers are chosen.
    pub policy: Policy,
    /// Feeds sampling. Equal seeds and calls give equal choices.
    pub seed: u64,
}

/// What a caller knows about one request besides its prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// A hash of the session's key, when the client sent one. Only `sticky` looks at it.
    pub session: Option<u64>,
    /// Workers not to choose: they failed this request already.
    pub exclude: &'a [WorkerId],
}

/// A routing decision.
#[derive(Debug)]
pub struct Routed {
    /// Where the request goes.
    pub worker: WorkerId,
    /// That worker's incarnation as the view has it.
    pub incarnation: Incarnation,
    /// What the lookup came to.
    pub outcome: Outcome,
    /// Tokens of the prompt the worker is predicted to have cached; 0 when coverage was not looked at.
    pub predicted_tokens: u64,
    /// The prompt's length in tokens.
    pub prompt_tokens: u64,
    /// What decided.
    pub reason: Reason,
    /// Keeps the request counted as the worker's load.
    pub ticket: Ticket,
}

/// No worker can take the request. Fault: the operator's or the workers'; answer 503 and retry later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWorker {
    /// Workers this gateway knows.
    pub known: usize,
    /// Of these, masked or removed.
    pub unusable: usize,
    /// Of these, excluded because they failed the request.
    pub excluded: usize,
}

impl fmt::Display for NoWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { known, unusable, excluded } = self;
        write!(f, "no worker can take the request: {known} known, {unusable} unreachable or removed, ")?;
        write!(f, "{excluded} failed it already")
    }
}

impl std::error::Error for NoWorker {}

/// One gateway's routing brain. Share it in an `Arc`; every method takes `&self`.
pub struct Plugin {
    workers: Arc<Workers>,
    view: Arc<View>,
    sink: OnceLock<Box<dyn Sink>>,
    counters: stats::Counters,
}

impl Plugin {
    /// A plugin that knows no worker, with an empty index. Until [`Self::connect`] every op is dropped and counted.
    #[must_use]
    pub fn new(config: &PluginConfig) -> Self {
        let _ = config;
        Self {
            workers: Arc::default(),
            view: Arc::default(),
            sink: OnceLock::new(),
            counters: stats::Counters::default(),
        }
    }

    /// Says where local ops go; the first call counts. Separate from [`Self::new`], because the mesh is started with the
    /// plugin's host.
    pub fn connect(&self, sink: impl Sink + 'static) {
        let _ = self.sink.set(Box::new(sink));
    }

    /// Whether the index can be trusted, for whoever feeds it.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// What was counted since the plugin was made.
    #[must_use]
    pub fn stats(&self) -> PluginStats {
        self.counters.snapshot()
    }

    /// This gateway can route to the worker from now on.
    pub fn worker_seen(&self, worker: &WorkerId) {
        self.workers.add_routable(worker);
    }

    /// A worker answered a probe. `started_at` is [`Self::incarnation`] as read *before* the probe was sent (P12).
    pub fn worker_probed(
        &self,
        worker: &WorkerId,
        started_at: Incarnation,
        token: Token,
        capacity_tokens: Option<u64>,
    ) {
        self.submit(Local::Probed { worker: worker.clone(), started_at, token, capacity_tokens });
    }

    /// This gateway cannot reach the worker (`true`), or can again. Nobody else is told.
    pub fn worker_masked(&self, worker: &WorkerId, masked: bool) {
        if let Some(cell) = self.workers.find(worker) {
            cell.set_masked(masked);
        }
    }

    /// The operator or discovery removed the worker: everybody is told. Not for a shutdown of this gateway.
    pub fn worker_removed(&self, worker: &WorkerId) {
        if self.workers.remove_routable(worker) {
            self.submit(Local::Removed { worker: worker.clone() });
        }
    }

    /// The worker's incarnation as the view has it; [`Incarnation::unknown`] without a record.
    #[must_use]
    pub fn incarnation(&self, worker: &WorkerId) -> Incarnation {
        let _ = worker;
        Incarnation::unknown()
    }

    /// Chooses a worker and counts the request as pending there.
    ///
    /// # Errors
    /// [`NoWorker`] when every known worker is masked, removed or excluded.
    pub fn route(&self, key: &RequestKey, hints: &Hints<'_>) -> Result<Routed, NoWorker> {
        let table = self.workers.table();
        let usable = table.routable().iter().filter_map(|no| table.cell(*no));
        let best = usable
            .filter(|cell| !cell.is_masked() && !hints.exclude.contains(cell.id()))
            .min_by_key(|cell| cell.load());
        let none = NoWorker { known: table.routable().len(), unusable: 0, excluded: hints.exclude.len() };
        let cell = best.ok_or(none).inspect_err(|_| self.counters.no_worker())?;
        self.counters.outcome(Outcome::Off);
        let incarnation = self.incarnation(cell.id());
        Ok(Routed {
            worker: cell.id().clone(),
            incarnation: incarnation.clone(),
            outcome: Outcome::Off,
            predicted_tokens: 0,
            prompt_tokens: key.prompt_tokens(),
            reason: Reason::Load,
            ticket: Ticket::new(Arc::clone(cell), incarnation, key.prompt_tokens()),
        })
    }

    /// The first byte of the answer arrived: the worker has the prompt. Publishes the placement, once per ticket.
    pub fn accepted(&self, ticket: &mut Ticket, key: &RequestKey) {
        if ticket.accept() {
            self.place(ticket, key, Arc::clone(key.chain()));
        }
    }

    /// The request is over. `output` is what the worker produced, rendered exactly as the next turn will carry it (the bytes
    /// that follow the prompt's rendering). Nothing is published when the worker never accepted or [`End::Failed`].
    pub fn ended(&self, ticket: Ticket, key: &RequestKey, output: &[u8], end: End) {
        if ticket.is_accepted() && end != End::Failed {
            self.place(&ticket, key, key.extended(output));
        }
    }

    fn place(&self, ticket: &Ticket, key: &RequestKey, chain: Arc<[covey_crdt::hash::BlockHash]>) {
        if chain.is_empty() {
            return;
        }
        self.submit(Local::Place {
            worker: ticket.worker().clone(),
            keyspace: Arc::clone(key.keyspace()),
            incarnation: ticket.incarnation().clone(),
            chain,
        });
    }

    fn submit(&self, local: Local) {
        let placement = matches!(local, Local::Place { .. });
        if !self.sink.get().is_some_and(|sink| sink.submit(local)) {
            self.counters.dropped();
        } else if placement {
            self.counters.placement();
        }
    }
}
