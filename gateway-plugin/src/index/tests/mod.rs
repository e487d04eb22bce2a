//! The index by the names of its hazards; `brute_force` on random histories, `readers` beside a writer.

mod brute_force;
mod readers;

use std::sync::Arc;

use covey_crdt::change::{Change, Coverage, HolderKey, HolderSlot, Place, RunId, WorkerView};
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::lane::LaneId;
use covey_mesh::input::Load;

use super::*;
use crate::load::{WorkerNo, Workers};

const LIFE: LifeId = LifeId(7);

fn worker(no: u64) -> WorkerId {
    WorkerId::new(&format!("w{no}"), 0).expect("a name")
}

fn keyspace(no: u64) -> Arc<Keyspace> {
    let model = ModelName::new(&format!("m{no}")).expect("a name");
    Arc::new(Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a block size"))
}

fn record(no: u64, counter: u64, token: &str) -> Change {
    let token = if token.is_empty() { Token::removed() } else { Token::new(token).expect("a token") };
    let incarnation = Incarnation { counter, token };
    Change::Worker(WorkerView { worker: worker(no), incarnation, capacity_tokens: None })
}

fn holder(slot: u32, worker_no: u64, keyspace_no: u64, lane: u8) -> Change {
    let key = HolderKey { worker: worker(worker_no), keyspace: keyspace(keyspace_no), lane: LaneId(lane) };
    Change::Holder { slot: HolderSlot(slot), key, coverage: Coverage::Placed }
}

fn reach(slot: u32, run: u32, blocks: u32) -> Change {
    Change::Reach { slot: HolderSlot(slot), run: RunId(run), blocks }
}

fn run(no: u32, parent: Place, hashes: impl IntoIterator<Item = u64>) -> Change {
    Change::Run { run: RunId(no), parent, hashes: hashes.into_iter().map(BlockHash).collect() }
}

fn hashes(values: impl IntoIterator<Item = u64>) -> Vec<BlockHash> {
    values.into_iter().map(BlockHash).collect()
}

fn index() -> (Arc<Index>, Writer) {
    let index = Arc::new(Index::new(Arc::default()));
    let writer = index.writer(LIFE);
    (index, writer)
}

fn feed(writer: &mut Writer, changes: impl IntoIterator<Item = Change>) {
    changes.into_iter().for_each(|change| writer.changed(change));
}

#[test]
fn more_workers_than_one_bitset_word_group_are_told_apart() {
    let (index, mut writer) = index();
    feed(&mut writer, [run(1, Place::ROOT, 0..8), run(2, Place { run: RunId(1), blocks: 8 }, 8..12)]);
    for no in 0..700u32 {
        feed(&mut writer, [record(u64::from(no), 1, "boot"), holder(no, u64::from(no), 0, 0)]);
        feed(&mut writer, [reach(no, 1, 8), reach(no, 2, if no % 7 == 0 { 4 } else { no % 4 })]);
    }
    assert_eq!(writer.publish(), None);
    let reading = index.load();
    let overlap = reading.lookup(&keyspace(0), &hashes(0..12));
    assert_eq!(overlap.steps().iter().map(|step| step.depth).collect::<Vec<_>>(), [12, 11, 10, 9, 8]);
    for no in 0..700 {
        let expected = 8 + if no % 7 == 0 { 4 } else { no % 4 };
        assert_eq!(overlap.depth_of(WorkerNo(no)), expected, "worker {no}");
    }
}

/// Hazard 1: what comes back is as long as there are different depths, not as long as there are workers.
#[test]
fn the_answer_is_one_step_for_a_prefix_that_everybody_holds_hazard_1() {
    let (index, mut writer) = index();
    feed(&mut writer, [run(1, Place::ROOT, 0..125)]);
    for no in 0..240u32 {
        feed(&mut writer, [record(u64::from(no), 1, "boot"), holder(no, u64::from(no), 0, 0), reach(no, 1, 125)]);
    }
    assert_eq!(writer.publish(), None);
    let overlap = index.load().lookup(&keyspace(0), &hashes(0..128));
    assert_eq!(overlap.steps().iter().map(|step| (step.depth, step.len())).collect::<Vec<_>>(), [(125, 240)]);
}

#[test]
fn a_dead_gateways_load_does_not_count_and_ones_own_is_not_counted_twice() {
    let (index, mut writer) = index();
    let load = |requests| Load { requests, queued_tokens: 100 };
    writer.load(LIFE, &worker(0), load(50));
    writer.load(LifeId(1), &worker(0), load(2));
    writer.load(LifeId(2), &worker(0), load(3));
    assert_eq!(writer.publish(), None);
    assert_eq!(index.load().others(WorkerNo(0)), Load { requests: 5, queued_tokens: 200 });
    writer.load(LifeId(1), &worker(0), Load::default());
    assert_eq!(writer.publish(), None);
    assert_eq!(index.load().others(WorkerNo(0)), load(3));
}

#[test]
fn worker_numbers_stay_few_while_workers_come_and_go_i9() {
    let workers: Arc<Workers> = Arc::default();
    let index = Arc::new(Index::new(Arc::clone(&workers)));
    let mut writer = index.writer(LIFE);
    for no in 0..500u64 {
        feed(&mut writer, [run(1, Place::ROOT, [no]), record(no, 1, "boot"), holder(0, no, 0, 0), reach(0, 1, 1)]);
        assert_eq!(writer.publish(), None);
        feed(&mut writer, [reach(0, 1, 0), Change::HolderFreed { slot: HolderSlot(0) }]);
        feed(&mut writer, [Change::RunFreed { run: RunId(1) }, Change::WorkerFreed { worker: worker(no) }]);
        assert_eq!(writer.publish(), None);
        let highest = workers.find(&worker(no)).expect("just interned").no();
        assert!(highest.0 < 8, "worker {no} got number {highest:?}");
    }
}
