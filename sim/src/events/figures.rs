//! How far predictions are from what engines reported: pure arithmetic.
//!
//! Not here: where the pairs come from.

use serde::Serialize;

/// One request: tokens predicted to be cached, and tokens that the engine found cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What the reader of events said.
    pub predicted: u64,
    /// What the engine said.
    pub reported: u64,
}

impl Pair {
    /// Tokens between the two.
    #[must_use]
    pub const fn error(&self) -> u64 {
        self.predicted.abs_diff(self.reported)
    }
}

/// What many requests came to. Errors are in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests.
    pub requests: usize,
    /// Requests predicted exactly.
    pub exact: usize,
    /// Requests for which too much was predicted.
    pub over: usize,
    /// Requests for which too little was predicted.
    pub under: usize,
    /// Half of the errors are at most this.
    pub p50_error: u64,
    /// 95 % of the errors are at most this.
    pub p95_error: u64,
    /// 99 % of the errors are at most this.
    pub p99_error: u64,
    /// The largest error.
    pub max_error: u64,
    /// Tokens reported as cached, all requests together.
    pub reported_tokens: u64,
}

impl Figures {
    /// The figures of these requests.
    #[must_use]
    pub fn of(pairs: &[Pair]) -> Self {
        let mut errors: Vec<_> = pairs.iter().map(Pair::error).collect();
        errors.sort_unstable();
        let rank = |percent: usize| errors.get((errors.len() * percent).div_ceil(100).max(1) - 1).copied().unwrap_or(0);
        Self {
            requests: pairs.len(),
            exact: pairs.iter().filter(|pair| pair.error() == 0).count(),
            over: pairs.iter().filter(|pair| pair.predicted > pair.reported).count(),
            under: pairs.iter().filter(|pair| pair.predicted < pair.reported).count(),
            p50_error: rank(50),
            p95_error: rank(95),
            p99_error: rank(99),
            max_error: errors.last().copied().unwrap_or(0),
            reported_tokens: pairs.iter().map(|pair| pair.reported).sum(),
        }
    }

    /// Share of requests predicted exactly, 0 to 1; 1 of none.
    #[must_use]
    pub fn exact_share(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.exact as f64 / self.requests as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_in_both_directions_and_ranks_are_nearest() {
        let pair = |predicted, reported| Pair { predicted, reported };
        let mut pairs = vec![pair(16, 16); 18];
        pairs.extend([pair(0, 32), pair(64, 16)]);
        let figures = Figures::of(&pairs);
        assert_eq!((figures.exact, figures.over, figures.under), (18, 1, 1));
        assert_eq!((figures.p50_error, figures.p95_error, figures.p99_error, figures.max_error), (0, 32, 48, 48));
        assert!((figures.exact_share() - 0.9).abs() < 1e-9);
        assert_eq!(Figures::of(&[]).max_error, 0);
    }
}
