//! The adversary and the yardstick: what Covey is tried against, and measured with.
//!
//! [`plan`], [`world`], [`network`], [`traffic`], [`oracle`] and [`invariants`] are ring 1: the real core in virtual
//! time, one seed a run. [`engine`] is an inference engine's prefix cache and timing as a value, in virtual time;
//! [`worker`] serves the same model over HTTP. [`workload`] writes agentic sessions or reads recorded ones, and [`demo`]
//! plays them against real processes; [`race`] plays them against other routers. [`events`] measures what engines' KV
//! events are worth.
//!
//! Not here: anything a gateway needs to run. Nothing depends on this crate.

use mimalloc::MiMalloc;

/// A quarter of a swarm's time went into the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

pub mod caches;
pub mod client;
pub mod conversation;
pub mod demo;
pub mod diff;
pub mod engine;
pub mod eval;
pub mod events;
pub mod film;
#[cfg(feature = "plants")]
pub mod hunt;
pub mod invariants;
pub mod legs;
mod lines;
pub mod marks;
pub mod network;
pub mod oracle;
pub mod plan;
mod processes;
pub mod race;
pub mod ring1;
pub mod serve;
pub mod shrink;
pub mod swarm;
pub mod trace;
pub mod traffic;
pub mod worker;
pub mod workload;
pub mod world;
