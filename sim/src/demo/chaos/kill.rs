//! Killing a gateway (SIGKILL) and starting it again with the same flags.

use std::time::Duration;

use covey_mesh::status::Phase;
use tokio::time::{Instant, sleep};

use super::BACK_MAX;
use crate::client::Client;
use crate::demo::fleet::Fleet;
use crate::demo::probe;
use crate::processes::POLL;

/// Kills it, starts it again and waits until it is ready and clean; gives how long that took from its start.
pub(super) async fn strike(index: usize, fleet: &mut Fleet, client: &Client) -> Result<Duration, String> {
    fleet.kill(index).await?;
    let started = Instant::now();
    fleet.restart(index)?;
    fleet.ready(index, client, BACK_MAX).await?;
    while probe::status(client, &fleet.gateways[index].admin).await?.phase != Phase::Clean {
        if started.elapsed() > BACK_MAX {
            return Err(format!("g{index} was killed, came back, and is not clean after {BACK_MAX:?}"));
        }
        sleep(POLL).await;
    }
    Ok(started.elapsed())
}
