//! Whoever has no secret can do nothing: garbage, forged, truncated and replayed datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use covey_mesh::net::derive_hash_key;

use crate::support::{Gateway, SECRET, SOON, config, gateway, net, wait_for};

/// A generator good enough to make noise, the same every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        buffer.iter_mut().for_each(|byte| *byte = self.next() as u8);
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Two linked gateways whose datagrams go through a relay that keeps copies.
fn linked_pair() -> (Gateway, Gateway, Vec<Vec<u8>>) {
    let a = gateway("a", &[]);
    let relay = UdpSocket::bind("127.0.0.1:0").expect("a relay");
    let through = relay.local_addr().expect("an address");
    let target = a.address();
    let (copies, taken) = mpsc::channel();
    std::thread::spawn(move || relay_and_copy(&relay, target, &copies));
    let b = gateway("b", &[through]);
    wait_for("linked", SOON, || a.linked() == ["b"] && b.linked() == ["a"]);
    wait_for("both are clean and equal", SOON, || a.mesh.status().digest.is_some() && state(&a) == state(&b));
    std::thread::sleep(Duration::from_millis(500));
    (a, b, taken.try_iter().collect())
}

/// What a replica holds, and how many ops made it.
fn state(of: &Gateway) -> (Option<String>, String, u64, u64) {
    let status = of.mesh.status();
    (status.digest.clone(), status.vector.clone(), status.workers, status.lives)
}

fn relay_and_copy(relay: &UdpSocket, target: SocketAddr, copies: &mpsc::Sender<Vec<u8>>) {
    let mut other = None;
    let mut buffer = [0; 65_536];
    relay.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    while let Ok((bytes, from)) = relay.recv_from(&mut buffer) {
        let _ = copies.send(buffer[..bytes].to_vec());
        if from != target {
            other = Some(from);
        }
        let to = if from == target { other } else { Some(target) };
        if let Some(to) = to {
            let _ = relay.send_to(&buffer[..bytes], to);
        }
    }
}

#[test]
fn a_megabyte_of_garbage_changes_nothing() {
    let (a, b, _) = linked_pair();
    let lives = (a.mesh.life(), b.mesh.life());
    let held = (state(&a), state(&b));
    let before_kib = resident_kib();
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut noise = Noise(1);
    let mut sent = 0;
    while sent < 1 << 20 {
        let mut datagram = vec![0; 1 + (noise.next() % 1_500) as usize];
        noise.fill(&mut datagram);
        // Half of them look like the start of a connection.
        if noise.next().is_multiple_of(2) && datagram.len() > 6 {
            datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
        }
        sent += stranger.send_to(&datagram, a.address()).expect("sends");
    }
    still_well(&a, &b, lives);
    assert_eq!((state(&a), state(&b)), held, "nothing is placed");
    let grown_kib = resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 64 * 1024, "grew by {grown_kib} KiB");
}

#[test]
fn forged_truncated_and_replayed_datagrams_change_nothing() {
    let (a, b, copies) = linked_pair();
    assert!(copies.len() > 10, "the relay saw the handshake");
    let lives = (a.mesh.life(), b.mesh.life());
    let held = (state(&a), state(&b));
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut noise = Noise(2);
    for copy in &copies {
        for _ in 0..3 {
            let _ = stranger.send_to(copy, a.address());
            let _ = stranger.send_to(&copy[..noise.next() as usize % copy.len()], a.address());
            let mut forged = copy.clone();
            let at = noise.next() as usize % forged.len();
            forged[at] ^= 1 + noise.next() as u8 % 255;
            let _ = stranger.send_to(&forged, b.address());
            let _ = stranger.send_to(copy, b.address());
        }
    }
    still_well(&a, &b, lives);
    assert_eq!((state(&a), state(&b)), held, "nothing is placed");
}

/// Both go on: same lives, same link, still talking, no protocol error blamed on the peer.
fn still_well(a: &Gateway, b: &Gateway, lives: (covey_crdt::id::LifeId, covey_crdt::id::LifeId)) {
    std::thread::sleep(Duration::from_millis(500));
    let before = a.mesh.metrics();
    wait_for("membership messages go on", SOON, || {
        a.mesh.metrics().membership_messages_in > before.membership_messages_in + 2
    });
    assert_eq!((a.mesh.life(), b.mesh.life()), lives);
    assert_eq!((a.linked(), b.linked()), (vec!["b".to_owned()], vec!["a".to_owned()]));
    for gateway in [a, b] {
        let metrics = gateway.mesh.metrics();
        assert_eq!((metrics.frames_malformed, metrics.membership_refused, metrics.restarts_panicked), (0, 0, 0));
        assert!(gateway.mesh.silent_for() < Duration::from_secs(1));
    }
}

#[test]
fn a_crowd_of_half_open_handshakes_does_not_keep_members_out() {
    let a = gateway("a", &[]);
    let mut noise = Noise(3);
    // Initial packets of a version nobody speaks, and of the right one with noise inside, from many ports.
    for _ in 0..200 {
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut datagram = vec![0; 1_200];
        noise.fill(&mut datagram);
        datagram[..6].copy_from_slice(&[0xc0, 0, 0, 0, (noise.next() % 2) as u8, 8]);
        let _ = stranger.send_to(&datagram, a.address());
    }
    let (config, seen) = config("b", &derive_hash_key(&SECRET), Some(net(&[a.address()])));
    let b = Gateway { mesh: covey_mesh::net::start(config).expect("starts"), seen };
    wait_for("a member gets in", SOON, || a.linked() == ["b"] && b.linked() == ["a"]);
}
