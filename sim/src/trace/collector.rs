//! The last events of a run in memory: what led up to one of them, and where two runs part.
//!
//! Not here: writing traces to files.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Step, Tracer};

/// Events kept.
const KEPT_MAX: usize = 400_000;

/// Keeps the last events.
#[derive(Clone, Debug, Default)]
pub struct Collector(Arc<Mutex<Kept>>);

/// The last events of a run, in order.
#[derive(Clone, Debug, Default)]
pub struct Kept(VecDeque<Step>);

impl Collector {
    /// What was kept so far. The other holders of this collector go on with nothing.
    #[must_use]
    pub fn take(&self) -> Kept {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tracer for Collector {
    fn step(&mut self, step: Step) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0.len() >= KEPT_MAX {
            kept.0.pop_front();
        }
        kept.0.push_back(step);
    }
}

impl Kept {
    /// Kept by hand: events in order, numbers ascending without gaps.
    #[must_use]
    pub fn of(steps: Vec<Step>) -> Self {
        Self(steps.into())
    }

    /// The events, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Step> {
        self.0.iter()
    }

    fn get(&self, seq: u64) -> Option<&Step> {
        let first = self.0.front()?.seq;
        self.0.get(usize::try_from(seq.checked_sub(first)?).ok()?)
    }

    /// The last `most` events that the last one follows from, oldest first: its causes, and, for every node in `nodes`
    /// (all nodes if it is empty), the last events there with theirs. Looking at the cluster is no cause.
    #[must_use]
    pub fn leading_up(&self, nodes: &[usize], most: usize) -> Vec<&Step> {
        let mut due: BTreeSet<u64> = self.0.back().map(|last| last.seq).into_iter().collect();
        let mine = |step: &&Step| step.node.is_some_and(|node| nodes.is_empty() || nodes.contains(&node));
        let telling = |step: &&Step| !step.notes.is_empty() || matches!(step.kind, "deliver" | "fault" | "request");
        let last_here = self.0.iter().rev().filter(mine).filter(telling).take(most / 2);
        due.extend(last_here.map(|step| step.seq));
        let mut found = Vec::new();
        while let Some(seq) = due.pop_last() {
            let Some(step) = self.get(seq) else { continue };
            if step.cause > 0 && step.cause < seq && step.kind != "check" {
                due.insert(step.cause);
            }
            found.push(step);
            if found.len() >= most {
                break;
            }
        }
        found.reverse();
        found
    }
}

/// Where two runs part.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// At this event.
    Event(Box<(Step, Step)>),
    /// One of them ended here and the other went on.
    Length(u64),
}

/// The first event in which two runs differ; `None` when they are the same as far as both were kept.
#[must_use]
pub fn first_difference(one: &Kept, other: &Kept) -> Option<Difference> {
    if let Some((a, b)) = one.iter().zip(other.iter()).find(|(a, b)| a != b) {
        return Some(Difference::Event(Box::new((a.clone(), b.clone()))));
    }
    let last = [one, other].into_iter().map(|kept| kept.0.back().map_or(0, |step| step.seq)).min();
    (one.0.len() != other.0.len()).then(|| Difference::Length(last.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn step(seq: u64, cause: u64, node: usize, hash: u64) -> Step {
        Step {
            t_us: seq * 10,
            seq,
            node: Some(node),
            kind: "deliver",
            cause,
            digest: None,
            hash,
            fields: Map::new(),
            notes: Vec::new(),
            lags: Vec::new(),
        }
    }

    #[test]
    fn what_led_up_to_an_event_is_its_chain_of_causes() {
        let kept =
            Kept::of(vec![step(1, 0, 0, 1), step(2, 0, 5, 2), step(3, 1, 1, 3), step(4, 2, 5, 4), step(5, 3, 0, 5)]);
        let seqs = |nodes: &[usize], most| kept.leading_up(nodes, most).iter().map(|step| step.seq).collect::<Vec<_>>();
        assert_eq!(seqs(&[0], 30), [1, 3, 5], "nothing of node 5, which took no part");
        assert_eq!(seqs(&[0], 2), [3, 5]);
        assert_eq!(seqs(&[], 30), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn two_runs_that_part_are_told_apart_at_the_first_event() {
        let one = Kept::of(vec![step(1, 0, 0, 1), step(2, 0, 0, 2), step(3, 0, 0, 3)]);
        let other = Kept::of(vec![step(1, 0, 0, 1), step(2, 0, 0, 9), step(3, 0, 0, 8)]);
        assert_eq!(first_difference(&one, &one.clone()), None);
        let Some(Difference::Event(pair)) = first_difference(&one, &other) else { panic!("they differ") };
        assert_eq!((pair.0.seq, pair.0.hash, pair.1.hash), (2, 2, 9));
        let shorter = Kept::of(vec![step(1, 0, 0, 1)]);
        assert_eq!(first_difference(&one, &shorter), Some(Difference::Length(1)));
    }
}
