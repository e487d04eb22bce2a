//! A gateway process that is killed and started again on its port, as a supervisor does.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use covey_mesh::status::Phase;

use crate::support::{Gateway, SOON, gateway, gateway_with, net, wait_for};

const LISTEN: &str = "COVEY_TEST_CHILD_LISTEN";
const SEED: &str = "COVEY_TEST_CHILD_SEED";

/// The other process of the test below: it does nothing unless started by it, and then runs until it is killed.
#[test]
fn child_process() {
    let (Ok(listen), Ok(seed)) = (std::env::var(LISTEN), std::env::var(SEED)) else { return };
    let mut net = net(&[seed.parse().expect("an address")]);
    net.listen = listen.parse().expect("an address");
    let _child = gateway_with("child", net);
    std::thread::sleep(Duration::from_secs(60));
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(listen: SocketAddr, seed: SocketAddr) -> Killed {
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crash::child_process", "--nocapture"])
        .env(LISTEN, listen.to_string())
        .env(SEED, seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Killed(child.expect("spawns"))
}

/// The life of the child that the gateway is linked with and whose replica is clean and equal to its own.
fn child_life(gateway: &Gateway) -> Option<String> {
    let status = gateway.mesh.status();
    let peer = status.peers.iter().find(|peer| peer.name == "child" && peer.linked)?;
    let equal = peer.phase == Some(Phase::Clean) && peer.digest.is_some() && peer.digest == status.digest;
    let linked = gateway.mesh.metrics().links.iter().any(|link| link.life == peer.life);
    (equal && linked && gateway.linked() == ["child"]).then(|| peer.life.clone())
}

#[test]
fn a_killed_process_that_starts_again_is_a_clean_member_within_three_seconds() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let a = gateway("a", &[]);
    let first = spawn(free, a.address());
    let mut before = None;
    wait_for("the child is a clean member", SOON, || {
        before = child_life(&a);
        before.is_some()
    });
    drop(first);
    let second = spawn(free, a.address());
    let took = wait_for("and again after it was killed", Duration::from_secs(3), || {
        child_life(&a).is_some_and(|life| Some(life) != before)
    });
    eprintln!("a clean member again after {took:?}");
    drop(second);
    wait_for("membership notices a death that nobody announced", SOON, || a.mesh.metrics().members_live == 0);
    assert_eq!(a.linked(), ["child"], "long before the connection times out");
}
