//! Spans within a decision, for whoever traces requests (`server::trace`). Without feature `server` there is no trace and
//! no code: the simulator's decisions are not observed.
//!
//! Not here: the request's span, which is entered around a decision.

#[cfg(feature = "server")]
use tracing::debug_span;
#[cfg(feature = "server")]
use tracing::span::EnteredSpan;

/// While the index is looked up.
#[cfg(feature = "server")]
pub(super) fn lookup() -> EnteredSpan {
    debug_span!(target: "covey::decision", "lookup").entered()
}

/// While the policy chooses.
#[cfg(feature = "server")]
pub(super) fn policy() -> EnteredSpan {
    debug_span!(target: "covey::decision", "policy").entered()
}

#[cfg(not(feature = "server"))]
pub(super) const fn lookup() {}

#[cfg(not(feature = "server"))]
pub(super) const fn policy() {}
