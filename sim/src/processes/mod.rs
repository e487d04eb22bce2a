//! Processes of a comparison on this machine: programs, loopback ports, workers, and the flags of Covey's gateways.
//!
//! Not here: what is compared (`demo`, `race`, `events`). Upholds: dropping a process kills it.

mod gateway;
pub(crate) mod ports;
mod process;
mod usage;
mod workers;

pub(crate) use gateway::{Addresses, gateway_flags, mesh_flags, secret};
pub(crate) use process::{Binaries, POLL, Process};
pub(crate) use usage::Usage;
pub(crate) use workers::{WorkerProcess, WorkersPlan};

use std::time::Duration;

/// Model name of the workers.
pub(crate) const MODEL: &str = "demo";
/// How long processes may take until they are ready.
pub(crate) const START_MAX: Duration = Duration::from_secs(20);

/// Flags and their values as words of a command line.
pub(crate) fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]).collect()
}
