//! What readers and the writer may expect of each other, however long a reader holds on and whatever life writes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn a_lookup_sees_one_whole_version_under_a_concurrent_writer_i8() {
    const RUNS: u32 = 12;
    let (index, mut writer) = index();
    let at = |no: u32| if no == 1 { Place::ROOT } else { Place { run: RunId(no - 1), blocks: 1 } };
    feed(&mut writer, (1..=RUNS).map(|no| run(no, at(no), [u64::from(no)])));
    feed(&mut writer, (0..2).flat_map(|no| [record(no, 1, "boot"), holder(no as u32, no, 0, 0)]));
    let start = u64::from(RUNS) + 4;
    let stop = AtomicBool::new(false);
    let chain = hashes(1..=u64::from(RUNS));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let overlap = index.load().lookup(&keyspace(0), &chain);
                    let turns = overlap.version().changes.saturating_sub(start) / u64::from(2 * RUNS);
                    let holder = WorkerNo(1 - (turns % 2) as u32);
                    let expected = if turns == 0 { 0 } else { RUNS };
                    assert_eq!((overlap.depth_of(holder), overlap.steps().len() as u64), (expected, turns.min(1)));
                }
            });
        }
        // Turn after turn the whole chain moves from one worker to the other, a run at a time.
        for turn in 1..=4_000u32 {
            let (from, to) = (turn % 2, 1 - turn % 2);
            feed(&mut writer, (1..=RUNS).flat_map(|no| [reach(from, no, 0), reach(to, no, 1)]));
            let _later = writer.publish();
        }
        stop.store(true, Ordering::Relaxed);
    });
    while writer.publish().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(index.load().version().changes, start + 4_000 * u64::from(2 * RUNS));
}

#[test]
fn a_reader_that_holds_on_never_blocks_the_writer() {
    let (index, mut writer) = index();
    feed(&mut writer, [run(1, Place::ROOT, 0..4), record(0, 1, "boot"), holder(0, 0, 0, 0)]);
    assert_eq!(writer.publish(), None);
    let held = index.load();
    for turn in 0..1_000u32 {
        writer.changed(reach(0, 1, turn % 5));
        // One publish goes through into the copy nobody holds; a blocking one would hang here for ever.
        assert_eq!(writer.publish(), if turn == 0 { None } else { Some(PUBLISH_RETRY) });
    }
    let mut other = index.load();
    assert_eq!((held.version().changes, other.version().changes), (3, 4));
    drop(held);
    assert_eq!(writer.publish(), None);
    other = index.load();
    assert_eq!(other.version().changes, 1_003);
    assert_eq!(other.lookup(&keyspace(0), &hashes(0..4)).depth_of(WorkerNo(0)), 999 % 5);
}

#[test]
fn a_reader_that_never_lets_go_costs_a_copy_not_an_endless_log_i9() {
    let (index, mut writer) = index();
    let held = index.load();
    let load = |requests| Load { requests, queued_tokens: 1 };
    let mut longest = 0;
    for turn in 0..3 * LOG_OPS_MAX as u32 {
        writer.load(LifeId(9), &worker(0), load(turn + 1));
        let _later = writer.publish();
        longest = longest.max(writer.waiting());
    }
    assert_eq!(held.version().changes, 0);
    assert!(longest <= LOG_OPS_MAX + 1, "{longest} ops waited");
    assert_eq!(writer.publish(), None);
    assert_eq!(index.load().others(WorkerNo(0)), load(3 * LOG_OPS_MAX as u32));
}

#[test]
fn a_new_life_starts_empty_and_the_old_one_publishes_no_more() {
    let (index, mut old) = index();
    let coverage = || [run(1, Place::ROOT, 0..4), record(0, 1, "boot"), holder(0, 0, 0, 0), reach(0, 1, 4)];
    feed(&mut old, coverage());
    assert_eq!(old.publish(), None);
    let mut new = index.writer(LifeId(8));
    assert_eq!((index.load().version(), index.load().size()), (Version { life: 2, changes: 0 }, (0, 0)));
    feed(&mut old, [reach(0, 1, 2)]);
    assert_eq!(old.publish(), None);
    assert!(!old.if_current(|| unreachable!("the old life is over")));
    assert_eq!(index.load().size(), (0, 0), "a superseded life shows nothing");
    feed(&mut new, coverage());
    assert_eq!(new.publish(), None);
    assert_eq!(index.load().lookup(&keyspace(0), &hashes(0..4)).depth_of(WorkerNo(0)), 4);
}
