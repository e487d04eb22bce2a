//! Events about feeds.

use super::*;
use crate::frame::WorkerView;

fn feed(publishers: &[&str], state: FeedState) -> Option<FeedView> {
    let publishers = publishers.iter().map(|name| (*name).to_owned()).collect();
    Some(FeedView { publishers, state, ..FeedView::default() })
}

fn frame(feeds: &[Option<FeedView>]) -> MeshFrame {
    let row = |(nth, feed): (usize, &Option<FeedView>)| WorkerView {
        id: format!("w{nth}"),
        feed: feed.clone(),
        ..WorkerView::default()
    };
    MeshFrame { workers: feeds.iter().enumerate().map(row).collect(), ..MeshFrame::default() }
}

fn told(was: Option<FeedView>, is: Option<FeedView>) -> Vec<(Option<String>, String, String)> {
    let events = between(&frame(&[was]), &frame(&[is]));
    events.into_iter().map(|event| (event.gateway, event.level, event.text)).collect()
}

#[test]
fn a_feeds_states_and_owners_are_told_when_they_change() {
    let exact = || feed(&["a"], FeedState::Exact);
    let line = |gateway: Option<&str>, level: &str, text: &str| {
        vec![(gateway.map(str::to_owned), level.to_owned(), text.to_owned())]
    };
    assert_eq!(told(exact(), exact()), []);
    assert_eq!(
        told(exact(), feed(&["a"], FeedState::Gap)),
        line(Some("a"), "warn", "the feed of w0 is gap, was exact")
    );
    assert_eq!(told(feed(&["a"], FeedState::Gap), exact()), line(Some("a"), "info", "the feed of w0 is exact"));
    assert_eq!(told(exact(), None), line(None, "warn", "nobody reads events of w0 any more"));
    assert_eq!(
        told(exact(), feed(&["b"], FeedState::Exact)),
        line(Some("b"), "info", "b publishes the feed of w0, a did")
    );
    assert_eq!(
        told(exact(), feed(&[], FeedState::Exact)),
        line(None, "warn", "nobody publishes the feed of w0, a did")
    );
    assert_eq!(
        told(exact(), feed(&["a", "b"], FeedState::Exact)),
        line(None, "warn", "a, b publish the feed of w0 at once")
    );
}

#[test]
fn many_changes_at_once_are_bounded() {
    let all = |state| frame(&vec![feed(&["a"], state); 60]);
    let events = between(&all(FeedState::Exact), &all(FeedState::Stale));
    assert_eq!(events.len(), FEED_EVENTS_MAX + 1);
    assert!(events.iter().all(|event| event.kind == "feed"));
    assert_eq!(events[FEED_EVENTS_MAX].text, "52 more changes of feeds are not shown");
}
