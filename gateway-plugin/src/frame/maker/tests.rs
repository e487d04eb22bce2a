//! Frames of made-up meshes.

use std::sync::Arc;

use covey_crdt::id::{GatewayName, LifeId};
use covey_mesh::status::{PeerStatus, Phase};
use covey_mesh::summary::{Dated, Effect, PeerSeen, Sight, Summary, Tally, WorkerSeen};

use super::*;

const DIGEST: &str = "0123456789abcdef0123456789abcdef";

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name, 0).expect("a name")
}

/// A gateway that is clean, hears all of `others` well and covers three blocks on one worker.
fn sight(name: &str, life: u128, others: &[&str]) -> Sight {
    let peer = |name: &&str| PeerSeen {
        name: (*name).to_owned(),
        linked: true,
        heard_ms: Some(100),
        lag_ops: Some(0),
        lag_ms: Some(0),
        rtt_us: Some(700),
        ..PeerSeen::default()
    };
    let seen = WorkerSeen { worker: "w".to_owned(), incarnation: 1, blocks: 3, digest: 5, ..WorkerSeen::default() };
    let summary = Summary {
        phase: Phase::Clean,
        digest: Some(DIGEST.to_owned()),
        vector: 7,
        peers: others.iter().map(peer).collect(),
        ..Summary::default()
    };
    Sight {
        life: LifeId(life),
        name: GatewayName::new(name).expect("a name"),
        summary: Arc::new(summary),
        age_ms: 0,
        workers: BTreeMap::from([(worker("w"), Dated { of: Arc::new(seen), age_ms: 0 })]),
        feeds: BTreeMap::new(),
    }
}

fn mesh() -> View {
    let sights = vec![
        sight("gw-2", 2, &["gw-9", "gw-10"]),
        sight("gw-9", 9, &["gw-2", "gw-10"]),
        sight("gw-10", 10, &["gw-2", "gw-9"]),
    ];
    View { sights, ..View::default() }
}

fn change(view: &mut View, nth: usize, change: impl FnOnce(&mut Summary)) {
    change(Arc::make_mut(&mut view.sights[nth].summary));
}

/// The status of `gw-2` that agrees with [`mesh`].
fn status() -> Status {
    let peer = |name: &str, life: u128| PeerStatus {
        name: name.to_owned(),
        life: LifeId(life).to_string(),
        linked: true,
        member: Some(true),
        heard_ms: Some(80),
        phase: Some(Phase::Clean),
        digest: Some(DIGEST.to_owned()),
        vector: Some(format!("{:016x}", 7)),
        lag_ops: Some(0),
        lag_ms: Some(0),
        their_lag_ops: Some(0),
        their_lag_ms: Some(0),
        rtt_us: Some(600),
        ..PeerStatus::default()
    };
    Status {
        name: "gw-2".to_owned(),
        life: LifeId(2).to_string(),
        phase: Phase::Clean,
        digest: Some(DIGEST.to_owned()),
        vector: format!("{:016x}", 7),
        clock: "good".to_owned(),
        peers: vec![peer("gw-10", 10), peer("gw-9", 9)],
        ..Status::default()
    }
}

fn scene<'a>(
    t_ms: u64,
    view: &'a View,
    status: Option<&'a Status>,
    none: &'a BTreeMap<WorkerId, WorkerFacts>,
) -> Scene<'a> {
    Scene {
        t_ms,
        source: Source::default(),
        viewer: status.map(|status| Viewer { status, silent_ms: 0 }),
        view,
        gone: &[],
        workers: none,
        events: Vec::new(),
        faults: Vec::new(),
    }
}

fn names(frame: &MeshFrame) -> Vec<&str> {
    frame.gateways.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn a_frame_survives_json_and_keeps_what_is_unknown_unknown() {
    let (view, status, none) = (mesh(), status(), BTreeMap::new());
    let frame = FrameMaker::default().frame(scene(5, &view, Some(&status), &none));
    let json = serde_json::to_string(&frame).expect("plain data");
    assert_eq!(serde_json::from_str::<MeshFrame>(&json).expect("its own text"), frame);
    assert!(json.contains(r#""effect":null"#) && json.contains("[true,100,0,0,700,null]"), "{json}");
}

#[test]
fn a_gateway_and_the_observer_see_one_quiet_mesh_alike() {
    let (view, status, none) = (mesh(), status(), BTreeMap::new());
    let live = FrameMaker::default().frame(scene(5, &view, Some(&status), &none));
    let all = FrameMaker::default().frame(scene(5, &view, None, &none));
    for frame in [&live, &all] {
        assert_eq!((frame.verdict.word.as_str(), frame.verdict.why.as_str()), ("converged", "3 gateways agree"));
        assert_eq!(names(frame), ["gw-2", "gw-9", "gw-10"], "as people count");
        assert!(frame.gateways.iter().all(|row| row.group == Some(0)));
        assert_eq!((frame.verdict.seen, frame.verdict.missing, frame.verdict.worst_lag_ops), (3, 0, Some(0)));
        let worker = &frame.workers[0];
        assert!(!worker.differs && worker.by.iter().flatten().count() == 3);
    }
    assert_eq!(live.gateways[0].sees[2].and_then(|cell| cell.heard_ms), Some(80), "the viewer's own row is fresh");
    assert_eq!(live.gateways[1].sees[2].and_then(|cell| cell.heard_ms), Some(100), "another's is what it said");
    assert!(live.gateways[0].me && !all.gateways[0].me);
}

#[test]
fn a_silent_peer_has_no_group_and_greys_the_verdict() {
    let (view, mut status, none) = (mesh(), status(), BTreeMap::new());
    let mut maker = FrameMaker::default();
    maker.frame(scene(0, &view, Some(&status), &none));
    status.peers[0].heard_ms = Some(HEARD_MS_MAX + 1);
    let frame = maker.frame(scene(1_000, &view, Some(&status), &none));
    assert_eq!(frame.verdict.word, "unknown");
    assert_eq!((frame.gateways[2].name.as_str(), frame.gateways[2].group), ("gw-10", None));
    assert_eq!((frame.verdict.missing, frame.verdict.since_ms, frame.verdict.converged_ms), (1, 1_000, Some(0)));
    let told: Vec<&str> = frame.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(told, ["link", "verdict"]);
}

#[test]
fn a_pair_that_the_viewer_does_not_belong_to_is_seen_through_its_summary() {
    let (mut view, status, none) = (mesh(), status(), BTreeMap::new());
    change(&mut view, 1, |summary| summary.peers[1].linked = false);
    let mut maker = FrameMaker::default();
    assert_eq!(
        maker.frame(scene(5, &view, Some(&status), &none)).verdict.word,
        "converged",
        "it may just have woken up"
    );
    let frame = maker.frame(scene(1_005, &view, Some(&status), &none));
    assert_eq!(frame.verdict.word, "degraded");
    assert_eq!(frame.verdict.why, "gw-9 has not heard gw-10 for 100 ms");
}

#[test]
fn equal_ops_and_another_digest_diverge_and_the_worker_shows() {
    let (mut view, mut status, none) = (mesh(), status(), BTreeMap::new());
    let other = "f".repeat(32);
    status.peers[1].digest = Some(other.clone());
    change(&mut view, 1, |summary| {
        summary.digest = Some(other);
        summary.tally = Tally { mismatches: 1, ..Tally::default() };
    });
    let mut row = (*view.sights[1].workers[&worker("w")].of).clone();
    row.digest = 6;
    view.sights[1].workers.insert(worker("w"), Dated { of: Arc::new(row), age_ms: 0 });
    for viewer in [Some(&status), None] {
        let mut maker = FrameMaker::default();
        maker.frame(scene(0, &mesh(), None, &none));
        let frame = maker.frame(scene(5, &view, viewer, &none));
        assert_eq!(frame.verdict.word, "diverged");
        assert_eq!(frame.gateways.iter().map(|row| row.group).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
        assert!(frame.workers[0].differs);
        assert!(frame.events.iter().any(|event| event.kind == "mismatch" && event.level == "bad"));
    }
}

#[test]
fn a_shrinking_lag_has_an_end_in_sight_and_a_growing_one_has_not() {
    let (mut view, mut status, none) = (mesh(), status(), BTreeMap::new());
    let mut maker = FrameMaker::default();
    let mut behind = |t_ms, ops| {
        status.vector = "another".to_owned();
        status.digest = Some("e".repeat(32));
        status.peers[0].their_lag_ops = Some(ops);
        status.peers[0].their_lag_ms = Some(2_000);
        maker.frame(scene(t_ms, &view, Some(&status), &none)).verdict
    };
    assert_eq!(behind(0, 900).eta_ms, None);
    let later = behind(1_000, 600);
    assert_eq!((later.word.as_str(), later.worst_lag_ops, later.eta_ms), ("converging", Some(600), Some(2_000)));
    assert_eq!(later.why, "gw-10 lacks 600 ops");
    assert_eq!(behind(2_000, 950).eta_ms, None);
    change(&mut view, 0, |summary| summary.effect = Some(Effect::default()));
}

#[test]
fn an_older_lifes_summary_says_nothing_of_the_new_one() {
    let (view, mut status, none) = (mesh(), status(), BTreeMap::new());
    let mut maker = FrameMaker::default();
    maker.frame(scene(0, &view, Some(&status), &none));
    status.peers[1] = PeerStatus { name: "gw-9".to_owned(), life: LifeId(99).to_string(), ..PeerStatus::default() };
    let frame = maker.frame(scene(1_000, &view, Some(&status), &none));
    let row = &frame.gateways[1];
    assert_eq!((row.phase, &row.digest, row.age_ms, row.group), (None, &None, None, None));
    assert!(frame.workers[0].by[1].is_none() && row.sees.iter().all(Option::is_none));
    assert!(frame.events.iter().any(|event| event.text.starts_with("gw-9 began a new life")));
}

#[test]
fn too_many_workers_are_cut_and_those_that_differ_are_kept() {
    let (mut view, none) = (mesh(), BTreeMap::new());
    for nth in 0..WORKERS_TOO_MANY {
        let id = worker(&format!("x{nth}"));
        for (which, sight) in view.sights.iter_mut().enumerate() {
            let digest = u64::from(which == 1 && nth == WORKERS_TOO_MANY - 1);
            let seen = WorkerSeen { worker: id.name().to_owned(), digest, ..WorkerSeen::default() };
            sight.workers.insert(id.clone(), Dated { of: Arc::new(seen), age_ms: 0 });
        }
    }
    change(&mut view, 1, |summary| {
        summary.digest = Some("e".repeat(32));
        summary.vector = 8;
        summary.peers.iter_mut().for_each(|peer| peer.lag_ms = Some(5_000));
    });
    let frame = FrameMaker::default().frame(scene(0, &view, None, &none));
    assert_eq!((frame.workers.len(), frame.workers_hidden), (super::super::WORKERS_MAX, 7));
    assert_eq!(frame.workers[0].id, worker(&format!("x{}", WORKERS_TOO_MANY - 1)).to_string());
}

const WORKERS_TOO_MANY: usize = super::super::WORKERS_MAX + 6;
