//! What a ticket counts and when its prompt is placed, whatever becomes of the request.

use proptest::prelude::*;

use super::*;

/// Between the head of an answer and its first part the worker computes the prompt: other gateways are to know of it by then,
/// and the worker is as busy as before.
#[test]
fn a_prompt_is_placed_when_its_worker_took_it_and_leaves_the_queue_when_the_answer_begins() {
    let rig = Rig::with_workers(Policy::Mesh, &["a"]);
    let key = key(&prompt(1));
    let load = || rig.plugin.own_load(&id("a"));
    let mut routed = rig.route(&key);
    rig.plugin.accepted(&mut routed.ticket, &key);
    assert_eq!(rig.placed_workers(), [id("a")]);
    assert_eq!(load(), Load { requests: 1, queued_tokens: 400 });
    rig.plugin.answering(&mut routed.ticket);
    rig.plugin.answering(&mut routed.ticket);
    assert_eq!(load(), Load { requests: 1, queued_tokens: 0 }, "once, however often it is said");
    drop(routed);
    assert_eq!(load(), Load::default());
}

/// How much of its prompt such a worker computed is not known: what was placed stays, nothing is added, and the load is taken
/// back whole.
#[test]
fn a_request_that_ends_between_head_and_first_part_adds_nothing_and_gives_its_tokens_back() {
    for end in [None, Some(End::Aborted), Some(End::Failed), Some(End::Completed)] {
        let rig = Rig::with_workers(Policy::Mesh, &["a"]);
        let key = key(&prompt(1));
        let mut routed = rig.route(&key);
        rig.plugin.accepted(&mut routed.ticket, &key);
        match end {
            None => drop(routed),
            Some(end) => rig.plugin.ended(routed.ticket, &key, b"never read", end),
        }
        assert_eq!(rig.placed_workers(), [id("a")], "{end:?}");
        assert_eq!(rig.plugin.own_load(&id("a")), Load::default(), "{end:?}");
    }
}

proptest! {
    /// Whatever becomes of requests, in whatever order: the load is what is outstanding, and in the end it is zero.
    #[test]
    fn load_never_leaks(moves in prop::collection::vec((0u8..7, any::<prop::sample::Index>()), 1..120)) {
        let plugin = Plugin::new(&PluginConfig { policy: Policy::LeastLoad, seed: 5, ..PluginConfig::default() });
        let names = [id("a"), id("b"), id("c")];
        names.iter().for_each(|name| plugin.worker_seen(name));
        let key = key(&prompt(1));
        let mut open: Vec<Routed> = Vec::new();
        for (what, which) in moves {
            if what <= 1 || open.is_empty() {
                open.push(plugin.route(&key, &Hints::default()).expect("all are usable"));
            } else {
                let at = which.index(open.len());
                match what {
                    2 => plugin.accepted(&mut open[at].ticket, &key),
                    3 => plugin.ended(open.swap_remove(at).ticket, &key, b"x", End::Completed),
                    4 => plugin.ended(open.swap_remove(at).ticket, &key, b"", End::Failed),
                    5 => plugin.answering(&mut open[at].ticket),
                    _ => drop(open.swap_remove(at)),
                }
            }
            for name in &names {
                let mine = || open.iter().filter(|routed| routed.worker == *name);
                let requests = mine().count() as u32;
                let queued_tokens = mine().filter(|routed| !routed.ticket.is_answering()).count() as u64 * 400;
                prop_assert_eq!(plugin.own_load(name), Load { requests, queued_tokens });
            }
        }
        plugin.worker_removed(&names[0]);
        open.clear();
        let mut sampled = Vec::new();
        plugin.parts.workers.sample(&mut sampled);
        prop_assert_eq!(sampled.len(), 3);
        prop_assert!(sampled.iter().all(|(_, load)| *load == Load::default()));
    }
}

/// Hazard: load that is told late, or told again for each part of an answer.
#[test]
fn load_is_told_when_a_request_is_sent_begins_to_be_answered_and_ends_and_not_for_each_part() {
    struct Told(Arc<AtomicU64>);
    impl Sink for Told {
        fn submit(&self, _: Local) -> bool {
            true
        }

        fn load_changed(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (plugin, _) = on_a_clock();
    let told: Arc<AtomicU64> = Arc::default();
    plugin.connect(Told(Arc::clone(&told)));
    plugin.worker_seen(&id("a"));
    let key = long_prompt(1);
    let mut ticket = plugin.route(&key, &Hints::default()).expect("it is usable").ticket;
    assert_eq!(told.load(Ordering::Relaxed), 1, "sent");
    (0..50).for_each(|_| plugin.answering(&mut ticket));
    assert_eq!(told.load(Ordering::Relaxed), 2, "its answer began once");
    plugin.ended(ticket, &key, &[], End::Completed);
    assert_eq!(told.load(Ordering::Relaxed), 3, "over");
}
