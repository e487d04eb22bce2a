//! The real binary: exit codes, messages, draining, `covey status`.

use std::time::{Duration, Instant};

use crate::fake::{DONE, FakeWorker, Step, chat_json, delta, sse_head, until};
use crate::gateway::{ask, client};
use crate::process::{Process, covey, status};

fn fails(args: &[&str], env: &[(&str, &str)], code: i32, words: &[&str]) {
    let output = covey(args).envs(env.iter().copied()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_wrong_configuration_ends_with_code_2_and_names_the_flag() {
    let base = ["gateway", "--model", "m", "--worker", "w=http://127.0.0.1:1"];
    let with = |extra: &[&'static str]| [&base[..], extra].concat();
    fails(&["gateway"], &[], 2, &["--worker", "COVEY_WORKER"]);
    fails(&with(&["--block-bytes", "0"]), &[], 2, &["--block-bytes"]);
    fails(&with(&["--mesh", "on"]), &[], 2, &["--mesh-name"]);
    fails(&with(&["--nonsense"]), &[], 2, &["--nonsense"]);
    fails(&with(&[]), &[("COVEY_LISTEN", "nowhere")], 2, &["nowhere", "--listen"]);
    fails(&with(&[]), &[("COVEY_BLOCK_BYTES", "0")], 2, &["COVEY_BLOCK_BYTES"]);
    let duplicate = [("COVEY_WORKER", "a=http://h:1,a=http://h:2"), ("COVEY_MODEL", "m")];
    fails(&["gateway"], &duplicate, 2, &["two workers", "\"a\""]);
    fails(&["frobnicate"], &[], 2, &["frobnicate"]);
}

#[test]
fn a_busy_port_is_named_with_its_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let base = ["gateway", "--model", "m", "--worker", "w=http://127.0.0.1:1"];
    let free = "127.0.0.1:0";
    let args = [&base[..], &["--listen", &address, "--admin-listen", free]].concat();
    fails(&args, &[], 1, &["--listen", &address, "in use"]);
    let args = [&base[..], &["--listen", free, "--admin-listen", &address]].concat();
    fails(&args, &[], 1, &["--admin-listen", &address, "in use"]);
}

#[test]
fn status_of_nobody_is_unknown() {
    let output = covey(&["status", "--admin", "127.0.0.1:1", "--timeout", "2s"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "unknown\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--admin-listen"));
    let output = covey(&["status", "--admin", "127.0.0.1:1", "--json"]).output().expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), json["verdict"].as_str()), (Some(3), Some("unknown")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_alone_is_converged_and_stops_cleanly_when_asked() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    for signal in ["TERM", "INT"] {
        let process = Process::start(&worker, &["--log-format", "json"]);
        let admin = process.admin.clone();
        until("it is converged", || status(&admin, &[]).status.code() == Some(0)).await;
        let text = String::from_utf8_lossy(&status(&admin, &[]).stdout).into_owned();
        assert!(text.contains("\nconverged ") && text.contains("(mesh off"), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&status(&admin, &["--json"]).stdout).expect("JSON");
        assert_eq!(json["verdict"], "converged");
        process.signal(signal);
        let (code, log) = process.finish();
        assert_eq!(code, Some(0), "{log}");
        for line in log.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "not JSON: {line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_under_way_are_finished_before_the_gateway_stops() {
    let steps = || vec![sse_head(), Step::Send(delta("one").into_bytes()), Step::Await, Step::Send(DONE.into())];
    let worker = FakeWorker::start(move |_| steps()).await;
    let process = Process::start(&worker, &[]);
    let http = client();
    let url = format!("http://{}/v1/chat/completions", process.listen);
    let mut response = http.post(&url).body(ask("x", true).to_string()).send().await.expect("answered");
    let mut seen = response.chunk().await.expect("bytes").expect("a piece").to_vec();
    process.signal("TERM");
    let admin = format!("http://{}/readyz", process.admin);
    let start = Instant::now();
    loop {
        let ready = http.get(&admin).send().await.expect("the admin port still answers");
        if ready.status() == 503 && ready.text().await.expect("a reason").contains("shutting down") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "it does not say that it is draining");
    }
    let refused = client();
    let start = Instant::now();
    while refused.post(&url).body("{}").send().await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "it still accepts connections");
    }
    worker.release(1);
    while let Some(piece) = response.chunk().await.expect("bytes") {
        seen.extend(piece);
    }
    assert!(String::from_utf8_lossy(&seen).ends_with(DONE), "the request under way is finished");
    let (code, log) = process.finish();
    assert_eq!(code, Some(0), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlasts_the_drain_time_is_cut_off() {
    let worker = FakeWorker::start(|_| vec![sse_head(), Step::Send(delta("one").into_bytes()), Step::Await]).await;
    let process = Process::start(&worker, &["--drain-timeout", "300ms"]);
    let http = client();
    let url = format!("http://{}/v1/chat/completions", process.listen);
    let mut response = http.post(&url).body(ask("x", true).to_string()).send().await.expect("answered");
    response.chunk().await.expect("bytes").expect("a piece");
    process.signal("TERM");
    let (code, log) = process.finish();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("drain time is over"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_a_decision_are_log_lines_for_whoever_asks_for_them() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    for (filter, wanted) in [("info", 0), ("info,covey::decision=debug", 8)] {
        let process = Process::start(&worker, &["--log-format", "json", "--log", filter]);
        let url = format!("http://{}/v1/chat/completions", process.listen);
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let request = client().post(&url).header("traceparent", parent);
        let request = request.body(ask(&"x".repeat(3_000), false).to_string());
        assert_eq!(request.send().await.expect("answered").status(), 200);
        process.signal("TERM");
        let (code, log) = process.finish();
        assert_eq!(code, Some(0), "{log}");
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let spans: Vec<_> = lines.filter(|line| line["target"] == "covey::decision").collect();
        assert_eq!(spans.len(), wanted, "{log}");
        let Some(request) = spans.iter().find(|line| line["span"]["name"] == "request") else { continue };
        let said = |key: &str| request["span"][key].clone();
        assert_eq!((said("covey.worker"), said("http.response.status_code")), ("w0".into(), 200.into()), "{log}");
        // With an exporter the client's trace is the parent, and not named beside it.
        #[cfg(not(feature = "otel"))]
        assert_eq!(said("traceparent"), parent);
        assert_eq!((said("covey.reported_tokens"), said("covey.end")), (64.into(), "completed".into()), "{log}");
    }
}
