//! The command line of ring 1: one plan, many seeds, a failing plan made smaller, two nodes compared.
//!
//! Here: what the subcommands share. Not here: carrying plans out (`world`, `swarm`, `shrink`). Exit codes: 0 everything
//! held, 1 an invariant was broken or a file cannot be used.

mod diff;
mod failure;
mod legs;
mod plan_args;
mod plants;
mod run;
mod shrink;
mod swarm;
mod units;

use std::io::{self, Write as _};

pub use diff::{DiffArgs, diff};
pub use legs::{LegsArgs, legs};
pub use plan_args::{PlanArgs, Regression, read_plan};
pub use plants::PlantFound;
pub use run::{FilmArgs, RunArgs, run};
pub use shrink::{ShrinkArgs, shrink};
pub use swarm::{SwarmArgs, swarm};

/// Prints; a reader that hung up is no reason to fail.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
