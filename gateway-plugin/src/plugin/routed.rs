//! What a caller asks a routing decision with, and what it gets.
//!
//! Not here: deciding (`route`).

use std::fmt;
use std::time::Duration;

use covey_crdt::id::{Incarnation, WorkerId};

use super::outcome::Outcome;
use super::ticket::Ticket;
use crate::index::Version;
use crate::policy::Reason;

/// What a caller knows about one request besides its prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// A hash of the session's key, when the client sent one. With `sticky` it decides; with `mesh` and `local` the session's
    /// worker is chosen among equally good ones; other policies do not look at it.
    pub session: Option<u64>,
    /// Workers not to choose: they failed this request already.
    pub exclude: &'a [WorkerId],
}

/// A worker that was compared with the chosen one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerUp {
    /// Which.
    pub worker: WorkerId,
    /// Tokens of the prompt it is predicted to have cached.
    pub predicted_tokens: u64,
    /// Tokens to be computed there before the prompt's own.
    pub queued_tokens: u64,
    /// Its score: queued tokens and the prompt's uncached ones, weighed by the worker's pace and by how few hold the prompt, running
    /// requests weighed in.
    /// Lower is better.
    pub score: u64,
}

/// A routing decision.
#[derive(Debug)]
pub struct Routed {
    /// Where the request goes.
    pub worker: WorkerId,
    /// That worker's incarnation as the view has it.
    pub incarnation: Incarnation,
    /// What the lookup came to.
    pub outcome: Outcome,
    /// Tokens of the prompt the worker is predicted to have cached; 0 when coverage was not looked at.
    pub predicted_tokens: u64,
    /// The prompt's length in tokens.
    pub prompt_tokens: u64,
    /// What decided.
    pub reason: Reason,
    /// Tokens to be computed on the chosen worker before the prompt's own.
    pub queued_tokens: u64,
    /// The chosen worker's score, comparable with the runners-up's.
    pub score: u64,
    /// The other workers that were compared; none when the policy compares nobody.
    pub runners_up: Vec<RunnerUp>,
    /// The state of the index the decision was made on.
    pub version: Version,
    /// How long ago that state's feeder last did a turn.
    pub view_age: Duration,
    /// Keeps the request counted as the worker's load.
    pub ticket: Ticket,
}

/// No worker can take the request. Fault: the operator's or the workers'; answer 503 and let the client retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWorker {
    /// Workers this gateway can route to.
    pub known: usize,
    /// Of these, masked (unreachable from here) or removed.
    pub unusable: usize,
    /// Of the rest, excluded because they failed the request already.
    pub excluded: usize,
}

impl fmt::Display for NoWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { known, unusable, excluded } = self;
        if *known == 0 {
            return f.write_str("no worker can take the request: this gateway was given none");
        }
        write!(f, "no worker can take the request: of {known} workers, {unusable} are unreachable or removed ")?;
        write!(f, "and {excluded} failed it already")
    }
}

impl std::error::Error for NoWorker {}
