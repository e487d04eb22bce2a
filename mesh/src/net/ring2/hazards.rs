//! Single hazards of connections, each named: cuts of every length, half-open links, simultaneous dials, swapped
//! processes, join storms, other secrets, stalls, departures under load, addresses that change.
//!
//! Not here: streams within a connection (`streams`), mixtures (`swarm`).

use std::time::Duration;

use covey_crdt::id::LifeId;

use super::network::Paths;
use super::process::Wish;
use super::run;
use super::world::{World, address, wish};
use crate::net::metrics::LinkFailure;

const SOON: Duration = Duration::from_secs(10);
/// What the mesh promises after the last fault.
const HEAL: Duration = Duration::from_secs(2);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A world whose gateways have been linked for a while.
async fn settled(seed: u64, gateways: usize) -> World {
    let mut world = World::of(seed, Paths::calm(), gateways);
    world.until("linked and clean", SOON, World::agrees).await;
    world.pass(ms(6_000)).await;
    world
}

fn cut(world: &World, a: usize, b: usize) {
    world.scene.network.cut(address(a), address(b));
    world.scene.network.cut(address(b), address(a));
}

fn life(world: &World, index: usize) -> LifeId {
    world.process(index).mesh.life()
}

fn failed(list: &[(LinkFailure, u64)], why: LinkFailure) -> u64 {
    list.iter().filter(|(what, _)| *what == why).map(|(_, n)| n).sum()
}

#[test]
fn a_cut_of_any_length_heals_within_two_seconds() {
    for cut_ms in [200, 700, 1_300, 1_500, 1_700, 2_500, 2_950, 3_500, 4_500, 6_000, 9_000, 20_000, 70_000] {
        run(async {
            let mut world = settled(cut_ms, 3).await;
            cut(&world, 0, 1);
            cut(&world, 0, 2);
            // Under load, which fills the congestion window: then only QUIC's probes could find that the path has healed.
            for _ in 0..cut_ms / 50 {
                assert!((0..3).all(|index| world.place(index, 60)));
                world.pass(ms(50)).await;
            }
            world.scene.network.mend_all();
            let took = world.until(&format!("whole after a cut of {cut_ms} ms"), HEAL, World::is_whole).await;
            eprintln!("a cut of {cut_ms} ms healed in {took:?}");
        });
    }
}

#[test]
fn a_half_open_link_gives_way_to_the_peer_that_lost_it() {
    // The one that keeps the dead link has the smaller life and dialled: by the rule for simultaneous dials it would win.
    let mut tried = 0;
    for seed in 0..12 {
        run(async {
            let mut world = World::new(seed, Paths::calm());
            world.start(wish(0, &[1]));
            world.start(wish(1, &[]));
            world.until("linked and clean", SOON, World::agrees).await;
            world.pass(ms(6_000)).await;
            if life(&world, 0) > life(&world, 1) {
                return;
            }
            tried += 1;
            let dials_before = world.process(1).mesh.metrics().dials;
            // Gateway 1 stops hearing first, and gives up first.
            world.scene.network.cut(address(0), address(1));
            // With its congestion window full, gateway 0 is silent: nothing of it tells gateway 1 of the dead link.
            for _ in 0..24 {
                assert!((0..4).all(|_| world.place(0, 900)));
                world.pass(ms(50)).await;
            }
            world.scene.network.cut(address(1), address(0));
            world.until("the link is lost on one side", SOON, |world| world.process(1).linked().is_empty()).await;
            assert_eq!(world.process(0).linked().len(), 1, "the other side still believes in it");
            world.scene.network.mend_all();
            world.until("linked again", ms(700), |world| world.process(1).linked().len() == 1).await;
            assert!(world.place(1, 5));
            world.until("whole", HEAL, World::is_whole).await;
            world.pass(ms(3_000)).await;
            assert_eq!(world.process(1).mesh.metrics().dials, dials_before + 1, "its first dial is taken, and kept");
        });
    }
    assert!(tried >= 3, "{tried}");
}

#[test]
fn two_that_dial_each_other_keep_one_link_and_it_does_not_flap() {
    for seed in 0..20 {
        run(async {
            let mut world = World::of(seed, Paths { delay_us: 20_000, jitter_us: 5_000, ..Paths::calm() }, 2);
            world.until("linked and clean", SOON, World::agrees).await;
            world.pass(ms(1_000)).await;
            world.pass(ms(20_000)).await;
            for process in world.running() {
                let linked = process.linked();
                assert!(linked.len() == 1 && linked[0].1 > 19_500, "seed {seed}: {}", world.describe());
                assert!(process.mesh.metrics().dials <= 2, "seed {seed}: {}", world.describe());
            }
        });
    }
}

#[test]
fn a_new_life_at_an_old_address_is_believed_while_the_old_ones_connection_lingers() {
    for gap_ms in [0, 20, 300, 2_000, 5_000] {
        run(async {
            let mut world = settled(gap_ms, 3).await;
            world.crash(1);
            world.pass(ms(gap_ms)).await;
            world.restart(1);
            let took = world.until("whole again", ms(3_000), World::is_whole).await;
            eprintln!("a gateway swapped after {gap_ms} ms was whole in {took:?}");
        });
    }
}

#[test]
fn seventeen_gateways_that_start_together_find_each_other() {
    run(async {
        let mut world = World::of(1, Paths { delay_us: 1_000, jitter_us: 1_000, ..Paths::calm() }, 17);
        let took = world.until("all linked and clean", SOON, World::agrees).await;
        let dials: u64 = world.running().map(|process| process.mesh.metrics().dials).sum();
        eprintln!("17 gateways, {took:?}, {dials} dials, {:?}", world.scene.network.counts());
        assert!(dials <= 17 * 16 * 3 / 2, "{dials} dials for 136 links");
        assert!((0..17).all(|index| world.place(index, 10)));
        world.until("whole", HEAL, World::is_whole).await;
    });
}

#[test]
fn a_gateway_of_another_secret_is_refused_by_name_and_disturbs_nobody() {
    run(async {
        let mut world = settled(3, 2).await;
        let stranger = Wish { secret: [7; 32], ..wish(2, &[0, 1]) };
        let index = world.start(stranger);
        world.pass(ms(20_000)).await;
        let metrics = world.process(index).mesh.metrics();
        assert!(metrics.links.is_empty());
        assert!(failed(&metrics.dials_failed, LinkFailure::Secret) >= 2, "{metrics:?}");
        assert!(metrics.dials <= 20, "it backs off: {} dials", metrics.dials);
        world.crash(index);
        for process in world.running() {
            let (name, up_ms) = process.linked()[0].clone();
            assert!(up_ms > 25_000, "the link with {name} did not suffer");
        }
        assert!(world.agrees());
    });
}

#[test]
fn a_stall_shorter_than_the_watchdogs_patience_costs_no_life() {
    for whole in [false, true] {
        run(async {
            let mut world = settled(4, 3).await;
            let before = life(&world, 0);
            let gates = world.process(0).stall(whole);
            world.pass(ms(1_700)).await;
            assert!((0..3).all(|index| world.place(index, 30)));
            gates.turns.open();
            gates.quic.open();
            world.until("whole", HEAL, World::is_whole).await;
            assert_eq!(life(&world, 0), before);
            assert!(world.running().all(|process| process.linked().iter().all(|(_, up_ms)| *up_ms > 7_000)));
        });
    }
}

#[test]
fn a_life_that_wakes_from_a_long_stall_harms_nothing_of_the_one_that_took_over() {
    run(async {
        let mut world = settled(5, 3).await;
        let before = life(&world, 0);
        let gates = world.process(0).stall(true);
        world.until("superseded", SOON, |world| life(world, 0) != before).await;
        world.until("the new life is whole", ms(4_000), World::is_whole).await;
        world.pass(ms(6_000)).await;
        let after = life(&world, 0);
        gates.turns.open();
        gates.quic.open();
        world.pass(ms(5_000)).await;
        assert_eq!(life(&world, 0), after);
        assert!(world.is_whole());
        assert!(
            world.running().all(|process| process.linked().iter().all(|(_, up_ms)| *up_ms > 9_000)),
            "{}",
            world.describe()
        );
    });
}

#[test]
fn what_waits_for_a_life_that_stalled_is_left_to_the_next_one() {
    run(async {
        let mut world = settled(10, 2).await;
        let before = life(&world, 0);
        let gates = world.process(0).stall(true);
        while !world.process(0).shared.current.load().is_superseded() {
            tokio::time::sleep(ms(5)).await;
        }
        // The old life wakes before the new one has begun, and finds the queue full.
        for _ in 0..20 {
            world.introduce(0);
        }
        gates.turns.open();
        gates.quic.open();
        world.until("another life", SOON, |world| life(world, 0) != before).await;
        world.until("everything that waited is everywhere", ms(5_000), World::is_whole).await;
    });
}

#[test]
fn a_donor_that_leaves_while_its_repair_stream_is_full_leaves_in_time() {
    run(async {
        let mut world = World::of(6, Paths { delay_us: 30_000, ..Paths::calm() }, 2);
        world.until("linked and clean", SOON, World::agrees).await;
        for _ in 0..100 {
            assert!((0..20).all(|_| world.place(0, 400)));
            world.pass(ms(20)).await;
        }
        world.until("whole", SOON, World::is_whole).await;
        let joiner = world.start(wish(2, &[0, 1]));
        world.until("a session runs", SOON, |world| world.process(joiner).mesh.status().repairing).await;
        world.pass(ms(150)).await;
        // A goodbye is bounded inside; the joiner turns to the other.
        world.leave(0).await;
        world.until("whole", ms(60_000), World::is_whole).await;
    });
}

#[test]
fn an_idle_link_is_kept_alive_for_an_hour() {
    run(async {
        let mut world = settled(7, 2).await;
        for _ in 0..60 {
            tokio::time::sleep(ms(60_000)).await;
            world.look();
        }
        world.pass(ms(500)).await;
        assert!(world.running().all(|process| process.linked()[0].1 > 3_500_000), "{}", world.describe());
    });
}

#[test]
fn a_gateway_that_a_nat_moves_is_linked_again_within_five_seconds() {
    run(async {
        let mut world = settled(8, 3).await;
        let appears = std::net::SocketAddr::from(([192, 0, 2, 1], 9_999));
        world.scene.network.renumber(address(0), appears);
        assert!((0..3).all(|index| world.place(index, 5)));
        let took = world.until("whole from the new address", ms(5_000), World::is_whole).await;
        eprintln!("whole again in {took:?}");
        let seen = world.process(1).mesh.metrics().links;
        assert!(seen.iter().any(|link| link.name == "g0" && link.address == appears), "{seen:?}");
    });
}

#[test]
fn a_loop_that_stands_still_under_load_pauses_its_peers_and_loses_nothing() {
    run(async {
        let mut world = settled(9, 2).await;
        let gates = world.process(1).stall(false);
        let mut paused = false;
        for _ in 0..34 {
            assert!((0..30).all(|_| world.place(0, 900)));
            world.pass(ms(50)).await;
            let metrics = world.process(0).mesh.metrics();
            paused |= metrics.links[0].queued_bytes > 700_000 || metrics.frames_dropped.push > 0;
        }
        assert!(paused, "the load was too small to fill a queue: {}", world.describe());
        gates.turns.open();
        world.until("whole", SOON, World::is_whole).await;
        let metrics = world.process(0).mesh.metrics();
        eprintln!("dropped {:?}, sent {:?}", metrics.frames_dropped, metrics.frames_out);
        assert!(world.place(0, 5));
        let took = world.until("pushes flow again", ms(500), World::is_whole).await;
        eprintln!("a push after the pause took {took:?}");
    });
}
