//! Within what time the cluster must converge once faults are over (I10): a sum of what may have to happen one after
//! the other.
//!
//! Not here: looking at the clock (`calm`).

use covey_mesh::limits::{
    ALONE_MS, EXCHANGE_MS, FOUND_MS, Knobs, SESSION_MS, SETTLE_MS, STUCK_MS, TAKEOVER_MS, UNRESOLVED_MS,
};

use crate::plan::{Plan, Wrong};

/// A connection that carries nothing is found dead, and the other side notices: the simulator's transport.
const DEAD_LINK_MS: u64 = 7_000;
/// From one dial of a pair to the next.
const REDIAL_MS: u64 = 1_300;

/// Without sessions of many slices: a dead link is noticed and redialled, a joiner finds out that it is alone or that
/// all are joining, a session times out once, lost ops are said again twice (P6), vectors go round.
pub const CONVERGE_MS: u64 =
    DEAD_LINK_MS + REDIAL_MS + ALONE_MS + FOUND_MS + SESSION_MS + UNRESOLVED_MS + 2 * STUCK_MS + 4 * EXCHANGE_MS;

/// Owners settle, a hand-off is waited for in vain, replays fail three times, a quiet stream is looked at, and a standby
/// publishes.
const FEEDS_MS: u64 = 2 * SETTLE_MS + TAKEOVER_MS + 20_000;

/// What the plan alone says.
pub(super) fn before(plan: &Plan) -> u64 {
    // A donor that stalls is given up once a stall, and every stall may last longer than a session's patience.
    let slow = plan.broken.iter().filter_map(|broken| match broken.how {
        Wrong::Slow { for_ms, .. } => Some(for_ms + SESSION_MS),
        Wrong::Dead | Wrong::Isolated | Wrong::Deaf | Wrong::Mute | Wrong::Clock { .. } => None,
    });
    CONVERGE_MS + slow.max().unwrap_or(0) + if plan.feeds.is_some() { FEEDS_MS } else { 0 }
}

/// What walks over a state of `bytes` and `workers` cost, in slices, windows and a budget as the knobs have them and round
/// trips of `round_trip_ms`: one that was given up, one that ends, and the same again when what was lost is said again and
/// no log reaches back to it.
pub(super) fn walk(bytes: u64, workers: u64, knobs: &Knobs, round_trip_ms: u64) -> u64 {
    let (slice_bytes, window) = (knobs.slice_bytes.max(1) as u64, knobs.window_workers.max(1) as u64);
    let trips = bytes / slice_bytes + workers / window + 2;
    4 * (trips * round_trip_ms + bytes * 1_000 / knobs.repair_bytes_per_s.max(1))
}
