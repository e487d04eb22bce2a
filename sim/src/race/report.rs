//! The end of a race: a table for each workload and number of gateways, the marks, and the same as JSON.
//!
//! Not here: measuring and judging. Upholds: what an arm does not have is a dash and a null, never a zero.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::ArmName;
use super::figures::{Figures, Heat};
use super::marks::Mark;
use crate::demo::Quantiles;

/// Bytes in a mebibyte.
const MIB: f64 = 1_048_576.0;
/// What the columns are.
const HEAD: [&str; 2] = [
    "               follow-ups   to the   first token, ms   CPU s per   RSS,       added, ms                             lag,",
    "                   cached    bound      p50      p99     1000 rqs    MiB     p50     p99   requests  errors   late     ms",
];

/// Everything for people.
#[must_use]
pub fn table(heats: &[Heat], marks: &[Mark]) -> String {
    let mut text = String::new();
    for heat in heats {
        let _ = write!(text, "\n{}\n\n{}\n{}\n", heat.words(), HEAD[0], HEAD[1]);
        for figures in &heat.arms {
            let _ = writeln!(text, "{}", row(figures, heat.bound));
        }
        for (figures, error) in heat.arms.iter().flat_map(|arm| arm.error_samples.iter().map(move |error| (arm, error)))
        {
            let _ = writeln!(text, "{}: {error}", figures.arm.name());
        }
    }
    text.push_str(LEGEND);
    for mark in marks {
        let _ = writeln!(text, "{} {}", if mark.held { "held  " } else { "MISSED" }, mark.words);
    }
    text
}

const LEGEND: &str = "
bound          computed: one cache as large as all workers', that has every earlier prompt and answer
vllm-router    cache-aware; sglang-router likewise; round-robin is vllm-router with that policy
added          to the time to the first byte of small requests, against the same requests straight to a worker
late           requests that had to wait for the answer before them, which they quote; all others were sent when due
lag            how much later than it could this program sent, 99th percentile: how well the machine bore all of it
CPU is of all gateways together, RSS of the largest.

";

/// One arm's line.
pub(super) fn row(figures: &Figures, bound: f64) -> String {
    let number = |value: Option<f64>, decimals: usize| value.map_or_else(dash, |value| format!("{value:.decimals$}"));
    let percent = |share: Option<f64>| share.map_or_else(dash, |share| format!("{:.2}%", share * 100.0));
    let is_run = figures.arm != ArmName::Bound;
    let count = |count: usize| if is_run { count.to_string() } else { dash() };
    format!(
        "{:<13}{:>12}{:>9}{:>9}{:>9}{:>13}{:>7}{:>8}{:>8}{:>11}{:>8}{:>7}{:>7}",
        figures.arm.name(),
        percent(figures.followup_cached_share),
        percent(figures.followup_cached_share.filter(|_| is_run).map(|share| bound - share)),
        number(figures.ttft_ms.map(|of| of.p50), 0),
        number(figures.ttft_ms.map(|of| of.p99), 0),
        number(figures.taken.map(|of| of.cpu_s_per_1000), 2),
        number(figures.taken.map(|of| of.peak_rss_bytes as f64 / MIB), 0),
        number(figures.added.map(|of| of.p50_ms), 2),
        number(figures.added.map(|of| of.p99_ms), 2),
        count(figures.requests),
        count(figures.errors),
        count(figures.late),
        number(figures.lag_ms.map(|of| of.p99), 0),
    )
}

fn dash() -> String {
    "-".to_owned()
}

/// Everything for programs.
#[must_use]
pub fn json(heats: &[Heat], marks: &[Mark]) -> Value {
    json!({
        "heats": heats.iter().map(heat_json).collect::<Vec<_>>(),
        "marks": marks.iter().map(|mark| json!({"words": mark.words, "held": mark.held})).collect::<Vec<_>>(),
    })
}

fn heat_json(heat: &Heat) -> Value {
    json!({
        "workload": heat.workload,
        "gateways": heat.gateways,
        "workers": heat.workers,
        "sessions": heat.sessions,
        "requests": heat.requests,
        "length_s": heat.length_s,
        "bound": heat.bound,
        "busy": heat.busy,
        "arms": heat.arms.iter().map(arm_json).collect::<Vec<_>>(),
    })
}

fn arm_json(figures: &Figures) -> Value {
    let quantiles = |of: Option<Quantiles>| json!({"p50": of.map(|of| of.p50), "p99": of.map(|of| of.p99)});
    let is_run = figures.arm != ArmName::Bound;
    json!({
        "name": figures.arm.name(),
        "requests": is_run.then_some(figures.requests),
        "errors": is_run.then_some(figures.errors),
        "late": is_run.then_some(figures.late),
        "followup_cached_share": figures.followup_cached_share,
        "ttft_ms": quantiles(figures.ttft_ms),
        "client_lag_ms": quantiles(figures.lag_ms),
        "cpu_s_per_1000": figures.taken.map(|of| of.cpu_s_per_1000),
        "peak_rss_bytes": figures.taken.map(|of| of.peak_rss_bytes),
        "added_ms": {"p50": figures.added.map(|of| of.p50_ms), "p99": figures.added.map(|of| of.p99_ms)},
    })
}

#[cfg(test)]
mod tests {
    use super::super::marks::{marks, tests::heat};
    use super::*;

    #[test]
    fn the_table_is_aligned_and_says_what_was_missed() {
        let heats = [heat(3, 0.90, 0.85)];
        let text = table(&heats, &marks(&heats));
        let width = |line: &str| line.chars().count();
        let rows: Vec<_> = text.lines().skip(4).take(5).collect();
        assert!(rows.iter().all(|row| width(row) == width(HEAD[1])), "{text}");
        assert!(rows.iter().all(|row| width(row) <= 121), "{text}");
        assert!(text.lines().all(|line| width(line) <= 150), "{text}");
        assert!(text.contains("MISSED agentic, 3 gateways: Covey finds 90.00%"), "{text}");
        assert!(rows[2].contains("90.00%") && rows[2].contains("5.00%") && rows[2].contains("1234"), "{}", rows[2]);
    }

    #[test]
    fn the_bound_has_no_requests() {
        let json = json(&[heat(1, 0.9, 0.85)], &[]);
        let bound = &json["heats"][0]["arms"][0];
        assert_eq!((bound["name"].as_str(), bound["followup_cached_share"].as_f64()), (Some("bound"), Some(0.95)));
        assert!(bound["requests"].is_null() && bound["added_ms"]["p99"].is_null() && bound["ttft_ms"]["p50"].is_null());
        assert_eq!(json["heats"][0]["arms"][1]["added_ms"]["p99"], 1.0);
    }
}
