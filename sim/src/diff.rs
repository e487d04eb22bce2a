//! Two nodes compared at one moment: which log positions, records, holders and blocks differ, and why.
//!
//! Not here: when a difference is a violation (`invariants`).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use covey_crdt::change::HolderKey;
use covey_crdt::hash::PathId;
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::op::Op;
use covey_crdt::replica::{Blocks, Expanded};
use covey_crdt::stamp::{Floor, Rank, Stamp};
use covey_mesh::node::Node;
use covey_mesh::status::Phase;

use crate::oracle::Oracle;

pub use covey_mesh::inspect::Class;

/// What is known about a difference.
#[derive(Clone, Copy, Debug)]
struct Facts {
    both_clean: bool,
    is_cut: bool,
    /// Ops about it that only one of the two has applied.
    missing: usize,
    /// Those of them that wait at the other.
    held: usize,
}

const fn classify(facts: Facts) -> Class {
    if !facts.both_clean {
        Class::Dirty
    } else if facts.missing == 0 {
        Class::Lost
    } else if facts.is_cut {
        Class::Cut
    } else if facts.held == facts.missing {
        Class::Held
    } else {
        Class::Lag
    }
}

/// A log of which the two have applied different parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDiff {
    /// Whose.
    pub life: LifeId,
    /// Its gateway's name, where it is known.
    pub name: String,
    /// Ops applied by each.
    pub applied: (u64, u64),
    /// Ops the one that lacks some has received but not applied.
    pub held: u64,
}

/// A worker or life whose records differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordDiff {
    /// Whose.
    pub name: String,
    /// Each record in words; empty where there is none.
    pub records: (String, String),
    /// Why.
    pub class: Class,
}

/// A holder whose coverage differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderDiff {
    /// Which.
    pub key: HolderKey,
    /// Blocks covered by each.
    pub blocks: (usize, usize),
    /// The floor of each.
    pub floors: (Floor, Floor),
    /// Blocks that only the one covers, with stamp and depth.
    pub only_one: Blocks,
    /// Blocks that only the other covers.
    pub only_other: Blocks,
    /// Blocks that both cover under different stamps.
    pub restamped: usize,
    /// Why.
    pub class: Class,
}

/// Everything in which two nodes differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Logs.
    pub logs: Vec<LogDiff>,
    /// Records of workers and lives.
    pub records: Vec<RecordDiff>,
    /// Holders.
    pub holders: Vec<HolderDiff>,
}

struct Missing<'a> {
    op: &'a Op,
    life: LifeId,
    is_held: bool,
}

/// Compares two nodes.
#[must_use]
pub fn diff(one: &Node, other: &Node, oracle: &Oracle) -> Diff {
    let missing: Vec<Missing<'_>> = lacking(one, other, oracle).chain(lacking(other, one, oracle)).collect();
    let both_clean = [one, other].iter().all(|node| node.phase() == Phase::Clean);
    let about = |is_about: &dyn Fn(&Missing<'_>) -> bool, is_cut: bool| {
        let all: Vec<_> = missing.iter().filter(|missing| is_about(missing)).collect();
        let held = all.iter().filter(|missing| missing.is_held).count();
        classify(Facts { both_clean, is_cut, missing: all.len(), held })
    };
    let (a, b) = (one.replica().expand(), other.replica().expand());
    let mut records = Vec::new();
    for worker in keys(&a.records, &b.records) {
        let (left, right) = (a.records.get(worker), b.records.get(worker));
        if left != right {
            let class = about(&|missing| names(missing.op, worker), false);
            let words = |record: Option<&_>| record.map(|record| format!("{record:?}")).unwrap_or_default();
            records.push(RecordDiff { name: worker.to_string(), records: (words(left), words(right)), class });
        }
    }
    for life in keys(&a.lives, &b.lives) {
        let (left, right) = (a.lives.get(life), b.lives.get(life));
        if left != right {
            let class = about(&|missing| missing.life == *life, false);
            let words = |record: Option<&_>| record.map(|record| format!("{record:?}")).unwrap_or_default();
            records.push(RecordDiff { name: format!("life {life}"), records: (words(left), words(right)), class });
        }
    }
    let holders = keys(&a.coverage, &b.coverage);
    let holders = holders.into_iter().filter_map(|key| {
        let class = |is_cut| about(&|missing| names(missing.op, &key.worker), is_cut);
        holder_diff(key, &a, &b, class)
    });
    Diff { logs: logs(one, other), records, holders: holders.collect() }
}

fn keys<'a, K: Ord, V>(one: &'a BTreeMap<K, V>, other: &'a BTreeMap<K, V>) -> BTreeSet<&'a K> {
    one.keys().chain(other.keys()).collect()
}

/// Ops that `one` has applied and `other` has not.
fn lacking<'a>(one: &'a Node, other: &'a Node, oracle: &'a Oracle) -> impl Iterator<Item = Missing<'a>> {
    one.vector().lives().flat_map(move |(life, head)| {
        let from = other.vector().head(life).seq;
        let ops = oracle.log(life).iter().zip(1..).take(head.seq as usize).skip(from as usize);
        ops.map(move |(op, seq)| Missing { op, life, is_held: other.holds(life, seq) })
    })
}

/// Whether an op is about a worker.
fn names(op: &Op, worker: &WorkerId) -> bool {
    let named = |other: &WorkerId| other == worker;
    if let Op::Restated(slice) = op {
        return slice.workers.iter().any(|(other, _)| named(other)) || slice.holders.iter().any(|h| named(&h.worker));
    }
    let touch = matches!(op, Op::Touch(touch) if named(&touch.worker));
    let floor = matches!(op, Op::Floor(raise) if named(&raise.worker));
    let record = matches!(op, Op::Worker(update) if named(&update.worker));
    touch || floor || record
}

fn logs(one: &Node, other: &Node) -> Vec<LogDiff> {
    let lives: BTreeSet<LifeId> = [one, other].iter().flat_map(|node| node.vector().lives()).map(|(l, _)| l).collect();
    let mut found = Vec::new();
    for life in lives {
        let applied = (one.vector().head(life).seq, other.vector().head(life).seq);
        if applied.0 == applied.1 {
            continue;
        }
        let (less, behind, ahead) =
            if applied.0 < applied.1 { (one, applied.0, applied.1) } else { (other, applied.1, applied.0) };
        let held = (behind + 1..=ahead).filter(|seq| less.holds(life, *seq)).count() as u64;
        let record = [one, other].into_iter().find_map(|node| node.replica().lives().get(&life));
        let name = record.map(|record| record.name.to_string()).unwrap_or_default();
        found.push(LogDiff { life, name, applied, held });
    }
    found
}

fn holder_diff(key: &HolderKey, a: &Expanded, b: &Expanded, class: impl Fn(bool) -> Class) -> Option<HolderDiff> {
    let nothing = (Floor::LOWEST, Blocks::new());
    let (left, right) = (a.coverage.get(key).unwrap_or(&nothing), b.coverage.get(key).unwrap_or(&nothing));
    if left == right {
        return None;
    }
    let without = |from: &Blocks, of: &Blocks| -> Blocks {
        from.iter().filter(|(path, _)| !of.contains_key(path)).map(|(path, at)| (*path, *at)).collect()
    };
    let (only_one, only_other) = (without(&left.1, &right.1), without(&right.1, &left.1));
    let stamp = |of: &Blocks, path: &PathId| of.get(path).map(|(stamp, _): &(Stamp, u32)| *stamp);
    let both = left.1.keys().filter(|path| right.1.contains_key(path));
    let restamped = both.filter(|path| stamp(&left.1, path) != stamp(&right.1, path)).count();
    let below = |blocks: &Blocks, floor: Floor| {
        blocks.values().all(|(stamp, depth)| Rank { stamp: *stamp, depth: *depth } <= floor)
    };
    let is_cut = restamped == 0 && left.0 != right.0 && below(&only_one, right.0) && below(&only_other, left.0);
    Some(HolderDiff {
        key: key.clone(),
        blocks: (left.1.len(), right.1.len()),
        floors: (left.0, right.0),
        only_one,
        only_other,
        restamped,
        class: class(is_cut),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_the_first_reason_that_explains_it() {
        let facts = Facts { both_clean: true, is_cut: false, missing: 3, held: 0 };
        assert_eq!(classify(facts), Class::Lag);
        assert_eq!(classify(Facts { held: 3, ..facts }), Class::Held);
        assert_eq!(classify(Facts { is_cut: true, held: 3, ..facts }), Class::Cut);
        assert_eq!(classify(Facts { missing: 0, is_cut: true, ..facts }), Class::Lost, "a floor that no op explains");
        assert_eq!(classify(Facts { both_clean: false, missing: 0, ..facts }), Class::Dirty);
    }
}
