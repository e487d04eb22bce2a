//! One arm from start to figures.
//!
//! Not here: what its parts do (`fleet`, `drive`, `added`).

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use super::added::added;
use super::args::{ArmName, RaceArgs};
use super::drive::{Driven, drive};
use super::figures::{Figures, Taken};
use super::fleet::Fleet;
use super::rivals::Routers;
use super::schedule::Schedule;
use crate::client::Client;
use crate::processes::{Binaries, Usage};

/// Pause between two looks at whether all processes still run.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Runs an arm.
pub(super) async fn run(
    args: &RaceArgs,
    binaries: &Binaries,
    routers: &Routers,
    name: ArmName,
    schedule: &Schedule,
) -> Result<Figures, String> {
    let client = Client::new()?;
    let mut fleet = Fleet::start(args, binaries, routers, (name, schedule.gateways), &client).await?;
    let gateways = fleet.gateways();
    let before = fleet.usage()?;
    let driven = {
        let mut watching = pin!(watch(&mut fleet));
        tokio::select! {
            driven = drive(schedule, &gateways, &client) => driven?,
            broken = &mut watching => return Err(broken),
        }
    };
    let taken = taken(&before, &fleet.usage()?, &driven);
    let (first, worker) = (gateways.first(), fleet.worker());
    let (first, worker) = first.zip(worker).ok_or("an arm needs a gateway and a worker")?;
    let added = added(&client, first, worker, args.added_requests).await?;
    Ok(Figures::measured(name, &driven, taken, added))
}

/// Ends only when a process has ended by itself, and says which.
async fn watch(fleet: &mut Fleet) -> String {
    loop {
        if let Err(why) = fleet.check() {
            return why;
        }
        sleep(WATCH_EVERY).await;
    }
}

fn taken(before: &[Usage], after: &[Usage], driven: &Driven) -> Taken {
    let cpu_s: f64 = before.iter().zip(after).map(|(before, after)| after.cpu_s - before.cpu_s).sum();
    let requests = driven.samples.len() + driven.failures.len();
    Taken {
        cpu_s_per_1000: cpu_s * 1_000.0 / requests.max(1) as f64,
        peak_rss_bytes: after.iter().map(|usage| usage.peak_rss_bytes).max().unwrap_or_default(),
    }
}
