//! Integration tests of the simulator: seeds through the core, the worker over HTTP, the demo.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cli;
mod converge;
mod demo;
mod legs;
mod regressions;
mod swarm;
mod trace;
mod worker;
