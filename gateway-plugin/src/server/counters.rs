//! What the server counts. Plain atomics; `admin` gives them names.
//!
//! Not here: the plugin's and the driver's own counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use super::fault::Fault;
use crate::plugin::Outcome;

/// Predicted and reported cache use, over the same requests: those whose worker reported usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenSums {
    /// Requests whose worker reported cached tokens.
    pub requests: u64,
    /// Their prompt tokens, as the workers count.
    pub prompt: u64,
    /// Prompt tokens predicted to be cached.
    pub predicted: u64,
    /// Prompt tokens reported as cached.
    pub cached: u64,
}

/// A histogram of durations in microseconds.
#[derive(Debug)]
pub struct Latency {
    histogram: Mutex<(Histogram<u64>, u64)>,
}

/// Largest duration a histogram tells apart, microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LATENCY_US_MAX, 3).expect("three digits up to a minute are allowed");
        Self { histogram: Mutex::new((histogram, 0)) }
    }
}

impl Latency {
    /// Adds one duration.
    pub fn record_us(&self, us: u64) {
        let mut guard = self.histogram.lock().unwrap_or_else(PoisonError::into_inner);
        let (histogram, sum) = &mut *guard;
        histogram.saturating_record(us);
        *sum = sum.saturating_add(us);
    }

    /// Count, sum, and the values at the quantiles asked for.
    #[must_use]
    pub fn quantiles<const N: usize>(&self, quantiles: [f64; N]) -> (u64, u64, [u64; N]) {
        let guard = self.histogram.lock().unwrap_or_else(PoisonError::into_inner);
        let (histogram, sum) = &*guard;
        (
            histogram.len(),
            *sum,
            quantiles.map(|q| if histogram.is_empty() { 0 } else { histogram.value_at_quantile(q) }),
        )
    }

    /// How many durations are in each bucket, for upper bounds in ascending order (the rest is above the last).
    #[must_use]
    pub fn buckets<const N: usize>(&self, upper_us: [u64; N]) -> [u64; N] {
        let guard = self.histogram.lock().unwrap_or_else(PoisonError::into_inner);
        let mut below = 0;
        upper_us.map(|upper| {
            let count = guard.0.count_between(below, upper);
            below = upper + 1;
            count
        })
    }
}

/// Every counter of the server.
#[derive(Debug, Default)]
pub struct Counters {
    outcomes: [AtomicU64; Outcome::COUNT],
    faults: [AtomicU64; Fault::COUNT],
    statuses: [AtomicU64; 5],
    retries: AtomicU64,
    client_gone: AtomicU64,
    in_flight: AtomicU64,
    unmeasured: AtomicU64,
    sums: [AtomicU64; 4],
    /// Thread CPU time of hash, lookup and policy.
    pub lookup_cpu: Latency,
    /// Thread CPU time of turning requests into token ids.
    pub tokenize_cpu: Latency,
    /// From the request being read to the first byte of its answer.
    pub first_byte: Latency,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    /// A request was routed.
    pub fn routed(&self, outcome: Outcome) {
        add(&self.outcomes[outcome.index()], 1);
    }

    /// Something went wrong.
    pub fn fault(&self, fault: Fault) {
        add(&self.faults[fault as usize], 1);
    }

    /// A worker answered with this status.
    pub fn upstream_status(&self, status: u16) {
        if let Some(counter) = usize::from(status / 100).checked_sub(1).and_then(|class| self.statuses.get(class)) {
            add(counter, 1);
        }
    }

    /// A request was sent to a second worker.
    pub fn retried(&self) {
        add(&self.retries, 1);
    }

    /// A client went away before its answer was complete.
    pub fn client_gone(&self) {
        add(&self.client_gone, 1);
    }

    /// A worker's answer came in a coding this gateway does not read: it was passed on, and nothing was placed.
    pub fn unmeasured(&self) {
        add(&self.unmeasured, 1);
    }

    /// A worker reported how much of a prompt it had cached.
    pub fn usage(&self, prompt: u64, predicted: u64, cached: u64) {
        for (counter, n) in self.sums.iter().zip([1, prompt, predicted, cached]) {
            add(counter, n);
        }
    }

    /// A request is under way until the guard is dropped.
    pub(super) fn enter(self: &std::sync::Arc<Self>) -> InFlight {
        add(&self.in_flight, 1);
        InFlight(std::sync::Arc::clone(self))
    }

    /// Requests routed, by outcome.
    #[must_use]
    pub fn outcome_count(&self, outcome: Outcome) -> u64 {
        read(&self.outcomes[outcome.index()])
    }

    /// Things gone wrong, by fault.
    #[must_use]
    pub fn fault_count(&self, fault: Fault) -> u64 {
        read(&self.faults[fault as usize])
    }

    /// Answers of workers by status class, 1xx to 5xx.
    #[must_use]
    pub fn status_counts(&self) -> [u64; 5] {
        self.statuses.each_ref().map(read)
    }

    /// Requests sent to a second worker.
    #[must_use]
    pub fn retry_count(&self) -> u64 {
        read(&self.retries)
    }

    /// Clients that went away early.
    #[must_use]
    pub fn client_gone_count(&self) -> u64 {
        read(&self.client_gone)
    }

    /// Answers passed on unread.
    #[must_use]
    pub fn unmeasured_count(&self) -> u64 {
        read(&self.unmeasured)
    }

    /// Requests under way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        read(&self.in_flight)
    }

    /// Predicted and reported cache use.
    #[must_use]
    pub fn token_sums(&self) -> TokenSums {
        let [requests, prompt, predicted, cached] = self.sums.each_ref().map(read);
        TokenSums { requests, prompt, predicted, cached }
    }
}

/// Counts a request as under way.
#[derive(Debug)]
pub(super) struct InFlight(std::sync::Arc<Counters>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_quantiles_agree_with_what_was_recorded() {
        let latency = Latency::default();
        assert_eq!(latency.quantiles([0.5]), (0, 0, [0]));
        for us in [1, 5, 10, 11, 100, 999, u64::MAX / 2] {
            latency.record_us(us);
        }
        assert_eq!(latency.buckets([10, 100, 1000]), [3, 2, 1]);
        let (count, _, [half]) = latency.quantiles([0.5]);
        assert_eq!((count, half), (7, 11));
    }

    #[test]
    fn a_guard_counts_as_long_as_it_lives() {
        let counters = std::sync::Arc::new(Counters::default());
        let guard = counters.enter();
        assert_eq!(counters.in_flight(), 1);
        drop(guard);
        assert_eq!(counters.in_flight(), 0);
    }
}
