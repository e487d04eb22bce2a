//! The ring under one thread and several, and what a decision shows as its request goes on.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use covey_crdt::id::WorkerId;

use super::super::fault::Fault;
use super::super::headers;
use super::super::request_id::RequestIds;
use super::*;
use crate::index::Version;
use crate::plugin::{Outcome, RunnerUp};
use crate::policy::{Policy, Reason};

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name, 0).expect("a name")
}

fn decided(id: &str, to: &str) -> Decided {
    let mut client = HeaderMap::new();
    client.insert(headers::REQUEST_ID, HeaderValue::from_str(id).expect("plain"));
    let other = RunnerUp { worker: worker("other"), predicted_tokens: 10, queued_tokens: 400, score: 1_390 };
    Decided {
        request_id: RequestIds::new(1).of(&client),
        attempt: 1,
        by_tokens: true,
        policy: Policy::Mesh,
        reason: Reason::Holder,
        outcome: Outcome::Hit,
        worker: worker(to),
        prompt_tokens: 1_000,
        predicted_tokens: 900,
        queued_tokens: 50,
        score: 150,
        runners_up: vec![other],
        version: Version { life: 1, changes: 7 },
        view_age: Duration::from_millis(3),
        lookup_us: 21,
    }
}

fn names(shown: &[DecisionShown]) -> Vec<&str> {
    shown.iter().map(|one| one.request_id.as_str()).collect()
}

#[test]
fn the_last_ones_are_kept_in_their_order_and_found_by_name_and_by_worker() {
    let ring = Decisions::new(4);
    assert!(ring.last(None, 20).is_empty());
    for (id, to) in [("r1", "a"), ("r2", "b"), ("r3", "a"), ("r3", "b"), ("r4", "a"), ("r5", "b")] {
        assert!(ring.keep(|| decided(id, to)).is_some());
    }
    assert_eq!(names(&ring.last(None, 20)), ["r3", "r3", "r4", "r5"], "the oldest two gave way");
    assert_eq!(names(&ring.last(None, 2)), ["r4", "r5"]);
    assert_eq!(names(&ring.last(Some("a"), 20)), ["r3", "r4"]);
    assert_eq!(ring.of("r3").iter().map(|one| one.chosen.worker.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(ring.of("r1").is_empty());
    let none = Decisions::new(0);
    assert!(none.keep(|| unreachable!("nothing is made that is not kept")).is_none());
    assert!(none.last(None, 20).is_empty());
}

#[test]
fn what_came_of_it_is_seen_as_it_comes_and_said_once() {
    let ring = Decisions::new(4);
    let entry = ring.keep(|| decided("r1", "a")).expect("kept");
    let answer = || ring.of("r1").remove(0).answer;
    assert_eq!((answer().state.as_str(), answer().ttft_ms), ("waiting", None));
    entry.answering();
    assert!(answer().state == "answering" && answer().ttft_ms.is_some());
    entry.reported(1_000, Some(896));
    entry.reported(1_000, None);
    entry.ended(Ending::Failed(Fault::Cut));
    entry.ended(Ending::Completed);
    let answer = answer();
    assert_eq!((answer.state.as_str(), answer.fault.as_deref()), ("failed", Some("cut")));
    assert_eq!((answer.reported_prompt_tokens, answer.reported_cached_tokens), (Some(1_000), Some(896)));
}

#[test]
fn threads_that_keep_at_once_lose_nothing_within_the_bound() {
    let ring = Decisions::new(64);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let ring = &ring;
            scope.spawn(move || (0..8).for_each(|nth| drop(ring.keep(|| decided(&format!("r{thread}-{nth}"), "a")))));
        }
    });
    let all = ring.last(None, 100);
    let distinct: std::collections::BTreeSet<_> = names(&all).into_iter().collect();
    assert_eq!(distinct.len(), 64);
}
