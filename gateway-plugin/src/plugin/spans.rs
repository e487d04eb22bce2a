//! Spans within a decision, for whoever traces requests (`server::trace`). Without feature `server` there is no trace and
//! no code: the simulator's decisions are not observed.
//!
//! Not here: the request's span, and the one that is entered around a decision.

/// Looks something up in the index.
pub(super) fn lookup<T>(what: impl FnOnce() -> T) -> T {
    #[cfg(feature = "server")]
    let _entered = tracing::debug_span!(target: "covey::decision", "lookup").entered();
    what()
}

/// Lets the policy choose.
pub(super) fn policy<T>(what: impl FnOnce() -> T) -> T {
    #[cfg(feature = "server")]
    let _entered = tracing::debug_span!(target: "covey::decision", "policy").entered();
    what()
}
