//! What can be made to go wrong, as asked for over HTTP.
//!
//! Not here: doing it to the stream (`line`, `replay`) or to the engine (`host`).

use serde::Deserialize;

/// Batches one fault can concern at most.
pub(super) const BATCHES_MAX: u64 = 1_000_000;
/// Longest delay or pause, milliseconds.
pub(super) const MS_MAX: u64 = 600_000;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::worker) enum FaultKind {
    /// The next `batches` are not sent; a replay has them.
    Drop,
    /// The next `batches` are sent `ms` late, and what follows behind them.
    Delay,
    /// The next `batches` are sent in reverse order, after the last of them or `ms` after the first.
    Reorder,
    /// The next `batches` are sent twice.
    Duplicate,
    /// Nothing is sent, and replays are not extended, for `ms`; then everything at once, in order.
    Pause,
    /// The replay forgets what it has and never gets the next `batches` (0 unless said).
    LoseReplay,
    /// The next `batches` answers to a replay stop halfway, without an end marker.
    TruncateReplay,
    /// A new life: empty cache, new names, numbers from 0, new start time; running requests fail, sockets are bound anew.
    Restart,
    /// The cache is emptied, as by `reset_prefix_cache`; refused while a block is in use.
    Reset,
}

/// A fault, as the body of `POST /covey/fault` says it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::worker) struct Fault {
    pub(in crate::worker) kind: FaultKind,
    batches: Option<u64>,
    ms: Option<u64>,
    /// Seconds by which the clock of the new life is set back; `restart` only.
    #[serde(default)]
    pub(in crate::worker) clock_back_s: f64,
}

impl Fault {
    /// Whether the numbers can be.
    ///
    /// # Errors
    /// Names the field and its bounds.
    pub(in crate::worker) fn check(&self) -> Result<(), String> {
        if self.batches.is_some_and(|batches| batches > BATCHES_MAX) {
            return Err(format!("batches must be at most {BATCHES_MAX}"));
        }
        if self.ms.is_some_and(|ms| ms > MS_MAX) {
            return Err(format!("ms must be at most {MS_MAX}"));
        }
        if !(0.0..=1e9).contains(&self.clock_back_s) {
            return Err("clock_back_s must be between 0 and 1e9 seconds".to_owned());
        }
        Ok(())
    }

    /// Batches concerned.
    pub(super) fn batches(&self) -> u64 {
        self.batches.unwrap_or(u64::from(self.kind != FaultKind::LoseReplay))
    }

    /// Its time, in microseconds; 200 ms unless said.
    pub(super) fn us(&self) -> u64 {
        self.ms.unwrap_or(200) * 1_000
    }
}
