//! Which worker a request goes to: a pure function of coverage, load and one random word.
//!
//! Not here: looking coverage up (`index`), counting what was sent (`load`), what a decision is called
//! (`plugin::Outcome`).

mod choose;
mod prompt;
#[cfg(test)]
mod tests;
mod tuning;

use std::fmt;
use std::str::FromStr;

pub(crate) use self::choose::mix;
pub use self::choose::{Choice, Fleet, Home, Query, Scored, choose};
pub use self::prompt::Prompt;
pub use self::tuning::Tuning;

/// How workers are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The deepest useful holders against sampled others, scored by uncached plus queued tokens, mesh-wide, and by how fast
    /// workers are. Of equals the session's worker.
    #[default]
    Mesh,
    /// The least loaded worker, mesh-wide; coverage is not looked at.
    LeastLoad,
    /// One after the other.
    RoundRobin,
    /// Any.
    Random,
    /// A session stays with one worker (rendezvous hashing of its key); requests without one go by load.
    Sticky,
    /// The prompt's first two blocks decide (rendezvous hashing).
    PrefixHash,
    /// As `Mesh`, but knowing this gateway's own load only.
    Local,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 7] =
        [Self::Mesh, Self::LeastLoad, Self::RoundRobin, Self::Random, Self::Sticky, Self::PrefixHash, Self::Local];

    /// The word for it on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::LeastLoad => "least-load",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::Sticky => "sticky",
            Self::PrefixHash => "prefix-hash",
            Self::Local => "local",
        }
    }

    /// Whether it looks at what other gateways have outstanding, and so at what unheard ones may have.
    #[must_use]
    pub const fn uses_others_load(self) -> bool {
        match self {
            Self::Mesh | Self::LeastLoad => true,
            Self::RoundRobin | Self::Random | Self::Sticky | Self::PrefixHash | Self::Local => false,
        }
    }

    /// Whether it looks at coverage at all.
    #[must_use]
    pub const fn uses_coverage(self) -> bool {
        match self {
            Self::Mesh | Self::Local => true,
            Self::LeastLoad | Self::RoundRobin | Self::Random | Self::Sticky | Self::PrefixHash => false,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text names no policy. Fault: whoever configured the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    given: String,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Policy::ALL.map(Policy::name).join(", ");
        write!(f, "no policy is called {:?}; choose one of: {names}", self.given)
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or_else(|| UnknownPolicy { given: text.to_owned() })
    }
}

/// What decided. The names are for logs and debug headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A holder of the prompt had the best score.
    Holder,
    /// A sampled worker had the best score, although holders were compared.
    Lighter,
    /// No useful holder: load decided.
    Load,
    /// It was its turn.
    Turn,
    /// Chance.
    Chance,
    /// The session's key; with `mesh` and `local` among equally good workers only.
    Session,
    /// The prompt's first blocks.
    Prefix,
    /// This gateway does not hear all others, and the worker is the one that each of them would pick for the prompt.
    Home,
}

impl Reason {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::Lighter => "lighter",
            Self::Load => "load",
            Self::Turn => "turn",
            Self::Chance => "chance",
            Self::Session => "session",
            Self::Prefix => "prefix",
            Self::Home => "home",
        }
    }
}
