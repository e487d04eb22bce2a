//! Requests that workers report and no gateway accounts for.

use std::sync::atomic::Ordering;

use super::*;

#[test]
fn what_workers_report_beyond_what_gateways_sent_is_queued_there_until_it_is_old() {
    let (plugin, now_us) = on_a_clock();
    let mut feed = plugin.feed(LifeId(1));
    ["a", "b"].iter().for_each(|name| plugin.worker_seen(&id(name)));
    let (a, b) = (id("a"), id("b"));
    let first = plugin.route(&long_prompt(1), &Hints::default()).expect("both are usable");
    let (busy, other) = if first.worker == a { (a, b) } else { (b, a) };
    assert_eq!(plugin.accounted_requests(&busy), 1);

    plugin.worker_told(&busy, 1, 1);
    assert_eq!(plugin.unseen_load(&busy), Load::default(), "that one is this gateway's own");
    plugin.worker_told(&busy, 4, 0);
    assert_eq!(plugin.unseen_load(&busy), Load { requests: 3, queued_tokens: 6_000 }, "each like one's own");
    plugin.worker_told(&busy, 4, 3);
    assert_eq!(plugin.unseen_load(&busy).requests, 1, "more was accounted for when it was asked");
    feed.load(LifeId(9), &busy, Some(Load { requests: 3, queued_tokens: 10 }));
    assert_eq!(feed.publish(), None);
    plugin.worker_told(&busy, 4, 0);
    assert_eq!(plugin.unseen_load(&busy), Load::default(), "the others are another gateway's");

    plugin.worker_told(&other, 8, 0);
    let whole = plugin.route(&long_prompt(9), &Hints::default()).expect("both are usable");
    assert_eq!(whole.worker, other, "in a whole mesh it counts for nothing");
    drop(whole);
    plugin.set_unheard(0.5);
    let next = plugin.route(&long_prompt(2), &Hints::default()).expect("both are usable");
    assert_eq!((&next.worker, next.runners_up[0].queued_tokens), (&busy, 16_000));
    now_us.store(20_000_000, Ordering::Relaxed);
    let later = plugin.route(&long_prompt(3), &Hints::default()).expect("both are usable");
    assert_eq!((&later.worker, later.queued_tokens), (&other, 0), "it told nothing for too long");
}
