//! The real node over real links: what one gateway learns, all have, and their digests agree.

use std::sync::Arc;
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_mesh::input::{Load, Local};
use covey_mesh::net::derive_hash_key;
use covey_mesh::status::Phase;

use crate::support::{Gateway, SECRET, SOON, gateway, gateway_with, net, wait_for};

fn worker() -> WorkerId {
    WorkerId::new("w1", 0).expect("a name")
}

fn token() -> Token {
    Token::new("boot-1").expect("a token")
}

fn key_id() -> HashKeyId {
    derive_hash_key(&SECRET).id()
}

fn introduce_worker(gateway: &Gateway) {
    let probed = Local::Probed {
        worker: worker(),
        started_at: Incarnation::unknown(),
        token: token(),
        capacity_tokens: Some(1 << 20),
    };
    assert!(gateway.mesh.submit(probed));
}

fn place(gateway: &Gateway, first: u64, blocks: u64) {
    let keyspace = Keyspace::new(ModelName::new("m").expect("a name"), Unit::Bytes, 256, key_id()).expect("a keyspace");
    let chain: Vec<BlockHash> = (first..first + blocks).map(BlockHash).collect();
    let local = Local::Place {
        worker: worker(),
        keyspace: Arc::new(keyspace),
        incarnation: Incarnation::unknown().next(token()),
        chain: chain.into(),
    };
    assert!(gateway.mesh.submit(local));
}

/// Blocks a host was told that some holder covers.
fn reached(gateway: &Gateway) -> u64 {
    let changes = gateway.seen.changes.lock().expect("no panic inside");
    let mut reach = std::collections::BTreeMap::new();
    for change in changes.iter() {
        if let Change::Reach { slot, run, blocks } = change {
            reach.insert((*slot, *run), u64::from(*blocks));
        }
    }
    reach.values().sum()
}

fn agree(all: &[&Gateway]) -> bool {
    let first = all[0].mesh.status();
    first.digest.is_some()
        && all.iter().all(|gateway| {
            let status = gateway.mesh.status();
            status.phase == Phase::Clean && status.digest == first.digest && status.vector == first.vector
        })
}

#[test]
fn a_placement_on_one_gateway_arrives_at_the_others_and_their_digests_agree() {
    let a = gateway("a", &[]);
    let b = gateway("b", &[a.address()]);
    // b and c find each other through membership: each is told of the other before there is a link.
    let c = gateway("c", &[a.address()]);
    let all = [&a, &b, &c];
    wait_for("all linked and clean", SOON, || all.iter().all(|g| g.linked().len() == 2) && agree(&all));
    introduce_worker(&a);
    wait_for("the worker is known", SOON, || all.iter().all(|g| g.mesh.status().workers == 1));
    for first in 0..50 {
        place(&a, first * 1_000, 40);
        place(&b, first * 1_000 + 500, 40);
    }
    wait_for("all covered everywhere", SOON, || all.iter().all(|g| reached(g) == 4_000));
    wait_for("digests agree", SOON, || agree(&all));
    let propagation = c.mesh.metrics().propagation_ms;
    assert!(propagation.count >= 100 && propagation.p50 < 100, "{propagation:?}");
    let metrics = c.mesh.metrics();
    assert!(metrics.frames_in.push > 0 && metrics.frames_in.control > 0 && metrics.bytes_in.push > 4_000 * 8);
    let known = |gateway: &Gateway| {
        let peers = &gateway.mesh.status().peers;
        peers.iter().all(|peer| peer.linked && peer.rtt_us.is_some() && peer.member == Some(true))
    };
    wait_for("everybody is known as linked, measured and a live member", SOON, || all.iter().all(|g| known(g)));
}

#[test]
fn load_registers_reach_the_others_and_vanish_with_their_gateway() {
    let a = gateway("a", &[]);
    let b = gateway("b", &[a.address()]);
    wait_for("linked and clean", SOON, || a.linked() == ["b"] && agree(&[&a, &b]));
    introduce_worker(&b);
    let load = Load { requests: 3, queued_tokens: 900 };
    b.seen.load.lock().expect("no panic inside").push((worker(), load));
    let life = b.mesh.life();
    let last = |seen: &Gateway| {
        let loads = seen.seen.loads.lock().expect("no panic inside");
        loads.iter().rev().find(|(whose, _, _)| *whose == life).map(|(_, _, load)| *load)
    };
    wait_for("the load is there", SOON, || last(&a) == Some(Some(load)));
    b.mesh.shutdown();
    wait_for("and gone", SOON, || last(&a) == Some(None));
}

#[test]
fn a_gateway_that_comes_back_on_its_port_is_clean_within_three_seconds() {
    let a = gateway("a", &[]);
    let b = gateway("b", &[a.address()]);
    let mut c_net = net(&[a.address()]);
    let c = gateway_with("c", c_net.clone());
    c_net.listen = c.address();
    wait_for("clean", SOON, || c.linked().len() == 2 && agree(&[&a, &b, &c]));
    introduce_worker(&a);
    place(&a, 0, 500);
    wait_for("covered", SOON, || [&a, &b, &c].iter().all(|g| reached(g) == 500) && agree(&[&a, &b, &c]));
    assert!(c.mesh.leave(Duration::from_secs(2)));
    drop(c);
    wait_for("it said goodbye", SOON, || {
        // Once everybody has its last op its life is retired, and it is not listed any more.
        a.mesh.status().peers.iter().all(|peer| peer.name != "c" || peer.left || !peer.linked)
    });
    place(&b, 10_000, 100);
    let c = gateway_with("c", c_net);
    let took = wait_for("clean again", Duration::from_secs(3), || agree(&[&a, &b, &c]) && reached(&c) == 600);
    eprintln!("clean again after {took:?}");
}

#[test]
fn a_life_that_panicked_is_replaced_by_one_that_has_everything_again() {
    let a = gateway("a", &[]);
    let b = gateway("b", &[a.address()]);
    wait_for("clean", SOON, || a.linked() == ["b"] && agree(&[&a, &b]));
    introduce_worker(&a);
    place(&a, 0, 300);
    wait_for("covered", SOON, || reached(&b) == 300);
    let life = b.mesh.life();
    b.seen.changes.lock().expect("no panic inside").clear();
    b.seen.panic.store(true, std::sync::atomic::Ordering::SeqCst);
    wait_for("a new life", SOON, || b.mesh.life() != life);
    let took =
        wait_for("clean again with everything", Duration::from_secs(3), || agree(&[&a, &b]) && reached(&b) == 300);
    eprintln!("clean again after {took:?}");
}

#[test]
fn gateways_of_another_cluster_are_refused_by_name_and_do_not_mix() {
    let a = gateway("a", &[]);
    let (mut config, seen) = crate::support::config("b", &derive_hash_key(&SECRET), Some(net(&[a.address()])));
    config.node.cluster = "other".into();
    let b = Gateway { mesh: covey_mesh::net::start(config).expect("starts"), seen };
    let refused = |gateway: &Gateway| {
        let notes = gateway.seen.notes.lock().expect("no panic inside");
        notes.iter().any(|note| {
            matches!(note, covey_mesh::note::Note::Refused { .. } | covey_mesh::note::Note::RefusedBy { .. })
        })
    };
    wait_for("refused by name", SOON, || refused(&a) && refused(&b));
    std::thread::sleep(Duration::from_secs(2));
    let dials = b.mesh.metrics().dials;
    assert!(dials <= 3, "a refused gateway backs off: {dials} dials");
    assert_eq!(a.mesh.metrics().members_live, 0);
}
