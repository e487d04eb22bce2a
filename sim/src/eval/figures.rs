//! What a run came to, and what several seeds come to together: pure arithmetic.
//!
//! Not here: where samples come from (`play`).

use serde::Serialize;

use super::arms::{MeshFigures, Trouble};
use super::fleet::Fleet;

/// Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom; beyond, the normal one.
const T_95: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// One request that was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The gateway it came to.
    pub gateway: usize,
    /// When, in microseconds.
    pub arrived_us: u64,
    /// From its coming to the first byte, in microseconds.
    pub ttft_us: u64,
    /// Its prompt.
    pub input_tokens: u64,
    /// Tokens of it found cached.
    pub hit_tokens: u64,
    /// Tokens of it that one cache for the whole fleet would have had.
    pub bound_tokens: u64,
    /// Tokens of it that its gateway expected to be cached.
    pub predicted_tokens: Option<u64>,
    /// Whether it is not the first of its session.
    pub is_followup: bool,
    /// Whether it was routed without the coverage there is.
    pub is_degraded: bool,
}

/// What one run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Requests answered.
    pub requests: usize,
    /// Prompt tokens found cached, as a share.
    pub hit: f64,
    /// The same share with one cache for the whole fleet: H*.
    pub bound: f64,
    /// Of the prompts of follow-ups alone.
    pub followup_cached_share: f64,
    /// Seconds to the first byte, on average.
    pub ttft_mean_s: f64,
    /// For half of the requests at most.
    pub ttft_p50_s: f64,
    /// For 99 % at most.
    pub ttft_p99_s: f64,
    /// Tokens computed by the busiest worker over the mean.
    pub max_over_mean_work: f64,
    /// Standard deviation of tokens computed over the mean.
    pub work_variation: f64,
    /// Share of predictions that were exact; `None` where nothing is predicted.
    pub predicted_exactly: Option<f64>,
    /// 95 % of predictions are off by at most so many tokens.
    pub prediction_error_p95: Option<u64>,
    /// Requests routed without the coverage there is.
    pub degraded: usize,
    /// What the mesh cost.
    pub mesh: Option<MeshFigures>,
    /// How requests fared while a gateway was in trouble.
    pub troubled: Option<Troubled>,
}

/// Follow-ups that came between a trouble's beginning and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Troubled {
    /// Cached share of their prompts at the gateway that was in trouble.
    pub there: f64,
    /// The same of those that came to it within the first two seconds; `None` when none did.
    pub there_at_first: Option<f64>,
    /// The same at the others.
    pub elsewhere: f64,
}

/// What counts as the beginning of a trouble, in microseconds.
const AT_FIRST_US: u64 = 2_000_000;

impl Troubled {
    /// Of these requests; the first gateway is the one in trouble.
    #[must_use]
    pub fn new(samples: &[Sample], trouble: &Trouble) -> Self {
        let (from_us, to_us) = (trouble.from_us, trouble.to_us);
        let of = |to_us: u64, is_there: bool| {
            let during = |sample: &&Sample| {
                sample.is_followup && (from_us..to_us).contains(&sample.arrived_us) && (sample.gateway == 0) == is_there
            };
            let sum = |of: fn(&Sample) -> u64| samples.iter().filter(during).map(of).sum::<u64>();
            (sum(|sample| sample.hit_tokens), sum(|sample| sample.input_tokens))
        };
        let at_first = of(from_us + AT_FIRST_US, true);
        let share_of = |(part, whole)| share(part, whole);
        Self {
            there: share_of(of(to_us, true)),
            there_at_first: (at_first.1 > 0).then(|| share_of(at_first)),
            elsewhere: share_of(of(to_us, false)),
        }
    }
}

impl Figures {
    /// The figures of these requests.
    #[must_use]
    pub fn new(samples: &[Sample], fleet: &Fleet, mesh: Option<MeshFigures>) -> Self {
        let sum = |of: &dyn Fn(&Sample) -> u64| samples.iter().map(of).sum::<u64>();
        let input = sum(&|sample| sample.input_tokens);
        let followups =
            |of: fn(&Sample) -> u64| samples.iter().filter(|sample| sample.is_followup).map(of).sum::<u64>();
        let mut ttfts: Vec<_> = samples.iter().map(|sample| sample.ttft_us).collect();
        ttfts.sort_unstable();
        let mut errors: Vec<_> =
            samples.iter().filter_map(|sample| Some(sample.predicted_tokens?.abs_diff(sample.hit_tokens))).collect();
        errors.sort_unstable();
        let exact = errors.partition_point(|error| *error == 0);
        let seconds = |us: Option<u64>| us.unwrap_or(0) as f64 / 1e6;
        Self {
            requests: samples.len(),
            hit: share(sum(&|sample| sample.hit_tokens), input),
            bound: share(sum(&|sample| sample.bound_tokens), input),
            followup_cached_share: share(
                followups(|sample| sample.hit_tokens),
                followups(|sample| sample.input_tokens),
            ),
            ttft_mean_s: sum(&|sample| sample.ttft_us) as f64 / samples.len().max(1) as f64 / 1e6,
            ttft_p50_s: seconds(rank(&ttfts, 50)),
            ttft_p99_s: seconds(rank(&ttfts, 99)),
            max_over_mean_work: fleet.max_over_mean_work(),
            work_variation: fleet.work_variation(),
            predicted_exactly: (!errors.is_empty()).then(|| share(exact as u64, errors.len() as u64)),
            prediction_error_p95: rank(&errors, 95),
            degraded: samples.iter().filter(|sample| sample.is_degraded).count(),
            mesh,
            troubled: None,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The nearest rank of a sorted list.
fn rank(sorted: &[u64], percent: usize) -> Option<u64> {
    sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied()
}

/// A mean of several runs and how far it may be off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval (Student's t); 0 for one run.
    pub half: f64,
}

impl Interval {
    /// Of these values.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        if values.len() < 2 {
            return Self { mean, half: 0.0 };
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let t = T_95.get(values.len() - 2).copied().unwrap_or(1.96);
        Self { mean, half: t * (variance / count).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fleet::FleetConfig;
    use super::*;

    #[test]
    fn shares_ranks_and_errors_are_of_all_samples() {
        let sample = |ttft_us, hit_tokens, predicted_tokens, is_followup| Sample {
            ttft_us,
            gateway: 0,
            arrived_us: 0,
            input_tokens: 100,
            hit_tokens,
            bound_tokens: 80,
            predicted_tokens,
            is_followup,
            is_degraded: false,
        };
        let samples = [sample(1_000_000, 0, Some(10), false), sample(3_000_000, 50, Some(50), true)];
        let config = FleetConfig { workers: 1, cache_tokens: 10, prefill_tokens_per_s: 1, block_tokens: 1 };
        let figures = Figures::new(&samples, &Fleet::new(config), None);
        assert_eq!((figures.hit, figures.bound, figures.followup_cached_share), (0.25, 0.8, 0.5));
        assert_eq!((figures.ttft_mean_s, figures.ttft_p50_s, figures.ttft_p99_s), (2.0, 1.0, 3.0));
        assert_eq!((figures.predicted_exactly, figures.prediction_error_p95), (Some(0.5), Some(10)));
    }

    #[test]
    fn an_interval_of_five_runs_uses_four_degrees_of_freedom() {
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((interval.mean - 3.0).abs() < 1e-9 && (interval.half - 2.776 * 0.5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(Interval::of(&[2.0]), Interval { mean: 2.0, half: 0.0 });
    }
}
