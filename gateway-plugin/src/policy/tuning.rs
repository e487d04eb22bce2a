//! The numbers of the policy. Their defaults are what `docs/policy-sweeps.md` settled on.
//!
//! Not here: what they do to a choice (`choose`).

/// What `mesh` and `local` compare, and how much things weigh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Holders compared, the deepest.
    pub holders: usize,
    /// Others sampled.
    pub samples: usize,
    /// A holder is useful when it saves at least this share of the prompt.
    pub useful_share: f64,
    /// What an uncached token of the prompt's own weighs in a score against one that is queued before it, where few hold as much
    /// of the prompt as anybody does: what is computed again delays whoever comes after, which a queue does not.
    pub uncached_weight: f64,
    /// What a running request weighs in a score, in tokens to be computed: small against a prompt, enough to spread decoding.
    pub request_tokens: u64,
    /// What a prompt's home is hoped to hold of it, as a multiple of the share of requests that nobody accounts for.
    pub hope: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { holders: 2, samples: 2, useful_share: 0.1, uncached_weight: 1.5, request_tokens: 128, hope: 2.0 }
    }
}
