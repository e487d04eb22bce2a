//! The race: Covey against other routers with the same workers, the same sessions and the same open-loop load.
//!
//! Arms: `bound` (computed: what one cache as large as all workers' together would have had), `covey`, `vllm-router` and
//! `sglang-router` (the real ones, cache-aware), `round-robin` (vllm-router with that policy). When each request is due,
//! what it says, what is answered and which gateway it goes to is drawn before the run and is the same for every arm.
//!
//! Not here: the workload (`workload`), the engine (`worker`), processes (`processes`). Upholds: whatever ends the run,
//! every process that it started is killed; a mark that is missed is printed and fails the run.

mod added;
mod args;
mod arm;
mod bound;
mod drive;
mod figures;
mod fleet;
mod marks;
mod report;
mod rivals;
mod schedule;

pub use args::{ArmName, RaceArgs, WorkloadName};
pub use bound::bound;
pub use figures::{Figures, Heat};
pub use marks::{Mark, marks};
pub use report::{json, table};
pub use schedule::{Due, Schedule};

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::demo::Progress;
use crate::processes::Binaries;
use crate::worker::asked_to_stop;
use rivals::Routers;

/// Runs the race and prints its tables and marks. Exit code 1 when a mark is missed.
///
/// # Errors
/// When something is missing, cannot be started or never becomes ready; in words for a terminal.
pub async fn run(args: &RaceArgs) -> Result<ExitCode, String> {
    args.check()?;
    let heats = tokio::select! {
        heats = play(args) => heats?,
        () = asked_to_stop() => return Err("interrupted: every process it had started was stopped".to_owned()),
    };
    let marks = marks(&heats);
    let cannot = |why: io::Error| format!("figures cannot be written: {why}");
    io::stdout().write_all(table(&heats, &marks).as_bytes()).map_err(cannot)?;
    if let Some(file) = &args.json {
        let json = format!("{:#}\n", json(&heats, &marks));
        std::fs::write(file, json).map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    Ok(if marks.iter().all(|mark| mark.held) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every workload with every number of gateways, all arms one after the other.
async fn play(args: &RaceArgs) -> Result<Vec<Heat>, String> {
    let binaries = Binaries::find(args.covey.as_deref())?;
    let progress = Progress::lines();
    let routers = Routers::find(args.routers.as_deref(), &args.arms);
    routers.missing.iter().for_each(|words| progress.say(words));
    let mut heats = Vec::new();
    for &workload in &args.workloads {
        for &gateways in &args.gateways {
            let schedule = Schedule::new(args, workload, gateways);
            let bound = bound(&schedule, args.workers as u64 * args.cache_tokens)?;
            let mut heat = Heat::new(args, &schedule, bound);
            progress.say(&heat.words());
            for &name in args.arms.iter().filter(|name| !routers.lacks(**name)) {
                let figures = match name {
                    ArmName::Bound => Figures::computed(bound),
                    ArmName::Covey | ArmName::VllmRouter | ArmName::SglangRouter | ArmName::RoundRobin => {
                        progress.say(&format!("{}: {}", heat.title(), name.name()));
                        arm::run(args, &binaries, &routers, name, &schedule).await?
                    }
                };
                progress.say(&report::row(&figures, bound.share));
                heat.arms.push(figures);
            }
            heats.push(heat);
        }
    }
    Ok(heats)
}
