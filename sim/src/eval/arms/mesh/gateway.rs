//! One gateway in virtual time: plugin, node and what carries one's outputs to the other.
//!
//! Not here: the network between gateways (`mesh`).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use covey_crdt::hash::HashKey;
use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use covey_crdt::stamp::WallMs;
use covey_gateway_plugin::plugin::{Clock, End, Feed, Hints, Outcome, Plugin, PluginConfig, RequestKey, Ticket};
use covey_mesh::feed::Role;
use covey_mesh::input::{Input, Load, Local, MonoTime};
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::note::Note;
use covey_mesh::output::{Class, FeedOrder, Output};

use crate::eval::arms::{Decision, Setting};

/// Load that changes is looked at this often, and at once when it changes after a while, as the driver of real gateways does, in
/// microseconds.
const SAMPLE_US: u64 = 10_000;
/// Wall clock at the start of a run, in milliseconds.
const WALL_MS: u64 = 1_700_000_000_000;
/// Placements last as long as they last in a gateway that is told nothing else, in milliseconds.
const PLACEMENT_IDLE_MS: u64 = 900_000;

/// A frame that leaves: to whom, on which stream, what.
type Leaving = (LifeId, Class, Bytes);

pub(super) struct Gateway {
    pub(super) plugin: Plugin,
    /// The plugin's time.
    clock: Arc<AtomicU64>,
    node: Node,
    feed: Feed,
    locals: Arc<Mutex<Vec<Local>>>,
    under_way: HashMap<usize, (Ticket, RequestKey)>,
    roles: BTreeMap<WorkerId, Role>,
    loads: BTreeMap<WorkerId, Load>,
    sampled: Vec<(WorkerId, Load)>,
    sample_at: Option<u64>,
    wake_at: Option<u64>,
    pub(super) delays_ms: Vec<u64>,
    pub(super) sent_bytes: u64,
    pub(super) sent_frames: u64,
}

impl Gateway {
    pub(super) fn new(nth: usize, setting: &Setting, now_us: u64, is_alone: bool) -> Self {
        let seed = setting.seed ^ ((nth as u64 + 1) << 32);
        let life = LifeId((u128::from(seed) << 16) | (nth as u128 + 1));
        let config = NodeConfig {
            name: GatewayName::new(&format!("g{nth}")).expect("a good name"),
            cluster: "eval".to_owned(),
            key_id: HashKey::ZERO.id(),
            block_bytes: 256,
            placement_idle_ms: PLACEMENT_IDLE_MS,
            expect_peers: !is_alone,
        };
        let clock = Arc::new(AtomicU64::new(now_us));
        let told = Arc::clone(&clock);
        let clock_of_plugin = Clock::new(move || told.load(Ordering::Relaxed));
        let plugin = Plugin::new(&PluginConfig {
            seed,
            clock: clock_of_plugin,
            tuning: setting.tuning,
            ..PluginConfig::default()
        });
        let locals: Arc<Mutex<Vec<Local>>> = Arc::default();
        let sink = Arc::clone(&locals);
        plugin.connect(move |local| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).push(local);
            true
        });
        let feed = plugin.feed(life);
        let node = Node::new(config, life, seed, MonoTime { us: now_us }, WallMs(WALL_MS + now_us / 1_000));
        let mut gateway = Self {
            plugin,
            clock,
            node,
            feed,
            locals,
            under_way: HashMap::new(),
            roles: BTreeMap::new(),
            loads: BTreeMap::new(),
            sampled: Vec::new(),
            sample_at: None,
            wake_at: None,
            delays_ms: Vec::new(),
            sent_bytes: 0,
            sent_frames: 0,
        };
        let _nobody_is_linked_yet = gateway.outputs();
        gateway
    }

    pub(super) const fn life(&self) -> LifeId {
        self.node.life()
    }

    /// Hands the node an input; gives the frames it sends.
    pub(super) fn handle(&mut self, now_us: u64, input: Input) -> Vec<Leaving> {
        self.set_time(now_us);
        self.node.handle(MonoTime { us: now_us }, WallMs(WALL_MS + now_us / 1_000), input);
        self.outputs()
    }

    pub(super) fn set_time(&self, now_us: u64) {
        self.clock.store(now_us, Ordering::Relaxed);
    }

    fn outputs(&mut self) -> Vec<Leaving> {
        let mut leaving = Vec::new();
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Send { to, class, bytes } => {
                    (self.sent_bytes, self.sent_frames) = (self.sent_bytes + bytes.len() as u64, self.sent_frames + 1);
                    leaving.push((to, class, bytes));
                }
                Output::Changed(change) => self.feed.changed(change),
                Output::Load { life, worker, load } => self.feed.load(life, &worker, load),
                Output::Note(note) => {
                    if let Note::Applied { delay_ms } = note {
                        self.delays_ms.push(delay_ms);
                    }
                    self.feed.note(&note);
                }
                Output::Feed(FeedOrder::Role { worker, role }) => {
                    self.roles.insert(worker, role);
                }
                // Nothing here breaks a link, loses an op or ends a life.
                Output::Feed(FeedOrder::Export { .. } | FeedOrder::HandedOff { .. } | FeedOrder::Restart { .. })
                | Output::Close { .. }
                | Output::Reborn(_) => {}
            }
        }
        leaving
    }

    pub(super) fn is_due(&mut self, now_us: u64) -> bool {
        if self.wake_at == Some(now_us) {
            self.wake_at = None;
        }
        self.node.next_deadline().is_some_and(|deadline| deadline.us <= now_us)
    }

    /// When to call the node, if that is sooner than it will be called.
    pub(super) fn new_wake(&mut self, now_us: u64) -> Option<u64> {
        let at_us = self.node.next_deadline()?.us.max(now_us + 1);
        if self.wake_at.is_some_and(|wake_us| wake_us <= at_us) {
            return None;
        }
        self.wake_at = Some(at_us);
        self.wake_at
    }

    pub(super) fn take_locals(&mut self) -> Vec<Local> {
        std::mem::take(&mut *self.locals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// When to look at the load, if nobody will.
    pub(super) fn new_sample(&mut self, now_us: u64) -> Option<u64> {
        if self.sample_at.is_some_and(|at_us| at_us > now_us) {
            return None;
        }
        let at_us = self.sample_at.map_or(now_us, |last_us| (last_us + SAMPLE_US).max(now_us + 1));
        self.sample_at = Some(at_us);
        self.sample_at
    }

    pub(super) fn changed_loads(&mut self) -> Vec<(WorkerId, Load)> {
        self.sampled.clear();
        self.feed.sample_load(&mut self.sampled);
        let (loads, sampled) = (&mut self.loads, &self.sampled);
        let changed =
            |(worker, load): &&(WorkerId, Load)| loads.insert(worker.clone(), *load).unwrap_or_default() != *load;
        sampled.iter().filter(changed).cloned().collect()
    }

    pub(super) fn ingests(&self, worker: &WorkerId) -> bool {
        self.roles.get(worker).is_some_and(|role| role.ingests())
    }

    /// Shows the plugin what the node came to.
    pub(super) fn publish(&mut self) {
        let _nobody_reads_meanwhile = self.feed.publish();
    }

    pub(super) fn route(&mut self, nth: usize, key: RequestKey, workers: &BTreeMap<WorkerId, usize>) -> Decision {
        self.publish();
        let routed = self.plugin.route(&key, &Hints::default()).expect("no worker is ever masked or removed here");
        let decision = Decision {
            worker: workers.get(&routed.worker).copied().expect("only workers of the fleet are known"),
            predicted_tokens: Some(routed.predicted_tokens),
            took_us: 0,
            is_degraded: routed.outcome == Outcome::Stale,
        };
        self.under_way.insert(nth, (routed.ticket, key));
        decision
    }

    /// The worker took a request.
    pub(super) fn accepted(&mut self, nth: usize) {
        if let Some((ticket, key)) = self.under_way.get_mut(&nth) {
            self.plugin.accepted(ticket, key);
        }
    }

    pub(super) fn answered(&mut self, nth: usize) {
        if let Some((mut ticket, key)) = self.under_way.remove(&nth) {
            self.plugin.accepted(&mut ticket, &key);
            self.plugin.answering(&mut ticket);
            self.plugin.ended(ticket, &key, &[], End::Completed);
        }
    }

    /// How many holders are not the same there.
    pub(super) fn differing_holders(&self, other: &Self) -> usize {
        let digests = |node: &Node| -> BTreeMap<_, _> {
            let replica = node.replica();
            let placed = replica
                .holders()
                .map(|(worker, keyspace, placed)| ((worker.clone(), Some(Arc::clone(keyspace))), placed.digest()));
            let stored = replica.feeds().map(|(worker, feed)| ((worker.clone(), None), feed.digest(worker)));
            placed.chain(stored).collect()
        };
        let (own, theirs) = (digests(&self.node), digests(&other.node));
        let names: std::collections::BTreeSet<_> = own.keys().chain(theirs.keys()).collect();
        names.into_iter().filter(|name| own.get(*name) != theirs.get(*name)).count()
    }

    pub(super) fn blocks(&self) -> u64 {
        let replica = self.node.replica();
        let placed: u64 = replica.holders().map(|(_, _, placed)| u64::from(placed.blocks())).sum();
        placed + replica.feeds().map(|(_, feed)| feed.blocks() as u64).sum::<u64>()
    }

    pub(super) fn log_bytes(&self, now_us: u64) -> u64 {
        self.node.status(MonoTime { us: now_us }).log_bytes
    }
}
