//! The index against brute force on random histories, and its promises to readers and to the writer, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use covey_crdt::change::{Change, HolderKey, HolderSlot, Place, RunId, WorkerView};
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::lane::LaneId;
use covey_mesh::input::Load;
use proptest::prelude::*;

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
    Change::Holder { slot: HolderSlot(slot), key }
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

/// Everything the changes so far mean, kept in the plainest form.
#[derive(Clone, Debug, Default)]
struct World {
    /// run -> its whole path, and where its own blocks begin in it.
    runs: BTreeMap<u32, (Vec<u64>, usize)>,
    /// run -> the run it hangs at.
    parents: BTreeMap<u32, u32>,
    /// slot -> (worker, keyspace, lane).
    holders: BTreeMap<u32, (u64, u64, u8)>,
    /// (slot, run) -> blocks.
    reaches: BTreeMap<(u32, u32), u32>,
    /// worker -> not a tombstone.
    records: BTreeMap<u64, bool>,
}

impl World {
    /// worker -> depth, over every holder, by looking at every prefix of the query.
    fn brute_force(&self, keyspace: u64, query: &[u64]) -> BTreeMap<u64, u32> {
        let mut found = BTreeMap::new();
        for (slot, (worker, space, lane)) in &self.holders {
            if *space != keyspace || *lane != 0 {
                continue;
            }
            let covered: BTreeSet<&[u64]> = self
                .reaches
                .iter()
                .filter(|((holder, _), _)| holder == slot)
                .flat_map(|((_, run), blocks)| {
                    let (path, base) = &self.runs[run];
                    (1..=*blocks as usize).map(move |block| &path[..base + block])
                })
                .collect();
            let depth = (1..=query.len()).take_while(|depth| covered.contains(&query[..*depth])).count();
            if depth > 0 {
                found.insert(*worker, depth as u32);
            }
        }
        found
    }

    fn assert_answers(&self, reading: &Reading, keyspace_no: u64, query: &[u64]) {
        let overlap = reading.lookup(&keyspace(keyspace_no), &hashes(query.iter().copied()));
        let all = self.brute_force(keyspace_no, query);
        let (visible, hidden): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(worker, _)| self.records.get(worker) == Some(&true));
        let mut answered = BTreeMap::new();
        for (no, depth) in overlap.steps().iter().flat_map(|step| step.iter().map(|no| (no, step.depth))) {
            let name = reading.id(no).expect("an answer names known workers").name()[1..].parse().expect("a number");
            assert_eq!(answered.insert(name, depth), None, "a worker is in one step only");
            assert_eq!(overlap.depth_of(no), depth);
        }
        assert_eq!(answered, visible, "of {query:?} in {keyspace_no}");
        assert_eq!(overlap.is_partly_hidden(), !hidden.is_empty());
        assert!(overlap.steps().windows(2).all(|pair| pair[0].depth > pair[1].depth), "deepest first");
    }
}

/// Random numbers for one history, consumed in order.
struct Dice(std::vec::IntoIter<u64>);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0.next().unwrap_or(0) % sides.max(1)
    }

    fn pick<T: Clone>(&mut self, from: impl Iterator<Item = T>) -> Option<T> {
        let all: Vec<T> = from.collect();
        let at = self.roll(all.len() as u64) as usize;
        all.get(at).cloned()
    }
}

/// One random alteration: the changes a replica would emit, and their effect on the world.
fn step(world: &mut World, dice: &mut Dice, bits: u32) -> Vec<Change> {
    match dice.roll(10) {
        0..=2 => grow(world, dice, bits),
        3 => free_run(world, dice),
        4 => {
            let slot = (0..).find(|slot| !world.holders.contains_key(slot)).expect("slots are endless");
            let key = (dice.roll(6), dice.roll(2), u8::from(dice.roll(8) == 0));
            if world.holders.values().any(|other| *other == key) {
                return Vec::new();
            }
            world.holders.insert(slot, key);
            vec![holder(slot, key.0, key.1, key.2)]
        }
        5 => {
            let Some(slot) = dice.pick(world.holders.keys().copied()) else { return Vec::new() };
            let mut changes: Vec<_> =
                world.reaches.keys().filter(|(s, _)| *s == slot).map(|(s, r)| reach(*s, *r, 0)).collect();
            world.reaches.retain(|(s, _), _| *s != slot);
            world.holders.remove(&slot);
            changes.push(Change::HolderFreed { slot: HolderSlot(slot) });
            changes
        }
        6 => {
            let no = dice.roll(6);
            match dice.roll(4) {
                0 => {
                    world.records.insert(no, false);
                    vec![record(no, 3, "")]
                }
                1 => {
                    world.records.remove(&no);
                    vec![Change::WorkerFreed { worker: worker(no) }]
                }
                _ => {
                    world.records.insert(no, true);
                    vec![record(no, 1, "boot")]
                }
            }
        }
        _ => {
            let slot = dice.pick(world.holders.keys().copied());
            let run = dice.pick(world.runs.keys().copied());
            let (Some(slot), Some(run)) = (slot, run) else { return Vec::new() };
            let (path, base) = &world.runs[&run];
            let len = (path.len() - base) as u64;
            let blocks = if dice.roll(2) == 0 { len } else { dice.roll(len + 1) } as u32;
            world.reaches.remove(&(slot, run));
            if blocks > 0 {
                world.reaches.insert((slot, run), blocks);
            }
            vec![reach(slot, run, blocks)]
        }
    }
}

/// A new run somewhere in the tree. Block hashes are cut to `bits`, so that the same one turns up at many places.
fn grow(world: &mut World, dice: &mut Dice, bits: u32) -> Vec<Change> {
    let no = (1..).find(|no| !world.runs.contains_key(no)).expect("numbers are endless");
    let parent = if dice.roll(4) == 0 { None } else { dice.pick(world.runs.keys().copied()) };
    let (place, mut path) = match parent {
        None => (Place::ROOT, Vec::new()),
        Some(run) => {
            let (path, base) = &world.runs[&run];
            let blocks = dice.roll((path.len() - base) as u64 + 1) as usize;
            (Place { run: RunId(run), blocks: blocks as u32 }, path[..base + blocks].to_vec())
        }
    };
    let base = path.len();
    let own: Vec<u64> = (0..=dice.roll(20)).map(|_| dice.roll(1 << bits)).collect();
    path.extend(&own);
    // The chain store never lets two runs continue one place with the same hash.
    if world.runs.values().any(|(other, _)| other.starts_with(&path[..=base])) {
        return Vec::new();
    }
    world.parents.insert(no, parent.unwrap_or(0));
    world.runs.insert(no, (path, base));
    vec![run(no, place, own)]
}

fn free_run(world: &mut World, dice: &mut Dice) -> Vec<Change> {
    let leaves = world.runs.keys().copied().filter(|run| !world.parents.values().any(|parent| parent == run));
    let Some(run) = dice.pick(leaves) else { return Vec::new() };
    let mut changes: Vec<_> =
        world.reaches.keys().filter(|(_, r)| *r == run).map(|(slot, r)| reach(*slot, *r, 0)).collect();
    world.reaches.retain(|(_, r), _| *r != run);
    world.runs.remove(&run);
    world.parents.remove(&run);
    changes.push(Change::RunFreed { run: RunId(run) });
    changes
}

/// A prompt that is known whole, in part, past its end, or not at all.
fn query(world: &World, dice: &mut Dice, bits: u32) -> Vec<u64> {
    let mut path = dice.pick(world.runs.values().map(|(path, _)| path.clone())).unwrap_or_default();
    match dice.roll(4) {
        0 => path.truncate(dice.roll(path.len() as u64 + 1) as usize),
        1 => path.extend((0..dice.roll(9)).map(|_| dice.roll(1 << bits))),
        2 => path = (0..dice.roll(9)).map(|_| dice.roll(1 << bits)).collect(),
        _ => {}
    }
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// I8: whatever version a reading names, its answers are those of that version, held publishes included.
    #[test]
    fn every_answer_equals_brute_force_on_the_version_it_names(
        rolls in prop::collection::vec(any::<u64>(), 200..1200),
        bits in prop::sample::select(vec![2u32, 4, 8, 16, 48]),
    ) {
        let mut dice = Dice(rolls.into_iter());
        let (index, mut writer) = index();
        let (mut world, mut changes) = (World::default(), 0);
        let mut versions = BTreeMap::from([(0, World::default())]);
        let mut held = Vec::new();
        while dice.0.len() > 0 {
            for change in step(&mut world, &mut dice, bits) {
                changes += 1;
                writer.changed(change);
            }
            match dice.roll(4) {
                0 => {
                    versions.insert(changes, world.clone());
                    let retry = writer.publish();
                    prop_assert_eq!(retry.is_none(), index.load().version().changes == changes);
                }
                1 => held.push(index.load()),
                2 => drop(held.pop()),
                _ => {}
            }
            let reading = index.load();
            for reading in held.iter().chain([&reading]) {
                let of = &versions[&reading.version().changes];
                let keyspace_no = dice.roll(3);
                let query = query(of, &mut dice, bits);
                of.assert_answers(reading, keyspace_no, &query);
            }
        }
    }
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
fn a_lookup_sees_one_whole_version_under_a_concurrent_writer_i8() {
    const RUNS: u32 = 12;
    let (index, mut writer) = index();
    let at = |no: u32| if no == 1 { Place::ROOT } else { Place { run: RunId(no - 1), blocks: 1 } };
    feed(&mut writer, (1..=RUNS).map(|no| run(no, at(no), [u64::from(no)])));
    feed(&mut writer, (0..2).flat_map(|no| [record(no, 1, "boot"), holder(no as u32, no, 0, 0)]));
    let start = u64::from(RUNS) + 4;
    let stop = AtomicBool::new(false);
    let chain = hashes(1..=u64::from(RUNS));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let overlap = index.load().lookup(&keyspace(0), &chain);
                    let turns = overlap.version().changes.saturating_sub(start) / u64::from(2 * RUNS);
                    let holder = WorkerNo(1 - (turns % 2) as u32);
                    let expected = if turns == 0 { 0 } else { RUNS };
                    assert_eq!((overlap.depth_of(holder), overlap.steps().len() as u64), (expected, turns.min(1)));
                }
            });
        }
        // Turn after turn the whole chain moves from one worker to the other, a run at a time.
        for turn in 1..=4_000u32 {
            let (from, to) = (turn % 2, 1 - turn % 2);
            feed(&mut writer, (1..=RUNS).flat_map(|no| [reach(from, no, 0), reach(to, no, 1)]));
            let _later = writer.publish();
        }
        stop.store(true, Ordering::Relaxed);
    });
    while writer.publish().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(index.load().version().changes, start + 4_000 * u64::from(2 * RUNS));
}

#[test]
fn a_reader_that_holds_on_never_blocks_the_writer() {
    let (index, mut writer) = index();
    feed(&mut writer, [run(1, Place::ROOT, 0..4), record(0, 1, "boot"), holder(0, 0, 0, 0)]);
    assert_eq!(writer.publish(), None);
    let held = index.load();
    for turn in 0..1_000u32 {
        writer.changed(reach(0, 1, turn % 5));
        // One publish goes through into the copy nobody holds; a blocking one would hang here for ever.
        assert_eq!(writer.publish(), if turn == 0 { None } else { Some(PUBLISH_RETRY) });
    }
    let mut other = index.load();
    assert_eq!((held.version().changes, other.version().changes), (3, 4));
    drop(held);
    assert_eq!(writer.publish(), None);
    other = index.load();
    assert_eq!(other.version().changes, 1_003);
    assert_eq!(other.lookup(&keyspace(0), &hashes(0..4)).depth_of(WorkerNo(0)), 999 % 5);
}

#[test]
fn a_reader_that_never_lets_go_costs_a_copy_not_an_endless_log_i9() {
    let (index, mut writer) = index();
    let held = index.load();
    let load = |requests| Load { requests, queued_tokens: 1 };
    let mut longest = 0;
    for turn in 0..3 * LOG_OPS_MAX as u32 {
        writer.load(LifeId(9), &worker(0), load(turn + 1));
        let _later = writer.publish();
        longest = longest.max(writer.waiting());
    }
    assert_eq!(held.version().changes, 0);
    assert!(longest <= LOG_OPS_MAX + 1, "{longest} ops waited");
    assert_eq!(writer.publish(), None);
    assert_eq!(index.load().others(WorkerNo(0)), load(3 * LOG_OPS_MAX as u32));
}

#[test]
fn a_new_life_starts_empty_and_the_old_one_publishes_no_more() {
    let (index, mut old) = index();
    let coverage = || [run(1, Place::ROOT, 0..4), record(0, 1, "boot"), holder(0, 0, 0, 0), reach(0, 1, 4)];
    feed(&mut old, coverage());
    assert_eq!(old.publish(), None);
    let mut new = index.writer(LifeId(8));
    assert_eq!((index.load().version(), index.load().size()), (Version { life: 2, changes: 0 }, (0, 0)));
    feed(&mut old, [reach(0, 1, 2)]);
    assert_eq!(old.publish(), None);
    assert!(!old.if_current(|| unreachable!("the old life is over")));
    assert_eq!(index.load().size(), (0, 0), "a superseded life shows nothing");
    feed(&mut new, coverage());
    assert_eq!(new.publish(), None);
    assert_eq!(index.load().lookup(&keyspace(0), &hashes(0..4)).depth_of(WorkerNo(0)), 4);
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
