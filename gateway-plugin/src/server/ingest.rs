//! Reading engines' KV events: runs a feed for each worker that the node wants read here, and carries what feeds, node and
//! replica have to tell one another.
//!
//! ```text
//! node ──orders──▶ Ingest::run ──starts, tells──▶ runner (one task a feed) ──ops──▶ Ingest::publish ──▶ node's queue
//!      ◀─hand-offs─             ◀───────────── reports, questions ──────────────────────────
//! ```
//! Not here: sockets and what batches mean (`ingest`), who owns what (`covey-mesh`). What the mesh thread calls never waits.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use covey_crdt::change::{FeedView, WorkerView};
use covey_crdt::id::{Incarnation, LifeId, WorkerId};
use covey_crdt::stored::StoredOp;
use covey_mesh::feed::{FeedReport as Told, FeedState, Role};
use covey_mesh::input::Local;
use covey_mesh::inspect::Hex128;
use covey_mesh::net::Mesh;
use covey_mesh::output::FeedOrder;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::gateway::Gateway;
use crate::ingest::CacheRules;
use crate::ingest::intake::{IntakeConfig, Note, Phase, Why};
use crate::ingest::runner::{FeedReport, RunnerHandle, Sink, Source};
use crate::plugin::{FeedState as Known, Ingesting};

/// How long a feed may take to write its state down for another gateway.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long until something is offered again to a node whose queue is full.
const AGAIN: Duration = Duration::from_millis(2);

/// What the mesh thread said.
enum Said {
    Begun(LifeId),
    Order(FeedOrder),
    Feed(WorkerId, Option<FeedView>),
    Record(WorkerId, Incarnation),
}

/// The mesh thread's end: it only puts things in order.
pub(super) struct Ears {
    said: UnboundedSender<Said>,
    sources: Vec<WorkerId>,
}

impl Ears {
    /// For the workers whose events can be read.
    pub(super) fn new(sources: &[(WorkerId, Source)]) -> (Arc<Self>, Hearing) {
        let (said, hearing) = unbounded_channel();
        let sources = sources.iter().map(|(worker, _)| worker.clone()).collect();
        (Arc::new(Self { said, sources }), Hearing(hearing))
    }

    fn say(&self, said: Said) {
        // Nobody listens once the gateway stops.
        let _ = self.said.send(said);
    }
}

/// The other end.
pub(super) struct Hearing(UnboundedReceiver<Said>);

impl Ingesting for Ears {
    fn begun(&self, life: LifeId) {
        self.say(Said::Begun(life));
    }

    fn order(&self, order: FeedOrder) {
        self.say(Said::Order(order));
    }

    fn feed(&self, worker: &WorkerId, feed: Option<&FeedView>) {
        if self.sources.contains(worker) {
            self.say(Said::Feed(worker.clone(), feed.cloned()));
        }
    }

    fn record(&self, view: &WorkerView) {
        if self.sources.contains(&view.worker) {
            self.say(Said::Record(view.worker.clone(), view.incarnation.clone()));
        }
    }
}

/// A feed as `/feeds` shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FeedShown {
    /// The worker.
    pub worker: String,
    /// What this gateway is for it.
    pub role: Role,
    /// How well its ingester knows the cache; only here where it ingests.
    pub state: Option<FeedState>,
    /// The life of the worker's cache that the replica's state is of.
    pub incarnation: Option<u64>,
    /// The engine's number of the next batch, as the replica has it.
    pub position: Option<u64>,
    /// Whether the engine's cache was in that state: between the ops of one batch it was not.
    pub is_last: bool,
    /// How often counting began anew.
    pub generation: Option<u32>,
    /// Which gateway's life began it, in hex; zero in the first generation.
    pub generation_life: Option<Hex128>,
    /// Blocks stored, on all tiers.
    pub blocks: Option<usize>,
    /// Over these blocks, in hex: gateways with equal sets show the same.
    pub contents: Option<Hex128>,
    /// Whether these are all.
    pub is_complete: bool,
    /// Why there is no connection to the engine.
    pub trouble: Option<String>,
    /// What the ingester counted.
    pub counted: BTreeMap<&'static str, u64>,
}

/// What feeds said last.
#[derive(Default)]
pub(super) struct Board {
    feeds: Mutex<HashMap<WorkerId, (Role, Option<FeedReport>)>>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, (Role, Option<FeedReport>)>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn role(&self, worker: &WorkerId, role: Role) {
        let mut feeds = self.lock();
        let entry = feeds.entry(worker.clone()).or_default();
        entry.0 = role;
        if !role.ingests() {
            entry.1 = None;
        }
    }

    fn report(&self, worker: &WorkerId, report: FeedReport) {
        self.lock().entry(worker.clone()).or_default().1 = Some(report);
    }

    fn of(&self, worker: &WorkerId) -> (Role, Option<FeedReport>) {
        self.lock().get(worker).cloned().unwrap_or_default()
    }
}

const fn state_of(phase: Phase) -> FeedState {
    match phase {
        Phase::Exact => FeedState::Exact,
        Phase::Gap => FeedState::Gap,
        Phase::Bootstrapping => FeedState::Bootstrapping,
        Phase::Stale => FeedState::Stale,
    }
}

/// What feeds call. Ops go to a task that offers them to the node until it takes them, in order.
struct Feeds {
    gateway: Arc<Gateway>,
    ops: UnboundedSender<Local>,
}

impl Feeds {
    fn tell(&self, local: Local) {
        let _ = self.ops.send(local);
    }
}

impl Sink for Feeds {
    fn ingested(&self, op: StoredOp) {
        self.tell(Local::Ingested(Box::new(op)));
    }

    fn reset(&self, worker: &WorkerId) {
        info!(%worker, "the engine restarted: what was placed on it is forgotten");
        self.tell(Local::Reset { worker: worker.clone() });
    }

    fn probe(&self, worker: &WorkerId) {
        if let Some(worker) = self.gateway.workers().find(worker) {
            worker.probe_wanted.notify_one();
        }
    }

    fn ask_hand_off(&self, worker: &WorkerId) {
        self.tell(Local::AskHandOff { worker: worker.clone() });
    }

    fn note(&self, worker: &WorkerId, note: Note) {
        match note {
            Note::Generation { why: Why::Restart, position } => {
                info!(%worker, position, "events begin anew: the engine restarted");
            }
            Note::Generation { why: Why::Raised, position } => {
                info!(%worker, position, "an operator had the worker forgotten: events begin anew with what it holds");
            }
            Note::Generation { why: Why::Recovered, position } => {
                info!(%worker, position, "all that the engine published is known again: a new generation begins");
            }
            Note::Generation { why: why @ (Why::Outrun | Why::Stranded), position } => {
                warn!(%worker, position, why = why.name(), "gateways disagreed on events: a new generation begins");
            }
            Note::Generation { why: why @ (Why::Late | Why::Gap), position } => {
                warn!(%worker, position, why = why.name(), "events were lost for good: a new generation begins");
            }
            Note::Gap { from, to } => info!(%worker, from, to, "events are missing and asked for"),
            Note::HandedOff { position } => info!(%worker, position, "another gateway handed its state over"),
            Note::HandOffRefused => warn!(%worker, "the state another gateway handed over is of no use"),
        }
    }

    fn report(&self, worker: &WorkerId, report: FeedReport) {
        let gateway = &self.gateway;
        let state = state_of(report.state.phase);
        let known = if state == FeedState::Exact { Known::Complete } else { Known::Partial };
        gateway.feed_changed(worker, known, report.block_tokens);
        let told = Told {
            state,
            since_ms: report.state_ms,
            proven_ms: Some(report.proven_ms),
            lag_ms: report.lag_ms,
            position: report.key.as_ref().map_or(0, |key| key.position),
        };
        self.tell(Local::FeedReport { worker: worker.clone(), report: told });
        gateway.feeds().report(worker, report);
    }
}

/// Offers things to the node, in order, until it takes them.
async fn offer(mesh: Mesh, mut locals: UnboundedReceiver<Local>) {
    while let Some(local) = locals.recv().await {
        while !mesh.submit(local.clone()) {
            sleep(AGAIN).await;
        }
    }
}

/// Who runs feeds.
struct Ingest {
    gateway: Arc<Gateway>,
    sink: Arc<Feeds>,
    life: LifeId,
    running: BTreeMap<WorkerId, RunnerHandle>,
    incarnations: BTreeMap<WorkerId, Incarnation>,
    views: BTreeMap<WorkerId, FeedView>,
}

/// Runs feeds for as long as the gateway does.
pub(super) async fn run(gateway: Arc<Gateway>, mut hearing: Hearing) {
    let (ops, locals) = unbounded_channel();
    let offering = offer(gateway.mesh().clone(), locals);
    let sink = Arc::new(Feeds { gateway: Arc::clone(&gateway), ops });
    let (running, incarnations, views) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut ingest = Ingest { gateway, sink, life: LifeId(0), running, incarnations, views };
    let listening = async {
        while let Some(said) = hearing.0.recv().await {
            ingest.hear(said).await;
        }
    };
    tokio::join!(offering, listening);
}

impl Ingest {
    async fn hear(&mut self, said: Said) {
        match said {
            Said::Begun(life) => self.begin(life),
            Said::Order(order) => self.obey(order).await,
            Said::Feed(worker, feed) => {
                self.gateway.feed_speaks(&worker, feed.as_ref());
                if let Some(running) = self.running.get(&worker) {
                    running.feed(feed.clone()).await;
                }
                match feed {
                    Some(feed) => drop(self.views.insert(worker, feed)),
                    None => drop(self.views.remove(&worker)),
                }
            }
            Said::Record(worker, incarnation) => {
                if let Some(running) = self.running.get(&worker) {
                    running.incarnation(incarnation.clone()).await;
                }
                self.incarnations.insert(worker, incarnation);
            }
        }
    }

    /// A node begins and knows nothing: neither what can be read here nor who reads what.
    fn begin(&mut self, life: LifeId) {
        self.life = life;
        self.running.clear();
        self.incarnations.clear();
        self.views.clear();
        for (worker, _) in &self.gateway.config().events {
            self.gateway.feeds().role(worker, Role::Off);
            self.sink.tell(Local::Ingests { worker: worker.clone(), can: true });
        }
    }

    async fn obey(&mut self, order: FeedOrder) {
        match order {
            FeedOrder::Role { worker, role } => self.take_role(worker, role).await,
            FeedOrder::Export { to, worker } => {
                let exporting = self.running.get(&worker).map(RunnerHandle::export);
                let state = match exporting {
                    Some(export) => timeout(EXPORT_TIMEOUT, export).await.ok().flatten(),
                    None => None,
                };
                self.sink.tell(Local::HandOff { to, worker, state });
            }
            FeedOrder::HandedOff { worker, state } => {
                if let Some(running) = self.running.get(&worker) {
                    running.handed_off(state).await;
                }
            }
            FeedOrder::Restart { worker } => {
                if let Some(running) = self.running.get(&worker) {
                    running.restart().await;
                }
            }
        }
    }

    async fn take_role(&mut self, worker: WorkerId, role: Role) {
        self.gateway.feeds().role(&worker, role);
        if !role.ingests() {
            self.running.remove(&worker);
            info!(%worker, "another gateway reads this worker's events");
            return self.gateway.feed_changed(&worker, Known::None, None);
        }
        if self.running.contains_key(&worker) {
            return;
        }
        let config = self.gateway.config();
        let source = config.events.iter().find(|(known, _)| *known == worker).map(|(_, source)| source.clone());
        let (Some(source), Some(model)) = (source, config.models.first()) else { return };
        info!(%worker, events = %source.events, role = role.name(), "reading this worker's events");
        let intake = IntakeConfig {
            worker: worker.clone(),
            model: model.clone(),
            key: config.mesh.hash_key,
            rules: CacheRules::default(),
            life: self.life,
            rank: self.gateway.workers().find(&worker).and_then(|worker| worker.rank).map(u32::from),
            has_replay: source.replay.is_some(),
        };
        let sink: Arc<dyn Sink> = Arc::clone(&self.sink) as Arc<dyn Sink>;
        let running = RunnerHandle::start(intake, source, sink);
        if let Some(incarnation) = self.incarnations.get(&worker) {
            running.incarnation(incarnation.clone()).await;
        }
        running.feed(self.views.get(&worker).cloned()).await;
        self.running.insert(worker, running);
    }
}

impl Gateway {
    /// The feeds of this gateway's workers, as it ingests them and as its replica has them.
    #[must_use]
    pub fn feeds_shown(&self) -> Vec<FeedShown> {
        let shown = self.config().events.iter().map(|(worker, _)| {
            let (role, report) = self.feeds().of(worker);
            let view = self.plugin().stored(worker);
            let counters = report.as_ref().map(|report| report.counters.clone()).unwrap_or_default();
            FeedShown {
                worker: worker.to_string(),
                role,
                state: report.as_ref().map(|report| state_of(report.state.phase)),
                incarnation: view.as_ref().map(|view| view.key.incarnation.counter),
                position: view.as_ref().map(|view| view.key.position),
                is_last: view.as_ref().is_some_and(|view| view.is_last),
                generation: view.as_ref().map(|view| view.key.generation.counter),
                generation_life: view.as_ref().map(|view| Hex128(view.key.generation.life)),
                blocks: view.as_ref().map(|view| view.blocks),
                contents: view.as_ref().map(|view| Hex128(view.contents.0)),
                is_complete: view.is_some_and(|view| view.is_complete),
                trouble: report.and_then(|report| report.trouble),
                counted: BTreeMap::from([
                    ("batches", counters.batches),
                    ("duplicates", counters.duplicates),
                    ("events", counters.events),
                    ("gaps", counters.gaps),
                    ("generations", counters.generations),
                    ("hand_offs", counters.hand_offs),
                    ("reconnects", counters.reconnects),
                    ("refused_events", counters.refused_events.values().sum()),
                    ("refused_ranks", counters.refused_ranks),
                    ("replays", counters.replays),
                    ("restarts", counters.restarts),
                ]),
            }
        });
        shown.collect()
    }
}
