//! Metrics of each peer, by its name: lag, what was heard, clocks, the connection.
//!
//! Not here: sums over peers (`mesh`, `driver`). A gateway that left has no series. Lags are told twice: as seconds, and
//! as the absolute time up to which everything is here, because a gauge of seconds lies when whoever computes it stalls.
//! Upholds I12: past the age at which a status describes the past, the seconds are absent and the times stand still.

use std::fmt::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use covey_mesh::net::LinkSnapshot;
use covey_mesh::status::{PeerStatus, Status};

use super::page::{Page, flag, seconds};
use crate::admin::names::{self, Named};
use crate::frame::SILENT_MS_MAX;

struct Peers<'a> {
    /// Those that have not left.
    present: Vec<&'a PeerStatus>,
    links: &'a [LinkSnapshot],
    /// Whether the status describes the present.
    fresh: bool,
    /// Unix time of the status, seconds.
    at: f64,
}

/// Every peer of a status that is `silent` old.
pub(super) fn write(
    page: &mut Page<'_>,
    status: &Status,
    links: &[LinkSnapshot],
    silent: Duration,
) -> Result<(), Error> {
    let count = |keep: fn(&PeerStatus) -> bool| status.peers.iter().filter(|peer| keep(peer)).count() as f64;
    let states = [
        ("linked", count(|peer| peer.linked)),
        ("unlinked", count(|peer| !peer.linked && !peer.left)),
        ("left", count(|peer| peer.left)),
    ];
    page.gauges(names::PEERS, "state", states)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let peers = Peers {
        present: status.peers.iter().filter(|peer| !peer.left).collect(),
        links,
        fresh: silent.as_millis() <= u128::from(SILENT_MS_MAX),
        at: now.saturating_sub(silent).as_secs_f64(),
    };
    peers.times(page)?;
    if peers.fresh {
        peers.gauges(page)?;
        peers.connections(page)?;
    }
    Ok(())
}

fn ms(ms: u64) -> f64 {
    ms as f64 / 1e3
}

impl Peers<'_> {
    fn each(&self, page: &mut Page<'_>, named: Named, value: impl Fn(&PeerStatus) -> Option<f64>) -> Result<(), Error> {
        let values = self.present.iter().filter_map(|peer| Some((peer.name.as_str(), value(peer)?)));
        page.gauges(named, "peer", values)
    }

    fn times(&self, page: &mut Page<'_>) -> Result<(), Error> {
        self.each(page, names::HEARD_AT, |peer| Some(self.at - ms(peer.heard_ms?)))?;
        self.each(page, names::REPLICATED, |peer| Some(self.at - ms(peer.lag_ms?)))
    }

    fn gauges(&self, page: &mut Page<'_>) -> Result<(), Error> {
        self.each(page, names::LINKED, |peer| Some(flag(peer.linked)))?;
        self.each(page, names::HEARD, |peer| peer.heard_ms.map(ms))?;
        self.each(page, names::LAG, |peer| peer.lag_ops.map(|ops| ops as f64))?;
        self.each(page, names::LAG_SECONDS, |peer| peer.lag_ms.map(ms))?;
        self.each(page, names::THEIR_LAG, |peer| peer.their_lag_ops.map(|ops| ops as f64))?;
        self.each(page, names::THEIR_LAG_SECONDS, |peer| peer.their_lag_ms.map(ms))?;
        self.each(page, names::THEIR_HELD, |peer| peer.their_held_ops.map(|ops| ops as f64))?;
        self.each(page, names::EXCHANGE_RTT, |peer| peer.rtt_us.map(seconds))?;
        self.each(page, names::CLOCK_OFFSET, |peer| peer.offset_ms.map(|ms| ms as f64 / 1e3))
    }

    fn connections(&self, page: &mut Page<'_>) -> Result<(), Error> {
        self.each(page, names::LINK_RTT, |peer| Some(seconds(self.link(peer)?.rtt_us)))?;
        self.each(page, names::LINK_WINDOW, |peer| Some(self.link(peer)?.congestion_window_bytes as f64))?;
        self.each(page, names::LINK_QUEUED, |peer| Some(self.link(peer)?.queued_bytes as f64))?;
        self.each(page, names::LINK_AGE, |peer| Some(ms(self.link(peer)?.up_ms)))?;
        let lost = self.present.iter().filter_map(|peer| Some((peer.name.as_str(), self.link(peer)?.packets_lost)));
        page.counters(names::LINK_LOST, "peer", lost)
    }

    /// Two lives of one name may be connected for a moment; a series must have one value.
    fn link(&self, peer: &PeerStatus) -> Option<&LinkSnapshot> {
        self.links.iter().find(|link| link.life == peer.life)
    }
}
