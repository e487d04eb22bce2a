//! Two real nodes in virtual time, read as the admin port would be, and compared.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{GatewayName, Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::stamp::WallMs;
use covey_mesh::input::{Input, Link, Local, MonoTime};
use covey_mesh::inspect::{Answer, Ask, HolderPage, StatePage};
use covey_mesh::node::{Node, NodeConfig};
use covey_mesh::output::Output;
use covey_mesh::status::Phase;

use super::*;

const EPOCH_MS: u64 = 1_764_000_000_000;

struct Two {
    nodes: [Node; 2],
    frames: VecDeque<(usize, Bytes)>,
    now_ms: u64,
    is_cut: bool,
}

fn worker() -> WorkerId {
    WorkerId::new("w", 0).expect("a name")
}

fn config(name: &str) -> NodeConfig {
    NodeConfig {
        name: GatewayName::new(name).expect("a name"),
        cluster: "test".to_owned(),
        key_id: HashKeyId(0),
        block_bytes: 256,
        placement_idle_ms: 3_600_000,
        expect_peers: true,
    }
}

impl Two {
    /// Two linked, clean nodes that know a worker.
    fn new() -> Self {
        let node = |nth: u128, name| Node::new(config(name), LifeId(nth), 7, MonoTime::default(), WallMs(EPOCH_MS));
        let nodes = [node(1, "one"), node(2, "other")];
        let mut two = Self { nodes, frames: VecDeque::new(), now_ms: 0, is_cut: false };
        two.feed(0, Input::Link(Link::Up(LifeId(2))));
        two.feed(1, Input::Link(Link::Up(LifeId(1))));
        two.run(3_000);
        assert!(two.nodes.iter().all(|node| node.phase() == Phase::Clean));
        two.probe(0, "boot");
        two.run(100);
        two
    }

    fn feed(&mut self, nth: usize, input: Input) {
        self.nodes[nth].handle(MonoTime::from_ms(self.now_ms), WallMs(EPOCH_MS + self.now_ms), input);
        while let Some(output) = self.nodes[nth].poll_output() {
            if let Output::Send { bytes, .. } = output
                && !self.is_cut
            {
                self.frames.push_back((1 - nth, bytes));
            }
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            for (to, bytes) in std::mem::take(&mut self.frames) {
                self.feed(to, Input::Received { from: LifeId(2 - to as u128), bytes });
            }
            self.feed(0, Input::Elapsed);
            self.feed(1, Input::Elapsed);
        }
    }

    fn incarnation(&self, nth: usize) -> Incarnation {
        let record = self.nodes[nth].replica().record(&worker());
        record.map_or_else(Incarnation::unknown, |record| record.incarnation.clone())
    }

    fn probe(&mut self, nth: usize, token: &str) {
        let token = Token::new(token).expect("a token");
        let started_at = self.incarnation(nth);
        let probed = Local::Probed { worker: worker(), started_at, token, capacity_tokens: Some(1_000_000) };
        self.feed(nth, Input::Local(probed));
    }

    /// A chain of `blocks` of its own.
    fn place(&mut self, nth: usize, chain: u64, blocks: u64) {
        let model = ModelName::new("m").expect("a name");
        let keyspace = Arc::new(Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a block size"));
        let chain = (0..blocks).map(|i| BlockHash(chain * 1_000_000 + i)).collect();
        let incarnation = self.incarnation(nth);
        self.feed(nth, Input::Local(Local::Place { worker: worker(), keyspace, incarnation, chain }));
    }

    fn state(&self, nth: usize) -> State {
        let (mut found, mut after) = (None, None);
        loop {
            let Answer::State(page) = self.nodes[nth].inspect(&Ask::State { after }) else { panic!("a state") };
            let page: StatePage = round_trip(&page);
            after = page.workers.last().map(|row| WorkerId::new(&row.name, row.rank).expect("a name"));
            let state = found.get_or_insert_with(|| State {
                first: page.at.clone(),
                last: page.at.clone(),
                ends: page.ends.clone().expect("the first page has them"),
                workers: Default::default(),
            });
            state.workers.extend(page.workers.into_iter().map(|row| ((row.name.clone(), row.rank), row)));
            if !page.more {
                return found.expect("set above");
            }
        }
    }

    fn states(&self) -> (State, State) {
        (self.state(0), self.state(1))
    }

    fn holder(&self, nth: usize, name: &HolderName) -> HolderState {
        let (mut found, mut after) = (None, None);
        loop {
            let ask = Ask::Holder { worker: worker(), id: name.1.0, after };
            let Answer::Holder(page) = self.nodes[nth].inspect(&ask) else { panic!("a holder") };
            let page: HolderPage = round_trip(&page);
            after = page.next;
            let state = found.get_or_insert_with(|| HolderState::of(&page));
            assert!(state.take(page), "one life");
            if after.is_none() {
                return found.expect("set above");
            }
        }
    }

    fn pairs(&self, wanted: &[(HolderName, String)]) -> Vec<Pair> {
        let pair = |(name, model): &(HolderName, String)| Pair {
            name: name.clone(),
            model: model.clone(),
            one: self.holder(0, name),
            other: self.holder(1, name),
        };
        wanted.iter().map(pair).collect()
    }

    /// Reads both, lets time pass, reads them again, and compares; `tamper` alters the second reading.
    fn diff_with(&mut self, settle_ms: u64, tamper: impl Fn(&mut (State, State), &mut Vec<Pair>)) -> DiffReport {
        let before = self.states();
        let wanted = judge::differing(&before.0, &before.1);
        let first = self.pairs(&wanted);
        self.run(settle_ms);
        let (mut after, mut last) = (self.states(), self.pairs(&wanted));
        tamper(&mut after, &mut last);
        let client = |name| AdminClient::new(name, None).expect("a client");
        found(&(client("a:1"), client("b:2")), (&before, &after), (&first, &last), &[], Instant::now())
    }

    fn diff(&mut self, settle_ms: u64) -> DiffReport {
        self.diff_with(settle_ms, |_, _| {})
    }
}

/// As it arrives at whoever asked over HTTP.
fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned>(page: &T) -> T {
    serde_json::from_str(&serde_json::to_string(page).expect("it serializes")).expect("it is read back")
}

#[test]
fn equal_gateways_are_equal_and_what_arrives_meanwhile_was_in_flight() {
    let mut two = Two::new();
    assert_eq!(two.diff(0).exit_code(), 0);
    two.place(0, 1, 40);
    let report = two.diff(100);
    assert_eq!((report.exit_code(), report.is_equal()), (0, true));
    assert_eq!((report.holders_in_flight, report.blocks_in_flight), (1, 40));
    let text = print::render(&report, 4);
    assert!(
        text.contains("in flight: 40 blocks") && text.ends_with(" ms\n") && text.contains("\nequal after"),
        "{text}"
    );
}

#[test]
fn what_one_was_not_sent_is_lag_with_blocks_and_age() {
    let mut two = Two::new();
    two.place(0, 1, 5);
    two.run(100);
    two.is_cut = true;
    two.place(0, 2, 3_000);
    let report = two.diff(500);
    let holder = &report.holders[0];
    assert_eq!((report.exit_code(), holder.class), (1, Class::Lag));
    assert_eq!((holder.lacking, holder.unexplained), ((0, 3_000), 0));
    assert_eq!(holder.lacks_other.len(), 1_000, "counted whole, listed in part");
    assert_eq!((holder.blocks, holder.age_ms), ((3_005, 5), Some(500)));
    let log = &report.logs[0];
    assert_eq!((report.logs.len(), log.class, log.lacks, log.since_ms), (1, Class::Lag, Side::Other, None));
    assert_eq!(log.name.as_deref(), Some("one"));
    let text = print::render(&report, 2);
    let words = ["other lacks 3000", "touched 500 ms ago", "and 2998 more", "does not know it", "different after"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert_eq!(text.matches("other lacks block").count(), 2);
}

#[test]
fn what_is_applied_everywhere_and_not_there_is_lost() {
    let mut two = Two::new();
    two.nodes[1].lose_placements();
    two.place(0, 1, 9);
    two.run(200);
    let mut lost = 0;
    for _ in 0..40 {
        two.run(83);
        let report = two.diff(500);
        let holder = &report.holders[0];
        // While it repairs what it will not take, it is dirty, and that is no evidence.
        assert!([Class::Lost, Class::Dirty].contains(&holder.class), "{report:?}");
        lost += u32::from(report.exit_code() == 2);
        assert_eq!(holder.lacks_other.len(), 9);
        let text = print::render(&report, 4);
        assert_eq!(text.contains("LOST: nothing explains it"), holder.class == Class::Lost);
        assert_eq!(text.contains("(LOST 1 holder)"), holder.class == Class::Lost, "{text}");
    }
    assert!(lost >= 25, "most of the time it is clean, and lost is lost: {lost}");
}

#[test]
fn a_lost_block_is_found_under_traffic_too() {
    let mut two = Two::new();
    two.nodes[1].lose_placements();
    two.place(0, 1, 9);
    let before = two.states();
    let wanted = judge::differing(&before.0, &before.1);
    let first = two.pairs(&wanted);
    two.run(500);
    // The vectors are not equal: this op is on its way when they are read again.
    two.place(0, 2, 4);
    let (after, last) = (two.states(), two.pairs(&wanted));
    assert_ne!(vectors(&after.0), vectors(&after.1));
    let client = |name| AdminClient::new(name, None).expect("a client");
    let report = found(&(client("a:1"), client("b:2")), (&before, &after), (&first, &last), &[], Instant::now());
    assert_eq!((report.exit_code(), report.holders[0].lacks_other.len()), (2, 9), "{report:?}");
}

#[test]
fn a_floor_that_only_one_has_is_cut() {
    let mut two = Two::new();
    two.place(0, 1, 9);
    two.run(100);
    two.is_cut = true;
    two.feed(0, Input::Local(Local::Reset { worker: worker() }));
    let report = two.diff(500);
    let holder = &report.holders[0];
    assert_eq!((report.exit_code(), holder.class, holder.cut), (1, Class::Cut, 9), "{report:?}");
    assert!(holder.floors_ms.0.is_some() && holder.floors_ms.1.is_none());
}

#[test]
fn a_later_incarnation_explains_what_it_emptied() {
    let mut two = Two::new();
    two.place(0, 1, 9);
    two.run(100);
    two.is_cut = true;
    two.probe(0, "again");
    let report = two.diff(500);
    assert_eq!((report.exit_code(), report.records.len()), (1, 1), "{report:?}");
    let record = &report.records[0];
    assert_eq!((record.lacks, record.what.as_str(), record.class), (Side::Other, "its incarnation", Class::Lag));
    two.place(0, 2, 3);
    let report = two.diff(500);
    let differs: Vec<_> = report.holders.iter().map(|holder| (holder.class, holder.lacks_other.len())).collect();
    assert_eq!(differs, [(Class::Lag, 3)], "{report:?}");
}

#[test]
fn what_arrived_and_waits_is_held_and_a_dirty_replica_is_no_evidence() {
    let mut two = Two::new();
    two.is_cut = true;
    two.place(0, 1, 9);
    let held = two.diff_with(100, |states, pairs| {
        for at in [&mut states.1.first, &mut states.1.last, &mut pairs[0].other.first] {
            at.logs.iter_mut().for_each(|log| log.held = 1);
        }
    });
    assert_eq!((held.holders[0].class, held.logs[0].class), (Class::Held, Class::Held));
    two.nodes[1].lose_placements();
    two.is_cut = false;
    two.run(1_000);
    assert_eq!(two.diff(500).exit_code(), 2);
    let dirty = two.diff_with(500, |states, pairs| {
        (states.1.last.phase, pairs[0].other.last.phase) = (Phase::Dirty, Phase::Dirty);
    });
    assert_eq!((dirty.exit_code(), dirty.holders[0].class), (1, Class::Dirty), "{dirty:?}");
}

#[test]
fn a_digest_that_is_wrong_by_itself_is_lost_as_well() {
    let mut two = Two::new();
    let report = two.diff_with(0, |states, _| states.1.last.digest.0 ^= 1);
    assert!(report.root_differs && report.exit_code() == 2, "{report:?}");
    let fork = two.diff_with(0, |states, _| states.1.first.logs[0].hash.0 ^= 1);
    assert!(fork.logs[0].forked && fork.exit_code() == 2, "{fork:?}");
}
