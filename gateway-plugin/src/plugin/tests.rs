//! The seam on a real node of a mesh of one: what is looked up, placed, counted and labelled. Named after the hazards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use covey_crdt::hash::HashKey;
use covey_crdt::id::{GatewayName, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::stamp::WallMs;
use covey_mesh::input::{Input, Load, Local, MonoTime};
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::note::{ClockState, Note};
use covey_mesh::output::Output;

use super::*;

mod pace;
mod tickets;
mod unseen;

fn id(name: &str) -> WorkerId {
    WorkerId::new(name, 0).expect("a name")
}

fn keyspace(block_units: u32) -> Arc<Keyspace> {
    let model = ModelName::new("m").expect("a name");
    Arc::new(Keyspace::new(model, Unit::Bytes, block_units, HashKey::ZERO.id()).expect("a block size"))
}

/// A prompt of 2,000 tokens that nobody holds.
fn long_prompt(seed: u64) -> RequestKey {
    let text: Vec<u8> = (0..1_000u64).flat_map(|n| (n + seed * 1_000).to_le_bytes()).collect();
    key(&text)
}

/// A plugin with policy `mesh`, and its time in microseconds, which the test moves.
fn on_a_clock() -> (Plugin, Arc<AtomicU64>) {
    let now_us = Arc::new(AtomicU64::new(1));
    let read = Arc::clone(&now_us);
    let clock = Clock::new(move || read.load(Ordering::Relaxed));
    (Plugin::new(&PluginConfig { policy: Policy::Mesh, seed: 3, clock, ..PluginConfig::default() }), now_us)
}

fn key(text: &[u8]) -> RequestKey {
    RequestKey::of_bytes(&keyspace(16), &HashKey::ZERO, b"", text)
}

/// 100 blocks of 4 tokens each, all different.
fn prompt(seed: u32) -> Vec<u8> {
    (0..400u32).flat_map(|n| (n + seed * 1_000).to_le_bytes()).collect()
}

/// A gateway's plugin on its node, pumped by hand.
struct Rig {
    plugin: Arc<Plugin>,
    node: Node,
    feed: Feed,
    submitted: Arc<Mutex<Vec<Local>>>,
    now: MonoTime,
}

impl Rig {
    fn new(policy: Policy) -> Self {
        let plugin = Arc::new(Plugin::new(&PluginConfig { policy, seed: 11, ..PluginConfig::default() }));
        let submitted: Arc<Mutex<Vec<Local>>> = Arc::default();
        let queue = Arc::clone(&submitted);
        plugin.connect(move |local| {
            queue.lock().expect("no test panicked").push(local);
            true
        });
        let mut rig = Self::over(plugin, submitted, LifeId(1));
        rig.pump();
        rig
    }

    fn over(plugin: Arc<Plugin>, submitted: Arc<Mutex<Vec<Local>>>, life: LifeId) -> Self {
        let config = NodeConfig {
            name: GatewayName::new("g").expect("a name"),
            cluster: "c".into(),
            key_id: HashKey::ZERO.id(),
            block_bytes: 16,
            placement_idle_ms: 900_000,
            expect_peers: false,
        };
        let now = MonoTime::default();
        let node = Node::new(config, life, 3, now, WallMs(1_000_000));
        let feed = plugin.feed(life);
        Self { plugin, node, feed, submitted, now }
    }

    /// With these workers known and probed.
    fn with_workers(policy: Policy, names: &[&str]) -> Self {
        let mut rig = Self::new(policy);
        for name in names {
            rig.plugin.worker_seen(&id(name));
            rig.probe(name, "boot");
        }
        rig
    }

    fn probe(&mut self, name: &str, token: &str) {
        let started_at = self.plugin.incarnation(&id(name));
        self.plugin.worker_probed(&id(name), started_at, Token::new(token).expect("a token"), None);
        self.pump();
    }

    /// Runs what was submitted through the node and into the index.
    fn pump(&mut self) {
        let locals: Vec<_> = self.submitted.lock().expect("no test panicked").drain(..).collect();
        for input in locals.into_iter().map(Input::Local).chain([Input::Elapsed]) {
            self.now = self.now.plus_ms(5);
            self.node.handle(self.now, WallMs(1_000_000 + self.now.us / 1_000), input);
            while let Some(output) = self.node.poll_output() {
                match output {
                    Output::Changed(change) => self.feed.changed(change),
                    Output::Load { life, worker, load } => self.feed.load(life, &worker, load),
                    Output::Note(note) => self.feed.note(&note),
                    Output::Feed(order) => self.feed.order(order),
                    Output::Send { .. } | Output::Close { .. } | Output::Reborn(_) => unreachable!("a mesh of one"),
                }
            }
        }
        assert_eq!(self.feed.publish(), None);
    }

    fn route(&self, key: &RequestKey) -> Routed {
        self.plugin.route(key, &Hints::default()).expect("a worker is usable")
    }

    fn outcome(&self, text: &[u8]) -> Outcome {
        self.route(&key(text)).outcome
    }

    /// One whole request: routed, accepted, answered. Where it went.
    fn serve(&mut self, text: &[u8], output: &[u8]) -> WorkerId {
        let key = key(text);
        let mut routed = self.route(&key);
        self.plugin.accepted(&mut routed.ticket, &key);
        self.plugin.answering(&mut routed.ticket);
        self.plugin.ended(routed.ticket, &key, output, End::Completed);
        self.pump();
        routed.worker
    }

    fn placed_workers(&self) -> Vec<WorkerId> {
        let submitted = self.submitted.lock().expect("no test panicked");
        let places = submitted.iter().filter_map(|local| match local {
            Local::Place { worker, .. } => Some(worker.clone()),
            Local::Probed { .. }
            | Local::Removed { .. }
            | Local::Reset { .. }
            | Local::Raise { .. }
            | Local::Load { .. }
            | Local::Effect(_)
            | Local::Ingests { .. }
            | Local::Ingested(_)
            | Local::FeedReport { .. }
            | Local::AskHandOff { .. }
            | Local::HandOff { .. }
            | Local::Leave => None,
        });
        places.collect()
    }
}

/// Hazard 13: mesh off is a replica of one. The same code answers, there is no second store that could.
#[test]
fn a_mesh_of_one_routes_the_next_turn_to_the_worker_of_the_last_hazard_13() {
    let mut rig = Rig::with_workers(Policy::Mesh, &["a", "b", "c", "d", "e"]);
    let mut text = prompt(1);
    assert_eq!(rig.outcome(&text), Outcome::None);
    let first = rig.serve(&text, b"the answer as the next turn will carry it, some forty bytes");
    text.extend(b"the answer as the next turn will carry it, some forty bytes");
    text.extend(b" and the next question");
    for _ in 0..20 {
        let next = rig.route(&key(&text));
        assert_eq!((next.outcome, &next.worker, next.reason), (Outcome::Hit, &first, crate::policy::Reason::Holder));
        // 1,600 bytes of prompt and 48 whole-block bytes of answer: the chain goes on through the answer.
        assert_eq!(next.predicted_tokens, (1_600 + 48) / 4);
    }
}

#[test]
fn a_prompt_held_whole_is_still_not_predicted_whole() {
    let mut rig = Rig::with_workers(Policy::Mesh, &["a"]);
    rig.serve(&prompt(1), b"");
    let again = rig.route(&key(&prompt(1)));
    assert_eq!((again.predicted_tokens, again.prompt_tokens), (399, 400));
    assert_eq!(rig.plugin.own_load(&id("a")).queued_tokens, 1);
}

/// Hazard 11: only the worker that accepted is placed, and only then.
#[test]
fn a_shed_or_retried_request_advertises_no_phantom_holder_hazard_11() {
    let rig = Rig::with_workers(Policy::Mesh, &["a", "b"]);
    let key = key(&prompt(1));
    let failed = rig.route(&key);
    rig.plugin.ended(failed.ticket, &key, b"never produced", End::Aborted);
    assert_eq!(rig.placed_workers(), []);
    let exclude = [failed.worker.clone()];
    let mut retried = rig.plugin.route(&key, &Hints { exclude: &exclude, ..Hints::default() }).expect("b is left");
    assert_ne!(retried.worker, failed.worker);
    assert_eq!(rig.placed_workers(), []);
    rig.plugin.accepted(&mut retried.ticket, &key);
    rig.plugin.accepted(&mut retried.ticket, &key);
    assert_eq!(rig.placed_workers(), [retried.worker.clone()], "once, however often it is said");
    rig.plugin.answering(&mut retried.ticket);
    rig.plugin.ended(retried.ticket, &key, b"", End::Failed);
    assert_eq!(rig.placed_workers().len(), 1, "a broken answer claims nothing more");
    assert_eq!(rig.plugin.stats().placements, 1);
}

/// Hazard 4: a hit is a chosen worker that holds something, not an answer that came to nothing.
#[test]
fn outcomes_are_labelled_after_aggregation_hazard_4() {
    let mut rig = Rig::with_workers(Policy::Mesh, &["a", "b", "c"]);
    let holder = rig.serve(&prompt(1), b"");
    let exclude = [holder.clone()];
    let retried = rig.plugin.route(&key(&prompt(1)), &Hints { exclude: &exclude, ..Hints::default() });
    assert_eq!(retried.expect("two are left").outcome, Outcome::Unscorable);
    rig.plugin.worker_masked(&holder, true);
    assert_eq!(rig.outcome(&prompt(1)), Outcome::Unscorable);
    assert!(!rig.plugin.overlap(&key(&prompt(1))).expect("looked up").steps().is_empty(), "it is still held");
    rig.plugin.worker_masked(&holder, false);
    assert_eq!(rig.outcome(&prompt(1)), Outcome::Hit);
    // 8 % of the next prompt: not worth going there when the holder is busy, but somebody does hold it.
    let mut other = prompt(1)[..128].to_vec();
    other.extend(&prompt(2)[128..]);
    let busy: Vec<_> = (0..40).map(|_| rig.route(&key(&prompt(1)))).filter(|r| r.worker == holder).collect();
    let misses = rig.plugin.stats().of(Outcome::Miss);
    assert_eq!(rig.outcome(&other), Outcome::Miss);
    assert_eq!(rig.plugin.stats().of(Outcome::Miss), misses + 1);
    drop(busy);
    let before = rig.plugin.incarnation(&holder);
    assert!(rig.plugin.worker_forgotten(&holder));
    rig.pump();
    let after = rig.plugin.incarnation(&holder);
    assert_eq!((after.counter, after.token), (before.counter + 1, before.token));
    assert!(rig.plugin.overlap(&key(&prompt(1))).expect("looked up").steps().is_empty(), "nothing is held any more");
    rig.route(&key(&prompt(1)));
    rig.plugin.worker_removed(&holder);
    rig.pump();
    assert_eq!(rig.outcome(&prompt(1)), Outcome::None, "removal took its coverage");
    let stats = rig.plugin.stats();
    assert_eq!((stats.of(Outcome::Unscorable), stats.no_worker), (2, 0));
}

#[test]
fn a_worker_that_is_not_routable_from_here_never_answers() {
    let mut rig = Rig::with_workers(Policy::Mesh, &["a"]);
    // What another gateway's worker looks like here: recorded and covered, but nobody gave this gateway its address.
    rig.probe("far", "boot");
    let incarnation = rig.plugin.incarnation(&id("far"));
    let (keyspace, chain) = (keyspace(16), Arc::clone(key(&prompt(1)).chain()));
    let place = Local::Place { worker: id("far"), keyspace, incarnation, chain };
    rig.submitted.lock().expect("no test panicked").push(place);
    rig.pump();
    let routed = rig.route(&key(&prompt(1)));
    assert_eq!((routed.worker, routed.outcome), (id("a"), Outcome::Unscorable));
    rig.plugin.worker_seen(&id("far"));
    let routed = rig.route(&key(&prompt(1)));
    assert_eq!((routed.worker, routed.outcome), (id("far"), Outcome::Hit));
}

/// Hazard 14: block size is part of the keyspace, so two settings can never answer for each other.
#[test]
fn another_block_size_is_another_keyspace_hazard_14() {
    let mut rig = Rig::with_workers(Policy::Mesh, &["a", "b"]);
    rig.serve(&prompt(1), b"");
    let other = RequestKey::of_bytes(&keyspace(32), &HashKey::ZERO, b"", &prompt(1));
    assert_eq!(rig.route(&other).outcome, Outcome::None);
    let salted = RequestKey::of_bytes(&keyspace(16), &HashKey::ZERO, b"lora", &prompt(1));
    assert_eq!(rig.route(&salted).outcome, Outcome::None);
}

#[test]
fn a_view_that_cannot_be_trusted_is_not_used_and_says_so() {
    struct Silent(Arc<Mutex<Duration>>);
    impl Sink for Silent {
        fn submit(&self, _: Local) -> bool {
            true
        }
        fn silent_for(&self) -> Duration {
            *self.0.lock().expect("no test panicked")
        }
    }
    let plugin = Arc::new(Plugin::new(&PluginConfig::default()));
    plugin.worker_seen(&id("a"));
    let silent = Arc::new(Mutex::new(Duration::ZERO));
    plugin.connect(Silent(Arc::clone(&silent)));
    let outcome = || plugin.route(&key(&prompt(1)), &Hints::default()).expect("a is usable").outcome;
    assert_eq!(outcome(), Outcome::Stale, "nothing fed it yet");
    let mut rig = Rig::over(Arc::clone(&plugin), Arc::default(), LifeId(1));
    rig.pump();
    assert_eq!(outcome(), Outcome::None);
    *silent.lock().expect("no test panicked") = VIEW_AGE_MAX + Duration::from_millis(1);
    assert_eq!(outcome(), Outcome::Stale, "the mesh thread stalls");
    *silent.lock().expect("no test panicked") = VIEW_AGE_MAX;
    assert_eq!(outcome(), Outcome::None);
    rig.feed.note(&Note::Clock { state: ClockState::Ahead, ahead_ms: 400 });
    assert_eq!(outcome(), Outcome::Clock);
    let _next_life = plugin.feed(LifeId(2));
    assert_eq!(outcome(), Outcome::Stale, "a new life knows nothing until it is clean");
    rig.feed.note(&Note::Clean);
    rig.feed.publish();
    assert_eq!(outcome(), Outcome::Stale, "an old life's word does not count");
}

#[test]
fn a_clean_view_is_announced_only_when_readers_can_see_it() {
    let rig = Rig::with_workers(Policy::Mesh, &["a"]);
    let mut next = Rig::over(Arc::clone(&rig.plugin), Arc::clone(&rig.submitted), LifeId(2));
    rig.submitted.lock().expect("no test panicked").clear();
    next.pump();
    assert!(!rig.plugin.is_stale());
    let mut last = rig.plugin.feed(LifeId(3));
    last.load(LifeId(9), &id("a"), Some(Load { requests: 1, queued_tokens: 1 }));
    let held = rig.plugin.reading();
    assert_eq!(last.publish(), None, "into the copy nobody holds");
    last.load(LifeId(9), &id("a"), Some(Load { requests: 2, queued_tokens: 1 }));
    last.note(&Note::Clean);
    assert!(last.publish().is_some(), "a reader holds the other one");
    assert!(rig.plugin.is_stale());
    drop(held);
    assert_eq!(last.publish(), None);
    assert!(!rig.plugin.is_stale());
}

#[test]
fn short_prompts_and_policies_that_do_not_look_are_labelled() {
    let rig = Rig::with_workers(Policy::Mesh, &["a"]);
    assert_eq!(rig.outcome(b"fifteen bytes.."), Outcome::TooShort);
    assert_eq!(rig.plugin.overlap(&key(b"")), Err(Skipped::TooShort));
    for policy in [Policy::LeastLoad, Policy::RoundRobin, Policy::Random, Policy::PrefixHash, Policy::Sticky] {
        let rig = Rig::with_workers(policy, &["a"]);
        assert_eq!(rig.outcome(&prompt(1)), Outcome::Off, "{policy}");
    }
    let rig = Rig::with_workers(Policy::Sticky, &["a"]);
    let routed = rig.plugin.route(&key(&prompt(1)), &Hints { session: Some(9), exclude: &[] }).expect("a is usable");
    assert_eq!((routed.outcome, routed.predicted_tokens), (Outcome::Sticky, 0));
}

#[test]
fn a_worker_that_restarted_has_nothing_cached() {
    let mut rig = Rig::with_workers(Policy::Mesh, &["a", "b"]);
    let holder = rig.serve(&prompt(1), b"");
    assert_eq!(rig.outcome(&prompt(1)), Outcome::Hit);
    let key = key(&prompt(1));
    let mut before = rig.route(&key);
    assert_eq!(before.worker, holder);
    rig.probe(holder.name(), "boot-2");
    assert_eq!(rig.outcome(&prompt(1)), Outcome::None);
    rig.plugin.accepted(&mut before.ticket, &key);
    rig.pump();
    assert_eq!(rig.outcome(&prompt(1)), Outcome::None, "routed to a life that is over: places nothing");
}

#[test]
fn a_full_queue_drops_counts_and_fails_nothing() {
    let plugin = Plugin::new(&PluginConfig { policy: Policy::Random, seed: 1, ..PluginConfig::default() });
    plugin.worker_seen(&id("a"));
    let key = key(&prompt(1));
    let mut routed = plugin.route(&key, &Hints::default()).expect("a is usable");
    plugin.accepted(&mut routed.ticket, &key);
    plugin.answering(&mut routed.ticket);
    plugin.connect(|_| false);
    plugin.ended(routed.ticket, &key, b"", End::Completed);
    let stats = plugin.stats();
    assert_eq!((stats.placements, stats.dropped), (0, 2));
}

#[test]
fn no_worker_says_why() {
    let plugin = Plugin::new(&PluginConfig::default());
    let none = plugin.route(&key(b""), &Hints::default()).expect_err("nobody is known");
    assert_eq!(none.to_string(), "no worker can take the request: this gateway was given none");
    plugin.worker_seen(&id("a"));
    plugin.worker_seen(&id("b"));
    plugin.worker_masked(&id("a"), true);
    let exclude = [id("b")];
    let none = plugin.route(&key(b""), &Hints { exclude: &exclude, ..Hints::default() }).expect_err("nobody is left");
    assert_eq!(none, NoWorker { known: 2, unusable: 1, excluded: 1 });
    assert_eq!(plugin.stats().no_worker, 2);
}
