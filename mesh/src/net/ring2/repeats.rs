//! One seed, one trace: when, from where, to where and how large every datagram was, in this process and in another.
//!
//! Not here: what is judged of a run (`swarm`); contents differ between runs, and nothing may depend on them.

use std::process::Command;
use std::time::Duration;

use super::network::Paths;
use super::run;
use super::world::World;

const CHILD: &str = "COVEY_RING2_CHILD";

/// A few seconds of three gateways over a bad network, with a crash and a restart.
fn trace(seed: u64) -> (u64, u64) {
    run(async {
        let bad =
            Paths { delay_us: 2_000, jitter_us: 3_000, loss_permille: 30, duplicate_permille: 20, mtu_bytes: 1_400 };
        let mut world = World::of(seed, bad, 3);
        assert!(world.process(0).mesh.submit(super::world::known()));
        for round in 0..40 {
            let _ = world.place(round % 3, 40);
            world.pass(Duration::from_millis(100)).await;
            if round == 20 {
                world.crash(2);
            }
            if round == 30 {
                world.restart(2);
            }
        }
        (world.scene.network.trace(), world.scene.network.counts().sent)
    })
}

#[test]
fn the_same_seed_sends_the_same_datagrams_here_and_in_another_process() {
    let first = trace(7);
    assert!(first.1 > 500, "{first:?}");
    assert_eq!(first, trace(7));
    assert_ne!(first.0, trace(8).0);
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "net::ring2::repeats::child_process", "--nocapture"])
        .env(CHILD, "7")
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(text.contains(&format!("trace {first:?}")), "{first:?} is not in: {text}");
}

/// The other process of the test above: it does nothing unless started by it.
#[test]
#[expect(clippy::print_stdout, reason = "how it answers the process that started it")]
fn child_process() {
    let Ok(seed) = std::env::var(CHILD) else { return };
    println!("trace {:?}", trace(seed.parse().expect("a number")));
}
