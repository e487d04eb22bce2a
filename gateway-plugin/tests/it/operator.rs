//! The tools of an operator against real gateway processes: what `covey status` and `covey diff` say of dead, joining,
//! killed, departed and diverged gateways, with the exit codes that scripts rely on.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fake::{FakeWorker, chat_json, until};
use crate::gateway::{ask, client, secret};
use crate::process::{Process, covey, status};

fn start(worker: &FakeWorker, secret: &str, name: &str, extra: &[&str]) -> Process {
    let flags = ["--mesh", "on", "--mesh-name", name, "--mesh-secret-file", secret, "--mesh-listen", "127.0.0.1:0"];
    Process::start(worker, &[&flags[..], extra].concat())
}

fn udp(process: &Process) -> String {
    let rest = process.banner.split(" udp ").nth(1).expect("a udp address");
    rest.split(' ').next().expect("an address").to_owned()
}

fn diff(one: &Process, other: &Process, extra: &[&str]) -> Output {
    covey(&[&["diff", &one.admin, &other.admin], extra].concat()).output().expect("it runs")
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Exit code and verdict of `covey status`.
fn verdict(process: &Process) -> (Option<i32>, String) {
    let (code, text) = said(&status(&process.admin, &["--json"]));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    (code, report["verdict"].as_str().expect("a word").to_owned())
}

fn is(process: &Process, code: i32, word: &str) -> bool {
    verdict(process) == (Some(code), word.to_owned())
}

fn peers(process: &Process) -> usize {
    let (_, text) = said(&status(&process.admin, &["--json"]));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    report["status"]["peers"].as_array().map_or(0, Vec::len)
}

async fn place(process: &Process, prompt: &str) {
    let url = format!("http://{}/v1/chat/completions", process.listen);
    let sent = client().post(url).body(ask(&prompt.repeat(3_000), false).to_string()).send().await;
    assert_eq!(sent.expect("answered").status(), 200);
}

async fn converged(processes: &[&Process]) {
    until("they are converged", || {
        processes.iter().all(|one| is(one, 0, "converged") && peers(one) == processes.len() - 1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_lost_an_update_is_diverged_and_the_diff_names_the_blocks() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", &[]);
    let two = start(&worker, path, "two", &["--mesh-seeds", &udp(&one), "--test-hooks"]);
    converged(&[&one, &two]).await;
    place(&one, "x").await;
    until("both have it, and it is equal", || {
        let (code, text) = said(&diff(&one, &two, &["--settle", "50ms"]));
        code == Some(0) && text.contains("\nequal after") && !text.contains("        0  DIGEST")
    })
    .await;

    let hook = format!("http://{}/test/mesh/lose", two.admin);
    assert_eq!(client().post(&hook).send().await.expect("it answers").status(), 202);
    place(&one, "y").await;
    until("both say so", || is(&one, 2, "diverged") && is(&two, 2, "diverged")).await;
    until("and why, in words", || said(&status(&one.admin, &[])).1.contains("diverged  two saw the same ops")).await;
    // The loss makes the replicas repair, again and again, and a repairing one is no evidence: ask until it is clean.
    let (mut text, words) = (String::new(), ["LOST  holder w0 ", "two lacks block ", "one lacks 0", "touched "]);
    until("and the diff knows what is lost", || {
        text = said(&diff(&one, &two, &["--settle", "200ms", "--blocks", "3"])).1;
        words.iter().all(|words| text.contains(words)) && text.contains("LOST: nothing explains it")
    })
    .await;
    assert_eq!(text.matches("two lacks block").count(), 3, "{text}");
    let (mut json, mut report) = (String::new(), Value::Null);
    until("in JSON, too", || {
        let (code, said) = said(&diff(&two, &one, &["--settle", "200ms", "--json"]));
        (json, report) = (said.clone(), serde_json::from_str(&said).expect("JSON"));
        code == Some(2) && report["holders"][0]["class"] == "lost"
    })
    .await;
    let lacking = report["holders"][0]["lacks_one"].as_array().expect("blocks");
    let lost = report["gateways"][1]["blocks"].as_u64().zip(report["gateways"][0]["blocks"].as_u64());
    assert_eq!(lost.map(|(has, lacks)| has - lacks), Some(lacking.len() as u64), "every block is named");
    assert!(json.len() < 100_000 && !json.contains("yyyy"), "hashes only");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_that_cannot_ask_says_whom_and_ends_with_3() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = Process::start(&worker, &["--test-hooks"]);
    until("it is ready", || is(&one, 0, "converged")).await;
    let (code, text) = said(&diff(&one, &one, &[]));
    assert!(code == Some(0) && text.contains("the same gateway"), "{text}");
    for (other, words) in
        [("127.0.0.1:1", "cannot reach"), (one.listen.as_str(), "does not answer like a covey gateway")]
    {
        let output = covey(&["diff", &one.admin, other, "--json"]).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(words) && error.contains(other) && error.contains("--admin-listen"), "{error}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(json["error"].as_str().is_some_and(|error| error.contains(other)));
    }
    for misused in [&["diff", "127.0.0.1:1"][..], &["diff", "--limit", "x", "a:1", "b:1"], &["status", "--nonsense"]] {
        let code = covey(misused).output().expect("it runs").status.code();
        assert_eq!(code, Some(3), "2 would say that something is lost or diverged: {misused:?}");
    }
    assert_eq!(covey(&["diff", "--help"]).output().expect("it runs").status.code(), Some(0));
    // A mesh thread that stands still answers nobody, and whoever asks is told within seconds.
    let hook = format!("http://{}/test/mesh/stall", one.admin);
    assert_eq!(client().post(&hook).send().await.expect("it answers").status(), 202);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    let response = client().get(format!("http://{}/mesh/state", one.admin)).send().await.expect("it answers");
    let status = response.status().as_u16();
    let text = response.text().await.expect("a reason");
    assert!(status == 200 || (status == 503 && text.contains("did not answer")), "{status} {text}");
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_asked_for_soundly_or_refused() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = Process::start(&worker, &[]);
    until("it is ready", || is(&one, 0, "converged")).await;
    let get = async |path: &str| {
        let response = client().get(format!("http://{}{path}", one.admin)).send().await.expect("it answers");
        (response.status().as_u16(), response.text().await.expect("text"))
    };
    for bad in [
        "/mesh/state/holder",
        "/mesh/state/holder?worker=w0&id=7",
        "/mesh/state/holder?worker=w0&id=0000000000000007&ms=5",
        "/mesh/state/holder?worker=&id=0000000000000007",
        "/mesh/state?worker=",
        "/mesh/state?rank=70000",
    ] {
        assert_eq!(get(bad).await.0, 400, "{bad}");
    }
    let (status, text) = get("/mesh/state/holder?worker=nobody&id=0000000000000007").await;
    assert!(status == 200 && text.contains("\"incarnation\":null"), "{text}");
    let (status, text) = get("/mesh/state?worker=zzz").await;
    assert!(status == 200 && text.contains("\"workers\":[]") && text.contains("\"ends\":null"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_among_three_is_unknown_and_then_degraded_and_the_last_one_is_partitioned() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", &[]);
    let seed = udp(&one);
    let two = start(&worker, path, "two", &["--mesh-seeds", &seed]);
    let three = start(&worker, path, "three", &["--mesh-seeds", &seed]);
    converged(&[&one, &two, &three]).await;
    three.signal("KILL");
    let mut seen = Vec::new();
    until("it is missed", || {
        let said = verdict(&one);
        if seen.last() != Some(&said) {
            seen.push(said);
        }
        is(&one, 1, "degraded") && is(&two, 1, "degraded")
    })
    .await;
    let words: Vec<_> = seen.iter().map(|(code, word)| (code.unwrap_or(-1), word.as_str())).collect();
    assert!(words.contains(&(3, "unknown")), "between converged and degraded it cannot be known: {words:?}");
    assert!(words.iter().all(|said| [(0, "converged"), (3, "unknown"), (1, "degraded")].contains(said)), "{words:?}");
    let text = said(&status(&one.admin, &[])).1;
    assert!(text.lines().any(|line| line.starts_with("three ") && line.contains(" unreachable ")), "{text}");
    let (code, text) = said(&diff(&one, &two, &[]));
    assert!(code == Some(0) && text.contains("equal after"), "who is left is equal: {text}");
    two.signal("KILL");
    until("one is alone", || is(&one, 2, "partitioned")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_real_gateways_are_recorded_and_shown() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", &[]);
    let two = start(&worker, path, "two", &["--mesh-seeds", &udp(&one)]);
    converged(&[&one, &two]).await;
    place(&one, "x").await;
    let top =
        |process: &Process| said(&covey(&["top", "--once", "--admin", &process.admin]).output().expect("it runs"));
    until("both show both", || {
        [&one, &two].iter().all(|process| {
            let (code, text) = top(process);
            code == Some(0) && text.starts_with("CONVERGED") && text.matches(" clean ").count() == 2
        })
    })
    .await;
    assert!(top(&two).1.contains(" as two sees covey: 2 gateways"), "{}", top(&two).1);
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("frames.jsonl");
    let (file, admin) = (out.to_str().expect("a path"), one.admin.as_str());
    let output = covey(&["record", "--admin", admin, "--out", file, "--for", "2500ms", "--history"]).output();
    let (code, text) = said(&output.expect("it runs"));
    assert!(code == Some(0) && text.contains("wrote "), "{text}");
    let lines = std::fs::read_to_string(&out).expect("a file");
    let frames: Vec<covey_gateway_plugin::frame::MeshFrame> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a frame a line")).collect();
    assert!(frames.len() >= 3 && frames.windows(2).all(|pair| pair[0].seq < pair[1].seq), "{}", frames.len());
    let last = frames.last().expect("some");
    assert_eq!((last.verdict.word.as_str(), last.gateways.len()), ("converged", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_not_let_in_or_finds_nobody_is_converging_and_then_degraded() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", &[]);
    until("the first is ready", || is(&one, 0, "converged")).await;
    let refused = start(&worker, path, "two", &["--mesh-seeds", &udp(&one), "--mesh-cluster", "elsewhere"]);
    // Nobody listens there: until it decides that it is alone, it is joining.
    let lonely = start(&worker, path, "three", &["--mesh-seeds", "127.0.0.1:1"]);
    assert_eq!(verdict(&lonely), (Some(1), "converging".to_owned()));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let (code, word) = verdict(&refused);
        assert!(code == Some(1) && (word == "converging" || word == "degraded"), "{word}");
        assert_eq!(verdict(&one), (Some(0), "converged".to_owned()), "the mesh itself is not disturbed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(verdict(&refused), (Some(1), "degraded".to_owned()));
    assert!(said(&status(&refused.admin, &[])).1.contains("--mesh-cluster"), "it says why it is refused");
    assert_eq!(
        verdict(&lonely),
        (Some(1), "degraded".to_owned()),
        "it founded a mesh of its own, and peers were expected"
    );
    assert!(said(&status(&lonely.admin, &[])).1.contains("no seed has answered"));
    let (code, text) = said(&diff(&one, &lonely, &["--settle", "50ms"]));
    assert!(code == Some(1) && text.contains("two meshes"), "{text}");
}
