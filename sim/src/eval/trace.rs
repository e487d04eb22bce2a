//! A workload: requests of chained blocks, when they come, and which session each belongs to.
//!
//! Not here: reading one from a file (`read`), making one up (`generate`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::workload::Dice;

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// When it comes, in microseconds since the start; with `after`, how long after that request's answer.
    pub at_us: u64,
    /// The request whose answer it waits for.
    pub after: Option<usize>,
    /// Whose it is.
    pub session: u64,
    /// Whether an earlier request of its session came before it.
    pub is_followup: bool,
    /// Names of its blocks, root first: each stands for everything up to it. The last may be partial.
    pub blocks: Arc<[u64]>,
    /// Its prompt.
    pub input_tokens: u64,
    /// Its answer.
    pub output_tokens: u64,
}

impl Ask {
    /// How many of its tokens its first `blocks` blocks are.
    #[must_use]
    pub fn tokens_in(&self, blocks: usize, block_tokens: u32) -> u64 {
        (blocks as u64 * u64::from(block_tokens)).min(self.input_tokens)
    }
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What it is called in reports.
    pub name: String,
    /// Tokens in a block.
    pub block_tokens: u32,
    /// The requests. Those that wait for another come after it; the others by time.
    pub asks: Vec<Ask>,
}

/// Names of copies of a trace lie this far apart.
const COPY_IDS: u64 = 1 << 48;

impl Trace {
    /// Says which requests go on with which: a request belongs to the session of the latest one whose last whole block it has.
    /// For traces that name no sessions.
    pub fn infer_sessions(&mut self) {
        let mut tips: HashMap<u64, u64> = HashMap::new();
        for nth in 0..self.asks.len() {
            let blocks = Arc::clone(&self.asks[nth].blocks);
            // The last block may be partial and goes on under another name; the first is in every request.
            let known = blocks.iter().skip(1).rev().find_map(|block| tips.get(block)).copied();
            let session = known.unwrap_or(nth as u64);
            (self.asks[nth].session, self.asks[nth].is_followup) = (session, known.is_some());
            if blocks.len() > 2 {
                tips.insert(blocks[blocks.len() - 2], session);
            }
        }
    }

    /// Says which requests are not the first of their session.
    pub fn mark_followups(&mut self) {
        let mut seen = std::collections::HashSet::new();
        for ask in &mut self.asks {
            ask.is_followup = !seen.insert(ask.session);
        }
    }

    /// `copies` of it at once, which share the blocks in `shared` and nothing else.
    #[must_use]
    pub fn copied(&self, copies: usize, shared: &[u64]) -> Self {
        let mut asks = Vec::with_capacity(self.asks.len() * copies);
        for copy in 0..copies as u64 {
            let renamed = |block: &u64| if shared.contains(block) { *block } else { block + copy * COPY_IDS };
            asks.extend(self.asks.iter().map(|ask| Ask {
                blocks: ask.blocks.iter().map(renamed).collect(),
                session: ask.session + copy * COPY_IDS,
                ..ask.clone()
            }));
        }
        asks.sort_by_key(|ask| ask.at_us);
        Self { asks, name: self.name.clone(), block_tokens: self.block_tokens }
    }

    /// Spreads requests that carry the same time evenly at random until the next time that occurs: such times are ticks of
    /// whoever recorded them, and no request comes together with ten others.
    pub fn spread_ticks(&mut self, seed: u64) {
        let mut dice = Dice::new(seed, "eval ticks", 0);
        let mut ticks: Vec<_> = self.asks.iter().map(|ask| ask.at_us).collect();
        ticks.dedup();
        let mean_us = ticks.last().copied().unwrap_or(0) / ticks.len().max(1) as u64;
        for ask in &mut self.asks {
            let next = ticks.partition_point(|tick| *tick <= ask.at_us);
            let gap_us = ticks.get(next).map_or(mean_us, |next_us| next_us - ask.at_us);
            ask.at_us += dice.below(gap_us.max(1) as usize) as u64;
        }
        self.asks.sort_by_key(|ask| ask.at_us);
    }

    /// Prompt tokens of all requests.
    #[must_use]
    pub fn input_tokens(&self) -> u64 {
        self.asks.iter().map(|ask| ask.input_tokens).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(at_us: u64, blocks: &[u64]) -> Ask {
        Ask { at_us, blocks: blocks.into(), input_tokens: blocks.len() as u64 * 10, ..Ask::default() }
    }

    fn trace(asks: Vec<Ask>) -> Trace {
        Trace { name: "t".into(), block_tokens: 10, asks }
    }

    #[test]
    fn a_session_is_found_by_what_a_request_goes_on_with() {
        let mut trace = trace(vec![ask(0, &[0, 1, 2]), ask(1, &[0, 9, 8]), ask(2, &[0, 1, 3, 4]), ask(3, &[0, 7])]);
        trace.infer_sessions();
        let sessions: Vec<_> = trace.asks.iter().map(|ask| (ask.session, ask.is_followup)).collect();
        assert_eq!(sessions, [(0, false), (1, false), (0, true), (3, false)]);
    }

    #[test]
    fn copies_share_only_what_they_shall() {
        let two = trace(vec![ask(0, &[0, 1]), ask(5, &[0, 2])]).copied(2, &[0]);
        assert_eq!(two.asks.len(), 4);
        let second: Vec<_> = two.asks.iter().filter(|ask| ask.blocks[1] > COPY_IDS).collect();
        assert!(second.len() == 2 && second.iter().all(|ask| ask.blocks[0] == 0));
    }

    #[test]
    fn ticks_are_spread_up_to_the_next_one_and_the_seed_decides() {
        let whole = trace((0..100).map(|nth| ask(nth / 10 * 3_000_000, &[nth])).collect());
        let spread = |seed| {
            let mut spread = whole.clone();
            spread.spread_ticks(seed);
            spread
        };
        assert_eq!(spread(1), spread(1));
        assert_ne!(spread(1), spread(2));
        let once = spread(1);
        assert!(once.asks.iter().all(|ask| ask.at_us / 3_000_000 == ask.blocks[0] / 10));
        assert!(once.asks.windows(2).all(|two| two[0].at_us < two[1].at_us));
    }
}
