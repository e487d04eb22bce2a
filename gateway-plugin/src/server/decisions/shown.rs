//! A decision as the admin port tells it, and as `covey explain` reads it. Unknown fields are ignored, so that either may be
//! the newer one.
//!
//! Not here: where it comes from (`entry`).

use serde::{Deserialize, Serialize};

/// A worker that was compared, the chosen one included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateShown {
    /// Its id.
    pub worker: String,
    /// Tokens of the prompt that it was predicted to have cached.
    pub predicted_tokens: u64,
    /// Tokens to be computed there before the prompt's own.
    pub queued_tokens: u64,
    /// Queued tokens and the prompt's uncached ones, weighed by the worker's pace and by how few hold the prompt, running requests
    /// weighed in; the lowest wins.
    pub score: u64,
}

/// The view that was decided on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewShown {
    /// Counts the lives of the gateway's mesh member, from 1.
    pub life: u64,
    /// Changes applied since that life began.
    pub changes: u64,
    /// How long ago the mesh thread last did a turn, milliseconds.
    pub age_ms: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerShown {
    /// `waiting`, `answering`, `completed`, `aborted` (by the client), `failed`, `refused` or `unread` (came compressed).
    pub state: String,
    /// What went wrong, when it failed.
    pub fault: Option<String>,
    /// The worker's status, when it refused.
    pub status: Option<u16>,
    /// From the decision to the first part of the answer (of one that is not streamed: to the whole of it), milliseconds.
    pub ttft_ms: Option<u64>,
    /// Prompt tokens, as the worker counts.
    pub reported_prompt_tokens: Option<u64>,
    /// Prompt tokens that it found cached, as it says.
    pub reported_cached_tokens: Option<u64>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionShown {
    /// The request's name.
    pub request_id: String,
    /// Counts the workers tried for the request, from 1.
    pub attempt: usize,
    /// When it was made, milliseconds since 1970 by the gateway's clock.
    pub unix_ms: u64,
    /// How long ago that was, milliseconds.
    pub age_ms: u64,
    /// The policy.
    pub policy: String,
    /// What decided.
    pub reason: String,
    /// What the lookup came to, as `x-covey-outcome`.
    pub outcome: String,
    /// `tokens`, or `bytes` where the request has no token ids: four bytes count as a token then.
    pub looked_up_by: String,
    /// The prompt's length, tokens.
    pub prompt_tokens: u64,
    /// Where it went.
    pub chosen: CandidateShown,
    /// The other workers that were compared.
    pub runners_up: Vec<CandidateShown>,
    /// What it was decided on.
    pub view: ViewShown,
    /// Thread CPU time of hash, lookup and policy, microseconds.
    pub lookup_us: u64,
    /// What came of it.
    pub answer: AnswerShown,
}
