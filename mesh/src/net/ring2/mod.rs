//! The second ring: the real driver, QUIC and TLS included, over an in-memory network in paused time. Several processes
//! are tasks of one single-threaded runtime; a second of theirs costs what they compute.
//!
//! What is real: everything in `net` from the loop down to the datagrams, the node, certificates. What is replaced:
//! sockets (`network`, `socket`), clocks and randomness (`ground`), the membership service (`ground` says why), the
//! watchdog's threads (`process`). Sizes and times of all datagrams repeat to the bit for one seed (`repeats`); their
//! contents do not, because TLS and QUIC's connection ids draw from the operating system. What is judged never depends
//! on such chance: invariants and bounds, not traces.
//!
//! Not here: the protocol alone, a thousand times faster (the simulator, first ring); processes and kernels (third).
//! Upholds I1, I9, I10, I11 with the driver in the loop.

mod contract;
mod dice;
mod ground;
mod hazards;
mod network;
mod play;
mod process;
mod repeats;
mod rogue;
mod script;
mod socket;
mod streams;
mod swarm;
mod world;

use std::future::Future;

use tokio::task::LocalSet;
use tokio::time::Instant;

/// The present moment of the paused clock.
#[expect(clippy::disallowed_methods, reason = "the second ring runs on the runtime's own, paused clock")]
fn now() -> Instant {
    Instant::now()
}

/// Runs a test in paused time: time moves only when nothing else can.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    LocalSet::new().block_on(&runtime, test)
}
