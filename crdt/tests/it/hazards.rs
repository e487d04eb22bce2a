//! Hazards by name: short histories that once broke a model of the protocol, and a long one for memory.

use std::sync::Arc;

use covey_crdt::hash::BlockHash;
use covey_crdt::op::{FloorRaise, Op, Touch, WorkerUpdate};
use covey_crdt::replica::Replica;
use covey_crdt::stamp::{Floor, Rank, Stamp};

use crate::changes::Mirror;
use crate::generate::{incarnation, keyspace, life, stamp, tip, worker};
use crate::reference::{Entry, expected};

fn touch_of(incarnation_nth: usize, blocks: &[u64], at: Stamp) -> Entry {
    let chain: Arc<[BlockHash]> = blocks.iter().map(|block| BlockHash(*block)).collect();
    let op = Op::Touch(Touch {
        worker: worker(0),
        keyspace: keyspace(0),
        incarnation: incarnation(incarnation_nth),
        tip: tip(&chain),
        stamp: at,
    });
    Entry { life: at.life, op, chain }
}

fn touch(blocks: &[u64], at: Stamp) -> Entry {
    touch_of(1, blocks, at)
}

fn floor_of(incarnation_nth: usize, floor: Floor, at: Stamp) -> Entry {
    let (worker, keyspace, incarnation) = (worker(0), keyspace(0), incarnation(incarnation_nth));
    let op = Op::Floor(FloorRaise { worker, keyspace, incarnation, floor, stamp: at });
    Entry { life: at.life, op, chain: Arc::from([]) }
}

fn capacity_of(incarnation_nth: usize, blocks: u64, at: Stamp) -> Entry {
    let op = Op::Worker(WorkerUpdate {
        worker: worker(0),
        incarnation: incarnation(incarnation_nth),
        capacity_tokens: Some(blocks * 16),
        meta: None,
        stamp: at,
    });
    Entry { life: at.life, op, chain: Arc::from([]) }
}

fn apply(replica: &mut Replica, entry: &Entry) {
    let (place, _) = replica.learn_chain(&entry.chain).expect("short enough");
    let _ = replica.apply(entry.life, &entry.op).expect("its content has just been learned");
    replica.release(place);
}

fn permutations(entries: &[Entry]) -> Vec<Vec<Entry>> {
    if entries.is_empty() {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for nth in 0..entries.len() {
        let mut rest = entries.to_vec();
        let first = rest.remove(nth);
        all.extend(permutations(&rest).into_iter().map(|tail| [vec![first.clone()], tail].concat()));
    }
    all
}

/// Every order gives one state and one digest: the reference's. Returns the paths' depths it covers, sorted.
fn agree(entries: &[Entry]) -> Vec<u32> {
    let all: Vec<_> = permutations(entries)
        .into_iter()
        .map(|order| {
            let mut replica = Replica::default();
            order.iter().for_each(|entry| apply(&mut replica, entry));
            assert!(replica.is_consistent());
            (replica.expand(), replica.digest())
        })
        .collect();
    assert!(all.iter().all(|one| *one == all[0]), "two orders, two states");
    assert_eq!(all[0].0, expected(entries));
    let mut depths: Vec<_> =
        all[0].0.coverage.values().flat_map(|(_, blocks)| blocks.values().map(|(_, depth)| *depth)).collect();
    depths.sort_unstable();
    depths
}

#[test]
fn p1_a_floor_belongs_to_its_incarnation() {
    // The floor of incarnation 1 lies above the touch of incarnation 2, whose clock is behind.
    let old = floor_of(1, Rank::whole(stamp(90, 0, 0)), stamp(90, 0, 0));
    let new = touch_of(3, &[1, 2], stamp(50, 0, 1));
    assert_eq!(agree(&[old, new]), [1, 2]);
}

#[test]
fn p1_a_capacity_belongs_to_its_incarnation() {
    let small = capacity_of(1, 1, stamp(10, 0, 0));
    let new = touch_of(3, &[1, 2, 3], stamp(50, 0, 1));
    let room = capacity_of(3, 2, stamp(60, 0, 1));
    assert_eq!(agree(&[small.clone(), new.clone()]), [1, 2, 3]);
    assert_eq!(agree(&[small, new, room]), [1, 2]);
}

#[test]
fn p1_of_two_tokens_minted_at_once_one_wins_everywhere() {
    let all = [
        touch_of(1, &[1], stamp(50, 0, 0)),
        touch_of(2, &[2, 3], stamp(40, 0, 1)),
        floor_of(1, Rank::whole(stamp(60, 0, 0)), stamp(60, 0, 0)),
        capacity_of(1, 1, stamp(61, 0, 0)),
    ];
    assert_eq!(agree(&all), [1, 2]);
}

/// The old incarnation was the last to hold the chain; adopting the new one frees it while the touch needs it.
#[test]
fn p1_a_touch_of_a_new_incarnation_survives_the_end_of_the_old_one() {
    let (old, new) = (touch_of(1, &[1, 2], stamp(10, 0, 0)), touch_of(3, &[1, 2], stamp(20, 0, 0)));
    let mut replica = Replica::default();
    apply(&mut replica, &old);
    let _ = replica.apply(new.life, &new.op).expect("the old incarnation still holds the chain");
    assert_eq!(replica.expand(), expected(&[old, new]));
}

#[test]
fn p2_two_chains_that_share_a_64_bit_name_are_two_blocks() {
    let all = [
        touch(&[1, 7], stamp(10, 0, 0)),
        touch(&[2, 7], stamp(20, 0, 1)),
        touch(&[2, 7, 7], stamp(15, 0, 0)),
        floor_of(1, Rank { stamp: stamp(10, 0, 0), depth: 2 }, stamp(30, 0, 0)),
    ];
    assert_eq!(agree(&all), [1, 1, 2, 3], "[1, 7] is gone, [2, 7] is not");
}

#[test]
fn p2_a_cut_takes_one_of_two_aliases() {
    let all = [touch(&[1, 7], stamp(10, 0, 0)), touch(&[2, 7], stamp(20, 0, 1)), capacity_of(1, 3, stamp(30, 0, 0))];
    assert_eq!(agree(&all), [1, 1, 2]);
}

#[test]
fn capacity_that_grows_in_place_changes_nothing() {
    let all = [
        touch(&[1, 2], stamp(10, 0, 0)),
        touch(&[3], stamp(20, 0, 0)),
        capacity_of(1, 1, stamp(30, 0, 0)),
        capacity_of(1, 9, stamp(40, 0, 0)),
        touch(&[4], stamp(15, 0, 1)),
    ];
    assert_eq!(agree(&all), [1]);
}

#[test]
fn i5_a_block_above_its_cut_sibling_survives_and_a_late_touch_brings_nothing_back() {
    let all = [
        touch(&[1, 2, 3, 4], stamp(10, 0, 0)),
        touch(&[1, 2, 8], stamp(20, 0, 1)),
        floor_of(1, Rank { stamp: stamp(10, 0, 0), depth: 4 }, stamp(21, 0, 0)),
        touch(&[1, 2, 3, 4], stamp(10, 0, 0)),
        touch(&[1, 9], stamp(9, 0, 1)),
    ];
    assert_eq!(agree(&all), [1, 2, 3, 3]);
}

#[test]
fn ties_of_milliseconds_and_counter_are_settled_by_the_life() {
    let tied = [touch(&[1], stamp(5, 3, 0)), touch(&[2], stamp(5, 3, 1)), touch(&[3], stamp(5, 3, 2))];
    let mut all = tied.to_vec();
    all.push(capacity_of(1, 2, stamp(6, 0, 0)));
    agree(&all);
    let state = expected(&all);
    let (floor, _) = state.coverage.values().next().expect("one holder");
    assert_eq!(floor.stamp.life, life(0), "the smallest life is the least recent");
}

/// Touches of chains over several runs of the store that part inside a run, and a capacity that cuts the longest.
pub(crate) fn several_long_chains() -> Vec<Entry> {
    let long: Vec<u64> = (0..9_000).collect();
    let branch: Vec<u64> = (0..5_000).chain(100_000..100_500).collect();
    vec![
        touch(&long, stamp(10, 0, 0)),
        touch(&branch, stamp(20, 0, 1)),
        touch(&long[..4_096], stamp(30, 0, 0)),
        capacity_of(1, 6_000, stamp(31, 0, 0)),
    ]
}

/// The staircase must hold across run boundaries.
#[test]
fn chains_longer_than_a_run_are_cut_extended_and_touched_again() {
    let depths = agree(&several_long_chains());
    assert_eq!(depths.len(), 6_000);
    assert_eq!(depths.last(), Some(&5_500));
}

struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Hazard 16: conversations come, grow and go for a long time; everything the replica holds stays as large as it was.
#[test]
fn hazard_16_memory_stays_flat_over_a_long_soak() {
    const ROUNDS: u64 = 40_000;
    let (mut replica, mut mirror, mut random) = (Replica::default(), Mirror::default(), Xorshift(0x9e37_79b9));
    let mut sessions: Vec<Vec<u64>> = vec![vec![]; 24];
    apply(&mut replica, &capacity_of(1, 600, stamp(1, 0, 0)));
    let (mut early, mut late) = (0, 0);
    for round in 0..ROUNDS {
        let session = random.below(24) as usize;
        if sessions[session].len() > 150 || sessions[session].is_empty() {
            // A system prompt of one of three kinds, then text nobody had before.
            sessions[session] = (0..40).map(|block| block + 1_000 * random.below(3)).collect();
            sessions[session].truncate(5 + random.below(36) as usize);
        }
        let fresh = 1 + random.below(8);
        sessions[session].extend((0..fresh).map(|block| 1_000_000 + round * 10 + block));
        apply(&mut replica, &touch(&sessions[session], stamp(10 + round, 0, (round % 3) as usize)));
        for change in replica.take_changes() {
            mirror.apply(change);
        }
        if round % 1_000 == 999 {
            // The printed form holds every entry of every table, so its length stands for the memory.
            let printed = format!("{replica:?}").len();
            let half = if round < ROUNDS / 2 { &mut early } else { &mut late };
            *half = printed.max(*half);
            mirror.verify(&replica);
        }
    }
    assert!(late * 10 <= early * 11, "grew from {early} to {late} printed bytes");
    assert!(u64::from(mirror.runs_numbered) <= 1_200, "run numbers are reused: {}", mirror.runs_numbered);
    assert_eq!(mirror.slots_numbered, 1);
    apply(&mut replica, &touch_of(3, &[1], stamp(1, 0, 0)));
    assert_eq!((replica.chains().runs(), replica.chains().blocks()), (1, 1));
}
