//! What the arms came to, as a table and as JSON.
//!
//! Not here: running them (`run`).

use serde_json::{Value, json};

use super::arms::Arm;
use super::figures::{Figures, Interval};

/// The runs of one arm, one a seed, in the order of the seeds.
#[derive(Clone, Debug)]
pub(super) struct ArmRuns {
    /// Which.
    pub(super) arm: Arm,
    /// What it is called in the table.
    pub(super) name: String,
    /// Its runs.
    pub(super) runs: Vec<Figures>,
}

impl ArmRuns {
    /// A figure over the seeds.
    pub(super) fn over(&self, of: impl Fn(&Figures) -> f64) -> Interval {
        Interval::of(&self.runs.iter().map(of).collect::<Vec<_>>())
    }

    /// A figure over the same seed's figure of another arm.
    pub(super) fn ratio(&self, to: &Self, of: impl Fn(&Figures) -> f64) -> Interval {
        let ratios = self.runs.iter().zip(&to.runs).map(|(own, theirs)| of(own) / of(theirs));
        Interval::of(&ratios.filter(|ratio| ratio.is_finite()).collect::<Vec<_>>())
    }

    fn mesh(&self, of: impl Fn(&super::MeshFigures) -> f64) -> Option<f64> {
        let values: Vec<_> = self.runs.iter().filter_map(|run| run.mesh.as_ref()).map(of).collect();
        (!values.is_empty()).then(|| Interval::of(&values).mean)
    }
}

/// All arms on one workload.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// The workload.
    pub(super) trace: String,
    /// Workers.
    pub(super) workers: u32,
    /// Gateways.
    pub(super) gateways: u32,
    /// The arms, in the order in which they were asked for.
    pub(super) arms: Vec<ArmRuns>,
}

const HEAD: &str = "arm               hit             hit/H*  ttft mean s     p50 s   p99 s  /exact-p2c      max/mean  \
    follow-up  exact%  p95err  degraded  diverged  KiB/s/gw  p99 ms\n";

impl Comparison {
    /// The arm everything is compared with, if it ran.
    pub(super) fn exact(&self) -> Option<&ArmRuns> {
        self.arms.iter().find(|runs| runs.arm == Arm::ExactP2c)
    }

    /// The table.
    pub(super) fn table(&self) -> String {
        let bound = self.arms.first().map_or(0.0, |runs| runs.over(|run| run.bound).mean);
        let requests = self.arms.first().and_then(|runs| runs.runs.first()).map_or(0, |run| run.requests);
        let seeds = self.arms.first().map_or(0, |runs| runs.runs.len());
        let title = format!(
            "{}: {requests} requests, {} workers, {} gateways, {seeds} seeds; H* (one cache for all) {bound:.4}\n",
            self.trace, self.workers, self.gateways
        );
        std::iter::once(title).chain([HEAD.to_owned()]).chain(self.arms.iter().map(|runs| self.line(runs))).collect()
    }

    fn line(&self, runs: &ArmRuns) -> String {
        let with_half = |interval: Interval| format!("{:.4}±{:.4}", interval.mean, interval.half);
        let over = self.exact().map_or_else(String::new, |exact| {
            let ratio = runs.ratio(exact, |run| run.ttft_mean_s);
            format!("{:.3}±{:.3}", ratio.mean, ratio.half)
        });
        let mean = |of: fn(&Figures) -> f64| runs.over(of).mean;
        let or_dash = |value: Option<f64>, digits: usize| value.map_or("-".into(), |value| format!("{value:.digits$}"));
        let exact = runs.runs.iter().map(|run| run.predicted_exactly).sum::<Option<f64>>();
        let error = runs.runs.iter().map(|run| run.prediction_error_p95).max().flatten();
        format!(
            "{:<17} {:<15} {:>6.4}  {:<15} {:>5.2} {:>7.2}  {:<14} {:>9.3} {:>10.4} {:>7} {:>7} {:>9.0} {:>9} {:>9} {:>7}\n",
            runs.name,
            with_half(runs.over(|run| run.hit)),
            mean(|run| run.hit / run.bound),
            with_half(runs.over(|run| run.ttft_mean_s)),
            mean(|run| run.ttft_p50_s),
            mean(|run| run.ttft_p99_s),
            over,
            mean(|run| run.max_over_mean_work),
            mean(|run| run.followup_cached_share),
            or_dash(exact.map(|sum| 100.0 * sum / runs.runs.len() as f64), 1),
            error.map_or("-".into(), |error| error.to_string()),
            mean(|run| run.degraded as f64),
            or_dash(runs.mesh(|mesh| mesh.diverged_holders as f64), 0),
            or_dash(runs.mesh(|mesh| mesh.bytes_per_gateway_per_s / 1_024.0), 1),
            or_dash(runs.mesh(|mesh| mesh.propagation_p99_ms as f64), 0),
        )
    }

    /// The figures for programs.
    pub(super) fn json(&self) -> Value {
        let arms: Vec<_> = self.arms.iter().map(|runs| self.arm_json(runs)).collect();
        json!({"trace": self.trace, "workers": self.workers, "gateways": self.gateways, "arms": arms})
    }

    fn arm_json(&self, runs: &ArmRuns) -> Value {
        let hit = runs.over(|run| run.hit);
        let mean = |of: fn(&Figures) -> f64| runs.over(of).mean;
        let ttft = runs.over(|run| run.ttft_mean_s);
        let over = self.exact().map(|exact| runs.ratio(exact, |run| run.ttft_mean_s));
        json!({
            "name": runs.name,
            "seeds": runs.runs.len(),
            "requests": runs.runs.first().map_or(0, |run| run.requests),
            "hit": hit.mean,
            "hit_ci": [hit.mean - hit.half, hit.mean + hit.half],
            "hstar": mean(|run| run.bound),
            "hit_over_hstar": mean(|run| run.hit / run.bound),
            "ttft_mean_s": ttft.mean,
            "ttft_mean_ci": [ttft.mean - ttft.half, ttft.mean + ttft.half],
            "ttft_p50_s": mean(|run| run.ttft_p50_s),
            "ttft_p99_s": mean(|run| run.ttft_p99_s),
            "ttft_over_exact": over.map(|over| over.mean),
            "ttft_over_exact_ci": over.map(|over| [over.mean - over.half, over.mean + over.half]),
            "max_over_mean_work": mean(|run| run.max_over_mean_work),
            "work_variation": mean(|run| run.work_variation),
            "followup_cached_share": mean(|run| run.followup_cached_share),
            "predicted_exactly": runs.runs.iter().map(|run| run.predicted_exactly).sum::<Option<f64>>()
                .map(|sum| sum / runs.runs.len() as f64),
            "prediction_error_p95_tokens": runs.runs.iter().map(|run| run.prediction_error_p95).max().flatten(),
            "degraded": runs.runs.iter().map(|run| run.degraded).sum::<usize>(),
            "diverged_holders": runs.mesh(|mesh| mesh.diverged_holders as f64),
            "bytes_per_gateway_per_s": runs.mesh(|mesh| mesh.bytes_per_gateway_per_s),
            "frames_per_gateway_per_s": runs.mesh(|mesh| mesh.frames_per_gateway_per_s),
            "propagation_p50_ms": runs.mesh(|mesh| mesh.propagation_p50_ms as f64),
            "propagation_p99_ms": runs.mesh(|mesh| mesh.propagation_p99_ms as f64),
            "blocks_per_gateway": runs.mesh(|mesh| mesh.blocks as f64),
            "log_bytes_per_gateway": runs.mesh(|mesh| mesh.log_bytes as f64),
        })
    }
}
