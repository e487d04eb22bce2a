//! Breaking one gateway in the middle of the mesh arm: when (`victim`), what (`kill`, `cut`, `panic`), and what that cost.
//!
//! Not here: sending requests (`drive`), carrying and cutting datagrams (`switch`).

mod cut;
mod kill;
mod panic;
mod victim;

use std::time::Duration;

use serde_json::{Value, json};

pub(super) use victim::Victim;

/// How long a gateway may take to come back at all; later, the demo gives up on it.
const BACK_MAX: Duration = Duration::from_secs(20);
/// How long after a partition's end all digests may differ.
const HEAL_MAX: Duration = Duration::from_secs(2);
/// How far below the others a restarted gateway's cached share may be.
const SHARE_BEHIND_MAX: f64 = 0.05;

/// What a broken gateway cost.
#[derive(Clone, Debug, PartialEq)]
pub struct ChaosFigures {
    /// Its name.
    pub gateway: String,
    /// Requests of the arm that failed.
    pub errors: usize,
    /// Requests that clients sent to another gateway instead.
    pub resent: usize,
    /// From its start, the network's or the breakage's until it was as good as the others: see the kinds.
    pub recovered: Duration,
    /// What else there is to say, by kind.
    pub kind: Kind,
}

/// What was done to it, and the figures that only this kind has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Killed and started again. It recovered when it was ready and clean.
    Kill {
        /// Follow-ups it has answered since, the first 50 at most.
        follow_ups: usize,
        /// Cached share of those.
        followup_cached_share: Option<f64>,
        /// Cached share of the other gateways' follow-ups in the same time.
        fleet_followup_cached_share: Option<f64>,
    },
    /// Its network was cut both ways. It recovered when, after the cut, all gateways were clean with one digest.
    Cut(CutFigures),
    /// Its mesh thread panicked, and later stalled. It recovered when a new life was clean; the slower of both.
    Panic(PanicFigures),
}

/// Requests answered between the breakage and the recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// By the broken gateway.
    pub own: usize,
    /// Of those, labelled as not routed on coverage.
    pub own_stale: usize,
    /// By the others.
    pub others: usize,
}

/// What is known of a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutFigures {
    /// How long it lasted.
    pub cut: Duration,
    /// Datagrams it took.
    pub dropped: u64,
    /// Whether, at its end, the gateway had no link and another digest than the others: it was a partition.
    pub parted: bool,
    /// From its end until every gateway had a link with every other.
    pub relinked: Duration,
    /// Whether clients were still sending when the digests were equal again.
    pub under_traffic: bool,
    /// Requests meanwhile.
    pub flow: Flow,
}

/// What is known of a broken mesh thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PanicFigures {
    /// From the panic to a clean new life.
    pub panic: Duration,
    /// From the stall to a clean new life.
    pub stall: Duration,
    /// Requests meanwhile.
    pub flow: Flow,
}

impl ChaosFigures {
    /// Whether it cost no more than it may. A restarted gateway may route better than the others; requests must have
    /// flowed for a cut or a panic to have shown anything.
    #[must_use]
    pub fn passed(&self) -> bool {
        let good = match self.kind {
            Kind::Kill { followup_cached_share, fleet_followup_cached_share, .. } => followup_cached_share
                .zip(fleet_followup_cached_share)
                .is_some_and(|(own, fleet)| own >= fleet - SHARE_BEHIND_MAX),
            Kind::Cut(CutFigures { parted, flow, .. }) => {
                parted && flow.own > 0 && flow.others > 0 && self.recovered <= HEAL_MAX
            }
            Kind::Panic(PanicFigures { flow, .. }) => flow.own > 0,
        };
        good && self.errors == 0
    }

    /// The figures for programs.
    pub(super) fn json(&self) -> Value {
        let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
        let mut json = json!({
            "kind": match self.kind { Kind::Kill { .. } => "kill", Kind::Cut(_) => "cut", Kind::Panic(_) => "panic" },
            "gateway": self.gateway,
            "errors": self.errors,
            "resent": self.resent,
            "recovered_ms": ms(self.recovered),
            "passed": self.passed(),
        });
        let flow = |flow: Flow| json!({"own": flow.own, "own_stale": flow.own_stale, "others": flow.others});
        let more = match self.kind {
            Kind::Kill { follow_ups, followup_cached_share, fleet_followup_cached_share } => json!({
                "ready_clean_ms": ms(self.recovered),
                "followups": follow_ups,
                "followup_cached_share": followup_cached_share,
                "fleet_followup_cached_share": fleet_followup_cached_share,
            }),
            Kind::Cut(cut) => json!({
                "cut_ms": ms(cut.cut),
                "datagrams_dropped": cut.dropped,
                "parted": cut.parted,
                "relinked_ms": ms(cut.relinked),
                "under_traffic": cut.under_traffic,
                "answered": flow(cut.flow),
            }),
            Kind::Panic(panic) => json!({
                "panic_recovered_ms": ms(panic.panic),
                "stall_recovered_ms": ms(panic.stall),
                "answered": flow(panic.flow),
            }),
        };
        if let (Value::Object(json), Value::Object(more)) = (&mut json, more) {
            json.extend(more);
        }
        json
    }

    /// The figures for people, in lines of at most 120 characters.
    pub(super) fn words(&self) -> String {
        let (gateway, errors, recovered) = (&self.gateway, self.errors, self.recovered.as_millis());
        let flow = |flow: Flow| {
            format!(
                "meanwhile it answered {} requests ({} of them on load alone), the others {}; {errors} failed",
                flow.own, flow.own_stale, flow.others
            )
        };
        let percent =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0));
        match self.kind {
            Kind::Kill { follow_ups, followup_cached_share, fleet_followup_cached_share } => format!(
                "Killed gateway {gateway}: ready and clean {recovered} ms after its start, {} requests sent to another \
                 gateway,\nits first {follow_ups} follow-ups {} cached, the others' {}.\n",
                self.resent,
                percent(followup_cached_share),
                percent(fleet_followup_cached_share),
            ),
            Kind::Cut(cut) => format!(
                "Cut gateway {gateway} off for {:.1} s: one digest on all gateways {recovered} ms after healing ({}),\n\
                 every link back after {} ms; {}.\n",
                cut.cut.as_secs_f64(),
                if cut.under_traffic { "requests still flowing" } else { "after the last request" },
                cut.relinked.as_millis(),
                flow(cut.flow),
            ),
            Kind::Panic(panic) => format!(
                "Broke the mesh thread of gateway {gateway}: a clean new life {} ms after a panic, {} ms after a stall;\n\
                 {}.\n",
                panic.panic.as_millis(),
                panic.stall.as_millis(),
                flow(panic.flow),
            ),
        }
    }

    /// What is amiss when it did not pass.
    pub(super) fn complaint(&self) -> String {
        match self.kind {
            Kind::Kill { .. } => "the killed gateway came back worse than the others".to_owned(),
            Kind::Cut(cut) if !cut.parted => "the cut parted nobody: too short, or too few requests".to_owned(),
            Kind::Cut(_) => format!(
                "no request may fail in a cut, every side must answer some, and digests be equal within {HEAL_MAX:?}"
            ),
            Kind::Panic(_) => {
                "no request may fail when a mesh thread breaks, and its gateway must answer some".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow { own: 5, own_stale: 2, others: 20 };

    fn figures(kind: Kind, recovered_ms: u64) -> ChaosFigures {
        let recovered = Duration::from_millis(recovered_ms);
        ChaosFigures { gateway: "g1".to_owned(), errors: 0, resent: 0, recovered, kind }
    }

    fn cut() -> CutFigures {
        CutFigures { cut: Duration::from_secs(20), parted: true, under_traffic: true, flow: FLOW, ..Default::default() }
    }

    #[test]
    fn a_cut_passes_only_as_a_partition_with_requests_that_healed_in_time() {
        assert!(figures(Kind::Cut(cut()), 2_000).passed());
        assert!(!figures(Kind::Cut(cut()), 2_001).passed());
        assert!(!figures(Kind::Cut(CutFigures { parted: false, ..cut() }), 100).passed());
        assert!(!figures(Kind::Cut(CutFigures { flow: Flow { own: 0, ..FLOW }, ..cut() }), 100).passed());
        assert!(!ChaosFigures { errors: 1, ..figures(Kind::Cut(cut()), 100) }.passed());
    }

    #[test]
    fn a_panic_passes_only_when_its_gateway_answered_and_nothing_failed() {
        let broke = PanicFigures { flow: FLOW, ..Default::default() };
        assert!(figures(Kind::Panic(broke), 3_000).passed());
        assert!(!ChaosFigures { errors: 1, ..figures(Kind::Panic(broke), 3_000) }.passed());
        assert!(!figures(Kind::Panic(PanicFigures::default()), 3_000).passed());
    }

    #[test]
    fn every_kind_has_the_common_keys_and_fits_a_terminal() {
        let killed = Kind::Kill { follow_ups: 50, followup_cached_share: Some(0.9), fleet_followup_cached_share: None };
        for (kind, name) in
            [(killed, "kill"), (Kind::Cut(cut()), "cut"), (Kind::Panic(PanicFigures::default()), "panic")]
        {
            let figures = figures(kind, 1_500);
            let json = figures.json();
            assert_eq!((json["kind"].as_str(), json["recovered_ms"].as_f64()), (Some(name), Some(1_500.0)));
            for key in ["gateway", "errors", "resent", "passed"] {
                assert!(!json[key].is_null(), "{name} lacks {key}");
            }
            assert!(figures.words().lines().all(|line| line.chars().count() <= 120), "{}", figures.words());
        }
    }
}
