//! What gateways and workers say about themselves, read over HTTP.
//!
//! Not here: what the figures mean (`measure`).

use std::time::Duration;

use covey_mesh::status::{Phase, Status};
use futures_util::future::join_all;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::fleet::Fleet;
use super::measure::{Quantiles, quantiles};
use crate::client::Client;
use crate::processes::POLL;

/// How long one page may take.
const PAGE_MAX: Duration = Duration::from_secs(2);

/// Whether a gateway is ready.
pub(super) async fn ready(client: &Client, admin: &str) -> Result<(), String> {
    client.page(&format!("{admin}/readyz"), PAGE_MAX).await.map(drop)
}

/// What the demo reads of a gateway's `/mesh`.
#[derive(Clone, Debug, Deserialize)]
struct MeshPage {
    status: Status,
    propagation_ms: Measured,
    quic_rtt_us: Measured,
}

/// A gateway's own histogram.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Measured {
    count: u64,
    p50: u64,
    p99: u64,
}

/// A gateway's view of itself and its peers.
pub(super) async fn status(client: &Client, admin: &str) -> Result<Status, String> {
    mesh_page(client, admin).await.map(|page| page.status)
}

async fn mesh_page(client: &Client, admin: &str) -> Result<MeshPage, String> {
    let page = client.page(&format!("{admin}/mesh"), PAGE_MAX).await?;
    serde_json::from_str(&page).map_err(|why| format!("{admin}/mesh is not what this demo can read: {why}"))
}

/// What all gateways say, asked at the same time.
pub(super) async fn statuses(client: &Client, fleet: &Fleet) -> Vec<Result<Status, String>> {
    join_all(fleet.gateways.iter().map(|gateway| status(client, &gateway.admin))).await
}

/// Asks a gateway to do something.
pub(super) async fn post(client: &Client, url: &str) -> Result<(), String> {
    client.post(url, PAGE_MAX).await.map_err(|why| format!("{url}: {why}"))
}

/// How the replicas stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replicas {
    /// All of them describe their vectors exactly.
    pub(super) clean: bool,
    /// All of them have the same digest.
    pub(super) equal: bool,
    /// What each gateway says, for people.
    pub(super) words: Vec<String>,
}

impl Replicas {
    /// Judges what gateways said.
    pub(super) fn of(statuses: &[Result<Status, String>]) -> Self {
        let words = statuses.iter().enumerate().map(|(index, status)| match status {
            Ok(status) => {
                let digest = status.digest.as_deref().unwrap_or("none");
                format!(
                    "g{index}: {:?}, digest {digest}, {} holders, {} blocks",
                    status.phase, status.holders, status.blocks
                )
            }
            Err(why) => format!("g{index}: {why}"),
        });
        let words = words.collect();
        let Ok(statuses) = statuses.iter().map(Result::as_ref).collect::<Result<Vec<_>, _>>() else {
            return Self { clean: false, equal: false, words };
        };
        let clean = statuses.iter().all(|status| status.phase == Phase::Clean);
        let first = statuses.first().and_then(|status| status.digest.as_ref());
        let equal = first.is_some() && statuses.iter().all(|status| status.digest.as_ref() == first);
        Self { clean, equal, words }
    }
}

/// Waits until all replicas are clean (and equal, when they share a mesh), or patience ends; gives the last look.
pub(super) async fn settle(client: &Client, fleet: &Fleet, one_mesh: bool, patience: Duration) -> Replicas {
    let deadline = Instant::now() + patience;
    loop {
        let replicas = Replicas::of(&statuses(client, fleet).await);
        let settled = replicas.clean && (replicas.equal || !one_mesh);
        if settled || Instant::now() > deadline {
            return replicas;
        }
        sleep(POLL).await;
    }
}

/// The value of a metric without regard to its labels; `None` when the page has no such line.
pub(super) fn value(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = if rest.starts_with('{') { rest.rsplit_once('}')?.1 } else { rest };
        rest.strip_prefix(' ')?.split(' ').next()?.parse().ok()
    })
}

/// Tokens that each worker prefilled.
pub(super) async fn work(client: &Client, fleet: &Fleet) -> Result<Vec<f64>, String> {
    let mut work = Vec::new();
    for worker in &fleet.workers {
        let page = client.page(&format!("{}/metrics", worker.base), PAGE_MAX).await?;
        let tokens = value(&page, "covey_sim_prefilled_tokens_total");
        work.push(tokens.ok_or_else(|| format!("{} counts no prefilled tokens", worker.process.name))?);
    }
    Ok(work)
}

/// What the mesh measured about its own speed, over all gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MeshTimes {
    pub(super) propagation_ms: Option<Quantiles>,
    pub(super) quic_rtt_ms: Option<Quantiles>,
}

/// Asks every gateway for its histograms. The middle of their medians, and the worst of their tails: histograms of
/// several processes cannot be merged exactly from quantiles, and this errs on the side of too slow.
pub(super) async fn mesh_times(client: &Client, fleet: &Fleet) -> Result<MeshTimes, String> {
    let (mut propagation, mut rtt) = (Vec::new(), Vec::new());
    for gateway in &fleet.gateways {
        let page = mesh_page(client, &gateway.admin).await?;
        propagation.push(page.propagation_ms);
        rtt.push(page.quic_rtt_us);
    }
    Ok(MeshTimes { propagation_ms: over_all(&propagation, 1.0), quic_rtt_ms: over_all(&rtt, 1_000.0) })
}

fn over_all(measured: &[Measured], per_ms: f64) -> Option<Quantiles> {
    let known = || measured.iter().filter(|of| of.count > 0);
    let middle = quantiles(known().map(|of| of.p50 as f64 / per_ms).collect())?;
    let worst = known().map(|of| of.p99).max()?;
    Some(Quantiles { p50: middle.p50, p99: worst as f64 / per_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(phase: Phase, digest: Option<&str>) -> Result<Status, String> {
        Ok(Status { phase, digest: digest.map(str::to_owned), ..Status::default() })
    }

    #[test]
    fn replicas_are_equal_only_when_all_are_clean_with_one_digest() {
        let clean = |digest| status(Phase::Clean, Some(digest));
        let judged = |statuses: &[_]| {
            let replicas = Replicas::of(statuses);
            (replicas.clean, replicas.equal)
        };
        assert_eq!(judged(&[clean("a"), clean("a")]), (true, true));
        assert_eq!(judged(&[clean("a"), clean("b")]), (true, false));
        assert_eq!(judged(&[clean("a"), status(Phase::Dirty, None)]), (false, false));
        assert_eq!(judged(&[clean("a"), Err("gone".to_owned())]), (false, false));
        assert_eq!(
            judged(&[status(Phase::Clean, None), status(Phase::Clean, None)]),
            (true, false),
            "no digest, no proof"
        );
    }

    #[test]
    fn metrics_are_read_with_and_without_labels_and_not_by_prefix() {
        let page = "# HELP a b\na_more 1\na{x=\"} \",y=\"2\"} 3.5\nb 7\n";
        assert_eq!((value(page, "a"), value(page, "b"), value(page, "c")), (Some(3.5), Some(7.0), None));
    }

    #[test]
    fn gateways_that_measured_nothing_do_not_count_as_fast() {
        let none = Measured { count: 0, p50: 0, p99: 0 };
        let some = Measured { count: 5, p50: 2_000, p99: 9_000 };
        assert_eq!(over_all(&[none, some], 1_000.0), Some(Quantiles { p50: 2.0, p99: 9.0 }));
        assert_eq!(over_all(&[none], 1.0), None);
    }
}
