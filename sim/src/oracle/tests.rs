//! The fast reading of the history against one that keeps every op and recomputes, and what a fork taints.

use std::sync::Arc;

use covey_crdt::chain::Tip;
use covey_crdt::id::{GatewayName, ModelName, Token};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::lane::LaneId;
use covey_crdt::op::{FloorRaise, Touch, WorkerUpdate};
use covey_crdt::stamp::{Hlc, Rank};

use super::*;
use crate::plan::Stream;

fn worker() -> WorkerId {
    WorkerId::new("w", 0).expect("a name")
}

fn incarnation(counter: u64) -> Incarnation {
    Incarnation { counter, token: Token::new("t").expect("a token") }
}

fn keyspace() -> Arc<Keyspace> {
    let model = ModelName::new("m").expect("a name");
    Arc::new(Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a block size"))
}

struct Made {
    oracle: Oracle,
    ops: Vec<(LifeId, u64, Op)>,
    chains: BTreeMap<PathId, Vec<PathId>>,
}

fn chain(draw: &mut Stream) -> Vec<BlockHash> {
    let (branch, depth) = (draw.below(4), draw.between(1, 12));
    (0..depth).map(|at| BlockHash(if at < branch { at } else { 100 * branch + at })).collect()
}

fn make(seed: u64) -> Made {
    let mut draw = Stream::new(seed, "history");
    let mut made = Made { oracle: Oracle::default(), ops: Vec::new(), chains: BTreeMap::new() };
    let mut seqs = BTreeMap::<LifeId, u64>::new();
    for at in 1..60 {
        let life = LifeId(u128::from(draw.between(1, 3)));
        let stamp = Stamp { hlc: Hlc::new(draw.between(at, at + 5), at as u16), life };
        let incarnation = incarnation(1 + draw.below(20) / 19);
        let op = match draw.below(12) {
            0 => {
                let floor = Rank { stamp: Stamp { hlc: Hlc::new(at / 2, 0), life }, depth: draw.below(3) as u32 };
                Op::Floor(FloorRaise { worker: worker(), keyspace: keyspace(), incarnation, floor, stamp })
            }
            1 => {
                let capacity_tokens = Some(draw.between(64, 1_500));
                Op::Worker(WorkerUpdate { worker: worker(), incarnation, capacity_tokens, meta: None, stamp })
            }
            _ => {
                let chain = chain(&mut draw);
                made.oracle.accept(&worker(), &incarnation, &chain);
                let mut ids = Vec::new();
                let path = chain.iter().fold(PathId::ROOT, |path, block| {
                    ids.push(path.child(*block));
                    path.child(*block)
                });
                let tip = Tip { path, depth: chain.len() as u32 };
                made.chains.insert(path, ids);
                Op::Touch(Touch { worker: worker(), keyspace: keyspace(), incarnation, tip, stamp })
            }
        };
        let seq = seqs.entry(life).or_default();
        *seq += 1;
        history::add(&mut made.oracle.history, &made.oracle.paths, life, *seq, &op);
        made.ops.push((life, *seq, op));
    }
    made
}

/// All blocks of all counted touches, the newest stamp of each, the floor, the top ones.
fn naive(made: &Made, vector: &BTreeMap<LifeId, u64>) -> (Option<Incarnation>, Coverage) {
    let counted = made.ops.iter().filter(|(life, seq, _)| vector.get(life).is_some_and(|most| most >= seq));
    let ops: Vec<&Op> = counted.map(|(_, _, op)| op).collect();
    let of = |op: &Op| match op {
        Op::Touch(touch) => touch.incarnation.clone(),
        Op::Floor(raise) => raise.incarnation.clone(),
        Op::Worker(update) => update.incarnation.clone(),
        Op::Joined { .. } | Op::Left | Op::Restated(_) | Op::Retired(_) | Op::Forget(_) => Incarnation::unknown(),
    };
    let newest = ops.iter().map(|op| of(op)).max();
    let (mut blocks, mut floor, mut capacity) = (Coverage::new(), Rank::LOWEST, None::<u64>);
    for op in ops.into_iter().filter(|op| Some(of(op)) == newest) {
        match op {
            Op::Touch(touch) => {
                for (depth, path) in (1..).zip(&made.chains[&touch.tip.path]) {
                    let known = blocks.entry(*path).or_insert((touch.stamp, depth));
                    known.0 = known.0.max(touch.stamp);
                }
            }
            Op::Floor(raise) => floor = floor.max(raise.floor),
            Op::Worker(update) => capacity = capacity.into_iter().chain(update.capacity_tokens).min(),
            Op::Joined { .. } | Op::Left | Op::Restated(_) | Op::Retired(_) | Op::Forget(_) => {}
        }
    }
    let mut ranks: Vec<Rank> = blocks.values().map(|(stamp, depth)| Rank { stamp: *stamp, depth: *depth }).collect();
    ranks.retain(|rank| *rank > floor);
    ranks.sort_unstable_by(|one, other| other.cmp(one));
    ranks.truncate(keyspace().capacity_blocks(capacity) as usize);
    blocks.retain(|_, (stamp, depth)| ranks.contains(&Rank { stamp: *stamp, depth: *depth }));
    (newest, blocks)
}

#[test]
fn what_is_read_off_the_history_is_what_all_ops_add_up_to() {
    let (mut cut, mut whole) = (0, 0);
    for seed in 0..300 {
        let made = make(seed);
        let mut draw = Stream::new(seed, "vectors");
        for _ in 0..8 {
            let vector: BTreeMap<LifeId, u64> = (1..=3).map(|life| (LifeId(life), draw.below(25))).collect();
            let (newest, blocks) = naive(&made, &vector);
            let (incarnations, coverage) = made.oracle.expect(&vector, &BTreeMap::new());
            assert_eq!(incarnations.get(&worker()), newest.as_ref(), "seed {seed} at {vector:?}");
            let key = HolderKey { worker: worker(), keyspace: keyspace(), lane: LaneId::PLAIN };
            assert_eq!(coverage.get(&key).cloned().unwrap_or_default(), blocks, "seed {seed} at {vector:?}");
            if blocks.len() < 5 { cut += 1 } else { whole += 1 }
        }
    }
    assert!(cut > 200 && whole > 200, "both small and large answers were compared: {cut}, {whole}");
}

#[test]
fn a_fork_taints_the_workers_named_behind_it_and_no_others() {
    let mut oracle = Oracle::default();
    let (life, other) = (LifeId(7), WorkerId::new("x", 0).expect("a name"));
    let stamp = Stamp { hlc: Hlc::new(1, 0), life };
    let update = |worker: WorkerId| {
        Op::Worker(WorkerUpdate { worker, incarnation: incarnation(1), capacity_tokens: None, meta: None, stamp })
    };
    let name = GatewayName::new("g").expect("a name");
    let ops = vec![Op::Joined { name }, update(other.clone()), update(worker())];
    oracle.logs.insert((life, 0), Log { shared: 0, ops });
    assert_eq!(oracle.fork(life, 2), 1);
    assert!(oracle.has_forked(life) && oracle.is_tainted(&worker()) && !oracle.is_tainted(&other));
    assert_eq!(oracle.fork(life, 1), 2);
    assert!(oracle.is_tainted(&other));
}
