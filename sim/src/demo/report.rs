//! The end of a demo: a table for people, the same figures as JSON, and a verdict.
//!
//! Not here: measuring. Upholds: what an arm does not have is a dash and a null, never a zero.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::chaos::ChaosFigures;
use super::measure::{ArmFigures, Quantiles, Sample};
use super::replay::{Kept, Replay};

/// The mesh may leave at most this part of the loss that gateways without it have.
const LOSS_LEFT_MAX: f64 = 0.2;

/// Everything that a demo measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// One entry an arm, in the order in which they ran.
    pub arms: Vec<ArmFigures>,
    /// What the broken gateway cost, when one was broken.
    pub chaos: Option<ChaosFigures>,
    /// What was played, when it was a trace.
    pub replay: Option<Replay>,
}

/// Whether the demo showed what it has to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Every request of every arm got its right answer.
    pub no_errors: bool,
    /// In every arm all replicas were clean, and in the mesh equal, at the end.
    pub converged: bool,
    /// Part of the loss without mesh that the mesh recovered; `None` unless `bound`, `mesh` and `off` ran and differ.
    pub recovered: Option<f64>,
    /// Whether that is enough; also true when it could not be judged.
    pub recovered_enough: bool,
    /// What the mesh kept of what one gateway finds; `None` unless a trace was played.
    pub kept: Option<Kept>,
    /// Whether the broken gateway cost no more than it may; also true when none was broken.
    pub chaos: bool,
}

impl Verdict {
    /// Whether nothing is amiss.
    #[must_use]
    pub fn passed(self) -> bool {
        let kept_enough = self.kept.is_none_or(|kept| kept.is_enough);
        self.no_errors && self.converged && self.recovered_enough && kept_enough && self.chaos
    }
}

impl Report {
    /// Judges the figures.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let shares = ["bound", "mesh", "off"].map(|name| self.followup_share(name));
        let (recovered, recovered_enough) = match shares {
            [Some(bound), Some(mesh), Some(off)] => {
                let recovered = (bound > off).then(|| (mesh - off) / (bound - off));
                (recovered, bound - mesh <= LOSS_LEFT_MAX * (bound - off))
            }
            _ => (None, true),
        };
        Verdict {
            no_errors: self.arms.iter().all(|arm| arm.errors == 0),
            converged: self.arms.iter().all(|arm| arm.clean),
            recovered,
            recovered_enough,
            kept: self.replay.as_ref().map(|_| self.kept()),
            chaos: self.chaos.as_ref().is_none_or(ChaosFigures::passed),
        }
    }

    fn followup_share(&self, name: &str) -> Option<f64> {
        self.arms.iter().find(|arm| arm.name == name)?.followup_cached_share
    }

    fn kept(&self) -> Kept {
        let share = |name: &str| self.arms.iter().find(|arm| arm.name == name)?.cached_share;
        Kept::of(share("bound"), share("mesh"))
    }

    /// The figures for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut json = json!({ "arms": self.arms.iter().map(arm_json).collect::<Vec<_>>() });
        if let Some(chaos) = &self.chaos {
            json["chaos"] = chaos.json();
        }
        if let Some(replay) = &self.replay {
            json["trace"] = replay.json(self.kept());
        }
        json
    }

    /// The figures for people.
    #[must_use]
    pub fn table(&self) -> String {
        let lines = self.lines();
        let label_width = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
        let cells = lines.iter().flat_map(|line| &line.cells);
        let cell_width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        let mut text = String::from("\n");
        if let Some(replay) = &self.replay {
            let _ = writeln!(text, "{}\n", replay.words());
        }
        for line in &lines {
            let cells: String = line.cells.iter().map(|cell| format!("  {cell:>cell_width$}")).collect();
            let _ = writeln!(text, "{:<label_width$}{cells}", line.label);
        }
        text.push_str(LEGEND);
        self.push_verdict(&mut text);
        text
    }

    fn lines(&self) -> Vec<Line> {
        type Cell = fn(&ArmFigures) -> String;
        let rows: [(&'static str, Cell); 17] = [
            ("", |arm| arm.name.to_owned()),
            ("gateways", |arm| arm.gateways.to_string()),
            ("requests", |arm| arm.requests.to_string()),
            ("errors", |arm| arm.errors.to_string()),
            ("seconds it took", |arm| format!("{:.0}", arm.wall.as_secs_f64())),
            ("prompt tokens found cached", |arm| percent(arm.cached_share)),
            ("  in turns after a session's first", |arm| percent(arm.followup_cached_share)),
            ("time to first token, ms, median", |arm| number(arm.ttft_ms.map(|of| of.p50), 0)),
            ("  99th percentile", |arm| number(arm.ttft_ms.map(|of| of.p99), 0)),
            ("work of busiest worker over mean", |arm| number(arm.work_max_over_mean, 2)),
            ("CPU time of a lookup, µs, median", |arm| number(arm.lookup_cpu_us.map(|of| of.p50), 0)),
            ("  99th percentile", |arm| number(arm.lookup_cpu_us.map(|of| of.p99), 0)),
            ("propagation between gateways, ms, median", |arm| number(arm.propagation_ms.map(|of| of.p50), 1)),
            ("  99th percentile", |arm| number(arm.propagation_ms.map(|of| of.p99), 1)),
            ("QUIC round trip, ms, median", |arm| number(arm.quic_rtt_ms.map(|of| of.p50), 1)),
            ("  99th percentile", |arm| number(arm.quic_rtt_ms.map(|of| of.p99), 1)),
            ("holders that differ in the end", |arm| arm.diverged_holders.map_or_else(dash, |of| of.to_string())),
        ];
        rows.map(|(label, cell)| Line { label, cells: self.arms.iter().map(cell).collect() }).into()
    }

    fn push_verdict(&self, text: &mut String) {
        let verdict = self.verdict();
        for arm in &self.arms {
            for error in &arm.error_samples {
                let _ = writeln!(text, "{}: {error}", arm.name);
            }
        }
        if let Some(chaos) = &self.chaos {
            text.push_str(&chaos.words());
        }
        for (good, words) in [
            (verdict.no_errors, "some requests failed"),
            (verdict.converged, "some replicas were not clean and equal at the end"),
            (verdict.recovered_enough, "the mesh left more than a fifth of the loss"),
        ] {
            if !good {
                let _ = writeln!(text, "FAILED: {words}.");
            }
        }
        if let Some(chaos) = self.chaos.as_ref().filter(|chaos| !chaos.passed()) {
            let _ = writeln!(text, "FAILED: {}.", chaos.complaint());
        }
        if let Some(kept) = verdict.kept {
            kept.push_words(text);
        }
        if let Some(recovered) = verdict.recovered {
            let part = if recovered < 1.0 { percent(Some(recovered)) } else { "all (100%)".to_owned() };
            let _ = writeln!(
                text,
                "The mesh recovered {part} of the cached follow-up tokens that gateways lose when they do not share what \
                 they know."
            );
        }
    }
}

const LEGEND: &str = "
bound   one gateway sees every request: the most that routing by knowledge can reach
mesh    several gateways that gossip, each request to any of them
off     the same gateways without gossip
sticky  without gossip, but each session always at the same gateway
A lookup is hashing, index and policy. Propagation is the time from a placement's stamp to its being
applied at another gateway, beside the round trip of the connections that carry it.

";

/// One line of the table: what it shows, and one cell an arm.
struct Line {
    label: &'static str,
    cells: Vec<String>,
}

fn dash() -> String {
    "-".to_owned()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(dash, |share| format!("{:.1}%", share * 100.0))
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(dash, |value| format!("{value:.decimals$}"))
}

fn arm_json(arm: &ArmFigures) -> Value {
    let quantiles = |of: Option<Quantiles>| json!({"p50": of.map(|of| of.p50), "p99": of.map(|of| of.p99)});
    json!({
        "name": arm.name,
        "gateways": arm.gateways,
        "requests": arm.requests,
        "errors": arm.errors,
        "cached_share": arm.cached_share,
        "followup_cached_share": arm.followup_cached_share,
        "ttft_ms": quantiles(arm.ttft_ms),
        "work_max_over_mean": arm.work_max_over_mean,
        "lookup_cpu_us": quantiles(arm.lookup_cpu_us),
        "propagation_ms": quantiles(arm.propagation_ms),
        "quic_rtt_ms": quantiles(arm.quic_rtt_ms),
        "diverged_holders": arm.diverged_holders,
        "clean": arm.clean,
    })
}

/// One request for programs, on one line.
pub(super) fn sample_line(arm: &str, sample: &Sample) -> String {
    let reply = &sample.reply;
    let line = json!({
        "arm": arm,
        "session": sample.session,
        "turn": sample.turn,
        "gateway": sample.gateway,
        "at_ms": sample.at.as_secs_f64() * 1_000.0,
        "ttft_ms": reply.ttft.as_secs_f64() * 1_000.0,
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "predicted_tokens": reply.predicted_tokens,
        "worker": reply.worker,
        "outcome": reply.outcome,
        "lookup_us": reply.lookup_us,
    });
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn arm(name: &'static str, followups: f64) -> ArmFigures {
        ArmFigures {
            name,
            gateways: 8,
            requests: 10,
            errors: 0,
            error_samples: vec![],
            wall: Duration::from_secs(1),
            cached_share: Some(0.5),
            followup_cached_share: Some(followups),
            ttft_ms: Some(Quantiles { p50: 10.0, p99: 90.5 }),
            work_max_over_mean: Some(1.25),
            lookup_cpu_us: None,
            propagation_ms: None,
            quic_rtt_ms: None,
            diverged_holders: None,
            clean: true,
        }
    }

    fn report(bound: f64, mesh: f64, off: f64) -> Report {
        Report { arms: vec![arm("bound", bound), arm("mesh", mesh), arm("off", off)], ..Report::default() }
    }

    #[test]
    fn the_mesh_may_leave_a_fifth_of_the_loss_and_no_more() {
        let good = report(0.9, 0.81, 0.4).verdict();
        assert!(good.passed() && (good.recovered.expect("judged") - 0.82).abs() < 1e-9);
        assert!(!report(0.9, 0.79, 0.4).verdict().passed());
        assert!(report(0.9, 0.95, 0.4).verdict().passed(), "better than the bound is no fault");
        assert!(!report(0.9, 0.89, 0.95).verdict().passed(), "no loss to recover, and the mesh is worse than both");
    }

    #[test]
    fn errors_and_differing_replicas_fail_the_demo() {
        for change in [|arm: &mut ArmFigures| arm.errors = 1, |arm: &mut ArmFigures| arm.clean = false] {
            let mut report = report(0.9, 0.89, 0.4);
            change(&mut report.arms[2]);
            assert!(!report.verdict().passed());
        }
    }

    #[test]
    fn an_arm_alone_is_not_judged_by_what_did_not_run() {
        let report = Report { arms: vec![arm("mesh", 0.1)], ..Report::default() };
        assert_eq!(report.verdict().recovered, None);
        assert!(report.verdict().passed());
    }

    #[test]
    fn a_trace_is_judged_by_what_the_mesh_kept_of_all_cached_tokens() {
        let replay = |skipped| Replay { trace: "t.jsonl".into(), requests: 9, sessions: 2, skipped, answers_cut: 1 };
        let played = |mesh: f64| {
            let mut report = Report { replay: Some(replay(3)), ..report(0.9, 0.9, 0.4) };
            report.arms[1].cached_share = Some(mesh);
            report
        };
        let (good, bad) = (played(0.495), played(0.485));
        assert!(good.verdict().passed() && !bad.verdict().passed());
        assert!(good.table().contains("t.jsonl: 9 requests of 2 sessions"), "{}", good.table());
        assert!(good.table().contains("3 with an empty prompt skipped"), "{}", good.table());
        assert!(good.table().contains("found 99.0% of the cached tokens"), "{}", good.table());
        assert!(bad.table().contains("FAILED: The mesh found 97.0%"), "{}", bad.table());
        let json = bad.json();
        assert_eq!((json["trace"]["passed"].as_bool(), json["trace"]["sessions"].as_u64()), (Some(false), Some(2)));
        assert!((json["trace"]["kept"].as_f64().expect("judged") - 0.97).abs() < 1e-9);
        assert!(report(0.9, 0.9, 0.4).verdict().kept.is_none(), "no trace, no such mark");
    }

    #[test]
    fn json_has_every_key_and_null_for_what_is_not_there() {
        let json = report(0.9, 0.85, 0.4).json();
        let keys: Vec<_> = json["arms"][0].as_object().expect("an object").keys().cloned().collect();
        assert_eq!(
            keys,
            [
                "name",
                "gateways",
                "requests",
                "errors",
                "cached_share",
                "followup_cached_share",
                "ttft_ms",
                "work_max_over_mean",
                "lookup_cpu_us",
                "propagation_ms",
                "quic_rtt_ms",
                "diverged_holders",
                "clean"
            ]
        );
        assert_eq!(json["arms"][0]["ttft_ms"], json!({"p50": 10.0, "p99": 90.5}));
        assert_eq!(json["arms"][0]["quic_rtt_ms"], json!({"p50": null, "p99": null}));
        assert!(json["arms"][0]["diverged_holders"].is_null() && json.get("chaos").is_none());
    }

    #[test]
    fn the_table_is_aligned_fits_a_terminal_and_names_its_units() {
        let table = report(0.9, 0.85, 0.4).table();
        let lines: Vec<_> = table.lines().skip(1).take(17).map(|line| line.chars().count()).collect();
        assert!(lines.iter().all(|&length| length == lines[0] && length <= 80), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
        assert!(table.contains("recovered 90.0% of the cached"), "{table}");
    }
}
