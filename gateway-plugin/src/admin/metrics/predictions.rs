//! Metrics of token ids: what turning requests into them costs, and how predictions come out.
//!
//! Not here: sums over all measured requests (`gateway`).

use std::fmt::Error;

use super::page::{Page, flag};
use crate::admin::names;
use crate::plugin::Mismatch;
use crate::server::{ERROR_BUCKETS_TOKENS, Gateway};

/// Upper bounds of the histogram of tokenization, microseconds.
const TOKENIZE_BUCKETS_US: [u64; 10] = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000];
const OUTCOMES: [&str; 3] = ["exact", "over", "under"];

pub(super) fn write(page: &mut Page<'_>, gateway: &Gateway) -> Result<(), Error> {
    page.latency(names::TOKENIZE, &gateway.counters().tokenize_cpu, TOKENIZE_BUCKETS_US)?;
    page.gauge(names::TOKENIZER_CACHE, gateway.tokenizer_cache_bytes() as f64)?;
    page.counters(names::UNTOKENIZED, "reason", gateway.untokenized())?;
    let outcomes = gateway.predictions().snapshot();
    page.counters(names::PREDICTIONS, "outcome", OUTCOMES.into_iter().zip(outcomes.requests))?;
    page.counters(names::PREDICTION_TOKENS, "outcome", OUTCOMES.into_iter().zip(outcomes.tokens))?;
    let bounds = ERROR_BUCKETS_TOKENS.map(|bound| bound as f64).into_iter().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(outcomes.errors).collect();
    let [_, over, under] = outcomes.tokens;
    let count = outcomes.errors.iter().sum();
    page.histogram(names::PREDICTION_ERROR, (over + under) as f64, count, &buckets)?;
    mismatches(page, gateway)
}

fn mismatches(page: &mut Page<'_>, gateway: &Gateway) -> Result<(), Error> {
    let of = |worker: &std::sync::Arc<crate::server::Worker>| {
        let judgement = worker.detector().judge();
        (judgement.requests > 0).then(|| (worker.id.to_string(), judgement.mismatch))
    };
    let judged: Vec<(String, Option<Mismatch>)> = gateway.workers().all().iter().filter_map(of).collect();
    let gauges = judged.iter().flat_map(|(worker, named)| {
        Mismatch::ALL.map(|mismatch| (worker.as_str(), mismatch.name(), flag(*named == Some(mismatch))))
    });
    page.gauges_by_two(names::WORKER_MISMATCH, ["worker", "why"], gauges)
}
