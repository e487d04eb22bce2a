//! Sends what is scheduled, when it is due.
//!
//! Not here: when that is (`schedule`). Upholds: open loop. A request waits for nothing but its time and, within a session,
//! the answer before it, which it has to quote; then it is counted as late.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::schedule::{Due, Schedule};
use crate::client::Client;
use crate::demo::Sample;

/// What came of an arm's requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Driven {
    /// Those that were answered.
    pub(super) samples: Vec<Sample>,
    /// Why the others were not.
    pub(super) failures: Vec<String>,
    /// Requests whose time came before the answer that they had to wait for.
    pub(super) late: usize,
    /// How much later than it could this client sent, in milliseconds, a request each.
    pub(super) lag_ms: Vec<f64>,
}

/// Plays a schedule to its end against gateways at these addresses.
pub(super) async fn drive(schedule: &Schedule, gateways: &[String], client: &Client) -> Result<Driven, String> {
    let stand = Arc::new((schedule.clone(), gateways.to_vec(), client.clone()));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for session in 0..schedule.sessions.len() {
        tasks.spawn(play(Arc::clone(&stand), started, session));
    }
    let mut all = Driven::default();
    while let Some(driven) = tasks.join_next().await {
        let driven = driven.map_err(|why| format!("a client broke: {why}"))?;
        all.samples.extend(driven.samples);
        all.failures.extend(driven.failures);
        all.late += driven.late;
        all.lag_ms.extend(driven.lag_ms);
    }
    all.samples.sort_by_key(|sample| (sample.session, sample.turn));
    Ok(all)
}

async fn play(stand: Arc<(Schedule, Vec<String>, Client)>, started: Instant, session: usize) -> Driven {
    let (schedule, gateways, client) = &*stand;
    let mut driven = Driven::default();
    for due in &schedule.dues[session] {
        let could = (started + due.at).max(Instant::now());
        driven.late += usize::from(due.turn > 0 && could > started + due.at);
        sleep_until(started + due.at).await;
        let messages = schedule.messages(due);
        let at = started.elapsed();
        driven.lag_ms.push(could.elapsed().as_secs_f64() * 1_000.0);
        match client.chat(&gateways[due.gateway], schedule.chat(due, &messages)).await {
            Ok(reply) => driven.samples.push(sample(due, at, reply)),
            Err(why) => driven.failures.push(format!("session {session} turn {} at g{}: {why}", due.turn, due.gateway)),
        }
    }
    driven
}

const fn sample(due: &Due, at: Duration, reply: crate::client::Reply) -> Sample {
    Sample { session: due.session, turn: due.turn, gateway: due.gateway, at, reply }
}
