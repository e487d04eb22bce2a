//! Chaos legs: hand-written plans over the real core, with a load of conversations, and what each came to, counted.
//!
//! Everything is virtual and seeded, so every figure is exact and equal everywhere: a leg that takes one more frame than
//! before shows. `plans` writes the plans, `count` counts.
//!
//! Not here: the command line (`ring1`), real processes (`demo::chaos`).

mod count;
mod plans;

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::change::HolderKey;
use covey_crdt::digest::Digest;
use covey_crdt::id::LifeId;
use covey_crdt::lane::LaneId;
use covey_crdt::stamp::Floor;
use covey_mesh::node::Node;
use covey_mesh::status::Phase;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::world::{Watch, World};

pub use count::{Counts, Repair};
pub use plans::{LEGS, Leg, SMALL};

/// How closely the end of a leg is looked for, in microseconds.
const LOOK_US: u64 = 10_000;

/// What a leg came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Which leg.
    pub name: String,
    /// Placements and other ops published.
    pub ops: u64,
    /// Virtual seconds from the start to the last fault's end.
    pub seconds: f64,
    /// Holders whose coverage is not the same at all live gateways in the end.
    pub diverged_holders: u64,
    /// Ops published by gateways that are alive in the end and not applied by some live gateway.
    pub lost_updates: u64,
    /// Virtual milliseconds from the end of the last fault until all live gateways were clean and equal.
    pub heal_ms: Option<u64>,
    /// Frames sent meanwhile, by all gateways.
    pub converge_messages: u64,
    /// Their bytes.
    pub converge_bytes: u64,
    /// Frames sent in the whole leg.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What repair sessions cost in the whole leg.
    pub repair: Repair,
    /// What broke; empty if nothing did.
    pub violations: Vec<String>,
}

impl Figures {
    /// Bytes of repair slices for each segment in which receiver and donor differed; `None` where no session was needed.
    #[must_use]
    pub fn bytes_per_segment(&self) -> Option<f64> {
        let segments = self.repair.differing_segments;
        (segments > 0).then(|| self.repair.slice_bytes as f64 / segments as f64)
    }

    /// Whether nothing diverged, was lost or broke.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.diverged_holders == 0 && self.lost_updates == 0 && self.heal_ms.is_some() && self.violations.is_empty()
    }
}

/// Carries a leg out.
#[must_use]
pub fn run(leg: &Leg) -> Figures {
    let plan = (leg.plan)();
    let counts = Counts::default();
    let watch = Watch { tracer: Some(Box::new(counts.clone())), is_light: true, ..Watch::default() };
    let mut world = World::new(plan.clone(), watch);
    let healed_us = heal(&mut world, &counts);
    // On to the world's own look at every state, block by block.
    world.run_out();
    let counted = counts.take();
    let outcome = world.outcome();
    Figures {
        name: leg.name.to_owned(),
        ops: world.oracle().published(),
        seconds: plan.faults_ms as f64 / 1e3,
        diverged_holders: diverged(&world),
        lost_updates: lost(&world),
        heal_ms: healed_us.map(|us| us.div_ceil(1_000) - plan.faults_ms),
        converge_messages: counted.converging.frames,
        converge_bytes: counted.converging.bytes,
        messages: outcome.frames,
        bytes: outcome.bytes,
        repair: counted.repair,
        violations: outcome.violations.iter().map(|broken| format!("{}: {}", broken.invariant, broken.what)).collect(),
    }
}

/// Steps until all live gateways are clean and equal after the last fault; when that was.
fn heal(world: &mut World, counts: &Counts) -> Option<u64> {
    let mut next_us = 0;
    while world.step() {
        if !world.is_calm() {
            continue;
        }
        counts.converging();
        if world.now_us() >= next_us {
            next_us = world.now_us() + LOOK_US;
            if are_equal(world) {
                break;
            }
        }
    }
    counts.converged();
    (world.is_calm() && are_equal(world)).then(|| world.now_us())
}

/// Whether all live gateways are clean, have applied the same ops and hold the same.
fn are_equal(world: &World) -> bool {
    let mut all = world.live().map(|(_, node, _)| (node.phase(), node.vector().hash(), node.replica().digest()));
    let first = all.next();
    first.is_none_or(|first| first.0 == Phase::Clean && all.all(|other| other == first))
}

/// Holders whose coverage differs among live gateways, or that some of them lack.
fn diverged(world: &World) -> u64 {
    let all: Vec<BTreeMap<HolderKey, (Floor, Digest)>> = world.live().map(|(_, node, _)| holders(node)).collect();
    let keys: BTreeSet<&HolderKey> = all.iter().flat_map(BTreeMap::keys).collect();
    keys.into_iter().filter(|key| all.windows(2).any(|pair| pair[0].get(*key) != pair[1].get(*key))).count() as u64
}

/// Every holder that covers or has cut something.
fn holders(node: &Node) -> BTreeMap<HolderKey, (Floor, Digest)> {
    let holders = node.replica().holders();
    let touched = holders.filter(|(_, _, placed)| placed.blocks() > 0 || placed.floor() > Floor::LOWEST);
    touched
        .map(|(worker, keyspace, placed)| {
            let key = HolderKey { worker: worker.clone(), keyspace: keyspace.clone(), lane: LaneId::PLAIN };
            (key, (placed.floor(), placed.digest()))
        })
        .collect()
}

/// Ops of live lives that some live gateway has not applied.
fn lost(world: &World) -> u64 {
    let live: BTreeSet<LifeId> = world.live().map(|(_, node, _)| node.life()).collect();
    let heads = world.oracle().heads().filter(|(life, _)| live.contains(life));
    let lacking = |(life, last): (LifeId, u64)| {
        let least = world.live().map(|(_, node, _)| node.vector().head(life).seq).min();
        last.saturating_sub(least.unwrap_or(0))
    };
    heads.map(lacking).sum()
}

/// The plans of all legs, by name, to be run and looked at like any other plan.
#[must_use]
pub fn plan(name: &str) -> Option<Plan> {
    LEGS.iter().chain(SMALL).find(|leg| leg.name == name).map(|leg| (leg.plan)())
}
