//! Metrics of the mesh's driver: frames, connection attempts, queues, membership, lives begun anew.
//!
//! Not here: connections with single peers (`peers`).

use std::fmt::Error;

use covey_mesh::net::{ByClass, NetSnapshot, Quantiles};
use covey_mesh::output::Class;

use super::page::{Page, seconds};
use crate::admin::names::{self, Named};

pub(super) fn write(page: &mut Page<'_>, net: &NetSnapshot) -> Result<(), Error> {
    quantiles(page, names::PROPAGATION_QUANTILES, &net.propagation_ms, |ms| ms as f64 / 1e3)?;
    quantiles(page, names::QUIC_RTT, &net.quic_rtt_us, seconds)?;
    let restarts = [
        ("panicked", net.restarts_panicked),
        ("stalled", net.restarts_stalled),
        ("reborn", net.restarts_reborn),
        ("failed", net.restarts_failed),
    ];
    page.counters(names::RESTARTS, "reason", restarts)?;
    let dropped = Class::ALL.map(|class| (class.name(), net.frames_dropped.get(class)));
    page.counters(names::QUEUE_DROPS, "queue", dropped.into_iter().chain([("commands", net.commands_dropped)]))?;
    by_class(page, names::FRAMES_OUT, &net.frames_out)?;
    by_class(page, names::BYTES_OUT, &net.bytes_out)?;
    by_class(page, names::FRAMES_IN, &net.frames_in)?;
    by_class(page, names::BYTES_IN, &net.bytes_in)?;
    page.counter(names::FRAMES_MALFORMED, net.frames_malformed)?;
    page.counter(names::DIALS, net.dials)?;
    page.counters(names::DIALS_FAILED, "reason", net.dials_failed.iter().map(|(why, n)| (why.name(), *n)))?;
    let refused = net.handshakes_refused.iter().map(|(why, n)| (why.name(), *n));
    page.counters(names::HANDSHAKES_REFUSED, "reason", refused)?;
    page.counter(names::HANDSHAKES_IGNORED, net.handshakes_ignored)?;
    membership(page, net)
}

fn membership(page: &mut Page<'_>, net: &NetSnapshot) -> Result<(), Error> {
    page.gauge(names::MEMBERS_LIVE, net.members_live as f64)?;
    page.counter(names::MEMBERSHIP_RESTARTS, net.membership_restarts)?;
    let messages = [("sent", net.membership_messages_out), ("received", net.membership_messages_in)];
    page.counters(names::MEMBERSHIP_MESSAGES, "direction", messages)?;
    page.counter(names::MEMBERSHIP_BYTES, net.membership_bytes_out)?;
    page.counter(names::MEMBERSHIP_REFUSED, net.membership_refused)
}

fn by_class(page: &mut Page<'_>, named: Named, counts: &ByClass) -> Result<(), Error> {
    page.counters(named, "class", Class::ALL.map(|class| (class.name(), counts.get(class))))
}

/// Quantiles exist once something was measured.
fn quantiles(page: &mut Page<'_>, named: Named, quantiles: &Quantiles, unit: fn(u64) -> f64) -> Result<(), Error> {
    let known = [("p50", quantiles.p50), ("p99", quantiles.p99), ("max", quantiles.max)];
    let known = known.into_iter().filter(|_| quantiles.count > 0).map(|(at, value)| (at, unit(value)));
    page.gauges(named, "at", known)
}
