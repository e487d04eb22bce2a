//! Feeds of one worker, as several gateways tell of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::id::{GatewayName, LifeId};
use covey_mesh::feed::FeedReport;
use covey_mesh::summary::{Dated, Summary, WorkerSeen};

use super::*;

fn id() -> WorkerId {
    WorkerId::new("w", 0).expect("a name")
}

/// A gateway that says this of the feed, so long ago.
fn sight(name: &str, told: Option<(Role, FeedState)>, age_ms: u64) -> Sight {
    let feed = |(role, state)| {
        let report = FeedReport { state, since_ms: 70, proven_ms: Some(1), lag_ms: Some(3), position: 9 };
        let of = FeedSeen { worker: "w".to_owned(), rank: 0, role, report };
        (id(), Dated { of: Arc::new(of), age_ms })
    };
    Sight {
        life: LifeId(1),
        name: GatewayName::new(name).expect("a name"),
        summary: Arc::new(Summary::default()),
        age_ms: 0,
        workers: BTreeMap::new(),
        feeds: told.map(feed).into_iter().collect(),
    }
}

fn stores(sight: &mut Sight, stored: Option<u64>, is_complete: bool, age_ms: u64) {
    let of = WorkerSeen { worker: "w".to_owned(), stored, is_complete, ..WorkerSeen::default() };
    sight.workers.insert(id(), Dated { of: Arc::new(of), age_ms });
}

fn rows(sights: &[Sight]) -> Vec<GatewayView> {
    sights.iter().map(|sight| GatewayView { name: sight.name.to_string(), ..GatewayView::default() }).collect()
}

fn of(sights: &[Sight]) -> Option<FeedView> {
    feed(&id(), &rows(sights), &sights.iter().map(Some).collect::<Vec<_>>(), 0)
}

#[test]
fn the_publisher_is_believed_and_the_standby_is_named() {
    let feed = of(&[
        sight("a", Some((Role::Standby, FeedState::Gap)), 0),
        sight("b", Some((Role::Publisher, FeedState::Exact)), 900),
        sight("c", None, 0),
    ]);
    let feed = feed.expect("it is read");
    assert_eq!((feed.publishers, feed.standbys), (vec!["b".to_owned()], vec!["a".to_owned()]));
    assert_eq!((feed.state, feed.for_ms, feed.lag_ms), (FeedState::Exact, Some(70), Some(3)));
    assert_eq!((feed.position, feed.age_ms, feed.is_complete), (Some(9), Some(900), None));
}

#[test]
fn what_was_told_long_ago_is_stale_and_says_nothing() {
    let at = |age_ms| of(&[sight("b", Some((Role::Publisher, FeedState::Exact)), age_ms)]).expect("it is read");
    assert_eq!(at(FEED_MS_MAX).state, FeedState::Exact);
    let old = at(FEED_MS_MAX + 1);
    assert_eq!((old.state, old.for_ms, old.lag_ms, old.position), (FeedState::Stale, None, None, None));
    assert_eq!((old.publishers, old.age_ms), (vec!["b".to_owned()], Some(FEED_MS_MAX + 1)));
    // So it is when the gateway as a whole is silent, and when the viewer's own mesh thread is.
    let mut sights = [sight("b", Some((Role::Publisher, FeedState::Exact)), 0)];
    let silent = |sights: &[Sight; 1], ms| feed(&id(), &rows(sights), &[Some(&sights[0])], ms).expect("it is read");
    assert_eq!(silent(&sights, FEED_MS_MAX + 1).state, FeedState::Stale);
    sights[0].age_ms = FEED_MS_MAX;
    assert_eq!(silent(&sights, 0).state, FeedState::Exact);
    assert_eq!(silent(&sights, 1).state, FeedState::Stale);
}

#[test]
fn a_standby_that_is_heard_outranks_a_publisher_that_is_not() {
    let feed = of(&[
        sight("a", Some((Role::Publisher, FeedState::Exact)), 5_000),
        sight("b", Some((Role::Standby, FeedState::Bootstrapping)), 10),
    ]);
    let feed = feed.expect("it is read");
    assert_eq!((feed.publishers.len(), feed.standbys, feed.state), (0, vec!["b".to_owned()], FeedState::Bootstrapping));
}

#[test]
fn two_publishers_are_both_named_and_the_newest_word_counts() {
    let feed = of(&[
        sight("gw-10", Some((Role::Publisher, FeedState::Gap)), 10),
        sight("gw-9", Some((Role::Publisher, FeedState::Exact)), 20),
    ]);
    let feed = feed.expect("it is read");
    assert_eq!((feed.publishers, feed.state), (vec!["gw-9".to_owned(), "gw-10".to_owned()], FeedState::Gap));
}

#[test]
fn a_worker_whose_events_nobody_reads_has_no_feed_or_a_stale_one() {
    assert_eq!(of(&[sight("a", None, 0), sight("b", Some((Role::Leaving, FeedState::Exact)), 0)]), None);
    let mut sights = [sight("a", None, 0), sight("b", None, 0)];
    stores(&mut sights[0], Some(7), true, 400);
    stores(&mut sights[1], Some(8), false, 100);
    let feed = of(&sights).expect("events are known");
    assert_eq!((feed.state, feed.age_ms, feed.publishers.len()), (FeedState::Stale, None, 0));
    assert_eq!((feed.stored_blocks, feed.is_complete), (Some(8), Some(false)), "the newest word");
    let mut gateways = rows(&sights);
    gateways[0].me = true;
    let both = [Some(&sights[0]), Some(&sights[1])];
    let own = super::feed(&id(), &gateways, &both, 0).expect("events are known");
    assert_eq!((own.stored_blocks, own.is_complete), (Some(7), Some(true)), "the viewer's replica before all");
    gateways[1].left = true;
    gateways[0].left = true;
    assert_eq!(super::feed(&id(), &gateways, &both, 0), None, "who left tells nothing");
}

#[test]
fn feeds_are_counted_by_state() {
    let mut counts = FeedCounts::default();
    let of = |state| FeedView { state, ..FeedView::default() };
    counts.add(None);
    for state in [FeedState::Exact, FeedState::Exact, FeedState::Gap, FeedState::Bootstrapping, FeedState::Stale] {
        counts.add(Some(&of(state)));
    }
    assert_eq!(counts, FeedCounts { exact: 2, gap: 1, bootstrapping: 1, stale: 1, unread: 1 });
}
