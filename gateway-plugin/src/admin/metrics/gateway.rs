//! Metrics of the gateway itself: requests, cache use, its workers, the process it runs in.
//!
//! Not here: the mesh. Series of workers exist for configured workers only, so that peers cannot make more of them.

use std::fmt::Error;
use std::sync::Arc;

use covey_mesh::summary::WorkerSeen;

use super::page::{Page, flag};
use super::process;
use crate::admin::names;
use crate::plugin::Outcome;
use crate::server::{Fault, Gateway, Readiness, Worker};

/// Upper bounds of the lookup histogram, microseconds.
const LOOKUP_BUCKETS_US: [u64; 12] = [2, 5, 10, 15, 20, 30, 50, 75, 100, 250, 1_000, 10_000];
/// Upper bounds of the first-byte histogram, microseconds.
const FIRST_BYTE_BUCKETS_US: [u64; 12] =
    [1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000, 60_000_000];

pub(super) fn write(page: &mut Page<'_>, gateway: &Gateway) -> Result<(), Error> {
    requests(page, gateway)?;
    cache(page, gateway)?;
    workers(page, gateway)?;
    #[cfg(feature = "otel")]
    if gateway.config().traces.is_some() {
        let spans = crate::otel::span_counts();
        let became = [("exported", spans.exported), ("dropped", spans.dropped), ("failed", spans.failed)];
        page.counters(names::TRACE_SPANS, "outcome", became)?;
    }
    process(page)
}

fn requests(page: &mut Page<'_>, gateway: &Gateway) -> Result<(), Error> {
    let counters = gateway.counters();
    page.gauges(names::BUILD_INFO, "version", [(env!("CARGO_PKG_VERSION"), 1.0)])?;
    page.gauge(names::UPTIME, gateway.uptime().as_secs_f64())?;
    page.gauge(names::READY, flag(gateway.readiness() == Readiness::Ready))?;
    let outcomes = Outcome::ALL.map(|outcome| (outcome.name(), counters.outcome_count(outcome)));
    page.counters(names::REQUESTS, "outcome", outcomes)?;
    page.counters(names::FAULTS, "reason", Fault::ALL.map(|fault| (fault.name(), counters.fault_count(fault))))?;
    page.counter(names::RETRIES, counters.retry_count())?;
    page.counter(names::CLIENTS_GONE, counters.client_gone_count())?;
    page.counter(names::UNMEASURED, counters.unmeasured_count())?;
    page.gauge(names::IN_FLIGHT, counters.in_flight() as f64)?;
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
    page.counters(names::STATUSES, "class", classes.into_iter().zip(counters.status_counts()))?;
    page.latency(names::LOOKUP, &counters.lookup_cpu, LOOKUP_BUCKETS_US)?;
    page.latency(names::FIRST_BYTE, &counters.first_byte, FIRST_BYTE_BUCKETS_US)
}

fn cache(page: &mut Page<'_>, gateway: &Gateway) -> Result<(), Error> {
    let sums = gateway.counters().token_sums();
    page.counter(names::MEASURED, sums.requests)?;
    page.counter(names::PROMPT_TOKENS, sums.prompt)?;
    page.counter(names::PREDICTED_TOKENS, sums.predicted)?;
    page.counter(names::CACHED_TOKENS, sums.cached)?;
    let stats = gateway.plugin().stats();
    page.counter(names::PLACEMENTS, stats.placements)?;
    page.counter(names::OPS_DROPPED, stats.dropped)
}

fn workers(page: &mut Page<'_>, gateway: &Gateway) -> Result<(), Error> {
    let workers = gateway.workers().all();
    let ids: Vec<String> = workers.iter().map(|worker| worker.id.to_string()).collect();
    let named = || ids.iter().map(String::as_str).zip(workers);
    let ups = named().filter_map(|(id, worker)| Some((id, flag(worker.is_up()?))));
    page.gauges(names::WORKER_UP, "worker", ups)?;
    let configured = gateway.config().worker_capacity_tokens;
    let capacity = |probed: Option<u64>| configured.or(probed);
    let capacities = named().filter_map(|(id, worker)| {
        let probed = worker.last_probe().and_then(|probed| probed.capacity_tokens);
        Some((id, capacity(probed)? as f64))
    });
    page.gauges(names::WORKER_CAPACITY, "worker", capacities)?;
    let plugin = gateway.plugin();
    let incarnations = named().map(|(id, worker)| (id, plugin.incarnation(&worker.id).counter));
    // A worker without a record has no incarnation yet.
    let incarnations = incarnations.filter(|(_, counter)| *counter > 0).map(|(id, counter)| (id, counter as f64));
    page.gauges(names::WORKER_INCARNATION, "worker", incarnations)?;
    coverage(page, gateway, &named().collect::<Vec<_>>())?;
    let loads: Vec<_> = named().map(|(id, worker)| (id, plugin.own_load(&worker.id))).collect();
    page.gauges(names::WORKER_REQUESTS, "worker", loads.iter().map(|(id, load)| (*id, f64::from(load.requests))))?;
    let unseen = named().map(|(id, worker)| (id, f64::from(plugin.unseen_load(&worker.id).requests)));
    page.gauges(names::WORKER_UNSEEN, "worker", unseen)?;
    page.gauges(names::WORKER_QUEUED, "worker", loads.iter().map(|(id, load)| (*id, load.queued_tokens as f64)))
}

/// What this replica holds of each worker, as of the last second.
fn coverage(page: &mut Page<'_>, gateway: &Gateway, named: &[(&str, &Arc<Worker>)]) -> Result<(), Error> {
    let view = gateway.mesh().view();
    let mine = view.sights.first().map(|sight| &sight.workers);
    let seen = |worker: &Worker| Some(&*mine?.get(&worker.id)?.of);
    let each = |value: fn(&WorkerSeen) -> Option<u64>| {
        named.iter().filter_map(move |(id, worker)| Some((*id, value(seen(worker)?)? as f64)))
    };
    page.gauges(names::WORKER_BLOCKS, "worker", each(|seen| Some(seen.blocks)))?;
    let seconds = |(id, ms)| (id, ms / 1e3);
    page.gauges(names::WORKER_FLOOR, "worker", each(|seen| seen.floor_ms).map(seconds))?;
    page.gauges(names::WORKER_NEWEST, "worker", each(|seen| seen.newest_ms).map(seconds))
}

fn process(page: &mut Page<'_>) -> Result<(), Error> {
    page.counter_f64(names::PROCESS_CPU, process::cpu_seconds())?;
    for (named, value) in [
        (names::PROCESS_RESIDENT, process::resident_bytes()),
        (names::PROCESS_FDS, process::open_fds()),
        (names::PROCESS_START, process::start_unix_seconds()),
    ] {
        if let Some(value) = value {
            page.gauge(named, value)?;
        }
    }
    Ok(())
}
