//! Workers as rows of a frame: what each replica says of them.
//!
//! Not here: what a worker's engine really holds.

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::id::WorkerId;
use covey_mesh::summary::{Sight, View};

use super::rows::natural;
use super::{CoverageView, GatewayView, WORKERS_MAX, WorkerView};

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

/// The rows, and how many were left out.
pub(super) fn rows(
    view: &View,
    gateways: &[GatewayView],
    facts: &BTreeMap<WorkerId, WorkerFacts>,
) -> (Vec<WorkerView>, u64) {
    let told = view.sights.iter().flat_map(|sight| sight.workers.keys());
    let ids: BTreeSet<&WorkerId> = told.chain(facts.keys()).collect();
    // What an older life of a gateway said is not what its present one has.
    let of = |gateway: &GatewayView| {
        let named = view.sights.iter().find(|sight| sight.name.as_str() == gateway.name);
        named.filter(|sight| sight.life.to_string() == gateway.life)
    };
    let sights: Vec<Option<&Sight>> = gateways.iter().map(of).collect();
    let row = |id| row(id, view, gateways, &sights, facts.get(id));
    let mut rows: Vec<WorkerView> = ids.into_iter().map(row).collect();
    rows.sort_by_cached_key(|row| (!row.differs, natural(&row.id)));
    let hidden = rows.len().saturating_sub(WORKERS_MAX);
    rows.truncate(WORKERS_MAX);
    (rows, hidden as u64)
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
