//! The yardstick's workers: each a FIFO queue in front of a constant prefill rate, and a prefix cache of whole blocks that
//! forgets the least recent first. No decode, no output blocks: what a router decides, and nothing else, makes figures differ.
//!
//! Work is served in the order in which it comes, so what a request finds cached is known when it is sent.
//!
//! Not here: who sends what where. Upholds: same calls, same figures.

use super::lru::{Lru, Touched};
use super::trace::Ask;

/// Sizes of every worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetConfig {
    /// Workers.
    pub workers: usize,
    /// KV cache of each, in tokens.
    pub cache_tokens: u64,
    /// Prompt tokens that each computes in a second.
    pub prefill_tokens_per_s: u64,
    /// Tokens in a block.
    pub block_tokens: u32,
}

#[derive(Clone, Debug)]
struct Worker {
    cache: Lru,
    free_at_us: u64,
    computed_tokens: u64,
}

/// What becomes of a request at its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Prompt tokens that need not be computed.
    pub hit_tokens: u64,
    /// When the first byte of the answer comes, in microseconds.
    pub first_byte_us: u64,
    /// What its blocks do to the cache, told when they are computed.
    pub touched: Touched,
}

/// All workers.
#[derive(Clone, Debug)]
pub struct Fleet {
    config: FleetConfig,
    workers: Vec<Worker>,
}

impl Fleet {
    /// Idle workers with empty caches.
    #[must_use]
    pub fn new(config: FleetConfig) -> Self {
        let blocks = (config.cache_tokens / u64::from(config.block_tokens)) as usize;
        let worker = Worker { cache: Lru::new(blocks), free_at_us: 0, computed_tokens: 0 };
        Self { config, workers: vec![worker; config.workers] }
    }

    /// The sizes.
    #[must_use]
    pub const fn config(&self) -> &FleetConfig {
        &self.config
    }

    /// How many workers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether there is no worker.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// How many blocks of a chain a worker holds, whatever it still has queued included.
    #[must_use]
    pub fn depth(&self, worker: usize, chain: &[u64]) -> usize {
        self.workers[worker].cache.depth(chain)
    }

    /// Microseconds until a worker is done with all it has.
    #[must_use]
    pub fn backlog_us(&self, worker: usize, now_us: u64) -> u64 {
        self.workers[worker].free_at_us.saturating_sub(now_us)
    }

    /// Microseconds that so many tokens take.
    #[must_use]
    pub const fn prefill_us(&self, tokens: u64) -> u64 {
        tokens * 1_000_000 / self.config.prefill_tokens_per_s
    }

    /// A worker gets a request.
    pub fn send(&mut self, now_us: u64, worker: usize, ask: &Ask) -> Sent {
        let hit_tokens = ask.tokens_in(self.depth(worker, &ask.blocks), self.config.block_tokens);
        let computed = ask.input_tokens - hit_tokens;
        let took_us = self.prefill_us(computed);
        let worker = &mut self.workers[worker];
        let first_byte_us = worker.free_at_us.max(now_us) + took_us;
        worker.free_at_us = first_byte_us;
        worker.computed_tokens += computed;
        Sent { hit_tokens, first_byte_us, touched: worker.cache.touch(&ask.blocks) }
    }

    /// Tokens that the busiest worker computed, as a multiple of the mean; 1 of none.
    #[must_use]
    pub fn max_over_mean_work(&self) -> f64 {
        let most = self.workers.iter().map(|worker| worker.computed_tokens).max().unwrap_or(0);
        let all: u64 = self.workers.iter().map(|worker| worker.computed_tokens).sum();
        if all == 0 { 1.0 } else { most as f64 * self.workers.len() as f64 / all as f64 }
    }

    /// Spread of the work over workers: standard deviation over mean; 0 of none.
    #[must_use]
    pub fn work_variation(&self) -> f64 {
        let mean =
            self.workers.iter().map(|worker| worker.computed_tokens as f64).sum::<f64>() / self.workers.len() as f64;
        let square = |worker: &Worker| (worker.computed_tokens as f64 - mean).powi(2);
        let variance = self.workers.iter().map(square).sum::<f64>() / self.workers.len() as f64;
        if mean == 0.0 { 0.0 } else { variance.sqrt() / mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_served_in_order_and_hits_are_not_computed() {
        let config = FleetConfig { workers: 2, cache_tokens: 1_000, prefill_tokens_per_s: 1_000, block_tokens: 100 };
        let mut fleet = Fleet::new(config);
        let ask = |blocks: &[u64], input_tokens| Ask { blocks: blocks.into(), input_tokens, ..Ask::default() };
        let first = fleet.send(0, 0, &ask(&[1, 2, 3], 250));
        assert_eq!((first.hit_tokens, first.first_byte_us), (0, 250_000));
        let second = fleet.send(100_000, 0, &ask(&[1, 2, 3], 250));
        assert_eq!((second.hit_tokens, second.first_byte_us), (250, 250_000), "it waits for what it will find");
        let third = fleet.send(100_000, 0, &ask(&[1, 2, 4], 300));
        assert_eq!((third.hit_tokens, third.first_byte_us), (200, 350_000));
        assert_eq!((fleet.backlog_us(0, 300_000), fleet.backlog_us(1, 300_000)), (50_000, 0));
        assert!((fleet.max_over_mean_work() - 2.0).abs() < 1e-9);
        assert!((fleet.work_variation() - 1.0).abs() < 1e-9);
    }
}
