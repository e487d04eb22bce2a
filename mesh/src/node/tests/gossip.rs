//! What gateways tell one another about themselves, for people.

use super::*;
use crate::limits::SUMMARY_WORKERS;
use crate::summary::{Effect, PeerSeen, Sight, Summary, Tally};

fn sight<'a>(view: &'a crate::summary::View, name: &str) -> &'a Sight {
    view.sights.iter().find(|sight| sight.name.as_str() == name).expect("it told of itself")
}

fn view(net: &Net, nth: usize) -> crate::summary::View {
    net.nodes[nth].view(MonoTime::from_ms(net.now_ms))
}

#[test]
fn every_gateway_can_tell_how_every_other_one_is() {
    let mut net = Net::mesh(&["a", "b", "c"]);
    net.probe(0, "t");
    net.run(100);
    net.place(1, &[1, 2, 3]);
    let effect = Effect { measured: 7, outcomes: vec![("hit".to_owned(), 9)], ..Effect::default() };
    net.input(2, Input::Local(Local::Effect(Box::new(effect.clone()))));
    net.run(1_300);
    let seen = view(&net, 0);
    let names: Vec<&str> = seen.sights.iter().map(|sight| sight.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"], "itself first");
    let digest = Some(net.nodes[0].replica().digest().to_string());
    for sight in &seen.sights {
        assert_eq!((&sight.summary.digest, sight.summary.replica.blocks), (&digest, 3), "{}", sight.name);
        assert!(sight.age_ms < 1_300 && sight.workers[&worker()].of.blocks == 3, "{}", sight.name);
    }
    let digests = seen.sights.iter().map(|sight| sight.workers[&worker()].of.digest);
    assert_eq!(digests.collect::<std::collections::BTreeSet<_>>().len(), 1, "equal coverage has equal digests");
    assert_eq!(sight(&seen, "c").summary.effect, Some(effect));
    let b = &sight(&seen, "b").summary;
    let of_c = b.peers.iter().find(|peer| peer.name == "c").expect("b knows c");
    assert!(of_c.linked && of_c.lag_ops == Some(0) && of_c.heard_ms.is_some_and(|ms| ms < 300));
    assert!(b.tally.applied() > 0 && b.tally.frames[Class::Control as usize] > 3);
}

#[test]
fn what_a_gateway_cut_off_said_stays_and_grows_old() {
    let mut net = Net::mesh(&["a", "b", "c"]);
    net.run(1_300);
    net.cut(0, 2);
    net.cut(1, 2);
    net.run(5_000);
    let seen = view(&net, 0);
    assert!(sight(&seen, "c").age_ms >= 5_000);
    let b = sight(&seen, "b");
    assert!(b.age_ms < 1_300 && b.summary.peers.iter().any(|peer| peer.name == "c" && !peer.linked));
}

#[test]
fn a_changed_link_is_told_at_once() {
    let mut net = Net::mesh(&["a", "b", "c"]);
    net.run(1_300);
    net.cut(1, 2);
    net.run(150);
    let b = &sight(&view(&net, 0), "b").summary.clone();
    assert!(b.peers.iter().any(|peer| peer.name == "c" && !peer.linked));
}

#[test]
fn more_workers_than_fit_take_turns() {
    let mut net = Net::mesh(&["a", "b"]);
    let workers = 2 * SUMMARY_WORKERS + 5;
    for nth in 0..workers {
        let worker = WorkerId::new(&format!("w{nth}"), 0).expect("a name");
        let started_at = Incarnation::unknown();
        let probed = Local::Probed { worker, started_at, token: token("t"), capacity_tokens: Some(4_096) };
        net.input(0, Input::Local(probed));
    }
    net.run(100);
    let told = |net: &Net| sight(&view(net, 1), "a").workers.len();
    let before = told(&net);
    net.run(1_300);
    assert!(told(&net) > before && told(&net) < workers);
    net.run(3_600);
    assert_eq!(told(&net), workers);
}

#[test]
fn a_summary_beyond_its_bounds_closes_the_link_and_is_not_kept() {
    let mut net = Net::mesh(&["a", "b"]);
    net.run(1_300);
    let good = view(&net, 0);
    let name = "x".repeat(300);
    let seen = crate::summary::PeerSeen { name, ..crate::summary::PeerSeen::default() };
    let row = crate::summary::WorkerSeen { worker: "w".to_owned(), ..crate::summary::WorkerSeen::default() };
    let bad = [
        Summary { peers: vec![seen], ..Summary::default() },
        Summary { workers: vec![row; SUMMARY_WORKERS + 1], ..Summary::default() },
        Summary { digest: Some("no digest".to_owned()), ..Summary::default() },
        Summary { tally: Tally { delays: [u64::MAX / 2; 21], ..Tally::default() }, ..Summary::default() },
        Summary { clock_ahead_ms: Some(i64::MIN), ..Summary::default() },
        Summary {
            peers: vec![PeerSeen { name: "c".to_owned(), heard_ms: Some(u64::MAX), ..PeerSeen::default() }],
            ..Summary::default()
        },
        Summary {
            effect: Some(Effect { outcomes: vec![("a b".to_owned(), 1)], ..Effect::default() }),
            ..Summary::default()
        },
    ];
    for summary in bad {
        let from = net.life(1);
        let before = net.noted(0, |note| matches!(note, Note::Malformed { .. }));
        net.input(0, Input::Received { from, bytes: Message::Summary(Box::new(summary)).encode() });
        assert_eq!(net.noted(0, |note| matches!(note, Note::Malformed { .. })), before + 1);
    }
    assert_eq!(sight(&view(&net, 0), "b").summary, sight(&good, "b").summary);
}

#[test]
fn what_an_older_life_said_is_let_go() {
    let mut net = Net::mesh(&["a", "b"]);
    net.run(1_300);
    net.cut(0, 1);
    let again = net.add(config("b"));
    net.link(0, again);
    net.run(6_000);
    let seen = view(&net, 0);
    assert_eq!((seen.sights.len(), sight(&seen, "b").life), (2, net.life(again)));
    assert!(net.nodes[0].peers.values().filter(|peer| peer.said.is_some()).count() == 1, "I9");
}
