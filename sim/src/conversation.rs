//! Conversations: chains that grow by a few blocks a turn, mostly at one worker, behind a beginning that many share.
//!
//! Not here: when the next request comes (`traffic`).

use covey_crdt::hash::BlockHash;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::plan::{Plan, Stream};

/// How many different beginnings (system prompts) there are.
const BEGINNINGS: u64 = 8;
/// How often a turn goes to another worker than the turn before.
const MOVES: f64 = 0.1;

/// Conversations under way.
#[derive(Clone, Debug)]
pub struct Conversations {
    draw: Stream,
    talks: Vec<Talk>,
    begun: u64,
    turn_blocks: u64,
    depth_max: u64,
    workers: u64,
    seed: u64,
}

#[derive(Clone, Debug)]
struct Talk {
    number: u64,
    depth: u64,
    worker: usize,
}

impl Conversations {
    /// The conversations of a plan; `None` when its chains are of random depths.
    #[must_use]
    pub fn of(plan: &Plan) -> Option<Self> {
        let mut all = Self {
            draw: Stream::new(plan.seed, "conversations"),
            talks: Vec::new(),
            begun: 0,
            turn_blocks: plan.turn_blocks,
            depth_max: plan.depth_max,
            workers: plan.workers as u64,
            seed: plan.seed,
        };
        all.talks = (0..plan.sessions).map(|_| all.begin()).collect();
        (plan.turn_blocks > 0).then_some(all)
    }

    fn begin(&mut self) -> Talk {
        self.begun += 1;
        Talk { number: self.begun, depth: self.beginning(), worker: self.draw.below(self.workers) as usize }
    }

    /// Blocks that conversations share.
    const fn beginning(&self) -> u64 {
        self.depth_max / 8
    }

    /// The next turn of some conversation: its worker and its chain. One that has reached its depth makes room for another.
    pub fn turn(&mut self) -> (usize, Vec<BlockHash>) {
        let nth = self.draw.below(self.talks.len() as u64) as usize;
        if self.talks[nth].depth + self.turn_blocks > self.depth_max {
            self.talks[nth] = self.begin();
        }
        let elsewhere = self.draw.chance(MOVES).then(|| self.draw.below(self.workers) as usize);
        let talk = &mut self.talks[nth];
        talk.depth += self.turn_blocks;
        talk.worker = elsewhere.unwrap_or(talk.worker);
        let talk = &self.talks[nth];
        (talk.worker, (0..talk.depth).map(|at| self.block(talk.number, at)).collect())
    }

    fn block(&self, number: u64, at: u64) -> BlockHash {
        let mut bytes = [0; 16];
        let whose = if at < self.beginning() { number % BEGINNINGS } else { number + BEGINNINGS };
        bytes[..8].copy_from_slice(&whose.to_le_bytes());
        bytes[8..].copy_from_slice(&at.to_le_bytes());
        BlockHash(xxh3_64_with_seed(&bytes, self.seed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn chains_grow_turn_by_turn_behind_shared_beginnings() {
        let plan = Plan { sessions: 4, turn_blocks: 5, depth_max: 40, workers: 9, ..Plan::from_seed(1) };
        let mut talks = Conversations::of(&plan).expect("they grow");
        let turns: Vec<_> = (0..200).map(|_| talks.turn().1).collect();
        assert!(turns.iter().all(|chain| (10..=40).contains(&chain.len())));
        let mut longest: BTreeMap<BlockHash, Vec<BlockHash>> = BTreeMap::new();
        let mut beginnings = std::collections::BTreeSet::new();
        for chain in turns {
            beginnings.insert(chain[4]);
            let known = longest.entry(chain[5]).or_default();
            assert!(chain.starts_with(known) && chain.len() == known.len().max(5) + 5, "one turn further");
            *known = chain;
        }
        assert!(beginnings.len() <= 8 && longest.len() > 8, "conversations share beginnings, not more");
        assert!(Conversations::of(&Plan { turn_blocks: 0, ..plan }).is_none());
    }
}
