//! Metrics of the feeds that this gateway reads: their states and lag, and what its node noted of feeds.
//!
//! Not here: single feeds (`/feeds`, the frame's workers): series do not grow with workers. Upholds I12: a lag that is
//! not known is absent.

use std::fmt::Error;

use covey_mesh::feed::{FeedReport, FeedState, Role};

use super::page::Page;
use crate::admin::names;
use crate::plugin::NotesSnapshot;

const ROLES: [Role; 2] = [Role::Publisher, Role::Standby];
const STATES: [FeedState; 4] = [FeedState::Exact, FeedState::Gap, FeedState::Bootstrapping, FeedState::Stale];

/// Kinds of notes that have a counter here.
pub(super) const NAMED_HERE: [&str; 8] = [
    "feed_ops",
    "feed_hashes",
    "generations",
    "feed_forks",
    "taken_over",
    "feed_dropped",
    "pulled_feeds",
    "fetched_feed_bytes",
];

/// The feeds that this gateway reads.
pub(super) fn read(page: &mut Page<'_>, feeds: &[(Role, FeedReport)]) -> Result<(), Error> {
    let count = |role: Role, state: FeedState| {
        feeds.iter().filter(|(of, report)| (*of, report.state) == (role, state)).count() as f64
    };
    let states = ROLES.iter().flat_map(|role| STATES.iter().map(|state| (*role, *state)));
    let states = states.map(|(role, state)| (role.name(), state.name(), count(role, state)));
    page.gauges_by_two(names::FEED_STATE, ["role", "state"], states)?;
    let lags = ROLES.iter().filter_map(|role| {
        let heard = feeds.iter().filter(|(of, report)| of == role && report.state != FeedState::Stale);
        Some((role.name(), heard.filter_map(|(_, report)| report.lag_ms).max()? as f64 / 1e3))
    });
    page.gauges(names::FEED_LAG, "role", lags)
}

/// What the node noted, over all lives of the process.
pub(super) fn noted(page: &mut Page<'_>, notes: &NotesSnapshot) -> Result<(), Error> {
    for (named, kind) in [
        (names::FEED_OPS, "feed_ops"),
        (names::FEED_HASHES, "feed_hashes"),
        (names::FEED_GENERATIONS, "generations"),
        (names::FEED_FORKS, "feed_forks"),
        (names::FEED_TAKEN_OVER, "taken_over"),
        (names::FEED_OPS_DROPPED, "feed_dropped"),
        (names::FEED_PULLS, "pulled_feeds"),
        (names::FEED_FETCHED, "fetched_feed_bytes"),
    ] {
        page.counter(named, notes.of(kind, ""))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, text::encode};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::plugin::Notes;

    struct Told(Vec<(Role, FeedReport)>);

    impl fmt::Debug for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Told")
        }
    }

    impl Collector for Told {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
            read(&mut Page::new(encoder), &self.0)
        }
    }

    fn told(feeds: Vec<(Role, FeedReport)>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Told(feeds)));
        let mut out = String::new();
        encode(&mut out, &registry).expect("writing to a string cannot fail");
        out
    }

    #[test]
    fn feeds_are_counted_by_role_and_state_and_the_worst_known_lag_is_told() {
        let of = |state, lag_ms| FeedReport { state, lag_ms, ..FeedReport::default() };
        let text = told(vec![
            (Role::Publisher, of(FeedState::Exact, Some(20))),
            (Role::Publisher, of(FeedState::Exact, Some(1_500))),
            (Role::Publisher, of(FeedState::Stale, Some(90_000))),
            (Role::Standby, of(FeedState::Gap, None)),
            (Role::Leaving, of(FeedState::Exact, Some(70_000))),
        ]);
        for sample in [
            "covey_feed_state{role=\"publisher\",state=\"exact\"} 2",
            "covey_feed_state{role=\"publisher\",state=\"stale\"} 1",
            "covey_feed_state{role=\"standby\",state=\"gap\"} 1",
            "covey_feed_state{role=\"standby\",state=\"exact\"} 0",
            "covey_feed_lag_seconds{role=\"publisher\"} 1.5",
        ] {
            assert!(text.lines().any(|line| line.starts_with(sample)), "{sample} is not in {text}");
        }
        assert!(!text.contains("lag_seconds{role=\"standby\"}") && !text.contains("leaving"), "{text}");
    }

    #[test]
    fn every_kind_that_has_a_counter_here_is_one_that_is_counted() {
        let notes = Notes::default().snapshot();
        for kind in NAMED_HERE {
            assert!(notes.counts.iter().any(|(known, ..)| *known == kind), "{kind} is no kind of note");
        }
    }
}
