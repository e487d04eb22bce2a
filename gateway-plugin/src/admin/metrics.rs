//! The gateway's counters and the mesh's state as OpenMetrics text.
//!
//! Not here: names (`names`). What is unknown is left out, never written as 0 (I12).

use std::collections::BTreeSet;
use std::fmt::{self, Error};
use std::sync::Arc;

use covey_mesh::net::{ByClass, NetSnapshot, Quantiles};
use covey_mesh::output::Class;
use covey_mesh::status::{Phase, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::names::{self, Named};
use crate::plugin::{DELAY_BOUNDS_MS, NotesSnapshot, Outcome};
use crate::server::{Fault, Gateway, Latency, Readiness};

/// Upper bounds of the lookup histogram, microseconds.
const LOOKUP_BUCKETS_US: [u64; 12] = [2, 5, 10, 15, 20, 30, 50, 75, 100, 250, 1_000, 10_000];
/// Upper bounds of the first-byte histogram, microseconds.
const FIRST_BYTE_BUCKETS_US: [u64; 12] =
    [1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000, 60_000_000];

/// Everything, as OpenMetrics text.
pub(super) fn text(gateway: &Arc<Gateway>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(Arc::clone(gateway))));
    let mut out = String::new();
    encode(&mut out, &registry).expect("writing to a string cannot fail");
    out
}

/// OpenMetrics text in the older text format of Prometheus, where the lines about a counter carry its full name.
pub(super) fn classic(open: &str) -> String {
    let words = |line: &str| line.split(' ').skip(2).take(2).map(str::to_owned).collect::<Vec<_>>();
    let types = open.lines().filter(|line| line.starts_with("# TYPE ")).map(words);
    let counters: BTreeSet<String> = types.filter(|of| of[1] == "counter").map(|mut of| of.swap_remove(0)).collect();
    let mut out = String::with_capacity(open.len() + 1_024);
    for line in open.lines().filter(|line| *line != "# EOF") {
        let about = line.starts_with("# ").then(|| words(line).swap_remove(0));
        match about.filter(|name| counters.contains(name)) {
            Some(name) => out.push_str(&line.replacen(&name, &format!("{name}_total"), 1)),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

struct Scrape(Arc<Gateway>);

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut page = Page { encoder };
        page.gateway(&self.0)?;
        page.cache(&self.0)?;
        page.replica(&self.0, &self.0.mesh().status())?;
        page.peers(&self.0.mesh().status())?;
        page.notes(&self.0.plugin().notes())?;
        page.driver(&self.0.mesh().metrics())
    }
}

/// A page being written, metric by metric.
struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Page<'_> {
    fn counter(&mut self, named: Named, value: u64) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    fn counters<'v>(
        &mut self,
        named: Named,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (value, count) in values {
            metric.encode_family(&[(label, value)])?.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        Ok(())
    }

    fn gauge(&mut self, named: Named, value: f64) -> Result<(), Error> {
        let (name, help) = named;
        self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn gauges<'v>(
        &mut self,
        named: Named,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, f64)>,
    ) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (value, number) in values {
            metric.encode_family(&[(label, value)])?.encode_gauge(&number)?;
        }
        Ok(())
    }

    fn histogram<const N: usize>(&mut self, named: Named, latency: &Latency, upper_us: [u64; N]) -> Result<(), Error> {
        let (name, help) = named;
        let (count, sum, []) = latency.quantiles([]);
        let counts = latency.buckets(upper_us);
        let mut buckets: Vec<(f64, u64)> = upper_us.map(seconds).into_iter().zip(counts).collect();
        buckets.push((f64::INFINITY, count - counts.iter().sum::<u64>().min(count)));
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(seconds(sum), count, &buckets, None)
    }

    fn gateway(&mut self, gateway: &Gateway) -> Result<(), Error> {
        let counters = gateway.counters();
        self.gauges(names::BUILD_INFO, "version", [(env!("CARGO_PKG_VERSION"), 1.0)])?;
        self.gauge(names::UPTIME, gateway.uptime().as_secs_f64())?;
        self.gauge(names::READY, flag(gateway.readiness() == Readiness::Ready))?;
        let outcomes = Outcome::ALL.map(|outcome| (outcome.name(), counters.outcome_count(outcome)));
        self.counters(names::REQUESTS, "outcome", outcomes)?;
        self.counters(names::FAULTS, "reason", Fault::ALL.map(|fault| (fault.name(), counters.fault_count(fault))))?;
        self.counter(names::RETRIES, counters.retry_count())?;
        self.counter(names::CLIENTS_GONE, counters.client_gone_count())?;
        self.counter(names::UNMEASURED, counters.unmeasured_count())?;
        self.gauge(names::IN_FLIGHT, counters.in_flight() as f64)?;
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        self.counters(names::STATUSES, "class", classes.into_iter().zip(counters.status_counts()))?;
        self.histogram(names::LOOKUP, &counters.lookup_cpu, LOOKUP_BUCKETS_US)?;
        self.histogram(names::FIRST_BYTE, &counters.first_byte, FIRST_BYTE_BUCKETS_US)?;
        let ids: Vec<_> = gateway.workers().all().iter().map(|w| (w.id.to_string(), w.is_up())).collect();
        let known = ids.iter().filter_map(|(id, up)| up.map(|up| (id.as_str(), flag(up))));
        self.gauges(names::WORKER_UP, "worker", known)
    }

    fn cache(&mut self, gateway: &Gateway) -> Result<(), Error> {
        let sums = gateway.counters().token_sums();
        self.counter(names::MEASURED, sums.requests)?;
        self.counter(names::PROMPT_TOKENS, sums.prompt)?;
        self.counter(names::PREDICTED_TOKENS, sums.predicted)?;
        self.counter(names::CACHED_TOKENS, sums.cached)?;
        let stats = gateway.plugin().stats();
        self.counter(names::PLACEMENTS, stats.placements)?;
        self.counter(names::OPS_DROPPED, stats.dropped)
    }

    fn replica(&mut self, gateway: &Gateway, status: &Status) -> Result<(), Error> {
        let phases = [("joining", Phase::Joining), ("clean", Phase::Clean), ("dirty", Phase::Dirty)];
        self.gauges(names::PHASE, "phase", phases.map(|(name, phase)| (name, flag(status.phase == phase))))?;
        self.gauge(names::SILENT, gateway.mesh().silent_for().as_secs_f64())?;
        if let Some(ms) = status.clock_ahead_ms {
            self.gauge(names::CLOCK_AHEAD, ms as f64 / 1e3)?;
        }
        for (named, value) in [
            (names::WORKERS, status.workers),
            (names::HOLDERS, status.holders),
            (names::BLOCKS, status.blocks),
            (names::OPS_HELD, status.ops_held),
            (names::LOG_BYTES, status.log_bytes),
            (names::LIVES, status.lives),
            (names::REPAIRING, u64::from(status.repairing)),
        ] {
            self.gauge(named, value as f64)?;
        }
        self.counter(names::OPS_APPLIED, status.ops_applied)
    }

    fn peers(&mut self, status: &Status) -> Result<(), Error> {
        let peers = &status.peers;
        let count = |keep: fn(&covey_mesh::status::PeerStatus) -> bool| peers.iter().filter(|p| keep(p)).count() as f64;
        let states = [
            ("linked", count(|peer| peer.linked)),
            ("unlinked", count(|peer| !peer.linked && !peer.left)),
            ("left", count(|peer| peer.left)),
        ];
        self.gauges(names::PEERS, "state", states)?;
        let of = |value: fn(&covey_mesh::status::PeerStatus) -> Option<f64>| {
            peers.iter().filter(|peer| !peer.left).filter_map(move |peer| value(peer).map(|v| (peer.name.as_str(), v)))
        };
        self.gauges(names::LAG, "peer", of(|peer| peer.lag_ops.map(|ops| ops as f64)))?;
        self.gauges(names::THEIR_LAG, "peer", of(|peer| peer.their_lag_ops.map(|ops| ops as f64)))?;
        self.gauges(names::EXCHANGE_RTT, "peer", of(|peer| peer.rtt_us.map(seconds)))?;
        self.gauges(names::HEARD, "peer", of(|peer| peer.heard_ms.map(|ms| ms as f64 / 1e3)))
    }

    fn notes(&mut self, notes: &NotesSnapshot) -> Result<(), Error> {
        let (name, help) = names::NOTES;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (what, why, count) in &notes.counts {
            let labels = [("what", *what), ("why", *why)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(count, None)?;
        }
        let bounds = DELAY_BOUNDS_MS.iter().map(|ms| *ms as f64 / 1e3).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(notes.delays).collect();
        let (name, help) = names::PROPAGATION;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let sum = notes.delay_ms_sum as f64 / 1e3;
        metric.encode_histogram::<NoLabelSet>(sum, notes.delays.iter().sum(), &buckets, None)
    }

    fn driver(&mut self, net: &NetSnapshot) -> Result<(), Error> {
        self.quantiles(names::PROPAGATION_QUANTILES, &net.propagation_ms, |ms| ms as f64 / 1e3)?;
        self.quantiles(names::QUIC_RTT, &net.quic_rtt_us, seconds)?;
        let restarts = [
            ("panicked", net.restarts_panicked),
            ("stalled", net.restarts_stalled),
            ("reborn", net.restarts_reborn),
            ("failed", net.restarts_failed),
        ];
        self.counters(names::RESTARTS, "reason", restarts)?;
        let dropped = Class::ALL.map(|class| (class.name(), net.frames_dropped.get(class)));
        self.counters(names::QUEUE_DROPS, "queue", dropped.into_iter().chain([("commands", net.commands_dropped)]))?;
        self.by_class(names::FRAMES_OUT, &net.frames_out)?;
        self.by_class(names::BYTES_OUT, &net.bytes_out)?;
        self.by_class(names::FRAMES_IN, &net.frames_in)?;
        self.by_class(names::BYTES_IN, &net.bytes_in)?;
        self.counter(names::DIALS, net.dials)?;
        self.counters(names::DIALS_FAILED, "reason", net.dials_failed.iter().map(|(why, n)| (why.name(), *n)))?;
        let refused = net.handshakes_refused.iter().map(|(why, n)| (why.name(), *n));
        self.counters(names::HANDSHAKES_REFUSED, "reason", refused)?;
        self.counter(names::FRAMES_MALFORMED, net.frames_malformed)
    }

    fn by_class(&mut self, named: Named, counts: &ByClass) -> Result<(), Error> {
        self.counters(named, "class", Class::ALL.map(|class| (class.name(), counts.get(class))))
    }

    /// Quantiles exist once something was measured.
    fn quantiles(&mut self, named: Named, quantiles: &Quantiles, unit: fn(u64) -> f64) -> Result<(), Error> {
        let known = [("p50", quantiles.p50), ("p99", quantiles.p99), ("max", quantiles.max)];
        let known = known.into_iter().filter(|_| quantiles.count > 0).map(|(at, value)| (at, unit(value)));
        self.gauges(named, "at", known)
    }
}

fn flag(set: bool) -> f64 {
    f64::from(u8::from(set))
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_counters_in_full_and_alters_no_sample() {
        let open = "# HELP a_b What.\n# TYPE a_b counter\na_b_total{c=\"a_b\"} 1\n# HELP a Other.\n# TYPE a gauge\na 2\n# EOF\n";
        let classic = classic(open);
        let expected = "# HELP a_b_total What.\n# TYPE a_b_total counter\na_b_total{c=\"a_b\"} 1\n# HELP a Other.\n# TYPE a gauge\na 2\n";
        assert_eq!(classic, expected);
    }
}
