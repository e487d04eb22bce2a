//! From what came of requests to figures: pure arithmetic.
//!
//! Not here: how they are shown (`report`) and judged (`marks`). Upholds: what an arm does not have is `None`, never 0.

use super::args::{ArmName, RaceArgs};
use super::bound::Bound;
use super::drive::Driven;
use super::schedule::Schedule;
use crate::demo::{Quantiles, quantiles, share};

/// Errors quoted in the report.
const ERRORS_QUOTED: usize = 3;

/// What gateways took of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// CPU time of all gateways for a thousand requests, in seconds.
    pub cpu_s_per_1000: f64,
    /// Most memory of one gateway that was resident at a time, in bytes.
    pub peak_rss_bytes: u64,
}

/// What a gateway adds to the time to the first byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Added {
    /// To the median, in milliseconds.
    pub p50_ms: f64,
    /// To the 99th percentile, in milliseconds.
    pub p99_ms: f64,
}

/// One arm's line.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Whose.
    pub arm: ArmName,
    /// Requests sent.
    pub requests: usize,
    /// Requests without the right answer.
    pub errors: usize,
    /// The first errors, in words.
    pub error_samples: Vec<String>,
    /// Cached share of the prompt tokens of turns after the first, as engines report it.
    pub followup_cached_share: Option<f64>,
    /// From sending to the first token, milliseconds.
    pub ttft_ms: Option<Quantiles>,
    /// Requests that had to wait for the answer before them.
    pub late: usize,
    /// How much later than it could the client sent, milliseconds.
    pub lag_ms: Option<Quantiles>,
    /// What gateways took.
    pub taken: Option<Taken>,
    /// What one of them adds.
    pub added: Option<Added>,
}

impl Figures {
    /// The bound's line.
    #[must_use]
    pub const fn computed(bound: Bound) -> Self {
        Self {
            arm: ArmName::Bound,
            requests: 0,
            errors: 0,
            error_samples: Vec::new(),
            followup_cached_share: Some(bound.share),
            ttft_ms: None,
            late: 0,
            lag_ms: None,
            taken: None,
            added: None,
        }
    }

    /// An arm's line.
    pub(super) fn measured(arm: ArmName, driven: &Driven, taken: Taken, added: Option<Added>) -> Self {
        let samples = &driven.samples;
        Self {
            arm,
            requests: samples.len() + driven.failures.len(),
            errors: driven.failures.len(),
            error_samples: driven.failures.iter().take(ERRORS_QUOTED).cloned().collect(),
            followup_cached_share: share(samples.iter().filter(|sample| sample.follow_up())),
            ttft_ms: quantiles(samples.iter().map(|sample| sample.reply.ttft.as_secs_f64() * 1_000.0).collect()),
            late: driven.late,
            lag_ms: quantiles(driven.lag_ms.clone()),
            taken: Some(taken),
            added,
        }
    }
}

/// One workload with one number of gateways.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// The workload's name.
    pub workload: &'static str,
    /// Gateways of every arm.
    pub gateways: usize,
    /// Workers of every arm.
    pub workers: usize,
    /// Sessions of every arm.
    pub sessions: usize,
    /// Requests of every arm.
    pub requests: usize,
    /// When the last one is due, in seconds.
    pub length_s: f64,
    /// The bound on the follow-ups' cached share.
    pub bound: f64,
    /// Share of their time that workers would compute prompts if they hit as the bound does and sessions went on coming.
    pub busy: f64,
    /// In the order in which they ran.
    pub arms: Vec<Figures>,
}

impl Heat {
    pub(super) fn new(args: &RaceArgs, schedule: &Schedule, bound: Bound) -> Self {
        let a_session = bound.computed_tokens as f64 / schedule.sessions.len().max(1) as f64;
        let capacity_s = args.workers as f64 * f64::from(args.prefill_tokens_per_s);
        Self {
            workload: schedule.workload.name(),
            gateways: schedule.gateways,
            workers: args.workers,
            sessions: schedule.sessions.len(),
            requests: schedule.requests(),
            length_s: schedule.length().as_secs_f64(),
            bound: bound.share,
            busy: a_session * args.rate_of(schedule.workload) / capacity_s,
            arms: Vec::new(),
        }
    }

    /// An arm's line; `None` when it did not run.
    #[must_use]
    pub fn arm(&self, name: ArmName) -> Option<&Figures> {
        self.arms.iter().find(|figures| figures.arm == name)
    }

    /// Its name, for people.
    #[must_use]
    pub fn title(&self) -> String {
        let s = if self.gateways == 1 { "" } else { "s" };
        format!("{}, {} gateway{s}", self.workload, self.gateways)
    }

    /// What is played, for people.
    #[must_use]
    pub fn words(&self) -> String {
        format!(
            "{}: {} sessions, {} requests in {:.0} s; {} workers, busy with prompts {:.0}% of the time at best",
            self.title(),
            self.sessions,
            self.requests,
            self.length_s,
            self.workers,
            self.busy * 100.0
        )
    }
}
