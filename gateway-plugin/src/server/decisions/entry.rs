//! One decision as it is kept: what was known when it was made, and what became known since. The latter is written once each,
//! by the one request it is about.
//!
//! Not here: what others get to see of it (`shown`).

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use covey_crdt::id::WorkerId;

use super::super::fault::Fault;
use super::super::gateway::unix_ms;
use super::super::request_id::RequestId;
use super::shown::{AnswerShown, CandidateShown, DecisionShown, ViewShown};
use crate::index::Version;
use crate::plugin::{Outcome, RunnerUp};
use crate::policy::{Policy, Reason};

/// What was known when a worker was chosen.
#[derive(Debug)]
pub(in crate::server) struct Decided {
    pub(in crate::server) request_id: RequestId,
    /// Counts the workers tried for the request, from 1.
    pub(in crate::server) attempt: usize,
    /// Tokens, or bytes counted as tokens.
    pub(in crate::server) by_tokens: bool,
    pub(in crate::server) policy: Policy,
    pub(in crate::server) reason: Reason,
    pub(in crate::server) outcome: Outcome,
    pub(in crate::server) worker: WorkerId,
    pub(in crate::server) prompt_tokens: u64,
    pub(in crate::server) predicted_tokens: u64,
    pub(in crate::server) queued_tokens: u64,
    pub(in crate::server) score: u64,
    pub(in crate::server) runners_up: Vec<RunnerUp>,
    pub(in crate::server) version: Version,
    pub(in crate::server) view_age: Duration,
    /// Thread CPU time of hash, lookup and policy, microseconds.
    pub(in crate::server) lookup_us: u64,
}

/// How a request ended at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Ending {
    /// The answer was read whole.
    Completed,
    /// The client went away.
    Aborted,
    /// The worker failed it.
    Failed(Fault),
    /// The worker said this status.
    Refused(u16),
    /// The answer was passed on unread, because it came compressed.
    Unread,
}

impl Ending {
    const fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Failed(_) => "failed",
            Self::Refused(_) => "refused",
            Self::Unread => "unread",
        }
    }
}

/// A decision and what came of it.
#[derive(Debug)]
pub(in crate::server) struct Entry {
    decided: Decided,
    unix_ms: u64,
    at: Instant,
    first_part: OnceLock<Duration>,
    /// Prompt tokens, and how many of them were cached, as the worker says.
    reported: OnceLock<(u64, Option<u64>)>,
    ending: OnceLock<Ending>,
}

impl Entry {
    pub(super) fn new(decided: Decided) -> Self {
        Self {
            decided,
            unix_ms: unix_ms(),
            at: Instant::now(),
            first_part: OnceLock::new(),
            reported: OnceLock::new(),
            ending: OnceLock::new(),
        }
    }

    pub(super) const fn decided(&self) -> &Decided {
        &self.decided
    }

    /// The first part of the answer is here; only the first call counts.
    pub(in crate::server) fn answering(&self) {
        let _known = self.first_part.set(self.at.elapsed());
    }

    /// The worker said what it computed; only the first call counts.
    pub(in crate::server) fn reported(&self, prompt_tokens: u64, cached_tokens: Option<u64>) {
        let _known = self.reported.set((prompt_tokens, cached_tokens));
    }

    /// The request is over at this worker; the first word on it stands.
    pub(in crate::server) fn ended(&self, ending: Ending) {
        let _known = self.ending.set(ending);
    }

    pub(super) fn shown(&self) -> DecisionShown {
        let decided = &self.decided;
        let chosen = CandidateShown {
            worker: decided.worker.to_string(),
            predicted_tokens: decided.predicted_tokens,
            queued_tokens: decided.queued_tokens,
            score: decided.score,
        };
        let runner_up = |other: &RunnerUp| CandidateShown {
            worker: other.worker.to_string(),
            predicted_tokens: other.predicted_tokens,
            queued_tokens: other.queued_tokens,
            score: other.score,
        };
        let Version { life, changes } = decided.version;
        DecisionShown {
            request_id: decided.request_id.to_string(),
            attempt: decided.attempt,
            unix_ms: self.unix_ms,
            age_ms: millis(self.at.elapsed()),
            policy: decided.policy.name().to_owned(),
            reason: decided.reason.name().to_owned(),
            outcome: decided.outcome.name().to_owned(),
            looked_up_by: if decided.by_tokens { "tokens" } else { "bytes" }.to_owned(),
            prompt_tokens: decided.prompt_tokens,
            chosen,
            runners_up: decided.runners_up.iter().map(runner_up).collect(),
            view: ViewShown { life, changes, age_ms: millis(decided.view_age) },
            lookup_us: decided.lookup_us,
            answer: self.answer(),
        }
    }

    fn answer(&self) -> AnswerShown {
        let ending = self.ending.get().copied();
        let begun = if self.first_part.get().is_some() { "answering" } else { "waiting" };
        let (fault, status) = match ending {
            Some(Ending::Failed(fault)) => (Some(fault.name().to_owned()), None),
            Some(Ending::Refused(status)) => (None, Some(status)),
            Some(Ending::Completed | Ending::Aborted | Ending::Unread) | None => (None, None),
        };
        let reported = self.reported.get();
        AnswerShown {
            state: ending.map_or(begun, Ending::word).to_owned(),
            fault,
            status,
            ttft_ms: self.first_part.get().map(|after| millis(*after)),
            reported_prompt_tokens: reported.map(|(prompt, _)| *prompt),
            reported_cached_tokens: reported.and_then(|(_, cached)| *cached),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
