//! The gateway's counters and the mesh's state as OpenMetrics text.
//!
//! Not here: names (`names`). What is unknown is left out, never written as 0 (I12).

mod driver;
mod feeds;
mod gateway;
mod mesh;
mod page;
mod peers;
mod predictions;
mod process;

use std::collections::BTreeSet;
use std::fmt::{self, Error};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text::encode};
use prometheus_client::registry::Registry;

use self::page::Page;
use super::names;
use crate::frame::MeshFrame;
use crate::server::Gateway;

/// Everything, as OpenMetrics text.
pub(super) fn text(gateway: &Arc<Gateway>, frame: Option<Arc<MeshFrame>>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(Arc::clone(gateway), frame)));
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

/// A gateway, and the latest frame of its mesh.
struct Scrape(Arc<Gateway>, Option<Arc<MeshFrame>>);

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let gateway = &self.0;
        // The age first: a status is never older than it is said to be.
        let (silent, status, net) = (gateway.mesh().silent_for(), gateway.mesh().status(), gateway.mesh().metrics());
        let mut page = Page::new(encoder);
        gateway::write(&mut page, gateway)?;
        predictions::write(&mut page, gateway)?;
        page.gauge(names::ENABLED, page::flag(gateway.config().mesh.net.is_some()))?;
        mesh::write(&mut page, &status, silent, self.1.as_deref())?;
        peers::write(&mut page, &status, &net.links, silent)?;
        let view = gateway.mesh().view();
        let read = view.sights.first().into_iter().flat_map(|own| own.feeds.values());
        feeds::read(&mut page, &read.map(|seen| (seen.of.role, seen.of.report)).collect::<Vec<_>>())?;
        let notes = gateway.plugin().notes();
        feeds::noted(&mut page, &notes)?;
        mesh::observed(&mut page, &notes)?;
        driver::write(&mut page, &net)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use covey_mesh::status::{PeerStatus, Phase, Status};

    use super::*;
    use crate::frame::{GatewayView, VerdictView};

    /// A status of that age and a frame, written out.
    struct Told(Status, Duration, Option<MeshFrame>);

    impl fmt::Debug for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Told")
        }
    }

    impl Collector for Told {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
            let mut page = Page::new(encoder);
            mesh::write(&mut page, &self.0, self.1, self.2.as_ref())?;
            peers::write(&mut page, &self.0, &[], self.1)
        }
    }

    fn told(status: &Status, age: Duration, frame: Option<MeshFrame>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Told(status.clone(), age, frame)));
        let mut out = String::new();
        encode(&mut out, &registry).expect("writing to a string cannot fail");
        out
    }

    fn has(text: &str, sample: &str) -> bool {
        text.lines().any(|line| line.starts_with(sample))
    }

    fn two_equal() -> Status {
        let of = |text: &str| Some(text.to_owned());
        let peer = PeerStatus {
            name: "b".to_owned(),
            life: "bb".to_owned(),
            linked: true,
            heard_ms: Some(100),
            phase: Some(Phase::Clean),
            digest: of("d"),
            vector: of("v"),
            lag_ops: Some(0),
            lag_ms: Some(0),
            ..PeerStatus::default()
        };
        let left = PeerStatus { name: "c".to_owned(), left: true, linked: false, ..peer.clone() };
        Status {
            life: "aa".to_owned(),
            phase: Phase::Clean,
            digest: of("d"),
            vector: "v".to_owned(),
            clock: "good".to_owned(),
            peers: vec![peer, left],
            ..Status::default()
        }
    }

    /// A frame of so many milliseconds ago, in which another gateway does not hear a third.
    fn frame(ago_ms: u64) -> MeshFrame {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let verdict = VerdictView { word: "degraded".to_owned(), converged_ms: Some(5_500), ..VerdictView::default() };
        let gateways = [Some(0), Some(1), None].map(|group| GatewayView { group, ..GatewayView::default() });
        let t_ms = u64::try_from(now).expect("in range") - ago_ms;
        MeshFrame { t_ms, verdict, gateways: gateways.to_vec(), ..MeshFrame::default() }
    }

    #[test]
    fn the_verdict_is_the_dashboards_as_long_as_that_is_of_now() {
        let fresh = told(&two_equal(), Duration::ZERO, Some(frame(500)));
        for sample in [
            "covey_mesh_converged 0",
            "covey_mesh_verdict{word=\"degraded\"} 1",
            "covey_mesh_state_groups 2",
            "covey_mesh_last_converged_timestamp_seconds 5.5",
        ] {
            assert!(has(&fresh, sample), "{sample} is not in {fresh}");
        }
        let old = told(&two_equal(), Duration::ZERO, Some(frame(4_000)));
        assert!(has(&old, "covey_mesh_verdict{word=\"unknown\"} 1") && !has(&old, "covey_mesh_converged"), "{old}");
        assert!(has(&old, "covey_mesh_last_converged_timestamp_seconds 5.5") && !has(&old, "covey_mesh_state_groups"));
        let silent = told(&two_equal(), Duration::from_secs(10), Some(frame(0)));
        assert!(has(&silent, "covey_mesh_verdict{word=\"unknown\"} 1"), "{silent}");
    }

    #[test]
    fn what_is_not_known_is_absent_and_absolute_times_stand_still() {
        let status = two_equal();
        let now = told(&status, Duration::ZERO, None);
        for sample in [
            "covey_mesh_converged 1",
            "covey_mesh_verdict{word=\"converged\"} 1",
            "covey_mesh_verdict{word=\"unknown\"} 0",
            "covey_mesh_lag_seconds{peer=\"b\"} 0",
            "covey_mesh_peer_linked{peer=\"b\"} 1",
        ] {
            assert!(has(&now, sample), "{sample} is not in {now}");
        }
        for absent in ["covey_mesh_clock_ahead", "covey_mesh_peer_clock", "covey_mesh_peer_quic", "covey_mesh_peer_lag"]
        {
            assert!(!has(&now, absent), "{absent} is in {now}");
        }
        assert!(!now.contains("peer=\"c\""), "a gateway that left has no series: {now}");
        let late = told(&status, Duration::from_secs(10), None);
        assert!(has(&late, "covey_mesh_verdict{word=\"unknown\"} 1") && !has(&late, "covey_mesh_converged"), "{late}");
        assert!(!has(&late, "covey_mesh_lag_") && !has(&late, "covey_mesh_state_groups"), "{late}");
        let at = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("covey_mesh_replicated_timestamp_seconds{"));
            line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).expect("the time is there")
        };
        let behind = at(&now) - at(&late);
        assert!((9.0..11.0).contains(&behind), "{behind}");
    }

    #[test]
    fn the_older_format_names_counters_in_full_and_alters_no_sample() {
        let open = "# HELP a_b What.\n# TYPE a_b counter\na_b_total{c=\"a_b\"} 1\n# HELP a Other.\n# TYPE a gauge\na 2\n# EOF\n";
        let classic = classic(open);
        let expected = "# HELP a_b_total What.\n# TYPE a_b_total counter\na_b_total{c=\"a_b\"} 1\n# HELP a Other.\n# TYPE a gauge\na 2\n";
        assert_eq!(classic, expected);
    }
}
