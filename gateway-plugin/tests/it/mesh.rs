//! Gateway processes in one mesh, as `covey status` sees them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fake::{FakeWorker, chat_json, until};
use crate::gateway::{ask, client, secret, secret_of};
use crate::process::{Process, status};

fn start(worker: &FakeWorker, secret: &str, name: &str, seed: Option<&str>) -> Process {
    start_with(worker, secret, name, seed, &[])
}

fn start_with(worker: &FakeWorker, secret: &str, name: &str, seed: Option<&str>, extra: &[&str]) -> Process {
    let mut flags = vec!["--mesh", "on", "--mesh-name", name, "--mesh-secret-file", secret];
    if !extra.contains(&"--mesh-listen") {
        flags.extend(["--mesh-listen", "127.0.0.1:0"]);
    }
    flags.extend(seed.iter().flat_map(|seed| ["--mesh-seeds", *seed]));
    flags.extend(extra);
    Process::start(worker, &flags)
}

/// One request whose prompt becomes a placement.
async fn place(process: &Process) {
    let url = format!("http://{}/v1/chat/completions", process.listen);
    let sent = client().post(url).body(ask(&"x".repeat(3_000), false).to_string()).send().await;
    assert_eq!(sent.expect("answered").status(), 200);
}

/// Why a prompt of its own went where it went.
async fn reason(process: &Process, letter: &str) -> String {
    let url = format!("http://{}/v1/chat/completions", process.listen);
    let sent = client().post(url).body(ask(&letter.repeat(3_000), false).to_string()).send().await;
    assert_eq!(sent.expect("answered").status(), 200);
    let url = format!("http://{}/decisions?last=1", process.admin);
    let text = client().get(url).send().await.expect("it answers").text().await.expect("a body");
    let decisions: Value = serde_json::from_str(&text).expect("JSON");
    decisions.pointer("/decisions/0/reason").and_then(Value::as_str).unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn udp(process: &Process) -> String {
    let rest = process.banner.split(" udp ").nth(1).unwrap_or_else(|| panic!("no udp address in {}", process.banner));
    rest.split(' ').next().expect("an address").to_owned()
}

fn verdict(process: &Process) -> (Option<i32>, Value) {
    let output = status(&process.admin, &["--json"]);
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn text(process: &Process) -> String {
    String::from_utf8_lossy(&status(&process.admin, &[]).stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_a_gateway_that_left_from_one_that_died() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", None);
    let seed = udp(&one);
    let two = start(&worker, path, "two", Some(&seed));
    let three = start(&worker, path, "three", Some(&seed));
    for process in [&one, &two, &three] {
        until("the three are converged", || {
            let (code, report) = verdict(process);
            code == Some(0) && report["status"]["peers"].as_array().is_some_and(|peers| peers.len() == 2)
        })
        .await;
    }
    two.signal("TERM");
    let (code, log) = two.finish();
    assert_eq!(code, Some(0), "{log}");
    until("two has left, and nobody is missed", || {
        let (code, report) = verdict(&one);
        code == Some(0) && report["verdict"] == "converged"
    })
    .await;
    let lines = text(&one);
    // Once everybody who is present has closed its life, it is retired and not listed any more.
    assert!(lines.lines().filter(|line| line.starts_with("two ")).all(|line| line.contains(" left ")), "{lines}");
    assert!(lines.lines().any(|line| line.starts_with("three ") && line.contains(" clean ")), "{lines}");
    assert_eq!(reason(&one, "a").await, "load", "everybody is heard");
    three.signal("KILL");
    until("three is missed", || verdict(&one).0 == Some(2)).await;
    assert_eq!(reason(&one, "b").await, "load", "three is missed, and nobody sends what only it could have sent");
    worker.told.store(9, Ordering::SeqCst);
    let mut words = String::new();
    for letter in ["c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
        words = reason(&one, letter).await;
        if words == "home" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(words, "home", "three is there after all, as far as the worker says");
    let lines = text(&one);
    assert!(lines.contains("partitioned") && lines.contains("unreachable"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_mesh_port_and_a_wildcard_are_named_with_their_flags() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let base = ["gateway", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--model", "m"];
    let mesh = ["--worker", "w=http://127.0.0.1:1", "--mesh", "on", "--mesh-name", "a", "--mesh-secret-file", path];
    let run = |extra: &[&str]| {
        let output = crate::process::covey(&[&base[..], &mesh, extra].concat()).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["--mesh-listen", &address]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--mesh-listen") && text.contains(&address) && text.contains("in use"), "{text}");
    let (code, text) = run(&["--mesh-advertise", "0.0.0.0:7080"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--mesh-advertise"), "{text}");
}

/// How long a newcomer that hears nobody takes to decide that it is alone, and half of that again.
const LONGER_THAN_ALONE: Duration = Duration::from_millis(4_500);

async fn readyz(process: &Process) -> (u16, String) {
    let response = client().get(format!("http://{}/readyz", process.admin)).send().await.expect("it answers");
    (response.status().as_u16(), response.text().await.expect("a reason"))
}

fn noted(process: &Process, kind: &str) -> u64 {
    verdict(process).1["notes"][kind].as_u64().unwrap_or(0)
}

/// One sample of `/metrics`.
async fn counted(process: &Process, sample: &str) -> u64 {
    let text = client().get(format!("http://{}/metrics", process.admin)).send().await.expect("it answers");
    let text = text.text().await.expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(sample)).expect("the sample is there");
    value.trim().parse().expect("a number")
}

/// Watches a gateway that the mesh refuses for longer than one alone takes to found.
async fn never_ready(process: &Process) {
    let start = Instant::now();
    while start.elapsed() < LONGER_THAN_ALONE {
        let (status, reason) = readyz(process).await;
        assert_eq!(status, 503, "{reason}");
        assert_ne!(verdict(process).1["status"]["phase"], "clean");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (_, reason) = readyz(process).await;
    assert!(reason.contains("refuses this one") && reason.contains("the log says why"), "{reason}");
    assert_eq!(noted(process, "founded"), 0, "it founds no second mesh beside the one that refuses it");
}

/// The lines of a log that tell of a refusal and name the flag to mend.
fn refusals<'log>(log: &'log str, flag: &str) -> Vec<&'log str> {
    log.lines().filter(|line| line.contains("refused") && line.contains(flag)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_gateway_of_the_same_name_is_refused_and_neither_founds_nor_becomes_ready() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "twin", None);
    until("the first is ready", || verdict(&one).0 == Some(0)).await;
    let two = start(&worker, path, "twin", Some(&udp(&one)));
    until("the twin is refused", || noted(&one, "refused.name_taken") > 0 && noted(&two, "refused_by") > 0).await;
    never_ready(&two).await;
    assert_eq!(readyz(&one).await.0, 200, "the first one is not disturbed");
    assert_eq!(verdict(&one).0, Some(0));
    let holder = verdict(&one).1["status"]["life"].as_str().expect("a life").to_owned();
    two.signal("TERM");
    one.signal("TERM");
    let logs = [two.finish(), one.finish()];
    assert!(refusals(&logs[0].1, "--mesh-name")[0].contains(&format!("live gateway {holder}")), "{}", logs[0].1);
    for (code, log) in logs {
        assert_eq!(code, Some(0), "{log}");
        let lines = refusals(&log, "--mesh-name");
        assert_eq!(lines.len(), 1, "one line, naming the flag: {log}");
        assert!(lines[0].contains("twin") && !log.contains("panicked"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_of_another_cluster_or_block_size_is_refused_and_neither_founds_nor_becomes_ready() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", None);
    until("the first is ready", || verdict(&one).0 == Some(0)).await;
    let seed = udp(&one);
    let other = start_with(&worker, path, "two", Some(&seed), &["--mesh-cluster", "elsewhere"]);
    let blocks = start_with(&worker, path, "three", Some(&seed), &["--block-bytes", "128"]);
    until("both are refused", || noted(&one, "refused.cluster") > 0 && noted(&one, "refused.block_bytes") > 0).await;
    tokio::join!(never_ready(&other), never_ready(&blocks));
    assert_eq!((readyz(&one).await.0, verdict(&one).0), (200, Some(0)), "the first one is not disturbed");
    for (process, flag, words) in [(other, "--mesh-cluster", "elsewhere"), (blocks, "--block-bytes", "256")] {
        process.signal("TERM");
        let (code, log) = process.finish();
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(refusals(&log, flag).len(), 1, "{log}");
        assert!(refusals(&log, flag)[0].contains(words), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_the_wrong_secret_stays_outside_and_both_logs_say_why() {
    let (secret, wrong) = (secret(), secret_of(b'w'));
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, secret.path.to_str().expect("a path"), "one", None);
    until("the first is ready", || verdict(&one).0 == Some(0)).await;
    place(&one).await;
    until("it holds something", || verdict(&one).1["status"]["blocks"].as_u64() > Some(0)).await;
    let before = verdict(&one).1["status"].clone();
    let two = start(&worker, wrong.path.to_str().expect("a path"), "two", Some(&udp(&one)));
    let start = Instant::now();
    while counted(&one, "covey_mesh_handshakes_refused_total{reason=\"secret\"}").await < 2
        || counted(&two, "covey_mesh_dials_failed_total{reason=\"secret\"}").await < 2
    {
        assert!(start.elapsed() < Duration::from_secs(10), "the attempts are not counted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let after = verdict(&one).1["status"].clone();
    assert_eq!((&after["digest"], &after["peers"]), (&before["digest"], &before["peers"]), "nothing is placed");
    assert_eq!(verdict(&two).1["status"]["blocks"], 0, "and nothing leaks");
    for process in [two, one] {
        process.signal("TERM");
        let (code, log) = process.finish();
        assert_eq!(code, Some(0), "{log}");
        let lines = log.lines().filter(|line| line.contains("does not share this mesh's secret")).count();
        assert_eq!(lines, 1, "one line for many attempts: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_is_admitted_again_under_its_name_and_ready_within_three_seconds() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, path, "one", None);
    let seed = udp(&one);
    let two = start(&worker, path, "two", Some(&seed));
    until("the two are converged", || {
        [&one, &two].iter().all(|process| {
            let (code, report) = verdict(process);
            code == Some(0) && report["status"]["peers"].as_array().is_some_and(|peers| peers.len() == 1)
        })
    })
    .await;
    place(&one).await;
    until("it holds something", || verdict(&one).1["status"]["blocks"].as_u64() > Some(0)).await;
    let address = udp(&two);
    two.signal("KILL");
    let (code, _) = two.finish();
    assert_eq!(code, None, "killed");
    let began = Instant::now();
    let two = start_with(&worker, path, "two", Some(&seed), &["--mesh-listen", &address]);
    while readyz(&two).await.0 != 200 {
        assert!(began.elapsed() < Duration::from_secs(3), "not ready: {:?}", readyz(&two).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    eprintln!("ready again after {:?}", began.elapsed());
    assert_eq!(verdict(&two).1["status"]["blocks"], verdict(&one).1["status"]["blocks"], "it has everything again");
    assert_eq!(noted(&one, "refused.name_taken") + noted(&two, "refused_by"), 0, "its name is its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_of_garbage_on_every_port_disturbs_nothing() {
    let secret = secret();
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let one = start(&worker, secret.path.to_str().expect("a path"), "one", None);
    until("it is ready", || verdict(&one).0 == Some(0)).await;
    place(&one).await;
    until("it holds something", || verdict(&one).1["status"]["blocks"].as_u64() > Some(0)).await;
    let before = verdict(&one).1["status"].clone();
    let garbage: Vec<u8> = (0..1_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for datagram in garbage.chunks(1_200) {
        stranger.send_to(datagram, udp(&one)).expect("sent");
    }
    for port in [&one.listen, &one.admin] {
        let mut stream = std::net::TcpStream::connect(port).expect("connected");
        // The gateway answers 400 and hangs up in the middle of it.
        let _ = std::io::Write::write_all(&mut stream, &garbage);
    }
    place(&one).await;
    let after = verdict(&one).1["status"].clone();
    assert_eq!((readyz(&one).await.0, &after["life"]), (200, &before["life"]));
    assert_eq!((&after["blocks"], &after["lives"]), (&before["blocks"], &before["lives"]), "nothing is placed");
    one.signal("TERM");
    let (code, log) = one.finish();
    assert!(code == Some(0) && !log.contains("panicked"), "{log}");
}
