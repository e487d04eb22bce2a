//! Breaking a gateway's mesh thread through its test hooks: a panic, and, when that is over, a stall.

use std::time::Duration;

use covey_mesh::status::{Phase, Status};
use tokio::time::{Instant, sleep};

use super::{BACK_MAX, PanicFigures};
use crate::client::Client;
use crate::demo::fleet::Fleet;
use crate::demo::probe;
use crate::processes::POLL;

/// How long after its beginning a stalled thread has surely woken up; it must find that it is not wanted any more.
const AWAKE_AFTER: Duration = Duration::from_secs(7);

/// Breaks it twice and waits for a clean new life each time. What there is to say about requests is left out.
pub(super) async fn strike(index: usize, fleet: &mut Fleet, client: &Client) -> Result<PanicFigures, String> {
    let (panic, _) = broken(index, "panic", fleet, client).await?;
    let began = Instant::now();
    let (stall, life) = broken(index, "stall", fleet, client).await?;
    sleep(AWAKE_AFTER.saturating_sub(began.elapsed())).await;
    let later = probe::status(client, &fleet.gateways[index].admin).await?;
    if later.life != life || later.phase != Phase::Clean {
        return Err(format!("g{index}: the stalled mesh thread woke up and disturbed the new life: {:?}", later.phase));
    }
    Ok(PanicFigures { panic, stall, ..PanicFigures::default() })
}

/// Breaks it once; gives how long a clean new life took, and that life.
async fn broken(index: usize, how: &str, fleet: &mut Fleet, client: &Client) -> Result<(Duration, String), String> {
    let admin = fleet.gateways[index].admin.clone();
    let before = probe::status(client, &admin).await?.life;
    let began = Instant::now();
    probe::post(client, &format!("{admin}/test/mesh/{how}")).await?;
    loop {
        let status: Status = probe::status(client, &admin).await?;
        if status.life != before && status.phase == Phase::Clean {
            return Ok((began.elapsed(), status.life));
        }
        if began.elapsed() > BACK_MAX {
            return Err(format!("g{index}: no clean new life {BACK_MAX:?} after a {how}: {:?}", status.phase));
        }
        fleet.check()?;
        sleep(POLL).await;
    }
}
