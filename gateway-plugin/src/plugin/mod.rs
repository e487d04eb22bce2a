//! The seam a gateway embeds. No async, no lock on a request's path, nothing that can fail a request (I11).
//!
//! ```text
//! key    = RequestKey::of_bytes(..)             hash the rendered prompt, once
//! routed = plugin.route(&key, &hints)?          look up, choose, count as pending    -> Routed { worker, ticket, .. }
//!          plugin.accepted(&mut ticket, &key)   the head of a good answer: the worker took it, the placement is published
//!          plugin.answering(&mut ticket)        the answer begins: the prompt is computed
//!          plugin.ended(ticket, &key, output, end)      the chain is extended by what was produced
//! ```
//! A worker that refuses, or whose connection breaks before the head of an answer: drop the ticket and route again with the
//! worker in [`Hints::exclude`].
//!
//! There is one replica and one index; the plugin keeps no coverage of its own beside them (hazard 13). Mesh off is a
//! replica of one. Not here: HTTP (`server`), gossip (`covey-mesh`). Upholds I6: a placement is published only after a
//! worker accepted, never at selection (hazard 11).

mod clock;
mod detector;
mod feed;
#[cfg(feature = "server")]
mod host;
mod ingesting;
mod notes;
mod outcome;
mod request_key;
mod route;
mod routed;
mod sink;
mod spans;
mod stats;
#[cfg(test)]
mod tests;
mod ticket;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use covey_crdt::change::FeedView;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, LifeId, Token, WorkerId};
use covey_mesh::input::{Load, Local};

pub use self::clock::Clock;
pub use self::detector::{Detector, FeedState, Judgement, Mismatch, Observation};
pub use self::feed::Feed;
use self::feed::Parts;
pub use self::ingesting::Ingesting;
pub use self::notes::{DELAY_BOUNDS_MS, Notes, NotesSnapshot};
pub use self::outcome::{End, Outcome, Skipped};
pub use self::request_key::RequestKey;
pub use self::routed::{Hints, NoWorker, Routed, RunnerUp};
pub use self::sink::Sink;
pub use self::stats::PluginStats;
pub use self::ticket::Ticket;
pub use self::view::{VIEW_AGE_MAX, View};
use crate::index::Reading;
use crate::load::WorkerCell;
use crate::policy::{Policy, Tuning, mix};

/// How long after a worker told its load to wait until other gateways' registers are here, too.
pub const REGISTERS_SETTLE: Duration = Duration::from_millis(50);

/// What a plugin is told once.
#[derive(Clone, Debug, Default)]
pub struct PluginConfig {
    /// How workers are chosen.
    pub policy: Policy,
    /// The policy's numbers.
    pub tuning: Tuning,
    /// Feeds sampling. Equal seeds, calls and times give equal choices.
    pub seed: u64,
    /// What tells the time.
    pub clock: Clock,
}

/// One gateway's routing brain. Share it in an `Arc`; every method takes `&self`.
pub struct Plugin {
    policy: Policy,
    tuning: Tuning,
    seed: u64,
    turns: AtomicU64,
    parts: Parts,
    sink: OnceLock<Box<dyn Sink>>,
    counters: stats::Counters,
}

impl Plugin {
    /// A plugin that knows no worker, with an empty index. Until [`Self::connect`] every op is dropped and counted.
    #[must_use]
    pub fn new(config: &PluginConfig) -> Self {
        Self {
            policy: config.policy,
            tuning: config.tuning,
            seed: config.seed,
            turns: AtomicU64::new(0),
            parts: Parts::new(config.clock.clone()),
            sink: OnceLock::new(),
            counters: stats::Counters::default(),
        }
    }

    /// Says where local ops go; only the first call counts. Separate from [`Self::new`], because a mesh is started with
    /// the plugin's host.
    pub fn connect(&self, sink: impl Sink + 'static) {
        let _already = self.sink.set(Box::new(sink));
    }

    /// What carries the outputs of the node of `life` into the index. The view is empty and not to be trusted from this
    /// moment until that node is clean, and the feeds of earlier lives show nothing any more.
    #[must_use]
    pub fn feed(&self, life: LifeId) -> Feed {
        Feed::new(&self.parts, life)
    }

    /// Says who reads engines' events; before the mesh is started, and only the first call counts.
    pub fn ingest_with(&self, ingesting: Arc<dyn Ingesting>) {
        let _already = self.parts.ingesting.set(ingesting);
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// The present version of the index, for gauges and debugging.
    #[must_use]
    pub fn reading(&self) -> Reading {
        self.parts.index.load()
    }

    /// What the mesh member of this process observed so far, over all its lives.
    #[must_use]
    pub fn notes(&self) -> NotesSnapshot {
        self.parts.notes.snapshot()
    }

    /// What was counted since the plugin was made.
    #[must_use]
    pub fn stats(&self) -> PluginStats {
        self.counters.snapshot()
    }

    /// Whether the view cannot be trusted: its feeder is silent for more than [`VIEW_AGE_MAX`], or the replica has not been
    /// clean since its life began. Requests are routed on load then.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        !self.parts.view.is_complete() || self.view_age() > VIEW_AGE_MAX
    }

    /// How long ago whoever feeds the view last did a turn; zero without a sink.
    fn view_age(&self) -> Duration {
        self.sink.get().map_or(Duration::ZERO, |sink| sink.silent_for())
    }

    /// This gateway can route to the worker from now on.
    pub fn worker_seen(&self, worker: &WorkerId) {
        self.parts.workers.add_routable(worker);
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

    /// Such a share of the other gateways is not heard at present: what they send and place is not known here. While it is not 0,
    /// requests that workers have and nobody accounts for count in decisions, and the worker that every gateway would pick for
    /// a prompt is compared, too, as far as there are such requests.
    pub fn set_unheard(&self, share: f64) {
        self.parts.view.set_unheard(share);
    }

    /// The share of the other gateways that is not heard at present.
    #[must_use]
    pub fn unheard(&self) -> f64 {
        self.parts.view.unheard()
    }

    /// Requests that gateways have outstanding on the worker, as far as this one knows.
    #[must_use]
    pub fn accounted_requests(&self, worker: &WorkerId) -> u32 {
        self.parts.workers.find(worker).map_or(0, |cell| self.accounted(&cell).requests)
    }

    /// What gateways have outstanding on the worker, as far as this one knows.
    fn accounted(&self, cell: &WorkerCell) -> Load {
        let (own, others) = (cell.load(), self.parts.index.load().others(cell.no()));
        Load {
            requests: own.requests.saturating_add(others.requests),
            queued_tokens: own.queued_tokens.saturating_add(others.queued_tokens),
        }
    }

    /// A worker told how many requests it has, waiting ones included. `accounted_before` is [`Self::accounted_requests`] as read
    /// before it was asked; call this a little after its answer ([`REGISTERS_SETTLE`]), so that what other gateways sent meanwhile
    /// is known. What it has beyond both is held for true until it tells again, or for ten seconds.
    pub fn worker_told(&self, worker: &WorkerId, requests: u32, accounted_before: u32) {
        let accounted = accounted_before.max(self.accounted_requests(worker));
        if let Some(cell) = self.parts.workers.find(worker) {
            let unseen = requests.saturating_sub(accounted);
            self.parts.workers.told(&cell, requests, unseen, self.parts.clock.now_us());
        }
    }

    /// What the worker has to do that no gateway accounts for, as far as it told.
    #[must_use]
    pub fn unseen_load(&self, worker: &WorkerId) -> Load {
        let now_us = self.parts.clock.now_us();
        let cell = self.parts.workers.find(worker);
        cell.map_or_else(Load::default, |cell| cell.unseen(self.accounted(&cell).queued_tokens, now_us))
    }

    /// This gateway cannot reach the worker (`true`), or can again. Nobody else is told.
    pub fn worker_masked(&self, worker: &WorkerId, masked: bool) {
        if let Some(cell) = self.parts.workers.find(worker) {
            cell.set_masked(masked);
        }
    }

    /// The operator or discovery removed the worker: everybody is told. Not for a shutdown of this gateway.
    pub fn worker_removed(&self, worker: &WorkerId) {
        if self.parts.workers.remove_routable(worker) {
            self.submit(Local::Removed { worker: worker.clone() });
        }
    }

    /// The operator wants everything forgotten that is held of the worker, by all gateways; its engine lives on. `false`:
    /// the mesh thread is behind, and nothing was done.
    #[must_use]
    pub fn worker_forgotten(&self, worker: &WorkerId) -> bool {
        self.submit(Local::Raise { worker: worker.clone() })
    }

    /// The worker's incarnation as the view has it; [`Incarnation::unknown`] without a record.
    #[must_use]
    pub fn incarnation(&self, worker: &WorkerId) -> Incarnation {
        let reading = self.parts.index.load();
        let record = self.parts.workers.find(worker).and_then(|cell| reading.worker(cell.no()).cloned());
        record.map_or_else(Incarnation::unknown, |view| view.incarnation)
    }

    /// How far the worker's feed is as the view has it; `None`: no events of its present incarnation are known.
    #[must_use]
    pub fn stored(&self, worker: &WorkerId) -> Option<FeedView> {
        let reading = self.parts.index.load();
        self.parts.workers.find(worker).and_then(|cell| reading.feed(cell.no()).cloned())
    }

    /// What this gateway has outstanding on the worker; zero for one it does not know.
    #[must_use]
    pub fn own_load(&self, worker: &WorkerId) -> Load {
        self.parts.workers.find(worker).map_or_else(Load::default, |cell| cell.load())
    }

    /// The worker took the request. Publishes the placement, once per ticket.
    ///
    /// Say it at the head of a stream of events under status 200: engines send that before they compute, so other gateways know
    /// of a long prompt while it is computed. Where the head proves nothing (an answer in one piece, a type that is not the
    /// API's) say it when the answer is read and makes sense; for a refusal or a connection that broke, never (hazard 11).
    pub fn accepted(&self, ticket: &mut Ticket, key: &RequestKey) {
        if ticket.accept() {
            self.place(ticket, key, Arc::clone(key.chain()));
        }
    }

    /// The first part of the answer is here: nothing of the prompt is left to compute, and its tokens leave the worker's queue.
    /// Only the first call of a ticket counts. Places nothing: [`Self::accepted`] does.
    pub fn answering(&self, ticket: &mut Ticket) {
        if ticket.answer(self.parts.clock.now_us()) {
            self.load_changed();
        }
    }

    /// The request is over. `output` is what the worker produced, rendered exactly as the next turn will carry it (the bytes
    /// that follow the prompt's rendering). Nothing more is published when no part of an answer came, or after
    /// [`End::Failed`]: what was placed when the worker accepted stays, and nothing is added to it.
    pub fn ended(&self, ticket: Ticket, key: &RequestKey, output: &[u8], end: End) {
        self.ended_with(ticket, key, end, |key| key.extended(output));
    }

    /// The same where the answer extends the chain in another way, such as [`RequestKey::extended_by`]. `extended` is asked only
    /// when something is published.
    pub fn ended_with(
        &self,
        ticket: Ticket,
        key: &RequestKey,
        end: End,
        extended: impl FnOnce(&RequestKey) -> Arc<[BlockHash]>,
    ) {
        let claims = match end {
            End::Completed | End::Aborted => ticket.is_answering(),
            End::Failed => false,
        };
        if claims {
            self.place(&ticket, key, extended(key));
        }
        drop(ticket);
        self.load_changed();
    }

    fn load_changed(&self) {
        if let Some(sink) = self.sink.get() {
            sink.load_changed();
        }
    }

    fn place(&self, ticket: &Ticket, key: &RequestKey, chain: Arc<[BlockHash]>) {
        if chain.is_empty() {
            return;
        }
        let placed = self.submit(Local::Place {
            worker: ticket.worker().clone(),
            keyspace: Arc::clone(key.keyspace()),
            incarnation: ticket.incarnation().clone(),
            chain,
        });
        if placed {
            self.counters.placement();
        }
    }

    fn submit(&self, local: Local) -> bool {
        let taken = self.sink.get().is_some_and(|sink| sink.submit(local));
        if !taken {
            self.counters.dropped();
        }
        taken
    }

    /// How many requests were routed before this one, and the random word for it.
    fn next_turn(&self) -> (u64, u64) {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        (turn, mix(self.seed ^ mix(turn)))
    }
}
