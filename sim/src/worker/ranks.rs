//! The engines of a worker, one for each data-parallel rank behind its address, and which of them is meant.
//!
//! As in vLLM a request names its rank in a header, and goes where least is waiting and running when it names none. Unlike
//! vLLM a rank that is no number is refused, too: a gateway that sends one is wrong.
//!
//! Not here: what an engine does (`host`), where ranks publish (`kv`).

use std::sync::Arc;

use axum::http::HeaderMap;

use super::error::ApiError;
use super::host::Host;

/// Which rank a request is for.
const RANK_HEADER: &str = "x-data-parallel-rank";
/// How much more a request that waits counts than one that runs.
const WAITING_WEIGHT: u64 = 4;

/// At least one engine, in the order of their ranks.
pub(super) struct Ranks(Vec<Arc<Host>>);

impl Ranks {
    pub(super) const fn new(hosts: Vec<Arc<Host>>) -> Self {
        Self(hosts)
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Arc<Host>] {
        &self.0
    }

    /// The engine of rank 0.
    pub(super) fn first(&self) -> &Arc<Host> {
        self.0.first().expect("a worker has an engine")
    }

    /// The rank that a request names, if it names one.
    ///
    /// # Errors
    /// When there is no such rank here.
    pub(super) fn named(&self, headers: &HeaderMap) -> Result<Option<usize>, ApiError> {
        let Some(given) = headers.get(RANK_HEADER) else { return Ok(None) };
        let rank = given.to_str().ok().and_then(|text| text.trim().parse().ok()).filter(|rank| *rank < self.0.len());
        let why = || format!("{RANK_HEADER} is {given:?}: this worker has the ranks 0 to {}", self.0.len() - 1);
        rank.map(Some).ok_or_else(|| ApiError::bad(RANK_HEADER, &why()))
    }

    /// Where a request is computed: at the rank that it names, or at the one with least to do.
    ///
    /// # Errors
    /// As for [`Self::named`].
    pub(super) fn take(&self, headers: &HeaderMap) -> Result<(usize, &Arc<Host>), ApiError> {
        let rank = match self.named(headers)? {
            Some(rank) => rank,
            None => (0..self.0.len()).min_by_key(|rank| busy(&self.0[*rank])).unwrap_or_default(),
        };
        Ok((rank, &self.0[rank]))
    }
}

fn busy(host: &Host) -> u64 {
    let stats = host.stats();
    stats.waiting as u64 * WAITING_WEIGHT + stats.running as u64
}
