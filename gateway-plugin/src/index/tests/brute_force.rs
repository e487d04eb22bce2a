//! Every lookup against an answer found by looking at every prefix, on random histories (I8).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Worker, keyspace and lane of a holder.
type Key = (u64, u64, u8);

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
    /// slot -> (worker, keyspace, lane) and the blocks its engine stores.
    stored: BTreeMap<u32, (Key, BTreeSet<u64>)>,
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
        for (worker, depth) in self.stored_depths(keyspace, query, &[0]) {
            let known = found.entry(worker).or_insert(0);
            *known = depth.max(*known);
        }
        found
    }

    /// worker -> depth over the stored blocks of some lanes together.
    fn stored_depths(&self, keyspace: u64, query: &[u64], lanes: &[u8]) -> BTreeMap<u64, u32> {
        let mut all: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for ((worker, space, lane), blocks) in self.stored.values() {
            if *space == keyspace && lanes.contains(lane) {
                all.entry(*worker).or_default().extend(blocks);
            }
        }
        let depth = |blocks: &BTreeSet<u64>| query.iter().take_while(|block| blocks.contains(block)).count() as u32;
        all.iter().map(|(worker, blocks)| (*worker, depth(blocks))).filter(|(_, depth)| *depth > 0).collect()
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
        let deeper = |(worker, depth): &(u64, u32)| {
            self.records.get(worker) == Some(&true) && answered.get(worker).is_none_or(|known| known < depth)
        };
        let below: BTreeMap<u64, u32> =
            self.stored_depths(keyspace_no, query, &[0, HOST]).into_iter().filter(deeper).collect();
        let named = |no| reading.id(no).expect("known").name()[1..].parse().expect("a number");
        let told = overlap.below().iter().flat_map(|step| step.iter().map(|no| (named(no), step.depth)));
        assert_eq!(told.collect::<BTreeMap<u64, u32>>(), below, "on lower tiers, of {query:?} in {keyspace_no}");
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
    match dice.roll(12) {
        10 => store(world, dice),
        11 => change_stored(world, dice, bits),
        0..=2 => grow(world, dice, bits),
        3 => free_run(world, dice),
        4 => {
            let slot = free_slot(world);
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

/// The lane of group 0 in host memory.
const HOST: u8 = 64;

fn free_slot(world: &World) -> u32 {
    let is_free = |slot: &u32| !world.holders.contains_key(slot) && !world.stored.contains_key(slot);
    (0..).find(is_free).expect("slots are endless")
}

/// A holder of stored blocks begins, or is over.
fn store(world: &mut World, dice: &mut Dice) -> Vec<Change> {
    let key = (dice.roll(6), dice.roll(2), if dice.roll(4) == 0 { HOST } else { 0 });
    let known = world.stored.iter().find(|(_, (other, _))| *other == key).map(|(slot, _)| *slot);
    let Some(slot) = known else {
        let slot = free_slot(world);
        world.stored.insert(slot, (key, BTreeSet::new()));
        let holder = HolderKey { worker: worker(key.0), keyspace: keyspace(key.1), lane: LaneId(key.2) };
        return vec![Change::Holder { slot: HolderSlot(slot), key: holder, coverage: Coverage::Stored }];
    };
    let (_, blocks) = world.stored.remove(&slot).expect("looked at above");
    let removed = blocks.into_iter().map(BlockHash).collect();
    let slot = HolderSlot(slot);
    vec![Change::Stored { slot, added: Arc::default(), removed }, Change::HolderFreed { slot }]
}

/// Blocks of some known path come or go.
fn change_stored(world: &mut World, dice: &mut Dice, bits: u32) -> Vec<Change> {
    let path = query(world, dice, bits);
    let Some(slot) = dice.pick(world.stored.keys().copied()) else { return Vec::new() };
    let (_, blocks) = world.stored.get_mut(&slot).expect("one of them");
    let skip = dice.roll(path.len() as u64 + 1) as usize;
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for block in path.into_iter().collect::<BTreeSet<_>>().into_iter().skip(skip / 2) {
        if dice.roll(4) > 0 && blocks.insert(block) {
            added.push(BlockHash(block));
        } else if dice.roll(3) == 0 && !added.contains(&BlockHash(block)) && blocks.remove(&block) {
            removed.push(BlockHash(block));
        }
    }
    vec![Change::Stored { slot: HolderSlot(slot), added: added.into(), removed: removed.into() }]
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
