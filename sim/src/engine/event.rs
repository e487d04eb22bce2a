//! What an engine tells, and why it refuses.
//!
//! Not here: what happens to the cache (`kv`).

use std::fmt;

use super::RequestId;

/// Something that happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It got its blocks for the first time and its prefill begins.
    Admitted {
        /// Which.
        id: RequestId,
        /// Prompt tokens found in the cache; a multiple of the block size, below the prompt's length.
        cached_tokens: u32,
    },
    /// One more token was generated.
    Token {
        /// Which.
        id: RequestId,
        /// How many it has now.
        emitted: u32,
    },
    /// It lost its blocks to an earlier request and waits again, first in the queue.
    Preempted {
        /// Which.
        id: RequestId,
    },
    /// Its last token is out and its blocks are free.
    Finished {
        /// Which.
        id: RequestId,
    },
}

/// Why a request is not taken. Nothing changed in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// It could never fit. Fault: the client; a shorter prompt helps.
    TooLong {
        /// Tokens of prompt and answer.
        tokens: u64,
        /// Tokens the whole cache holds.
        tokens_max: u64,
    },
    /// Too many requests wait already. Try again later.
    Busy {
        /// How many wait.
        waiting: usize,
    },
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { tokens, tokens_max } => {
                write!(
                    f,
                    "prompt and answer are {tokens} tokens, the cache holds {tokens_max}: shorten the prompt or max_tokens"
                )
            }
            Self::Busy { waiting } => write!(f, "{waiting} requests wait already: try again later"),
        }
    }
}

impl std::error::Error for Reject {}
