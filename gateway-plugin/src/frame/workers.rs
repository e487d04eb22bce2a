//! Workers as rows of a frame: what each replica says of them.
//!
//! Not here: what a worker's engine really holds.

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::id::WorkerId;
use covey_mesh::summary::{Sight, View};

use super::rows::natural;
use super::{CoverageView, FeedCounts, GatewayView, WORKERS_MAX, WorkerView, feeds};

/// What the viewer itself knows of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFacts {
    /// Where it listens.
    pub url: Option<String>,
    /// Whether it can be reached; `None` before the first check.
    pub up: Option<bool>,
    /// Its capacity in tokens, as configured or probed here.
    pub capacity_tokens: Option<u64>,
    /// `configured` or `probed`.
    pub capacity_source: Option<&'static str>,
}

/// The rows.
#[derive(Debug)]
pub(super) struct Rows {
    /// [`WORKERS_MAX`] at most.
    pub(super) shown: Vec<WorkerView>,
    /// How many were left out.
    pub(super) hidden: u64,
    /// The feeds of all.
    pub(super) feeds: FeedCounts,
}

/// The rows; the view is `silent_ms` old.
pub(super) fn rows(
    view: &View,
    gateways: &[GatewayView],
    facts: &BTreeMap<WorkerId, WorkerFacts>,
    silent_ms: u64,
) -> Rows {
    let told = view.sights.iter().flat_map(|sight| sight.workers.keys().chain(sight.feeds.keys()));
    let ids: BTreeSet<&WorkerId> = told.chain(facts.keys()).collect();
    // What an older life of a gateway said is not what its present one has.
    let of = |gateway: &GatewayView| {
        let named = view.sights.iter().find(|sight| sight.name.as_str() == gateway.name);
        named.filter(|sight| sight.life.to_string() == gateway.life)
    };
    let sights: Vec<Option<&Sight>> = gateways.iter().map(of).collect();
    let row = |id| WorkerView {
        feed: feeds::feed(id, gateways, &sights, silent_ms),
        ..row(id, view, gateways, &sights, facts.get(id))
    };
    let mut shown: Vec<WorkerView> = ids.into_iter().map(row).collect();
    let mut feeds = FeedCounts::default();
    shown.iter().for_each(|row| feeds.add(row.feed.as_ref()));
    shown.sort_by_cached_key(|row| (!row.differs, natural(&row.id)));
    let hidden = shown.len().saturating_sub(WORKERS_MAX) as u64;
    shown.truncate(WORKERS_MAX);
    Rows { shown, hidden, feeds }
}

fn row(
    id: &WorkerId,
    view: &View,
    gateways: &[GatewayView],
    sights: &[Option<&Sight>],
    facts: Option<&WorkerFacts>,
) -> WorkerView {
    let by: Vec<Option<CoverageView>> = sights.iter().map(|sight| coverage(id, (*sight)?)).collect();
    let facts = facts.cloned().unwrap_or_default();
    let load = view.loads.get(id).copied().unwrap_or_default();
    let replicated = view.capacities.get(id).copied().flatten();
    let source = facts.capacity_source.or(replicated.map(|_| "mesh"));
    WorkerView {
        id: id.to_string(),
        url: facts.url,
        up: facts.up,
        capacity_tokens: facts.capacity_tokens.or(replicated),
        capacity_source: source.map(str::to_owned),
        requests: u64::from(load.requests),
        queued_tokens: load.queued_tokens,
        differs: differs(&by, gateways),
        feed: None,
        by,
    }
}

fn coverage(id: &WorkerId, sight: &Sight) -> Option<CoverageView> {
    let dated = sight.workers.get(id)?;
    Some(CoverageView {
        incarnation: dated.of.incarnation,
        blocks: dated.of.blocks,
        digest: format!("{:016x}", dated.of.digest),
        floor_ms: dated.of.floor_ms,
        newest_ms: dated.of.newest_ms,
        age_ms: dated.age_ms,
    })
}

/// Whether two replicas differ on it that are not of one state group. Within a group rows may differ by what is under way,
/// and by having been told at different times.
fn differs(by: &[Option<CoverageView>], gateways: &[GatewayView]) -> bool {
    let known: Vec<(&CoverageView, u32)> =
        by.iter().zip(gateways).filter_map(|(row, gateway)| Some((row.as_ref()?, gateway.group?))).collect();
    known.iter().any(|(one, a)| known.iter().any(|(other, b)| a != b && one.digest != other.digest))
}
