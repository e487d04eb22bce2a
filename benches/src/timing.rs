//! Measuring one call at a time and judging the figures.
//!
//! Not here: what is measured. One timer call is inside every figure.

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

/// What a row must not exceed, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// For the median.
    P50(u64),
    /// For the 99th percentile.
    P99(u64),
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::P50(ns) => write!(f, "p50 <= {ns}"),
            Self::P99(ns) => write!(f, "p99 <= {ns}"),
        }
    }
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) budget: Budget,
}

impl Row {
    pub(crate) fn is_within_budget(&self) -> bool {
        match self.budget {
            Budget::P50(ns) => self.p50_ns <= ns,
            Budget::P99(ns) => self.p99_ns <= ns,
        }
    }
}

/// Calls `call` with every number below `calls` (after a tenth of them unmeasured) and times each call.
pub(crate) fn measure<T>(name: &'static str, budget: Budget, calls: usize, mut call: impl FnMut(usize) -> T) -> Row {
    (0..calls / 10).for_each(|n| drop(black_box(call(n))));
    let mut ns: Vec<u64> = (0..calls)
        .map(|n| {
            let start = Instant::now();
            let result = black_box(call(n));
            let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            drop(result);
            ns
        })
        .collect();
    ns.sort_unstable();
    Row { name, p50_ns: ns[calls / 2], p99_ns: ns[calls * 99 / 100], budget }
}
