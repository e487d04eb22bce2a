//! Gateways that find one another, lose one another, and disagree.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use covey_crdt::hash::HashKey;
use covey_mesh::net::{LinkFailure, NetSnapshot, StartError, start};
use covey_mesh::status::Phase;

use crate::support::{Gateway, SOON, config, gateway, gateway_with, net, wait_for};

fn dials_failed(snapshot: &NetSnapshot, why: LinkFailure) -> u64 {
    snapshot.dials_failed.iter().find(|(reason, _)| *reason == why).map_or(0, |(_, n)| *n)
}

fn refused(snapshot: &NetSnapshot, why: LinkFailure) -> u64 {
    snapshot.handshakes_refused.iter().find(|(reason, _)| *reason == why).map_or(0, |(_, n)| *n)
}

#[test]
fn three_gateways_with_one_seed_see_one_another() {
    let a = gateway("a", &[]);
    let b = gateway("b", &[a.address()]);
    let c = gateway("c", &[a.address()]);
    let took = wait_for("all linked: b and c know each other through membership only", SOON, || {
        a.linked() == ["b", "c"] && b.linked() == ["a", "c"] && c.linked() == ["a", "b"]
    });
    wait_for("all are live members", SOON, || [&a, &b, &c].iter().all(|g| g.mesh.metrics().members_live == 2));
    assert!(took < Duration::from_secs(5), "took {took:?}");
    let rtt = a.mesh.metrics().quic_rtt_us;
    assert!(rtt.count > 0 && rtt.p50 > 0);
}

#[test]
fn gateways_that_all_dial_each_other_at_once_keep_one_link_per_pair() {
    let ports: Vec<SocketAddr> = (0..4)
        .map(|_| UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port"))
        .collect();
    let all: Vec<Gateway> = ports
        .iter()
        .enumerate()
        .map(|(i, listen)| {
            let mut net = net(&ports);
            net.listen = *listen;
            gateway_with(&format!("g{i}"), net)
        })
        .collect();
    let complete = || all.iter().all(|g| g.linked().len() == 3);
    wait_for("everybody is linked with everybody", SOON, complete);
    std::thread::sleep(Duration::from_secs(1));
    assert!(complete(), "links do not flap once they are there");
    let up_ms: Vec<u64> = all.iter().flat_map(|g| g.mesh.metrics().links).map(|link| link.up_ms).collect();
    assert!(up_ms.iter().all(|ms| *ms > 250), "{up_ms:?}");
}

#[test]
fn another_secret_is_refused_by_both_sides_and_named() {
    let a = gateway("a", &[]);
    let mut other = net(&[a.address()]);
    other.secret = std::sync::Arc::from([7u8; 32]);
    let b = gateway_with("b", other);
    wait_for("both count it", SOON, || {
        dials_failed(&b.mesh.metrics(), LinkFailure::Secret) >= 2
            && refused(&a.mesh.metrics(), LinkFailure::Secret) >= 2
    });
    assert!(a.linked().is_empty() && b.linked().is_empty());
}

#[test]
fn another_hash_key_under_the_same_secret_is_told_apart_from_another_secret() {
    let a = gateway("a", &[]);
    let (config, _seen) = config("b", &HashKey::new([9; 32]), Some(net(&[a.address()])));
    let b = start(config).expect("starts");
    wait_for("both count a mismatch", SOON, || {
        dials_failed(&b.metrics(), LinkFailure::Mismatch) >= 1 && refused(&a.mesh.metrics(), LinkFailure::Mismatch) >= 1
    });
    assert_eq!(dials_failed(&b.metrics(), LinkFailure::Secret), 0);
    assert!(a.linked().is_empty());
}

#[test]
fn a_seed_that_leads_back_to_oneself_is_left_out() {
    let relay = UdpSocket::bind("127.0.0.1:0").expect("a relay");
    let through = relay.local_addr().expect("an address");
    let a = gateway("a", &[through]);
    let inside = a.address();
    relay.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    // Two sockets, so that the gateway sees its own datagrams come from somewhere else.
    let far = UdpSocket::bind("127.0.0.1:0").expect("a relay");
    far.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let (near_in, far_out) = (relay.try_clone().expect("clones"), far.try_clone().expect("clones"));
    std::thread::spawn(move || forward(&near_in, &far_out, inside));
    std::thread::spawn(move || forward(&far, &relay, inside));
    wait_for("it is found out", SOON, || dials_failed(&a.mesh.metrics(), LinkFailure::OwnAddress) == 1);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(dials_failed(&a.mesh.metrics(), LinkFailure::OwnAddress), 1, "and not tried again soon");
    assert!(a.linked().is_empty());
    wait_for("it is alone, and knows it", SOON, || a.mesh.status().phase == Phase::Clean);
}

fn forward(from: &UdpSocket, to: &UdpSocket, target: SocketAddr) {
    let mut buffer = [0; 65_536];
    for _ in 0..200 {
        if let Ok(bytes) = from.recv(&mut buffer) {
            let _ = to.send_to(&buffer[..bytes], target);
        }
    }
}

#[test]
fn own_addresses_among_the_seeds_are_not_dialled_at_all() {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let mut own = net(&[port]);
    own.listen = port;
    let a = gateway_with("a", own);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(a.mesh.metrics().dials, 0);
    wait_for("it is alone, and knows it", SOON, || a.mesh.status().phase == Phase::Clean);
}

#[test]
fn wildcards_cannot_be_advertised() {
    for (listen, advertise, given) in
        [("0.0.0.0:0", None, false), ("[::]:0", None, false), ("127.0.0.1:0", Some("0.0.0.0:7946"), true)]
    {
        let mut wild = net(&[]);
        wild.listen = listen.parse().expect("an address");
        wild.advertise = advertise.map(|text| text.parse().expect("an address"));
        let (config, _seen) = config("a", &HashKey::ZERO, Some(wild));
        let Err(StartError::AdvertiseWildcard { given: told, .. }) = start(config) else {
            panic!("{listen} {advertise:?} must not start");
        };
        assert_eq!(told, given);
    }
}

#[test]
fn a_taken_port_and_a_bad_seed_are_clear_errors() {
    let a = gateway("a", &[]);
    let mut taken = net(&[]);
    taken.listen = a.address();
    let (taken, _seen) = config("b", &HashKey::ZERO, Some(taken));
    let error = start(taken).err().expect("the port is taken");
    assert!(error.to_string().contains("is in use"), "{error}");
    let mut bad = net(&[]);
    bad.seeds = vec!["http://10.0.0.1".into()];
    let (bad, _seen) = config("b", &HashKey::ZERO, Some(bad));
    assert!(matches!(start(bad), Err(StartError::Seed { .. })));
}

#[test]
fn a_gateway_that_leaves_is_unlinked_at_once_and_its_successor_on_the_port_is_linked_soon() {
    let a = gateway("a", &[]);
    let b = gateway("b", &[a.address()]);
    wait_for("linked", SOON, || a.linked() == ["b"] && b.linked() == ["a"]);
    let (port, first_life) = (b.address(), b.mesh.life());
    assert!(b.mesh.leave(Duration::from_secs(2)));
    wait_for("unlinked", Duration::from_secs(1), || a.linked().is_empty());
    drop(b);
    let mut again = net(&[a.address()]);
    again.listen = port;
    let b = gateway_with("b", again);
    let took = wait_for("linked again", Duration::from_secs(3), || a.linked() == ["b"] && b.linked() == ["a"]);
    assert_ne!(b.mesh.life(), first_life);
    wait_for("a member again", SOON, || a.mesh.metrics().members_live == 1);
    eprintln!("linked again after {took:?}");
}

#[test]
fn a_seed_that_is_down_at_first_is_dialled_until_it_comes() {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let a = gateway("a", &[port]);
    std::thread::sleep(Duration::from_millis(1_500));
    let mut late = net(&[]);
    late.listen = port;
    let b = gateway_with("b", late);
    wait_for("linked", SOON, || a.linked() == ["b"] && b.linked() == ["a"]);
}

#[test]
fn an_unresolvable_seed_is_counted_and_does_not_hold_up_the_others() {
    let a = gateway("a", &[]);
    let mut mixed = net(&[a.address()]);
    mixed.seeds.insert(0, "no-such-host.invalid:7946".into());
    let b = gateway_with("b", mixed);
    wait_for("linked", SOON, || b.linked() == ["a"]);
    wait_for("counted", SOON, || dials_failed(&b.mesh.metrics(), LinkFailure::Resolve) >= 1);
}
