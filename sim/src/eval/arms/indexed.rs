//! Routing by an index that is not Covey's: exact, each gateway's own, or one for all behind a hop. All use one rule, so that
//! only what they know makes them differ.
//!
//! Not here: the rule (`TwoAndTwo`).

use std::collections::VecDeque;

use super::{Decision, Harm, Request, Router, Setting, TwoAndTwo};
use crate::eval::fleet::{Fleet, Sent};
use crate::eval::lru::Lru;
use crate::workload::Dice;

/// What the tier's answer takes at the median, in microseconds, and how far answers spread (sigma of the logarithm): the
/// published percentiles are 0.52, 0.94 and 3.9 ms at 50, 90 and 99 %.
const TIER_HOP_US: f64 = 520.0;
const TIER_SPREAD: f64 = 0.6;
/// In one of so many lookups it answers late for other reasons, this many times later: the published tail.
const TIER_TAIL: (usize, f64) = (40, 6.0);
/// A gateway waits for the tier no longer than this, in microseconds.
const TIER_DEADLINE_US: u64 = 2_000;
/// From an answer to the tier's knowing of it, in microseconds.
const TIER_FEED_US: u64 = 500;

fn caches(fleet: &Fleet) -> Vec<Lru> {
    let config = fleet.config();
    vec![Lru::new((config.cache_tokens / u64::from(config.block_tokens)) as usize); config.workers]
}

/// Knows every cache and queue as it is.
pub(super) struct Exact {
    dice: Dice,
}

impl Exact {
    pub(super) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed, "eval exact", 0) }
    }
}

impl Router for Exact {
    fn route(&mut self, now_us: u64, request: &Request<'_>, fleet: &Fleet) -> Decision {
        let ask = request.ask;
        let depths: Vec<_> = (0..fleet.len()).map(|worker| fleet.depth(worker, &ask.blocks)).collect();
        TwoAndTwo { depths: &depths, fleet, ask, now_us }.choose(&mut self.dice)
    }
}

/// Each gateway knows what it sent.
pub(super) struct PerGateway {
    dice: Dice,
    views: Vec<Vec<Lru>>,
    /// When the first one's process is replaced.
    cold_at_us: Option<u64>,
}

impl PerGateway {
    pub(super) fn new(setting: &Setting, fleet: &Fleet) -> Self {
        let cold = setting.trouble.filter(|trouble| trouble.what == Harm::Cold);
        Self {
            dice: Dice::new(setting.seed, "eval per-gateway", 0),
            views: vec![caches(fleet); setting.gateways],
            cold_at_us: cold.map(|trouble| trouble.from_us),
        }
    }
}

impl Router for PerGateway {
    fn route(&mut self, now_us: u64, request: &Request<'_>, fleet: &Fleet) -> Decision {
        if self.cold_at_us.take_if(|at_us| *at_us <= now_us).is_some() {
            self.views[0] = caches(fleet);
        }
        let ask = request.ask;
        let depths: Vec<_> = self.views[request.gateway].iter().map(|cache| cache.depth(&ask.blocks)).collect();
        TwoAndTwo { depths: &depths, fleet, ask, now_us }.choose(&mut self.dice)
    }

    fn sent(&mut self, _: u64, request: &Request<'_>, worker: usize) {
        let _ = self.views[request.gateway][worker].touch(&request.ask.blocks);
    }
}

/// One index for all gateways.
pub(super) struct SharedTier {
    dice: Dice,
    view: Vec<Lru>,
    /// Answers it will know of, and when.
    coming: VecDeque<(u64, usize, std::sync::Arc<[u64]>)>,
}

impl SharedTier {
    pub(super) fn new(seed: u64, fleet: &Fleet) -> Self {
        Self { dice: Dice::new(seed, "eval tier", 0), view: caches(fleet), coming: VecDeque::new() }
    }

    /// How long its next answer takes.
    fn hop_us(&mut self) -> u64 {
        // A normal number as the sum of twelve uniform ones.
        let normal = (0..12).map(|_| self.dice.unit()).sum::<f64>() - 6.0;
        let late = if self.dice.below(TIER_TAIL.0) == 0 { TIER_TAIL.1 } else { 1.0 };
        (TIER_HOP_US * (TIER_SPREAD * normal).exp() * late) as u64
    }
}

impl Router for SharedTier {
    fn route(&mut self, now_us: u64, request: &Request<'_>, fleet: &Fleet) -> Decision {
        while self.coming.front().is_some_and(|(due_us, ..)| *due_us <= now_us) {
            let Some((_, worker, blocks)) = self.coming.pop_front() else { break };
            let _ = self.view[worker].touch(&blocks);
        }
        let hop_us = self.hop_us();
        let is_degraded = hop_us > TIER_DEADLINE_US;
        let ask = request.ask;
        let depth = |cache: &Lru| if is_degraded { 0 } else { cache.depth(&ask.blocks) };
        let depths: Vec<_> = self.view.iter().map(depth).collect();
        let decision = TwoAndTwo { depths: &depths, fleet, ask, now_us }.choose(&mut self.dice);
        Decision { took_us: hop_us.min(TIER_DEADLINE_US), is_degraded, ..decision }
    }

    fn answered(&mut self, now_us: u64, request: &Request<'_>, worker: usize, _: &Sent) {
        self.coming.push_back((now_us + TIER_FEED_US, worker, request.ask.blocks.clone()));
    }
}
