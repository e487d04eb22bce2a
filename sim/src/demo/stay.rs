//! After the table, on a terminal: the mesh goes on under light load, with its dashboard, until it is asked to stop.
//!
//! Not here: the figures; nothing that happens here counts.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::args::{ArmName, DemoArgs};
use super::drive::Play;
use super::fleet::Fleet;
use super::progress::Progress;
use crate::client::Client;
use crate::processes::Binaries;
use crate::workload::Workload;

/// Sessions live at a time: enough for every picture to move.
const LIVE: usize = 6;
/// Pause between two looks at whether all processes still run.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// Starts the mesh's gateways and workers anew, says where the dashboard is, and plays sessions for ever.
///
/// # Errors
/// When something cannot be started, or a process ends by itself.
pub(super) async fn stay(args: &DemoArgs, binaries: &Binaries, workload: &Workload) -> Result<(), String> {
    let client = Client::new()?;
    let mut fleet = Fleet::start(args, binaries, ArmName::Mesh, &client).await?;
    let gateways: Vec<String> = fleet.gateways.iter().map(|gateway| gateway.base.clone()).collect();
    let first = fleet.gateways.first().ok_or("the mesh has no gateway")?;
    let words = format!(
        "\nThe mesh goes on under light load. Its dashboard, served by every gateway: {}/\n(Ctrl-C stops it all.)\n",
        first.admin
    );
    let mut out = io::stdout();
    out.write_all(words.as_bytes()).and_then(|()| out.flush()).map_err(|why| format!("nobody reads: {why}"))?;
    let playing = async {
        for round in 0.. {
            let play = Play {
                arm: ArmName::Mesh,
                seed: args.seed.wrapping_add(round),
                live: LIVE.min(args.live),
                workload,
                gateways: gateways.clone(),
                victim: None,
                client: client.clone(),
            };
            // What fails here shows on the dashboard.
            if let Err(why) = play.run(&Arc::new(Progress::hidden())).await {
                return why;
            }
        }
        "the load has ended".to_owned()
    };
    let watching = async {
        loop {
            if let Err(why) = fleet.check() {
                return why;
            }
            sleep(WATCH_EVERY).await;
        }
    };
    tokio::select! {
        why = playing => Err(why),
        why = watching => Err(why),
    }
}
