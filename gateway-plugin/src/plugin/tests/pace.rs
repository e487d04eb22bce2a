//! Workers of unequal speed, on a clock that the test moves: what is learned of them from answers that begin.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// Between two requests, microseconds.
const PAUSE_US: u64 = 20_000;

/// Requests that each worker gets of `count`, one every [`PAUSE_US`], when they compute so many tokens a second.
fn arrived(plugin: &Plugin, now_us: &AtomicU64, pace: &[u64], count: u64) -> Vec<u64> {
    let mut queues: Vec<VecDeque<(Ticket, u64)>> = pace.iter().map(|_| VecDeque::new()).collect();
    let mut arrived = vec![0; pace.len()];
    for nth in 0..count {
        let key = long_prompt(nth);
        let routed = plugin.route(&key, &Hints::default()).expect("all are usable");
        let at = usize::from(routed.worker.name().as_bytes()[0] - b'a');
        arrived[at] += 1;
        let now = now_us.load(Ordering::Relaxed);
        let begins = queues[at].back().map_or(now, |(_, ends)| *ends).max(now);
        queues[at].push_back((routed.ticket, begins + key.prompt_tokens() * 1_000_000 / pace[at]));
        for step in 1..=20 {
            let later = now + step * PAUSE_US / 20;
            now_us.store(later, Ordering::Relaxed);
            for queue in &mut queues {
                while queue.front().is_some_and(|(_, ends)| *ends <= later) {
                    let (mut ticket, _) = queue.pop_front().expect("looked at");
                    plugin.answering(&mut ticket);
                }
            }
        }
    }
    arrived
}

#[test]
fn a_slower_worker_is_sent_less_by_the_pace_learned_of_it_and_more_again_when_it_is_fast() {
    let (plugin, now_us) = on_a_clock();
    ["a", "b", "c", "d"].iter().for_each(|name| plugin.worker_seen(&id(name)));
    let share = |pace: &[u64]| {
        arrived(&plugin, &now_us, pace, 2_000);
        let arrived = arrived(&plugin, &now_us, pace, 1_000);
        arrived[3] as f64 / (arrived.iter().sum::<u64>() as f64 / 4.0)
    };
    // 100,000 tokens a second come; the four compute 148,000, of which the last one an eighth.
    let slow = share(&[43_000, 43_000, 43_000, 19_000]);
    assert!((0.2..0.62).contains(&slow), "it got {slow:.2} of the mean");
    let healed = share(&[43_000; 4]);
    assert!(healed > 0.85, "it got {healed:.2} of the mean when it was as fast as the others");
}

/// A long prompt of another gateway's is queued there until its answer begins, and mostly computed long before.
#[test]
fn a_queue_that_another_gateway_filled_shrinks_by_what_is_computed_meanwhile() {
    let (plugin, now_us) = on_a_clock();
    ["a", "b"].iter().for_each(|name| plugin.worker_seen(&id(name)));
    let mut feed = plugin.feed(LifeId(1));
    let chosen = || {
        let routed = plugin.route(&long_prompt(1), &Hints::default()).expect("both are usable");
        (routed.worker.clone(), routed.queued_tokens)
    };
    feed.load(LifeId(9), &id("a"), Some(Load { requests: 1, queued_tokens: 30_000 }));
    assert_eq!(feed.publish(), None);
    assert_eq!(chosen(), (id("b"), 0));
    now_us.store(6_000_001, Ordering::Relaxed);
    feed.load(LifeId(9), &id("b"), Some(Load { requests: 1, queued_tokens: 10_000 }));
    assert_eq!(feed.publish(), None);
    assert_eq!(chosen(), (id("a"), 6_000), "at 4,000 tokens a second, while no pace is known");
}

/// The queue of a gateway that died leaves its worker without having been computed: that is no pace.
#[test]
fn a_queue_that_went_with_its_gateway_says_nothing_of_how_fast_its_worker_is() {
    let (plugin, now_us) = on_a_clock();
    plugin.worker_seen(&id("a"));
    let mut feed = plugin.feed(LifeId(1));
    let mut queued_later = |after: Option<Load>| {
        let began = now_us.load(Ordering::Relaxed);
        feed.load(LifeId(9), &id("a"), Some(Load { requests: 9, queued_tokens: 900_000 }));
        now_us.store(began + 1_000_000, Ordering::Relaxed);
        feed.load(LifeId(9), &id("a"), after);
        feed.load(LifeId(8), &id("a"), Some(Load { requests: 1, queued_tokens: 100_000 }));
        now_us.store(began + 2_000_000, Ordering::Relaxed);
        assert_eq!(feed.publish(), None);
        let queued = plugin.route(&long_prompt(1), &Hints::default()).expect("it is usable").queued_tokens;
        feed.load(LifeId(8), &id("a"), None);
        queued
    };
    assert_eq!(queued_later(None), 96_000, "a careful guess of 4,000 tokens a second, as before");
    assert_eq!(queued_later(Some(Load::default())), 0, "computed in a second, it is a fast one");
}
