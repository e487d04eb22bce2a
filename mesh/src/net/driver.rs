//! The loop: one closed set of sources in, the node's outputs out. It holds no protocol decision.
//!
//! Not here: the thread it runs on and its supervision (`watchdog`), links (`links`), sockets (`network`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use covey_crdt::id::{LifeId, WorkerId};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::MeshConfig;
use super::context::Event;
use super::ground::random_seed;
use super::host::LiveHost;
use super::links::Links;
use super::mesh::{Ending, LifeState, Shared};
use super::network::{Base, Network};
use super::sampling::Sampling;
use super::transport::CloseCode;
use crate::input::{Input, Link, Load, Local, Member, MonoTime};
use crate::node::Node;
use crate::note::Note;
use crate::output::{Output, Rebirth};

/// The status is published at least this often…
const STATUS_EVERY_MS: u64 = 250;
/// …and at most this often, however many turns there are: making it costs time in proportion to the peers.
const STATUS_GAP_MS: u64 = 10;
/// The view is published this often, and at the next tick after a link or the phase changed.
const VIEW_EVERY_MS: u64 = 1_000;
/// Work of one turn, so that timers and the heartbeat are never far behind.
const COMMANDS_PER_TURN: usize = 512;
const EVENTS_PER_TURN: usize = 128;
const FLUSH_MS: u64 = 1_000;
const CLOSE_WAIT: Duration = Duration::from_millis(200);

/// Why a life ended.
#[derive(Debug)]
pub(super) enum Exit {
    /// It was asked to.
    Ended,
    /// Another life took over while it stalled.
    Superseded,
    /// The node asked for a new life.
    Reborn(Rebirth),
    /// The network cannot be set up, or part of it ended.
    Failed(String),
}

/// What a life is made of.
pub(super) struct Setup {
    pub(super) config: Arc<MeshConfig>,
    pub(super) base: Option<Arc<Base>>,
    pub(super) shared: Arc<Shared>,
    pub(super) state: Arc<LifeState>,
}

/// Lives one life on the calling thread, from making the host to the last close.
pub(super) fn live(setup: &Setup) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Exit::Failed(error.to_string()),
    };
    let exit = runtime.block_on(run(setup));
    // A resolver that hangs must not hold the thread.
    runtime.shutdown_timeout(Duration::from_millis(50));
    exit
}

/// Lives one life on the runtime that is there.
pub(super) async fn run(setup: &Setup) -> Exit {
    match Driver::new(setup) {
        Ok(driver) => driver.run().await,
        Err(error) => Exit::Failed(error),
    }
}

/// One life's loop.
struct Driver<'a> {
    setup: &'a Setup,
    node: Node,
    host: LiveHost,
    network: Option<(Network, Links)>,
    /// Who is a live member, for lives that get a link only after the membership service has spoken.
    members: BTreeSet<LifeId>,
    loads: BTreeMap<WorkerId, Load>,
    sampled: Vec<(WorkerId, Load)>,
    sampling: Sampling,
    status_at: MonoTime,
    view_at: MonoTime,
    tick_at: MonoTime,
    publish_at: Option<MonoTime>,
    exit: Option<Exit>,
}

/// One wake-up's first finding.
enum Woken {
    Event(Event),
    Member(Member),
    Other,
}

impl<'a> Driver<'a> {
    fn new(setup: &'a Setup) -> Result<Self, String> {
        let (shared, life) = (&setup.shared, setup.state.life);
        let host = LiveHost::new((setup.config.make_host)(life), Arc::clone(&setup.state));
        let now = shared.ground.mono();
        let config = setup.config.node.clone();
        let network = match &setup.base {
            Some(base) => {
                let network = Network::start(base, shared, &config, life)?;
                let links = Links::new(Arc::clone(&network.context));
                Some((network, links))
            }
            None => None,
        };
        let node = Node::new(config, life, random_seed(&*shared.ground), now, shared.ground.wall());
        Ok(Self {
            setup,
            node,
            host,
            network,
            members: BTreeSet::new(),
            loads: BTreeMap::new(),
            sampled: Vec::new(),
            sampling: Sampling::new(now),
            status_at: now,
            view_at: now,
            tick_at: now,
            publish_at: None,
            exit: None,
        })
    }

    async fn run(mut self) -> Exit {
        info!(name = %self.setup.config.node.name, life = %self.setup.state.life, "mesh life begins");
        loop {
            let woken = self.wait().await;
            self.turn(woken);
            if self.setup.state.is_superseded() {
                return Exit::Superseded;
            }
            self.setup.state.beat(self.now());
            if let Some(exit) = self.exit.take() {
                return self.finish(exit).await;
            }
            // The connections' tasks share this thread.
            tokio::task::yield_now().await;
        }
    }

    fn now(&self) -> MonoTime {
        self.setup.shared.ground.mono()
    }

    async fn wait(&mut self) -> Woken {
        let wake_at = self.setup.shared.ground.instant(self.wake_at());
        let (events, members) = match &mut self.network {
            Some((network, _)) => (Some(&mut network.events), Some(&mut network.members)),
            None => (None, None),
        };
        // In this order nobody starves, because a turn also takes commands, events and what is due; and the same happens
        // every time, which a random order would not grant the second ring.
        tokio::select! {
            biased;
            member = next(members) => Woken::Member(member),
            event = next(events) => Woken::Event(event),
            () = self.setup.shared.wake.notified() => Woken::Other,
            () = tokio::time::sleep_until(wake_at) => Woken::Other,
        }
    }

    fn wake_at(&self) -> MonoTime {
        if !self.setup.shared.commands.is_empty() || !self.setup.shared.inspections.is_empty() {
            return MonoTime::default();
        }
        let sample_at = self.sampling.next(&self.setup.shared.load_rests);
        let timers = [self.node.next_deadline(), self.publish_at, Some(sample_at), Some(self.status_at)];
        timers.into_iter().flatten().min().unwrap_or(self.tick_at).min(self.tick_at)
    }

    /// One turn: everything that is there, bounded, then one publication.
    fn turn(&mut self, woken: Woken) {
        match woken {
            Woken::Event(event) => self.on_event(event),
            Woken::Member(member) => self.on_member(member),
            Woken::Other => {}
        }
        for _ in 0..COMMANDS_PER_TURN {
            // The queue outlives lives: one that wakes from a stall must leave it to the one that takes over.
            if self.setup.state.is_superseded() {
                return;
            }
            let Some(local) = self.setup.shared.commands.pop() else { break };
            self.feed(Input::Local(local));
        }
        for _ in 0..EVENTS_PER_TURN {
            let Some((network, _)) = &mut self.network else { break };
            let Ok(event) = network.events.try_recv() else { break };
            self.on_event(event);
        }
        if self.node.next_deadline().is_some_and(|at| at <= self.now()) {
            self.feed(Input::Elapsed);
        }
        self.sample_load();
        self.tick();
        self.heed_ending();
        self.publish_at =
            self.host.publish().map(|wait| self.now().plus_ms(wait.as_millis().try_into().unwrap_or(u64::MAX / 2_000)));
        self.publish_status();
        if !self.setup.state.is_superseded() {
            self.setup.shared.inspections.answer_one(&mut self.node);
        }
    }

    fn on_event(&mut self, event: Event) {
        if let Some((_, links)) = &mut self.network {
            links.on_event(event);
        }
        self.feed_link_inputs();
    }

    fn on_member(&mut self, member: Member) {
        match member {
            Member::Up(life) => self.members.insert(life),
            Member::Down(life) => self.members.remove(&life),
        };
        self.feed(Input::Member(member));
    }

    fn feed_link_inputs(&mut self) {
        while let Some(input) = self.network.as_mut().and_then(|(_, links)| links.poll_input()) {
            let up = if let Input::Link(Link::Up(life)) = input { Some(life) } else { None };
            self.handle(input);
            if let Some(life) = up.filter(|life| self.members.contains(life)) {
                self.handle(Input::Member(Member::Up(life)));
            }
        }
    }

    /// Hands the node one input, and then what carrying out its outputs caused.
    fn feed(&mut self, input: Input) {
        self.handle(input);
        self.feed_link_inputs();
    }

    fn handle(&mut self, input: Input) {
        if self.exit.is_some() || self.setup.state.is_superseded() {
            return;
        }
        if matches!(input, Input::Link(Link::Up(_) | Link::Down(_))) {
            self.view_at = self.tick_at;
        }
        let ground = &self.setup.shared.ground;
        self.node.handle(ground.mono(), ground.wall(), input);
        while let Some(output) = self.node.poll_output() {
            self.carry_out(output);
        }
        self.status_at = self.status_at.min(self.now().plus_ms(STATUS_GAP_MS));
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { to, class, bytes } => {
                if let Some((_, links)) = &mut self.network {
                    links.send(to, class, bytes);
                }
            }
            Output::Close { peer } => {
                if let Some((_, links)) = &mut self.network {
                    links.close(peer);
                }
            }
            Output::Changed(change) => self.host.changed(change),
            Output::Load { life, worker, load } => self.host.load(life, &worker, load),
            Output::Feed(order) => self.host.feed(order),
            Output::Note(note) => {
                if let Note::Applied { delay_ms } = note {
                    self.setup.shared.counters.propagation_ms.record(delay_ms);
                }
                if matches!(note, Note::Clean | Note::Dirty) {
                    self.view_at = self.tick_at;
                }
                self.host.note(&note);
            }
            Output::Reborn(why) => self.exit = Some(Exit::Reborn(why)),
        }
    }

    fn sample_load(&mut self) {
        let now = self.now();
        if self.setup.state.is_superseded() || !self.sampling.begin(now, &self.setup.shared.load_rests) {
            return;
        }
        let mut has_changed = false;
        let mut sampled = std::mem::take(&mut self.sampled);
        self.host.sample_load(&mut sampled);
        for (worker, load) in sampled.drain(..) {
            let before = self.loads.get(&worker).copied().unwrap_or_default();
            if before == load {
                continue;
            }
            has_changed = true;
            if load == Load::default() {
                self.loads.remove(&worker);
            } else {
                self.loads.insert(worker.clone(), load);
            }
            self.feed(Input::Local(Local::Load { worker, load }));
        }
        self.sampled = sampled;
        self.sampling.ended(now, has_changed, &self.setup.shared.load_rests);
    }

    /// What happens four times a second whatever else does.
    fn tick(&mut self) {
        let now = self.now();
        if now < self.tick_at {
            return;
        }
        self.tick_at = now.plus_ms(STATUS_EVERY_MS);
        self.status_at = now;
        if let Some((network, links)) = &mut self.network {
            let snapshots = links.tick(now);
            self.setup.state.links.store(Arc::new(snapshots));
            if let Err(error) = network.tick(now, self.setup.shared.ground.wall()) {
                self.exit = Some(Exit::Failed(error));
            }
        }
        self.feed_link_inputs();
        if now >= self.view_at && !self.setup.state.is_superseded() {
            self.setup.state.view.store(Arc::new(self.node.view(now)));
            self.view_at = now.plus_ms(VIEW_EVERY_MS);
        }
    }

    fn publish_status(&mut self) {
        let now = self.now();
        if now >= self.status_at && !self.setup.state.is_superseded() {
            self.setup.state.status.store(Arc::new(self.node.status(now)));
            self.status_at = now.plus_ms(STATUS_EVERY_MS);
        }
    }

    fn heed_ending(&mut self) {
        match self.setup.shared.ending() {
            Ending::No => {}
            Ending::Leave => {
                self.feed(Input::Local(Local::Leave));
                self.exit = Some(Exit::Ended);
            }
            Ending::Stop => self.exit = Some(Exit::Ended),
        }
    }

    /// The last things: what was queued goes out when the gateway leaves, and the peers are told why.
    async fn finish(mut self, exit: Exit) -> Exit {
        let Some((network, links)) = self.network.take() else { return exit };
        let code = match &exit {
            Exit::Ended => CloseCode::Leaving,
            Exit::Superseded | Exit::Reborn(_) | Exit::Failed(_) => CloseCode::Restarting,
        };
        if matches!(exit, Exit::Ended) {
            links.close_queues();
            let until = self.now().plus_ms(FLUSH_MS);
            while self.setup.shared.ending() == Ending::Leave && !links.are_drained() && self.now() < until {
                tokio::time::sleep(Duration::from_millis(2)).await;
                self.setup.state.beat(self.now());
            }
            if self.setup.shared.ending() == Ending::Leave && !links.are_drained() {
                warn!("leaving before every peer had everything");
            }
        }
        network.close(code, CLOSE_WAIT).await;
        exit
    }
}

/// The next item of a source that ends only by our own fault; never, when there is no such source.
async fn next<T>(source: Option<&mut mpsc::Receiver<T>>) -> T {
    match source {
        Some(source) => {
            source.recv().await.expect("the sources' tasks are watched and the life ends before their channels")
        }
        None => pending().await,
    }
}
