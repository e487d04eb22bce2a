//! A lookup's answer: a few steps of (depth, workers), deepest first, over worker numbers.
//!
//! The size of an answer depends on how many different depths there are, not on holders × workers (hazard 1). Not here:
//! how it is found (`model`), what it is worth (`policy`).

use crate::bits::Bits;
use crate::load::WorkerNo;

/// Which state of the index an answer was taken from: everything in it is from that one state (I8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Counts the lives of this process's mesh member, from 1; 0 before the first.
    pub life: u64,
    /// Changes and load registers applied since that life began.
    pub changes: u64,
}

/// The workers of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepWorkers {
    /// One.
    One(WorkerNo),
    /// Several.
    Many(Bits),
}

/// Workers that hold the same number of the prompt's blocks, from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many blocks, at least 1.
    pub depth: u32,
    /// Who. Each worker is in one step only.
    pub workers: StepWorkers,
}

impl Step {
    pub(super) fn of(depth: u32, workers: Bits) -> Self {
        let first = workers.iter().next();
        let workers = match (workers.len(), first) {
            (1, Some(one)) => StepWorkers::One(WorkerNo(one)),
            _ => StepWorkers::Many(workers),
        };
        Self { depth, workers }
    }

    pub(super) fn join(&mut self, others: &Bits) {
        let all = self.iter().map(|no| no.0).chain(others.iter()).collect();
        self.workers = StepWorkers::Many(all);
    }

    /// Whether the worker is in the step.
    #[must_use]
    pub fn contains(&self, worker: WorkerNo) -> bool {
        match &self.workers {
            StepWorkers::One(one) => *one == worker,
            StepWorkers::Many(many) => many.contains(worker.0),
        }
    }

    /// How many workers are in the step.
    #[must_use]
    pub fn len(&self) -> u32 {
        match &self.workers {
            StepWorkers::One(_) => 1,
            StepWorkers::Many(many) => many.len(),
        }
    }

    /// Never: a step has a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The workers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = WorkerNo> + '_ {
        let (one, many) = match &self.workers {
            StepWorkers::One(one) => (Some(*one), None),
            StepWorkers::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flat_map(Bits::iter).map(WorkerNo))
    }
}

/// Which workers hold how much of one prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    pub(super) version: Version,
    pub(super) steps: Vec<Step>,
    pub(super) below: Vec<Step>,
    pub(super) is_partly_hidden: bool,
}

impl Overlap {
    /// An answer made by hand: (depth, workers), deepest first.
    #[cfg(test)]
    pub(crate) fn of(steps: &[(u32, &[u32])]) -> Self {
        let step = |(depth, workers): &(u32, &[u32])| Step {
            depth: *depth,
            workers: StepWorkers::Many(workers.iter().copied().collect()),
        };
        Self { steps: steps.iter().map(step).collect(), ..Self::default() }
    }

    /// The state it was taken from.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The steps, deepest first.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What lower tiers hold beyond the steps: deepest first, only workers that reach deeper there.
    #[must_use]
    pub fn below(&self) -> &[Step] {
        &self.below
    }

    /// How many blocks the worker holds on any tier, if that is more than on the device.
    #[must_use]
    pub fn depth_below(&self, worker: WorkerNo) -> Option<u32> {
        self.below.iter().find(|step| step.contains(worker)).map(|step| step.depth)
    }

    /// Whether blocks are held by workers that are removed or have no record: these never answer.
    #[must_use]
    pub const fn is_partly_hidden(&self) -> bool {
        self.is_partly_hidden
    }

    /// How many blocks the worker holds; 0 when it is in no step.
    #[must_use]
    pub fn depth_of(&self, worker: WorkerNo) -> u32 {
        self.steps.iter().find(|step| step.contains(worker)).map_or(0, |step| step.depth)
    }
}
