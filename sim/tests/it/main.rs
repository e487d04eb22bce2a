//! Integration tests of the simulator's processes: the worker over HTTP, and the demo.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cli;
mod demo;
mod worker;
