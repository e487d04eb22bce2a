//! One lookup: along the runs from the root, who still covers every block so far, and where the others stop.
//!
//! Per run it costs one probe, the comparison of the hashes, and a few words of bitset, however many holders there are.
//! Not here: the runs themselves (`runs`), what an answer means (`overlap`).

use covey_crdt::change::Place;
use covey_crdt::hash::BlockHash;

use super::overlap::{Overlap, Step, StepWorkers, Version};
use super::runs::{Cover, Runs, SpaceNo};
use crate::bits::Bits;
use crate::load::WorkerNo;

/// The state of one lookup.
pub(super) struct Walk<'a> {
    /// Workers that may answer.
    recorded: &'a Bits,
    /// Workers that cover every block so far.
    alive: Bits,
    steps: Vec<Step>,
    is_partly_hidden: bool,
}

impl<'a> Walk<'a> {
    /// A lookup among `alive`, of which only `recorded` may answer.
    pub(super) fn new(alive: Bits, recorded: &'a Bits) -> Self {
        Self { recorded, alive, steps: Vec::new(), is_partly_hidden: false }
    }

    /// Who covers how much of `chain` in `space`.
    pub(super) fn run(mut self, runs: &Runs, space: SpaceNo, chain: &[BlockHash], version: Version) -> Overlap {
        let (mut place, mut depth) = (Place::ROOT, 0);
        while let Some((id, run)) = chain.get(depth).and_then(|next| runs.child(place, *next)) {
            let along = common(&run.hashes, &chain[depth..]);
            self.enter(run.cover(space), depth as u32, along as u32);
            depth += along;
            place = Place { run: id, blocks: along as u32 };
            if self.alive.is_empty() {
                break;
            }
        }
        let rest = std::mem::take(&mut self.alive);
        self.stop(depth as u32, rest);
        self.steps.reverse();
        Overlap { version, steps: self.steps, below: Vec::new(), is_partly_hidden: self.is_partly_hidden }
    }

    /// The path takes the first `along` blocks of a run that begins at depth `base`.
    fn enter(&mut self, cover: Option<&Cover>, base: u32, along: u32) {
        let Some(cover) = cover else {
            let all = std::mem::take(&mut self.alive);
            return self.stop(base, all);
        };
        if self.alive.is_within(&cover.full) {
            return;
        }
        let before = self.alive.clone();
        let mut stopped = before.clone();
        stopped.subtract(&cover.full);
        self.alive.keep(&cover.full);
        let short = cover.partial.partition_point(|(blocks, _)| *blocks < along);
        let (short, long) = cover.partial.split_at(short);
        for (_, worker) in long {
            if stopped.contains(*worker) {
                self.alive.insert(*worker);
            }
        }
        // Who is on neither list stops before the run, so comes first: depths ascend.
        cover.partial.iter().for_each(|(_, worker)| stopped.remove(*worker));
        self.stop(base, stopped);
        for (blocks, worker) in short {
            if before.contains(*worker) {
                self.stop_one(base + blocks, WorkerNo(*worker));
            }
        }
    }

    /// `workers` hold `depth` blocks and no more.
    fn stop(&mut self, depth: u32, mut workers: Bits) {
        if depth == 0 || workers.is_empty() {
            return;
        }
        if !workers.is_within(self.recorded) {
            self.is_partly_hidden = true;
            workers.keep(self.recorded);
            if workers.is_empty() {
                return;
            }
        }
        self.steps.push(Step { depth, workers: StepWorkers::Many(workers) });
    }

    /// `worker` holds `depth` blocks and no more.
    fn stop_one(&mut self, depth: u32, worker: WorkerNo) {
        if !self.recorded.contains(worker.0) {
            self.is_partly_hidden = true;
            return;
        }
        let Some(last) = self.steps.last_mut().filter(|last| last.depth == depth) else {
            return self.steps.push(Step { depth, workers: StepWorkers::One(worker) });
        };
        match &mut last.workers {
            StepWorkers::One(one) => last.workers = StepWorkers::Many([one.0, worker.0].into_iter().collect()),
            StepWorkers::Many(many) => many.insert(worker.0),
        }
    }
}

/// How many blocks the two have in common from their start.
fn common(run: &[BlockHash], path: &[BlockHash]) -> usize {
    const LANE: usize = 16;
    let mut same = 0;
    // Whole groups first: an exclusive or over a group compiles to vector code, a search for the first difference does not.
    for (a, b) in run.chunks_exact(LANE).zip(path.chunks_exact(LANE)) {
        if a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a.0 ^ b.0)) != 0 {
            break;
        }
        same += LANE;
    }
    same + run[same..].iter().zip(&path[same..]).take_while(|(a, b)| a == b).count()
}
