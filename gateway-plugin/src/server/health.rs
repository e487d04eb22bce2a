//! One watcher and one prober an address, whatever ranks are behind it: the only tasks that talk to workers besides requests.
//!
//! Not here: what an answer means for routing (`workers`), what metrics say (`probe`). A slow `/metrics` must not hold
//! up health checks, hence two tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use covey_crdt::id::{Incarnation, Token};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::gateway::Gateway;
use super::probe::{self, Metrics, UNTRACKED};
use super::workers::{Turned, Worker};
use crate::plugin::REGISTERS_SETTLE;

/// How long a health check may take.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause between two probes, at most, while such a share of the others is not heard: as those do not hear this one either,
/// a worker is asked no more often than that by half of the mesh.
const PROBE_UNHEARD: Duration = Duration::from_secs(1);
const UNHEARD_PROBED: f64 = 0.5;
/// A probe that takes longer says nothing of how many requests there are now.
const PROMPT: Duration = Duration::from_millis(200);

/// Checks the health of an address for ever: its ranks are one process.
pub(super) async fn watch(gateway: Arc<Gateway>, workers: Vec<Arc<Worker>>) {
    let Some(first) = workers.first() else { return };
    for round in 0.. {
        let healthy = is_healthy(&gateway, first).await;
        for worker in &workers {
            apply(&gateway, worker, worker.checked(healthy));
        }
        sleep(jittered(gateway.config().timeouts.health_interval, first, round)).await;
    }
}

async fn is_healthy(gateway: &Gateway, worker: &Worker) -> bool {
    let check = gateway.client().get(format!("{}/health", worker.url)).send();
    matches!(timeout(HEALTH_TIMEOUT, check).await, Ok(Ok(response)) if response.status().is_success())
}

/// Nobody can be connected to at an address: all its ranks are masked.
pub(super) fn unreachable(gateway: &Gateway, url: &str) {
    for worker in gateway.workers().behind(url) {
        apply(gateway, worker, worker.unreachable());
    }
}

/// Carries out a change of health.
fn apply(gateway: &Gateway, worker: &Worker, turned: Option<Turned>) {
    match turned {
        None => {}
        Some(Turned::Up) => {
            gateway.plugin().worker_masked(&worker.id, false);
            worker.probe_wanted.notify_one();
            info!(worker = %worker.id, url = worker.url, "worker is up");
        }
        Some(Turned::Down) => {
            gateway.plugin().worker_masked(&worker.id, true);
            warn!(worker = %worker.id, url = worker.url, "worker is down: this gateway sends it nothing");
        }
    }
}

/// Probes an address at once, when it comes back, and every few seconds while it is up.
pub(super) async fn watch_cache(gateway: Arc<Gateway>, workers: Vec<Arc<Worker>>) {
    let Some(first) = workers.first() else { return };
    let mut warned = false;
    for round in 0.. {
        if first.is_up() == Some(true) {
            let url = &first.url;
            // Read before the probe is sent: an answer that left under an older incarnation must not raise a newer one (P12).
            let started_at: Vec<_> = workers.iter().map(|worker| gateway.plugin().incarnation(&worker.id)).collect();
            let accounted: Vec<_> =
                workers.iter().map(|worker| gateway.plugin().accounted_requests(&worker.id)).collect();
            let asked = Instant::now();
            let found = probe::probe(gateway.client(), url).await;
            // What an answer says that took long is of no one moment.
            let is_prompt = asked.elapsed() <= PROMPT;
            let mut warns = false;
            for (worker, started_at) in workers.iter().zip(started_at) {
                warns |= take(&gateway, worker, started_at, found.as_ref(), warned);
            }
            warned |= warns;
            if let Some(found) = found.filter(|_| is_prompt) {
                sleep(REGISTERS_SETTLE).await;
                for (worker, accounted) in workers.iter().zip(accounted) {
                    if let Some(requests) = found.of(worker.rank).requests {
                        gateway.plugin().worker_told(&worker.id, requests, accounted);
                    }
                }
            }
        }
        let pause = jittered(pause(&gateway), first, round);
        let _ = timeout(pause, first.probe_wanted.notified()).await;
    }
}

/// Until the next probe. What unheard gateways send is known from workers alone.
fn pause(gateway: &Gateway) -> Duration {
    let pause = gateway.config().timeouts.probe_interval;
    let plugin = gateway.plugin();
    let wants = plugin.unheard() >= UNHEARD_PROBED && plugin.policy().uses_others_load();
    if wants { pause.min(PROBE_UNHEARD) } else { pause }
}

/// What a probe found, for one of the ranks. `true` when the operator was warned about it.
fn take(gateway: &Gateway, worker: &Worker, started_at: Incarnation, found: Option<&Metrics>, warned: bool) -> bool {
    let of_rank = found.map(|found| found.of(worker.rank));
    worker.probed(of_rank.clone());
    let (Some(metrics), Some(found)) = (found, of_rank) else { return false };
    let Ok(token) = Token::new(&found.token) else { return false };
    let configured = gateway.config().worker_capacity_tokens;
    let capacity = configured.or(found.capacity_tokens);
    gateway.plugin().worker_probed(&worker.id, started_at, token, capacity);
    let untracked = found.token == UNTRACKED;
    if !warned && (untracked || capacity.is_none()) {
        warn!(worker = %worker.id, untracked, capacity_known = capacity.is_some(),
            "the worker's metrics do not say enough: restarts go unseen (untracked), or its cache counts as unlimited \
             (set --worker-capacity-tokens)");
        return true;
    }
    if !warned && configured.is_none() && metrics.is_shared(worker.rank) {
        warn!(worker = %worker.id, capacity_tokens = found.capacity_tokens,
            "the engine's metrics give no rank a cache of its own: what they give counts for each rank, undivided \
             (set --worker-capacity-tokens to what one rank holds)");
        return true;
    }
    false
}

/// `pause`, 10 % more or less, so that gateways do not ask in step.
fn jittered(pause: Duration, worker: &Worker, round: u64) -> Duration {
    let word = xxh3_64_with_seed(worker.id.name().as_bytes(), round.wrapping_add(u64::from(std::process::id()) << 32));
    pause.mul_f64(0.9 + 0.2 * (word >> 11) as f64 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::WorkerSpec;
    use crate::server::Workers;

    #[test]
    fn pauses_differ_and_stay_near() {
        let workers = Workers::new(&[WorkerSpec::parse("w=http://h:1").expect("a spec")]);
        let pauses: Vec<_> =
            (0..50).map(|round| jittered(Duration::from_secs(1), &workers.all()[0], round).as_millis()).collect();
        assert!(pauses.iter().all(|ms| (900..=1100).contains(ms)), "{pauses:?}");
        assert!(pauses.iter().any(|ms| *ms < 980) && pauses.iter().any(|ms| *ms > 1020), "{pauses:?}");
    }
}
