//! The closed list of what a lookup came to. Labelled after aggregation: a "hit" is a worker that holds a block *and*
//! was chosen, never an answer that no worker could use (hazard 4).
//!
//! Not here: why a worker was chosen (`policy::Reason`).

use std::fmt;

/// What a routing decision came to. The names are metric labels and the value of `x-covey-outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The chosen worker holds at least one block of the prompt.
    Hit,
    /// Some usable worker holds at least one block, the chosen one does not.
    Miss,
    /// No worker holds any block of the prompt.
    None,
    /// Blocks are held, but by no worker that could have been chosen (all masked, removed, excluded or unknown here).
    Unscorable,
    /// The prompt has no whole block.
    TooShort,
    /// The view cannot be trusted: the mesh thread is silent for too long, or has not been clean since its start.
    Stale,
    /// This gateway's clock is off; coverage was used as last seen.
    Clock,
    /// A session key decided.
    Sticky,
    /// The policy does not look at coverage.
    Off,
}

impl Outcome {
    /// How many there are.
    pub const COUNT: usize = 9;

    /// Every outcome, in the order of [`Self::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Hit,
        Self::Miss,
        Self::None,
        Self::Unscorable,
        Self::TooShort,
        Self::Stale,
        Self::Clock,
        Self::Sticky,
        Self::Off,
    ];

    /// The label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::None => "none",
            Self::Unscorable => "unscorable",
            Self::TooShort => "too_short",
            Self::Stale => "stale",
            Self::Clock => "clock",
            Self::Sticky => "sticky",
            Self::Off => "off",
        }
    }

    /// The position in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why no lookup was made. The request is routed all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The policy does not look at coverage.
    Off,
    /// The prompt has no whole block.
    TooShort,
    /// The view cannot be trusted now.
    Stale,
}

impl From<Skipped> for Outcome {
    fn from(skipped: Skipped) -> Self {
        match skipped {
            Skipped::Off => Self::Off,
            Skipped::TooShort => Self::TooShort,
            Skipped::Stale => Self::Stale,
        }
    }
}

/// How a request ended, as far as the worker's cache is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The worker finished its answer.
    Completed,
    /// The client went away and the worker was told to stop: what it produced until then is cached.
    Aborted,
    /// The worker broke off, answered nonsense or timed out: nothing more is claimed about its cache.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_stands_at_its_index() {
        for (at, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome.index(), at);
        }
    }
}
