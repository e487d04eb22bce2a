//! Integration tests of the simulator: seeds through the core, the worker over HTTP and ZMQ, the demo.

#![expect(clippy::unwrap_used, reason = "tests")]

mod chaos;
mod cli;
mod converge;
mod demo;
mod eval;
mod gateway;
mod kv_events;
mod legs;
mod race;
mod ranks;
mod regressions;
mod replay;
mod swarm;
mod tokenizer;
mod trace;
mod worker;
