//! Traces of decisions against a collector that decodes what it gets: `make check-otel` (feature `otel-check`).
//!
//! Not here: spans as log lines, which need no feature (`tests/it/binary.rs`).

mod collector;
#[path = "../it/fake.rs"]
#[expect(dead_code, reason = "shared with the `it` tests, which use all of it")]
mod fake;
#[path = "../it/gateway.rs"]
#[expect(dead_code, reason = "shared with the `it` tests, which use all of it")]
mod gateway;
#[path = "../it/process.rs"]
#[expect(dead_code, reason = "shared with the `it` tests, which use all of it")]
mod process;

use std::time::{Duration, Instant};

use crate::collector::{Collector, Seen};
use crate::fake::{FakeWorker, chat_json, chat_stream, until};
use crate::gateway::{ask, client};
use crate::process::Process;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn post(process: &Process, prompt: &str, stream: bool, traceparent: Option<&str>) -> u16 {
    let url = format!("http://{}/v1/chat/completions", process.listen);
    let mut request = client().post(url).body(ask(prompt, stream).to_string());
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    let answer = request.send().await.expect("answered");
    let status = answer.status().as_u16();
    answer.bytes().await.expect("a body");
    status
}

async fn counted(process: &Process, outcome: &str) -> u64 {
    let text = client().get(format!("http://{}/metrics", process.admin)).send().await.expect("it answers");
    let text = text.text().await.expect("text");
    let sample = format!("covey_trace_spans_total{{outcome=\"{outcome}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok()).expect("the sample is there")
}

fn named<'s>(spans: &'s [Seen], name: &str) -> &'s Seen {
    spans.iter().find(|span| span.span.name == name).unwrap_or_else(|| panic!("no span {name} in {spans:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_trace_below_its_clients_and_says_what_decided() {
    let collector = Collector::start().await;
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let process = Process::start(&worker, &["--otlp-endpoint", &collector.url()]);
    let prompt = "x".repeat(3_000);
    // Until the placement of one of them is in the index.
    let (start, mut asked) = (Instant::now(), 0_u64);
    let spans = loop {
        asked += 1;
        let traceparent = format!("00-{TRACE}-{asked:016x}-01");
        assert_eq!(post(&process, &prompt, false, Some(&traceparent)).await, 200);
        let parent = asked.to_be_bytes().to_vec();
        until("the trace is there", || collector.children(&parent).len() == 1).await;
        let root = collector.children(&parent).remove(0);
        if root.text("covey.outcome") == "hit" {
            let mut spans = collector.children(&root.span.span_id);
            spans.extend(collector.children(&named(&spans, "route").span.span_id));
            spans.push(root);
            break spans;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "never a hit: {root:?}");
    };
    let root = named(&spans, "request");
    assert!(spans.iter().all(|seen| hex(&seen.span.trace_id) == TRACE));
    let texts = ["covey.worker", "covey.outcome", "covey.end", "http.route"].map(|key| root.text(key));
    assert_eq!(texts, ["w0", "hit", "completed", "/v1/chat/completions"]);
    assert!(!root.text("covey.reason").is_empty() && root.number("covey.prompt_tokens") > 700);
    assert!(root.number("covey.predicted_tokens") >= 640, "{root:?}");
    assert_eq!((root.number("covey.reported_tokens"), root.number("http.response.status_code")), (64, 200));
    assert_eq!((root.span.kind, root.resource("service.name").as_str()), (2, "covey-gateway"));
    let (route, policy) = (named(&spans, "route"), named(&spans, "policy"));
    assert_eq!(["covey.worker", "covey.outcome"].map(|key| route.text(key)), ["w0", "hit"]);
    assert_eq!(policy.span.parent_span_id, route.span.span_id);
    assert!(policy.span.end_time_unix_nano <= route.span.end_time_unix_nano);
    let order = ["receive", "render", "lookup", "policy", "first_byte", "answer"].map(|name| &named(&spans, name).span);
    assert_eq!(spans.len(), order.len() + 2, "{spans:?}");
    for pair in order.windows(2) {
        let (one, next) = (pair[0], pair[1]);
        assert!(one.end_time_unix_nano <= next.start_time_unix_nano, "{} before {}", one.name, next.name);
    }
    assert!(root.span.start_time_unix_nano <= order[0].start_time_unix_nano);
    assert!(order[5].end_time_unix_nano <= root.span.end_time_unix_nano);
    assert_eq!(named(&spans, "first_byte").text("covey.worker"), "w0");
    assert!(counted(&process, "exported").await >= 8);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_failed_and_its_substitute_are_two_waits_of_one_trace() {
    let collector = Collector::start().await;
    let worker = FakeWorker::start(|_| chat_stream(&["one ", "two"])).await;
    let flags = ["--otlp-endpoint", &collector.url(), "--worker", "w1=http://127.0.0.1:1", "--policy", "round-robin"];
    let process = Process::start(&worker, &[&flags[..], &["--health-interval", "60s"]].concat());
    let failed = || -> Option<Seen> {
        collector.spans().into_iter().find(|seen| seen.span.name == "first_byte" && seen.text("covey.worker") == "w1")
    };
    let start = Instant::now();
    while failed().is_none() {
        assert_eq!(post(&process, "short", true, None).await, 200);
        assert!(start.elapsed() < Duration::from_secs(10), "the dead worker is never tried");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let dead = failed().expect("just seen");
    assert_eq!((dead.text("covey.fault").as_str(), dead.status()), ("connect", 2));
    let root = || collector.spans().into_iter().find(|seen| seen.span.span_id == dead.span.parent_span_id);
    until("the request is over", || root().is_some()).await;
    let root = root().expect("just seen");
    assert_eq!((root.text("covey.worker").as_str(), root.text("covey.end").as_str()), ("w0", "completed"));
    assert_eq!((root.text("covey.fault").as_str(), root.status()), ("", 0), "the request itself is well");
    let waits = collector.children(&root.span.span_id).into_iter().filter(|seen| seen.span.name == "first_byte");
    assert_eq!(waits.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_decides_for_its_request_and_the_share_for_others() {
    let collector = Collector::start().await;
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let (sampled, unsampled) = (format!("00-{TRACE}-{PARENT}-01"), format!("00-{TRACE}-{PARENT}-00"));
    let none = Process::start(&worker, &["--otlp-endpoint", &collector.url(), "--otlp-sample", "0"]);
    for traceparent in [None, Some("nonsense"), Some(unsampled.as_str()), Some(sampled.as_str())] {
        assert_eq!(post(&none, "short", false, traceparent).await, 200);
    }
    until("the client's trace comes", || collector.spans().iter().any(|seen| seen.span.name == "request")).await;
    none.signal("TERM");
    assert_eq!(none.finish().0, Some(0));
    let roots = || collector.spans().into_iter().filter(|seen| seen.span.name == "request").collect::<Vec<_>>();
    assert_eq!(roots().len(), 1, "{:?}", roots());
    assert_eq!(hex(&roots()[0].span.parent_span_id), PARENT);
    let all = Process::start(&worker, &["--otlp-endpoint", &collector.url()]);
    for traceparent in [Some(unsampled.as_str()), None, Some("nonsense")] {
        assert_eq!(post(&all, "short", false, traceparent).await, 200);
    }
    // What is queued when a gateway stops still goes out.
    all.signal("TERM");
    assert_eq!(all.finish().0, Some(0));
    assert_eq!(roots().len(), 3, "{:?}", roots());
}

/// Requests one after the other; the longest took this long.
async fn longest(process: &Process, requests: usize) -> Duration {
    let (http, url) = (client(), format!("http://{}/v1/chat/completions", process.listen));
    let mut longest = Duration::ZERO;
    for _ in 0..requests {
        let start = Instant::now();
        let answer = http.post(&url).body(ask("short", false).to_string()).send().await.expect("answered");
        assert_eq!(answer.status(), 200);
        answer.bytes().await.expect("a body");
        longest = longest.max(start.elapsed());
    }
    longest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_delays_nothing_and_what_it_misses_is_counted() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let process = Process::start(&worker, &["--otlp-endpoint", "http://127.0.0.1:1"]);
    let longest = longest(&process, 50).await;
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    let start = Instant::now();
    while counted(&process, "failed").await == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "failures are not counted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(counted(&process, "exported").await, 0);
    process.signal("TERM");
    let (code, log) = process.finish();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(log.matches("traces do not reach the collector").count(), 1, "said once: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_delays_nothing_and_the_queue_stays_bounded() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let process = Process::start(&worker, &["--otlp-endpoint", &endpoint]);
    // Seven spans each (a short prompt is not looked up): more than the queue and a batch hold.
    let longest = longest(&process, 900).await;
    assert!(longest < Duration::from_secs(2), "a request waited {longest:?}");
    let start = Instant::now();
    while counted(&process, "dropped").await == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "nothing was dropped");
        self::longest(&process, 20).await;
    }
    process.signal("TERM");
    let (start, (code, log)) = (Instant::now(), process.finish());
    assert_eq!(code, Some(0), "{log}");
    assert!(start.elapsed() < Duration::from_secs(6), "stopping waits for what is queued, not longer");
}
