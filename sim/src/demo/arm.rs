//! One arm from start to figures.
//!
//! Not here: what its parts do (`fleet`, `drive`, `probe`, `measure`).

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::args::{ArmName, DemoArgs};
use super::chaos::{ChaosFigures, Victim};
use super::drive::{Play, Played};
use super::fleet::Fleet;
use super::measure::{ArmFigures, max_over_mean, quantiles, share};
use super::probe::{self, MeshTimes, Replicas};
use super::progress::Progress;
use super::report;
use crate::client::Client;
use crate::processes::Binaries;
use crate::workload::Workload;

/// How long replicas may take to agree after the last request.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// Errors quoted in the report.
const ERRORS_QUOTED: usize = 3;
/// Pause between two looks at whether all processes still run and whether it is time to break one.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Runs an arm.
pub(super) async fn run(
    args: &DemoArgs,
    binaries: &Binaries,
    name: ArmName,
    workload: &Workload,
    progress: &Arc<Progress>,
) -> Result<(ArmFigures, Option<ChaosFigures>), String> {
    let client = Client::new()?;
    progress.stage(&format!("{}: starting", name.name()));
    let mut fleet = Fleet::start(args, binaries, name, &client).await?;
    progress.stage(&format!("{}: running", name.name()));
    if name == ArmName::Mesh
        && let Some(first) = fleet.gateways.first()
    {
        progress.say(&format!("mesh: its dashboard while it runs: {}/", first.admin));
    }
    let chaos = args.chaos.filter(|_| name == ArmName::Mesh);
    let victim = chaos.map(|chaos| Victim::new(args, chaos, workload.requests()));
    let play = Play {
        arm: name,
        seed: args.seed,
        live: args.live,
        workload,
        gateways: fleet.gateways.iter().map(|gateway| gateway.base.clone()).collect(),
        victim: victim.clone(),
        client: client.clone(),
    };
    let started = Instant::now();
    let (played, wall) = {
        let mut watching = pin!(watch(&mut fleet, victim.as_deref(), &client, progress));
        let played = tokio::select! {
            played = play.run(progress) => played?,
            broken = &mut watching => return Err(broken),
        };
        let wall = started.elapsed();
        // What was broken late is still given the time to come back.
        while victim.as_ref().is_some_and(|victim| victim.is_broken()) {
            tokio::select! {
                broken = &mut watching => return Err(broken),
                () = sleep(WATCH_EVERY) => {}
            }
        }
        (played, wall)
    };
    if let Some(file) = &args.samples {
        append(file, name, &played).map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    let replicas = probe::settle(&client, &fleet, name == ArmName::Mesh, SETTLE_MAX).await;
    if !replicas.clean || (name == ArmName::Mesh && !replicas.equal) {
        replicas.words.iter().for_each(|words| progress.say(words));
    }
    let chaos = match &victim {
        Some(victim) => {
            let figures = victim.figures(played.failures.len(), played.resent);
            Some(figures.ok_or("the run ended before it was time to break a gateway")?)
        }
        None => None,
    };
    let work = probe::work(&client, &fleet).await?;
    let times = probe::mesh_times(&client, &fleet).await?;
    Ok((figures(name, &played, wall, &replicas, &work, times), chaos))
}

/// Ends only when something is wrong, and says what: a process that ended by itself, or a killed one that does not
/// come back. Breaks the victim when it is due.
async fn watch(fleet: &mut Fleet, victim: Option<&Victim>, client: &Client, progress: &Progress) -> String {
    loop {
        if let Err(why) = fleet.check() {
            return why;
        }
        if let Some(victim) = victim.filter(|victim| victim.is_due()) {
            progress.say(&format!("mesh: {} gateway g{}", victim.doing(), victim.index));
            match victim.strike(fleet, client).await {
                Ok(()) => progress.say(&format!("mesh: gateway g{} is back", victim.index)),
                Err(why) => return why,
            }
        }
        sleep(WATCH_EVERY).await;
    }
}

fn append(file: &Path, name: ArmName, played: &Played) -> io::Result<()> {
    let lines: String = played.samples.iter().map(|sample| report::sample_line(name.name(), sample)).collect();
    File::options().create(true).append(true).open(file)?.write_all(lines.as_bytes())
}

fn figures(
    name: ArmName,
    played: &Played,
    wall: Duration,
    replicas: &Replicas,
    work: &[f64],
    times: MeshTimes,
) -> ArmFigures {
    let samples = &played.samples;
    let mesh = name == ArmName::Mesh;
    ArmFigures {
        name: name.name(),
        gateways: replicas.words.len(),
        requests: samples.len() + played.failures.len(),
        errors: played.failures.len(),
        error_samples: played.failures.iter().take(ERRORS_QUOTED).cloned().collect(),
        wall,
        cached_share: share(samples.iter()),
        followup_cached_share: share(samples.iter().filter(|sample| sample.follow_up())),
        ttft_ms: quantiles(samples.iter().map(|sample| sample.reply.ttft.as_secs_f64() * 1_000.0).collect()),
        work_max_over_mean: max_over_mean(work),
        lookup_cpu_us: quantiles(samples.iter().filter_map(|sample| sample.reply.lookup_us).collect()),
        propagation_ms: times.propagation_ms.filter(|_| mesh),
        quic_rtt_ms: times.quic_rtt_ms.filter(|_| mesh),
        diverged_holders: if mesh && replicas.equal { Some(0) } else { None },
        clean: replicas.clean && (replicas.equal || !mesh),
    }
}
