//! Routing that looks at no cache and no queue.
//!
//! Not here: what it is compared with.

use std::collections::HashMap;

use super::{Decision, Request, Router};
use crate::eval::fleet::Fleet;
use crate::workload::Dice;

fn to(worker: usize) -> Decision {
    Decision { worker, ..Decision::default() }
}

/// Any worker.
pub(super) struct Random(pub(super) Dice);

impl Router for Random {
    fn route(&mut self, _: u64, _: &Request<'_>, fleet: &Fleet) -> Decision {
        to(self.0.below(fleet.len()))
    }
}

/// One after the other, each gateway for itself and each from another start.
pub(super) struct RoundRobin {
    turns: Vec<usize>,
}

impl RoundRobin {
    pub(super) fn new(gateways: usize) -> Self {
        Self { turns: (0..gateways).collect() }
    }
}

impl Router for RoundRobin {
    fn route(&mut self, _: u64, request: &Request<'_>, fleet: &Fleet) -> Decision {
        let turn = &mut self.turns[request.gateway];
        *turn += 1;
        to(*turn % fleet.len())
    }
}

/// A session stays with the worker of its first turn; first turns go round. Every gateway knows of every session.
#[derive(Default)]
pub(super) struct Sticky {
    homes: HashMap<u64, usize>,
}

impl Router for Sticky {
    fn route(&mut self, _: u64, request: &Request<'_>, fleet: &Fleet) -> Decision {
        let next = self.homes.len() % fleet.len();
        to(*self.homes.entry(request.ask.session).or_insert(next))
    }
}

/// A hash of the first two blocks, modulo the workers.
pub(super) struct PrefixHash;

impl Router for PrefixHash {
    fn route(&mut self, _: u64, request: &Request<'_>, fleet: &Fleet) -> Decision {
        let blocks = &request.ask.blocks;
        let name = blocks.get(1).or_else(|| blocks.first()).copied().unwrap_or_default();
        let hash = xxhash_rust::xxh3::xxh3_64(&name.to_le_bytes());
        to((hash % fleet.len() as u64) as usize)
    }
}
