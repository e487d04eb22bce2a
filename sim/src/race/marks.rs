//! What Covey has to reach beside the others.
//!
//! Not here: the figures. Upholds: a mark without figures of both sides is not there; it is never taken for held.

use super::args::ArmName;
use super::figures::{Figures, Heat};

/// Covey may lose to the bound at most this part of what the best rival loses.
const LOSS_LEFT_MAX: f64 = 0.2;
/// With one gateway Covey may find this much less cached than the best rival.
const BEHIND_MAX: f64 = 0.005;

/// One thing that is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What, with the numbers.
    pub words: String,
    /// Whether it was reached.
    pub held: bool,
}

/// Judges a race.
#[must_use]
pub fn marks(heats: &[Heat]) -> Vec<Mark> {
    heats.iter().flat_map(of_heat).collect()
}

fn of_heat(heat: &Heat) -> Vec<Mark> {
    let title = heat.title();
    let mut marks = Vec::new();
    let Some(covey) = heat.arm(ArmName::Covey) else { return marks };
    marks
        .push(Mark { words: format!("{title}: {} of Covey's requests failed", covey.errors), held: covey.errors == 0 });
    let best = rivals(heat).filter_map(|rival| Some((rival.arm.name(), rival.followup_cached_share?)));
    if let Some((best, covey)) = best.max_by(|one, other| one.1.total_cmp(&other.1)).zip(covey.followup_cached_share) {
        marks.extend(cached(heat, &title, covey, best));
    }
    for rival in rivals(heat) {
        let Some((own, other)) = covey.added.zip(rival.added) else { continue };
        let words = format!(
            "{title}: Covey adds {:.2} ms to the p99 of the time to the first byte, {} {:.2} ms",
            own.p99_ms,
            rival.arm.name(),
            other.p99_ms
        );
        marks.push(Mark { words, held: own.p99_ms <= other.p99_ms });
    }
    marks
}

/// Those that ran besides Covey.
fn rivals(heat: &Heat) -> impl Iterator<Item = &Figures> {
    heat.arms.iter().filter(|figures| match figures.arm {
        ArmName::Bound | ArmName::Covey => false,
        ArmName::VllmRouter | ArmName::SglangRouter | ArmName::RoundRobin => true,
    })
}

fn cached(heat: &Heat, title: &str, covey: f64, (name, best): (&str, f64)) -> Option<Mark> {
    let percent = |share: f64| share * 100.0;
    let shares = format!(
        "{title}: Covey finds {:.2}% of follow-ups cached, {name} {:.2}%, bound {:.2}%",
        percent(covey),
        percent(best),
        percent(heat.bound)
    );
    if heat.gateways == 1 {
        let words = format!("{shares}; it may find {:.1} points less", percent(BEHIND_MAX));
        return Some(Mark { words, held: covey >= best - BEHIND_MAX });
    }
    let is_judged = heat.workload == super::WorkloadName::Agentic.name();
    let held = heat.bound - covey <= LOSS_LEFT_MAX * (heat.bound - best);
    let words = format!("{shares}; it may lose a fifth of what that loses");
    is_judged.then_some(Mark { words, held })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::bound::Bound;
    use super::super::figures::{Added, Taken};
    use super::*;
    use crate::demo::Quantiles;

    fn figures(arm: ArmName, share: f64, p99_ms: f64) -> Figures {
        Figures {
            arm,
            requests: 100,
            followup_cached_share: Some(share),
            ttft_ms: Some(Quantiles { p50: 50.0, p99: 1_234.0 }),
            lag_ms: Some(Quantiles { p50: 0.5, p99: 2.0 }),
            taken: Some(Taken { cpu_s_per_1000: 1.5, peak_rss_bytes: 50 << 20 }),
            added: Some(Added { p50_ms: 0.4, p99_ms }),
            ..Figures::computed(Bound::default())
        }
    }

    pub(in crate::race) fn heat(gateways: usize, covey: f64, rival: f64) -> Heat {
        let bound = Bound { share: 0.95, ..Bound::default() };
        let arms = vec![
            Figures::computed(bound),
            figures(ArmName::Covey, covey, 1.0),
            figures(ArmName::VllmRouter, rival, 2.0),
            figures(ArmName::RoundRobin, 0.2, 3.0),
        ];
        let (sessions, requests, length_s, busy) = (10, 100, 60.0, 0.5);
        Heat { workload: "agentic", gateways, workers: 6, sessions, requests, length_s, bound: bound.share, busy, arms }
    }

    fn lost(heat: Heat) -> Vec<String> {
        marks(&[heat]).into_iter().filter(|mark| !mark.held).map(|mark| mark.words).collect()
    }

    #[test]
    fn several_gateways_may_lose_a_fifth_of_what_the_best_rival_loses() {
        assert_eq!(lost(heat(3, 0.931, 0.85)), [""; 0]);
        let missed = lost(heat(3, 0.929, 0.85));
        assert!(matches!(&missed[..], [words] if words.contains("92.90%") && words.contains("vllm-router 85.00%")));
    }

    #[test]
    fn one_gateway_may_be_behind_by_half_a_point() {
        assert_eq!(lost(heat(1, 0.846, 0.85)), [""; 0]);
        assert_eq!(lost(heat(1, 0.844, 0.85)).len(), 1);
    }

    #[test]
    fn errors_and_latency_are_marks_of_their_own() {
        let mut broken = heat(3, 0.95, 0.85);
        broken.arms[1].errors = 1;
        assert_eq!(lost(broken).len(), 1);
        let mut slow = heat(3, 0.95, 0.85);
        slow.arms[1].added = Some(Added { p50_ms: 0.1, p99_ms: 2.5 });
        assert!(matches!(&lost(slow)[..], [words] if words.contains("vllm-router 2.00 ms")));
    }

    #[test]
    fn nobody_is_judged_against_who_did_not_run() {
        let mut alone = heat(3, 0.1, 0.85);
        alone.arms.truncate(2);
        let marks = marks(&[alone]);
        assert!(matches!(&marks[..], [mark] if mark.held && mark.words.contains("failed")));
    }
}
