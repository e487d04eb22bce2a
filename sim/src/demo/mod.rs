//! The demo: the same agentic sessions against real gateways and workers, once an arm, and one table at the end.
//!
//! Arms: `bound` (one gateway sees everything), `mesh` (several that gossip), `off` (several that do not), `sticky`
//! (several that do not, each session pinned to one). All run the same policy; only what a gateway can know differs.
//!
//! With a trace the sessions are those of real agents, and the mesh must find nearly what one gateway finds.
//!
//! Not here: the workload (`workload`), the engine (`worker`), the gateway itself (the `covey` binary, run as a process).
//! Upholds: whatever ends the run, every process that it started is killed.

mod args;
mod arm;
mod chaos;
mod drive;
mod fleet;
mod measure;
mod probe;
mod progress;
mod replay;
mod report;
mod stay;
mod switch;

pub use args::{ArmName, Chaos, DemoArgs, Stay};
pub use measure::{ArmFigures, Quantiles, Sample, quantiles, share};
pub(crate) use progress::Progress;
pub use replay::{Kept, Replay};
pub use report::{Report, Verdict};

use std::fs;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::processes::Binaries;
use crate::worker::asked_to_stop;
use crate::workload::{Recording, Workload};

/// What a terminal's reader may want to do next.
const HINTS: &str = "
Look at the cached share of turns after the first: mesh should be near bound, off far below it.
Next: `covey-sim demo --arms mesh --chaos kill` kills a gateway on the way, `cut` cuts its network, `panic` breaks its mesh
thread; `--samples FILE` writes every request; `--json FILE` writes this table; `--help` lists what can be changed.
";

/// Runs the demo and prints its table. Exit code 1 when requests failed, replicas differ or the mesh recovered or kept too
/// little. A trace that is not there is skipped with a message.
///
/// # Errors
/// When something is missing, cannot be started or never becomes ready; in words for a terminal.
pub async fn run(args: &DemoArgs) -> Result<ExitCode, String> {
    args.check()?;
    let cannot = |why: io::Error| format!("report cannot be written: {why}");
    if let Some(absent) = args.trace.as_deref().filter(|trace| is_absent(trace)) {
        let words = format!("SKIPPED: there is no trace {}, so nothing was played or judged.\n", absent.display());
        io::stdout().write_all(words.as_bytes()).map_err(cannot)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (workload, replay) = work(args)?;
    let report = tokio::select! {
        report = play(args, &workload, replay) => report?,
        () = asked_to_stop() => return Err("interrupted: every process it had started was stopped".to_owned()),
    };
    io::stdout().write_all(report.table().as_bytes()).map_err(cannot)?;
    if io::stdout().is_terminal() {
        io::stdout().write_all(HINTS.as_bytes()).map_err(cannot)?;
    }
    if let Some(file) = &args.json {
        let json = format!("{:#}\n", report.json());
        fs::write(file, json).map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    let stays = match args.stay {
        Stay::Auto => io::stdout().is_terminal() && args.arms.contains(&ArmName::Mesh),
        Stay::On => true,
        Stay::Off => false,
    };
    if stays {
        let binaries = Binaries::find(args.covey.as_deref())?;
        tokio::select! {
            ended = stay::stay(args, &binaries, &workload) => ended?,
            () = asked_to_stop() => {}
        }
    }
    Ok(if report.verdict().passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_absent(file: &Path) -> bool {
    fs::metadata(file).is_err_and(|why| why.kind() == ErrorKind::NotFound)
}

/// What to play: the trace that was named, or sessions made up.
fn work(args: &DemoArgs) -> Result<(Workload, Option<Replay>), String> {
    let Some(file) = &args.trace else { return Ok((Workload::new(&args.workload()), None)) };
    let recording = Recording::read(file, &args.recording())?;
    let replay = Replay::of(&recording);
    Ok((recording.workload, Some(replay)))
}

async fn play(args: &DemoArgs, workload: &Workload, replay: Option<Replay>) -> Result<Report, String> {
    let binaries = Binaries::find(args.covey.as_deref())?;
    let progress = Arc::new(Progress::new(args.arms.len(), workload.requests()));
    progress.say(&format!(
        "{} sessions, {} requests an arm, {} at a time; {} workers with {} tokens of cache each",
        workload.sessions.len(),
        workload.requests(),
        args.live,
        args.workers,
        args.cache_tokens
    ));
    let mut report = Report { replay, ..Report::default() };
    for &name in &args.arms {
        let (figures, chaos) = arm::run(args, &binaries, name, workload, &progress).await?;
        report.arms.push(figures);
        report.chaos = report.chaos.or(chaos);
    }
    progress.finish();
    Ok(report)
}
