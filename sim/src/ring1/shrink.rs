//! `covey-sim shrink`: a smaller plan that breaks the same invariant, printed and written as a regression.
//!
//! Not here: shrinking (`shrink`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::failure;
use super::plan_args::{PlanArgs, Regression};
use super::plants;
use super::say;
use crate::plan::Plan;
use crate::shrink as shrinking;

/// What `covey-sim shrink` takes.
#[derive(Args, Debug)]
pub struct ShrinkArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Write the smaller plan and what it breaks; files in sim/regressions are run by the tests
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Plans to run at most
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
}

/// Shrinks a failing plan.
///
/// # Errors
/// When the plan cannot be read or breaks nothing, or the result cannot be written.
pub fn shrink(args: &ShrinkArgs) -> Result<ExitCode, String> {
    plants::with(args.plan.plant.as_deref(), || planted(args))?
}

fn planted(args: &ShrinkArgs) -> Result<ExitCode, String> {
    let plan = args.plan.plan()?;
    let bar = ProgressBar::new(args.runs);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {msg}").expect("a good template"));
    let mut each = |progress: &shrinking::Progress<'_>| {
        bar.set_position(progress.runs);
        bar.set_message(size(progress.plan));
        bar.println(format!("run {:>5}: less {} ({})", progress.runs, progress.pass, size(progress.plan)));
    };
    // A panic that is looked for hundreds of times is not printed hundreds of times.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let shrunk = shrinking::shrink(&plan, args.runs, &mut each);
    std::panic::set_hook(usual);
    bar.finish_and_clear();
    let again = args.plan.again();
    let Some(shrunk) = shrunk else {
        return Err(format!("the plan breaks nothing, so there is nothing to shrink: see covey-sim run {again}"));
    };
    let json = serde_json::to_string_pretty(&shrunk.plan).expect("a plan of plain fields always encodes");
    let spent = if shrunk.is_spent { "; the budget is spent, more --runs may find a smaller one" } else { "" };
    say(&format!("{json}\n\n{} -> {} in {} runs{spent}\n", size(&plan), size(&shrunk.plan), shrunk.runs));
    let named = match &args.out {
        Some(file) => {
            let under = args.plan.plant.as_ref().map(|name| format!("under planted bug {name}, ")).unwrap_or_default();
            let why = format!("{under}{}: {}", shrunk.violation.invariant, shrunk.violation.what);
            let regression = Regression { why, plan: shrunk.plan.clone() };
            let json = serde_json::to_string_pretty(&regression).expect("a plan of plain fields always encodes");
            std::fs::write(file, json + "\n").map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
            let plant = args.plan.plant.as_ref().map(|name| format!(" --plant {name}")).unwrap_or_default();
            format!("--plan {}{plant}", file.display())
        }
        None => again,
    };
    say(&failure::text(&shrunk.plan, &named, None));
    Ok(ExitCode::SUCCESS)
}

/// What a plan is measured by.
fn size(plan: &Plan) -> String {
    format!(
        "{} nodes, {} workers, {} events, {} ops/s for {} ms",
        plan.nodes,
        plan.workers,
        plan.events.len(),
        plan.ops_per_s,
        plan.faults_ms
    )
}
