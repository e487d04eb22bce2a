//! Feeds in a frame: who reads a worker's events, and how well its cache is known by them.
//!
//! Not here: who ought to read them (the mesh decides that). Upholds I12: what was told long ago is stale, what nobody
//! tells is `None`; never exact when it may not be.

use covey_crdt::id::WorkerId;
use covey_mesh::feed::{FeedState, Role};
use covey_mesh::summary::{FeedSeen, Sight};

use super::rows::natural;
use super::{FeedCounts, FeedView, GatewayView};

/// What a gateway said of a feed longer ago than this says nothing about now, milliseconds: one word comes every second.
pub(super) const FEED_MS_MAX: u64 = 2_000;

/// A gateway's word about a feed that it reads.
struct Told<'a> {
    gateway: &'a str,
    seen: &'a FeedSeen,
    age_ms: u64,
}

impl Told<'_> {
    fn is_fresh(&self) -> bool {
        self.age_ms <= FEED_MS_MAX
    }
}

/// The feed of a worker; `sights` stand in the order of `gateways`, and are `silent_ms` older than they say. `None` when
/// no gateway reads its events, and no replica has any.
pub(super) fn feed(
    id: &WorkerId,
    gateways: &[GatewayView],
    sights: &[Option<&Sight>],
    silent_ms: u64,
) -> Option<FeedView> {
    let present = gateways.iter().zip(sights).filter(|(gateway, _)| !gateway.left);
    let sighted: Vec<(&GatewayView, &Sight)> =
        present.filter_map(|(gateway, sight)| Some((gateway, (*sight)?))).collect();
    let stored = stored(id, &sighted);
    let mut told: Vec<Told<'_>> = sighted.iter().filter_map(|(gateway, sight)| word(id, gateway, sight)).collect();
    told.iter_mut().for_each(|told| told.age_ms = told.age_ms.saturating_add(silent_ms));
    if told.is_empty() && stored.is_none() {
        return None;
    }
    // One that is silent reads no more, as far as anybody knows: it is named only while nobody else is.
    if told.iter().any(Told::is_fresh) {
        told.retain(Told::is_fresh);
    }
    // The publisher's word, or the standby's while there is none; of several the newest.
    told.sort_by_key(|told| (std::cmp::Reverse(told.seen.role), told.age_ms, natural(told.gateway)));
    let of = |role: Role| {
        let mut names: Vec<String> =
            told.iter().filter(|told| told.seen.role == role).map(|told| told.gateway.to_owned()).collect();
        names.sort_by_cached_key(|name| natural(name));
        names
    };
    let best = told.first();
    let known = best.filter(|told| told.is_fresh()).map(|told| &told.seen.report);
    Some(FeedView {
        publishers: of(Role::Publisher),
        standbys: of(Role::Standby),
        state: known.map_or(FeedState::Stale, |report| report.state),
        for_ms: known.map(|report| report.since_ms),
        lag_ms: known.and_then(|report| report.lag_ms),
        position: known.map(|report| report.position),
        stored_blocks: stored.map(|(blocks, _)| blocks),
        is_complete: stored.map(|(_, is_complete)| is_complete),
        age_ms: best.map(|told| told.age_ms),
    })
}

/// What a gateway says of a feed that it reads and goes on reading.
fn word<'a>(id: &WorkerId, gateway: &'a GatewayView, sight: &'a Sight) -> Option<Told<'a>> {
    let dated = sight.feeds.get(id)?;
    let reads = matches!(dated.of.role, Role::Publisher | Role::Standby);
    reads.then(|| Told { gateway: &gateway.name, seen: &dated.of, age_ms: dated.age_ms.max(sight.age_ms) })
}

/// Blocks that the worker's events say it holds, and whether those are all: in the viewer's replica, else in the one that
/// told last.
fn stored(id: &WorkerId, sighted: &[(&GatewayView, &Sight)]) -> Option<(u64, bool)> {
    let known = sighted.iter().filter_map(|(gateway, sight)| {
        let dated = sight.workers.get(id)?;
        Some(((!gateway.me, dated.age_ms), (dated.of.stored?, dated.of.is_complete)))
    });
    known.min_by_key(|(order, _)| *order).map(|(_, stored)| stored)
}

impl FeedCounts {
    /// Counts one worker's feed.
    pub(super) const fn add(&mut self, feed: Option<&FeedView>) {
        let count = match feed {
            None => &mut self.unread,
            Some(feed) => match feed.state {
                FeedState::Exact => &mut self.exact,
                FeedState::Gap => &mut self.gap,
                FeedState::Bootstrapping => &mut self.bootstrapping,
                FeedState::Stale => &mut self.stale,
            },
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests;
