//! Panics, stalls and endings of the mesh thread: request threads never notice more than a stale view.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use covey_crdt::hash::HashKey;
use covey_crdt::id::WorkerId;
use covey_mesh::input::{Load, Local};
use covey_mesh::net::{Mesh, start};

use crate::support::{Gateway, SOON, config, gateway, net, wait_for};

fn load(worker: &str) -> Local {
    Local::Load { worker: WorkerId::new(worker, 0).expect("a name"), load: Load::default() }
}

#[test]
fn a_panic_in_the_host_ends_in_a_new_life_that_is_linked_again() {
    let a = gateway("a", &[]);
    let b = gateway("b", &[a.address()]);
    wait_for("linked", SOON, || a.linked() == ["b"] && b.linked() == ["a"]);
    let life = b.mesh.life();
    b.seen.panic.store(true, Ordering::SeqCst);
    wait_for("a new life", SOON, || b.mesh.life() != life);
    let took = wait_for("linked again", SOON, || {
        b.linked() == ["a"] && a.mesh.metrics().links.iter().any(|link| link.life == b.mesh.life().to_string())
    });
    assert!(took < Duration::from_secs(3), "took {took:?}");
    assert_eq!(b.mesh.metrics().restarts_panicked, 1);
    assert_eq!(b.seen.lives.lock().expect("no panic inside").len(), 2);
    assert!(b.mesh.submit(load("w")));
    // Long before the idle timeout: packets for the old life are answered with a reset.
    wait_for("the peer knows one life only", Duration::from_secs(3), || a.mesh.metrics().links.len() == 1);
}

#[test]
fn a_stalled_life_is_superseded_and_publishes_nothing_more() {
    let a = gateway("a", &[]);
    let (mut config, seen) =
        config("b", &covey_mesh::net::derive_hash_key(&crate::support::SECRET), Some(net(&[a.address()])));
    config.stall_after = Duration::from_millis(300);
    let b = Gateway { mesh: start(config).expect("starts"), seen };
    wait_for("linked", SOON, || a.linked() == ["b"] && b.linked() == ["a"]);
    let first = b.mesh.life();
    b.seen.stall_ms.store(2_500, Ordering::SeqCst);
    wait_for("a new life", Duration::from_secs(2), || b.mesh.life() != first);
    wait_for("linked again while the old thread still sleeps", Duration::from_secs(3), || b.linked() == ["a"]);
    assert_eq!(b.mesh.metrics().restarts_stalled, 1);
    std::thread::sleep(Duration::from_millis(2_600));
    let second = b.mesh.life();
    assert_ne!(second, first);
    assert_eq!(*b.seen.publisher.lock().expect("no panic inside"), Some(second), "the old host stays silent");
    assert_eq!(b.mesh.metrics().restarts_stalled, 1, "and the new life goes on");
    assert_eq!(b.linked(), ["a"]);
}

#[test]
fn request_threads_never_wait_for_a_stalled_mesh_thread() {
    let (config, seen) = config("a", &HashKey::ZERO, None);
    let mesh = start(config).expect("starts");
    wait_for("running", SOON, || seen.publishes.load(Ordering::SeqCst) > 0);
    seen.stall_ms.store(1_000, Ordering::SeqCst);
    wait_for("stalled", SOON, || mesh.silent_for() > Duration::from_millis(100));
    let started = Instant::now();
    let mut refused = 0;
    for _ in 0..20_000 {
        refused += u64::from(!mesh.submit(load("w")));
        let _ = mesh.status();
    }
    assert!(started.elapsed() < Duration::from_millis(500), "took {:?}", started.elapsed());
    assert!(refused > 0, "the queue is bounded");
    assert_eq!(mesh.metrics().commands_dropped, refused);
    wait_for("the stall passes and the queue is worked off", SOON, || mesh.submit(load("w")));
}

#[test]
fn a_mesh_that_is_off_runs_the_same_loop_and_answers() {
    let (config, seen) = config("a", &HashKey::ZERO, None);
    let mesh = start(config).expect("starts");
    wait_for("publishes", SOON, || seen.publishes.load(Ordering::SeqCst) > 3);
    assert_eq!(mesh.status().name, "a");
    assert_eq!(mesh.bound_address(), None);
    assert!(mesh.silent_for() < Duration::from_secs(1));
    assert!(mesh.leave(Duration::from_secs(2)));
}

#[test]
fn leaving_is_bounded_even_when_the_mesh_thread_is_stuck() {
    let (config, seen) = config("a", &HashKey::ZERO, None);
    let mesh = start(config).expect("starts");
    wait_for("running", SOON, || seen.publishes.load(Ordering::SeqCst) > 0);
    seen.stall_ms.store(1_500, Ordering::SeqCst);
    wait_for("stalled", SOON, || mesh.silent_for() > Duration::from_millis(100));
    let started = Instant::now();
    assert!(!mesh.leave(Duration::from_millis(200)));
    assert!(started.elapsed() < Duration::from_millis(1_000), "took {:?}", started.elapsed());
}

#[test]
fn dropping_the_last_handle_frees_the_port() {
    let a = gateway("a", &[]);
    let port = a.address();
    let second: Mesh = a.mesh.clone();
    drop(a);
    assert!(std::net::UdpSocket::bind(port).is_err(), "a clone keeps the mesh running");
    drop(second);
    wait_for("the port is free", SOON, || std::net::UdpSocket::bind(port).is_ok());
}

#[test]
fn a_host_that_always_panics_does_not_spin() {
    let (config, seen) = config("a", &HashKey::ZERO, None);
    let mesh = start(config).expect("starts");
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        seen.panic.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
    }
    let lives = seen.lives.lock().map_or_else(|poisoned| poisoned.into_inner().len(), |lives| lives.len());
    assert!((3..=10).contains(&lives), "{lives} lives in two seconds");
    assert!(mesh.leave(SOON) || mesh.metrics().restarts_panicked > 0);
}
