//! From samples to figures: pure arithmetic.
//!
//! Not here: where the numbers come from (`drive`, `probe`) and how they are shown (`report`).

use std::time::Duration;

use crate::client::Reply;

/// One request that was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Which session.
    pub session: usize,
    /// Which turn of it; 0 is the first.
    pub turn: usize,
    /// Which gateway answered.
    pub gateway: usize,
    /// When it was sent, since the arm began.
    pub at: Duration,
    /// The answer.
    pub reply: Reply,
}

impl Sample {
    /// Whether an earlier turn of the session could have been cached.
    #[must_use]
    pub const fn follow_up(&self) -> bool {
        self.turn > 0
    }
}

/// The middle and the tail of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// Half of the values are at most this.
    pub p50: f64,
    /// 99 % of them are at most this.
    pub p99: f64,
}

/// Nearest-rank quantiles; `None` of nothing.
#[must_use]
pub fn quantiles(mut values: Vec<f64>) -> Option<Quantiles> {
    values.sort_by(f64::total_cmp);
    let rank = |percent: usize| values.get((values.len() * percent).div_ceil(100).max(1) - 1).copied();
    Some(Quantiles { p50: rank(50)?, p99: rank(99)? })
}

/// Cached tokens over prompt tokens; `None` without prompts.
#[must_use]
pub fn share<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    let (cached, prompt) = samples.fold((0, 0), |(cached, prompt), sample| {
        (cached + sample.reply.cached_tokens, prompt + sample.reply.prompt_tokens)
    });
    (prompt > 0).then(|| cached as f64 / prompt as f64)
}

/// The largest value over the mean; `None` when nothing was done at all.
#[must_use]
pub(super) fn max_over_mean(work: &[f64]) -> Option<f64> {
    let sum: f64 = work.iter().sum();
    (sum > 0.0).then(|| work.iter().copied().fold(0.0, f64::max) * work.len() as f64 / sum)
}

/// One line of the table. What an arm cannot have is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmFigures {
    /// The arm's name.
    pub name: &'static str,
    /// Gateways in it.
    pub gateways: usize,
    /// Requests sent, not counting those that were sent again.
    pub requests: usize,
    /// Requests without a right answer.
    pub errors: usize,
    /// The first errors, in words.
    pub error_samples: Vec<String>,
    /// How long it took.
    pub wall: Duration,
    /// Cached share of all prompt tokens.
    pub cached_share: Option<f64>,
    /// Cached share of the prompt tokens of turns after the first.
    pub followup_cached_share: Option<f64>,
    /// Time to the first token, milliseconds.
    pub ttft_ms: Option<Quantiles>,
    /// Prefilled tokens of the busiest worker over the mean.
    pub work_max_over_mean: Option<f64>,
    /// Thread CPU time of a lookup, microseconds.
    pub lookup_cpu_us: Option<Quantiles>,
    /// From a placement's stamp to its being applied at another gateway, milliseconds.
    pub propagation_ms: Option<Quantiles>,
    /// Round trip of the mesh's connections, milliseconds.
    pub quic_rtt_ms: Option<Quantiles>,
    /// Holders that differ between gateways at the end; 0 when all have one digest.
    pub diverged_holders: Option<u64>,
    /// Whether every gateway's replica describes its vector exactly at the end, and, in a mesh, all have one digest.
    pub clean: bool,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::demo) fn sample(turn: usize, gateway: usize, cached: u64, prompt: u64) -> Sample {
        let reply = Reply {
            ttft: Duration::from_millis(5),
            prompt_tokens: prompt,
            cached_tokens: cached,
            worker: None,
            outcome: None,
            predicted_tokens: None,
            lookup_us: None,
        };
        Sample { session: 0, turn, gateway, at: Duration::ZERO, reply }
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        assert_eq!(quantiles(vec![]), None);
        assert_eq!(quantiles(vec![3.0]), Some(Quantiles { p50: 3.0, p99: 3.0 }));
        let hundred = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantiles(hundred), Some(Quantiles { p50: 50.0, p99: 99.0 }));
        assert_eq!(quantiles(vec![1.0, 2.0]), Some(Quantiles { p50: 1.0, p99: 2.0 }));
    }

    #[test]
    fn a_share_weighs_by_tokens_not_by_requests() {
        let samples = [sample(1, 0, 90, 100), sample(2, 0, 0, 900)];
        assert_eq!(share(samples.iter()), Some(0.09));
        assert_eq!(share([].iter()), None);
    }

    #[test]
    fn equal_work_is_one_and_all_on_one_is_the_number_of_workers() {
        assert_eq!(max_over_mean(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(max_over_mean(&[9.0, 0.0, 0.0]), Some(3.0));
        assert_eq!(max_over_mean(&[0.0, 0.0]), None);
    }
}
