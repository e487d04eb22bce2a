//! Requests looked up by the engine's own token ids, end to end: what is predicted is what the worker reports, and when it
//! is not, the gateway says what it looks like.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use covey_crdt::id::ModelName;
use covey_gateway_plugin::plugin::FeedState;
use covey_gateway_plugin::tokens::{Api, Envelope, Tokenizer, TokenizerOptions};
use serde_json::{Value, json};

use crate::fake::{FakeWorker, Recorded, Step, reply, until};
use crate::gateway::{MODEL, TestGateway, ask, gateway, header};
use crate::process::covey;

const ANSWER: &str = "It is 21 degrees and sunny in Paris; tomorrow it will rain, and the day after it will not.";

/// A model's directory as it is shipped, from the fixture that `tests/tokens/make.py` makes.
fn shipped(name: &str) -> tempfile::TempDir {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokens/cases.json");
    let cases: Value = serde_json::from_slice(&std::fs::read(path).expect("a fixture")).expect("JSON");
    let model = cases["models"].as_array().expect("models").iter().find(|model| model["name"] == name);
    let model = model.expect("a model of that name");
    let dir = tempfile::tempdir().expect("a directory");
    let tokenizer = &cases["tokenizers"][model["tokenizer"].as_str().expect("a name")];
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).expect("written");
    std::fs::write(dir.path().join("tokenizer_config.json"), model["config"].to_string()).expect("written");
    dir
}

/// An engine's cache: whole blocks by the tokens up to their end, never evicted.
struct Engine {
    tokenizer: Tokenizer,
    block: usize,
    /// Prompt tokens it counts more than there are: another template.
    extra_tokens: u64,
    held: Mutex<HashSet<Vec<u32>>>,
    reports: Mutex<Vec<u64>>,
}

impl Engine {
    fn new(dir: &Path, block: usize, extra_tokens: u64) -> Arc<Self> {
        let tokenizer = Tokenizer::load(dir, TokenizerOptions::default()).expect("loads");
        Arc::new(Self { tokenizer, block, extra_tokens, held: Mutex::default(), reports: Mutex::default() })
    }

    fn ids(&self, request: &Value) -> Vec<u32> {
        let body = request.to_string();
        let api = if request.get("messages").is_some() { Api::Chat } else { Api::Completions };
        let envelope = Envelope::parse(body.as_bytes()).expect("a request");
        self.tokenizer.prompt(&envelope, api).map(|prompt| prompt.ids).unwrap_or_default()
    }

    fn answer(&self, request: &Recorded) -> Vec<Step> {
        let request: Value = serde_json::from_slice(&request.body).expect("JSON");
        let ids = self.ids(&request);
        let sampled = self.ids(&json!({"prompt": ANSWER, "add_special_tokens": false}));
        let mut held = self.held.lock().expect("not poisoned");
        let scope = [request["cache_salt"].to_string(), request["model"].to_string()].concat();
        let name = |blocks: usize, ids: &[u32]| {
            let scope = scope.bytes().map(u32::from);
            scope.chain(ids[..blocks * self.block].iter().copied()).collect::<Vec<u32>>()
        };
        let most = ids.len().saturating_sub(1) / self.block;
        let cached = (1..=most).take_while(|blocks| held.contains(&name(*blocks, &ids))).count();
        let whole = [ids.as_slice(), &sampled].concat();
        held.extend((1..=whole.len() / self.block).map(|blocks| name(blocks, &whole)));
        let cached = (cached * self.block) as u64;
        self.reports.lock().expect("not poisoned").push(cached);
        let usage = json!({"prompt_tokens": ids.len() as u64 + self.extra_tokens, "prompt_tokens_details": {"cached_tokens": cached}});
        let choice = if request.get("messages").is_some() {
            json!({"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"})
        } else {
            json!({"index": 0, "text": ANSWER, "finish_reason": "stop"})
        };
        vec![reply("200 OK", "application/json", &json!({"choices": [choice], "usage": usage}).to_string())]
    }

    fn last_report(&self) -> u64 {
        self.reports.lock().expect("not poisoned").last().copied().unwrap_or_default()
    }
}

async fn engine(model: &tempfile::TempDir, block: usize, extra_tokens: u64) -> (Arc<Engine>, FakeWorker) {
    let engine = Engine::new(model.path(), block, extra_tokens);
    let serving = Arc::clone(&engine);
    (engine, FakeWorker::start(move |request| serving.answer(request)).await)
}

fn predicted(response: &reqwest::Response) -> u64 {
    header(response, "x-covey-predicted-tokens").parse().expect("a number")
}

/// Sends a request and waits until what it placed can be looked up.
async fn send(gateway: &TestGateway, request: &Value) -> u64 {
    let before = gateway.placements();
    let path = if request.get("messages").is_some() { "/v1/chat/completions" } else { "/v1/completions" };
    let post = gateway.client.post(gateway.url(path)).header("x-covey-debug", "1").body(request.to_string());
    let response = post.send().await.expect("the gateway answers");
    assert_eq!(response.status(), 200);
    let predicted = predicted(&response);
    response.bytes().await.expect("a body");
    until("both placements are handed over", || gateway.placements() >= before + 2).await;
    let plugin = gateway.running.gateway().plugin();
    let version = plugin.reading().version();
    let start = std::time::Instant::now();
    while plugin.reading().version() == version && start.elapsed() < std::time::Duration::from_millis(300) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    predicted
}

async fn ready(gateway: &TestGateway) {
    gateway.ready().await;
    until("the worker is recorded", || gateway.running.gateway().mesh().status().workers == 1).await;
}

fn said(turn: usize) -> String {
    format!("Turn {turn}. What is the weather in Paris? {}", "The quick brown fox jumps over the lazy dog. ".repeat(40))
}

#[tokio::test]
async fn every_turn_of_a_conversation_is_predicted_as_the_worker_reports_it() {
    let model = shipped("chatml");
    let (engine, worker) = engine(&model, 16, 0).await;
    let path = model.path().to_str().expect("a path");
    let gateway = gateway(&[&worker], &["--tokenizer", path, "--block-tokens", "16"]).await;
    ready(&gateway).await;
    let mut messages = Vec::new();
    for turn in 0..8 {
        messages.push(json!({"role": "user", "content": said(turn)}));
        let predicted = send(&gateway, &json!({"model": MODEL, "messages": messages})).await;
        assert_eq!(predicted, engine.last_report(), "turn {turn}");
        assert!(turn == 0 || predicted > 300, "turn {turn}: {predicted}");
        messages.push(json!({"role": "assistant", "content": ANSWER}));
    }
    let outcomes = gateway.running.gateway().predictions().snapshot();
    assert_eq!(outcomes.requests, [8, 0, 0]);
    assert!(outcomes.tokens[0] > 5_000 && gateway.running.gateway().counters().token_sums().requests == 8);
}

#[tokio::test]
async fn ids_need_no_tokenizer_and_salts_and_adapters_are_kept_apart() {
    let model = shipped("chatml");
    let (engine, worker) = engine(&model, 16, 0).await;
    let gateway = gateway(&[&worker], &["--block-tokens", "16", "--adapter", "tuned"]).await;
    ready(&gateway).await;
    let ids: Vec<u32> = (0..200).collect();
    let request = |model: &str, salt: Option<&str>| {
        let mut request = json!({"model": model, "prompt": ids});
        if let Some(salt) = salt {
            request["cache_salt"] = json!(salt);
        }
        request
    };
    for (model, salt) in [(MODEL, None), (MODEL, Some("a")), ("tuned", None), ("tuned", Some("a"))] {
        assert_eq!(send(&gateway, &request(model, salt)).await, 0, "{model} {salt:?}");
        assert_eq!(send(&gateway, &request(model, salt)).await, 192, "{model} {salt:?}");
        assert_eq!(engine.last_report(), 192);
    }
    assert_eq!(send(&gateway, &json!({"model": MODEL, "prompt": [ids]})).await, 192, "one list in a list");
    let batch = json!({"model": MODEL, "prompt": [[1, 2], [3]]}).to_string();
    let response = gateway.client.post(gateway.url("/v1/completions")).body(batch).send().await.expect("answered");
    assert_eq!(header(&response, "x-covey-outcome"), "unscorable");
}

async fn doctor(gateway: &TestGateway) -> Value {
    let response = gateway.client.get(gateway.admin_url("/doctor")).send().await.expect("answered");
    response.json().await.expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_another_template_is_named_in_metrics_and_by_the_doctor() {
    let model = shipped("headed");
    let (_engine, worker) = engine(&model, 16, 3).await;
    let path = model.path().to_str().expect("a path");
    let gateway = gateway(&[&worker], &["--tokenizer", path, "--block-tokens", "16"]).await;
    ready(&gateway).await;
    let address = gateway.running.admin_listen().to_string();
    let run = |json: &Path| covey(&["doctor", &address, "--json"]).arg(json).output().expect("it runs");
    let json = tempfile::NamedTempFile::new().expect("a file");
    let fine = run(json.path());
    let text = String::from_utf8_lossy(&fine.stdout).into_owned();
    assert_eq!(fine.status.code(), Some(0), "{text}");
    assert!(
        text.contains("worker w0: nothing to judge") && text.contains("blocks of 16 tokens by --block-tokens"),
        "{text}"
    );
    for turn in 0..4 {
        send(&gateway, &ask(&said(turn), false)).await;
    }
    let report = doctor(&gateway).await;
    let worker = &report["workers"][0];
    assert_eq!((&worker["mismatch"], &worker["prompt_counts_differ"]), (&json!("tokenization"), &json!(4)), "{report}");
    let metrics = gateway.client.get(gateway.admin_url("/metrics")).send().await.expect("answered");
    let metrics = metrics.text().await.expect("text");
    for sample in [
        "covey_worker_prediction_mismatch{worker=\"w0\",why=\"tokenization\"} 1",
        "covey_worker_prediction_mismatch{worker=\"w0\",why=\"events\"} 0",
        "covey_gateway_prediction_requests_total{outcome=\"exact\"} 4",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(sample)), "{sample} is not in {metrics}");
    }
    let named = run(json.path());
    let text = String::from_utf8_lossy(&named.stdout).into_owned();
    assert_eq!(named.status.code(), Some(1), "{text}");
    assert!(text.contains("worker w0: tokenization") && text.contains("to do: give --tokenizer"), "{text}");
    let written: Value = serde_json::from_slice(&std::fs::read(json.path()).expect("written")).expect("JSON");
    assert_eq!(written["workers"][0]["mismatch"], "tokenization");
    let nobody = covey(&["doctor", "127.0.0.1:1"]).output().expect("it runs");
    assert_eq!(nobody.status.code(), Some(3));
}

#[tokio::test]
async fn events_say_the_block_size_and_win_over_the_flag() {
    let model = shipped("chatml");
    let (engine, worker) = engine(&model, 32, 0).await;
    let path = model.path().to_str().expect("a path");
    let gateway = gateway(&[&worker], &["--tokenizer", path, "--block-tokens", "16"]).await;
    ready(&gateway).await;
    let (of, id) = (ModelName::new(MODEL).expect("a name"), gateway.running.gateway().workers().all()[0].id.clone());
    gateway.running.gateway().feed_changed(&id, FeedState::Complete, Some(32));
    send(&gateway, &ask(&said(0), false)).await;
    let report = doctor(&gateway).await;
    assert_eq!(report["workers"][0]["mismatch"], "block_size", "{report}");
    let _named = gateway.running.gateway().block_sizes().learned(&of, &id, 32);
    assert_eq!(send(&gateway, &ask(&said(0), false)).await, 0, "another keyspace");
    let again = send(&gateway, &ask(&said(0), false)).await;
    assert_eq!((again % 32, again), (0, engine.last_report()));
    let report = doctor(&gateway).await;
    assert_eq!(
        (&report["models"][0]["block_tokens"], &report["models"][0]["flag"]),
        (&json!(32), &json!(16)),
        "{report}"
    );
    assert_eq!((&report["workers"][0]["mismatch"], &report["workers"][0]["feed"]), (&Value::Null, &json!("complete")));
}

#[tokio::test]
async fn what_has_no_ids_is_looked_up_by_its_bytes_and_counted() {
    let model = shipped("chatml");
    let (_engine, worker) = engine(&model, 16, 0).await;
    let path = model.path().to_str().expect("a path");
    let gateway = gateway(&[&worker], &["--tokenizer", &format!("{MODEL}={path}"), "--block-tokens", "16"]).await;
    ready(&gateway).await;
    let image = json!([{"type": "text", "text": said(0)}, {"type": "image_url", "image_url": {"url": "data:x"}}]);
    let request = json!({"model": MODEL, "messages": [{"role": "user", "content": image}]});
    send(&gateway, &request).await;
    assert!(send(&gateway, &request).await > 300, "its bytes are known");
    assert_eq!(doctor(&gateway).await["untokenized"], json!({"multimodal": 2}));
}

#[test]
fn a_tokenizer_that_cannot_be_used_stops_the_gateway_by_name() {
    let base = ["gateway", "--model", "m", "--worker", "http://127.0.0.1:1", "--tokenizer"];
    for (flags, part) in [
        (vec!["/nonexistent"], "--tokenizer (COVEY_TOKENIZER): cannot read /nonexistent"),
        (vec!["m=/nonexistent/t.json"], "cannot read /nonexistent/t.json"),
        (vec!["", "--block-tokens", "0"], "--block-tokens (COVEY_BLOCK_TOKENS): 0 cannot be used"),
        (vec!["", "--adapter", "m"], "--adapter (COVEY_ADAPTER): \"m\" is also given with --model"),
    ] {
        let output = covey(&[&base[..], &flags].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{part} is not in {said}");
    }
}
