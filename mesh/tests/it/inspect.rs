//! Looking into a replica while its thread works, and while it does not.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use covey_crdt::hash::HashKey;
use covey_mesh::inspect::{Answer, Ask};
use covey_mesh::net::{INSPECT_WAIT, InspectError, Mesh, start};
use covey_mesh::status::Phase;

use crate::support::{SOON, config, wait_for};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

async fn state(mesh: &Mesh) -> Result<Answer, InspectError> {
    mesh.inspect(Ask::State { after: None }).await
}

#[test]
fn a_working_mesh_answers_whoever_asks_and_goes_on_working() {
    let (config, _seen) = config("a", &HashKey::ZERO, None);
    let mesh = start(config).expect("starts");
    wait_for("clean", SOON, || mesh.status().phase == Phase::Clean);
    let life = mesh.life();
    runtime().block_on(async {
        let until = Instant::now() + Duration::from_millis(500);
        let mut askers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let mesh = mesh.clone();
            askers.spawn(async move {
                let mut answered = 0_u64;
                while Instant::now() < until {
                    let Ok(Answer::State(page)) = state(&mesh).await else { panic!("it answers") };
                    assert_eq!((page.at.name.as_str(), page.at.phase, page.more), ("a", Phase::Clean, false));
                    assert!(mesh.silent_for() < Duration::from_millis(250), "turns go on");
                    answered += 1;
                }
                answered
            });
        }
        let answered: u64 = askers.join_all().await.into_iter().sum();
        assert!(answered > 100, "one a turn, and turns are short: {answered}");
    });
    assert_eq!(mesh.life(), life);
}

#[test]
fn a_stalled_mesh_answers_nobody_and_says_so_in_time() {
    let (mut config, seen) = config("a", &HashKey::ZERO, None);
    config.stall_after = Duration::from_secs(30);
    let mesh = start(config).expect("starts");
    wait_for("running", SOON, || seen.publishes.load(Ordering::SeqCst) > 0);
    seen.stall_ms.store(3_000, Ordering::SeqCst);
    wait_for("stalled", SOON, || mesh.silent_for() > Duration::from_millis(100));
    runtime().block_on(async {
        let began = Instant::now();
        let mut askers = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let mesh = mesh.clone();
            askers.spawn(async move { state(&mesh).await.map(|_| ()) });
        }
        let answers = askers.join_all().await;
        assert!(began.elapsed() < INSPECT_WAIT + Duration::from_millis(500));
        let silent = answers.iter().filter(|answer| **answer == Err(InspectError::Silent)).count();
        let busy = answers.iter().filter(|answer| **answer == Err(InspectError::Busy)).count();
        assert_eq!((silent, busy), (8, 12), "a few may wait, the others are told to come back");
        let began = Instant::now();
        while state(&mesh).await.is_err() {
            assert!(began.elapsed() < SOON, "nobody's old asks are in the way once it works again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(InspectError::Silent.to_string().contains("covey status"));
}
