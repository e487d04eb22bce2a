//! Hazards of the worker: streams that differ from vLLM's, cached tokens that lie, aborts that keep blocks.

use std::time::Duration;

use covey_sim::client::{Chat, Client, Failure};
use covey_sim::worker::{KvArgs, Worker, WorkerArgs};
use covey_sim::workload::{Message, Shape, Workload, WorkloadConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(10);

/// A worker on a task of its own; it stops with the test.
pub(crate) struct Served {
    pub(crate) base: String,
    /// Where its KV events are published, if they are.
    pub(crate) kv_events: Option<String>,
    /// Where replays of them are served.
    pub(crate) replay: Option<String>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Served {
    pub(crate) async fn start(change: impl FnOnce(&mut WorkerArgs)) -> Self {
        let mut args = WorkerArgs {
            listen: "127.0.0.1:0".parse().unwrap(),
            model: "demo".into(),
            id: "w0".into(),
            cache_tokens: 120_000,
            prefill_tokens_per_s: 10_000_000,
            decode_step_ms: 1,
            running_max: 256,
            data_parallel_size: 1,
            tokenizer: None,
            exit_with_stdin: false,
            block_tokens: 16,
            host_cache_tokens: 0,
            kv: KvArgs::default(),
        };
        change(&mut args);
        let worker = Worker::bind(&args).await.unwrap();
        let base = format!("http://{}", worker.address().unwrap());
        let (kv_events, replay) = (worker.kv_events().map(str::to_owned), worker.replay().map(str::to_owned));
        Self { base, kv_events, replay, task: tokio::spawn(worker.serve()) }
    }

    pub(crate) async fn get_json(&self, route: &str) -> Value {
        let page = Client::new().unwrap().page(&format!("{}{route}", self.base), PATIENCE).await.unwrap();
        serde_json::from_str(&page).unwrap()
    }

    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let page = Client::new().unwrap().page(&format!("{}/metrics", self.base), PATIENCE).await.unwrap();
        let line =
            page.lines().find(|line| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// A page as text.
    pub(crate) async fn page(&self, route: &str) -> String {
        Client::new().unwrap().page(&format!("{}{route}", self.base), PATIENCE).await.unwrap()
    }

    /// What a rank's cache holds.
    pub(crate) async fn truth(&self, rank: usize) -> Value {
        let head = format!(
            "GET /covey/truth HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-data-parallel-rank: {rank}\r\n\r\n"
        );
        let (status, text) = self.exchange(head.as_bytes()).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Sends a body as it is; gives status and body.
    pub(crate) async fn post(&self, route: &str, body: &str) -> (u16, String) {
        self.post_to(None, route, body).await
    }

    /// Sends a body to a rank.
    pub(crate) async fn post_to(&self, rank: Option<&str>, route: &str, body: &str) -> (u16, String) {
        let bytes = String::from_utf8(post_bytes(route, body)).unwrap();
        let header = rank.map(|rank| format!("X-data-parallel-rank: {rank}\r\n")).unwrap_or_default();
        self.exchange(bytes.replacen("host: x\r\n", &format!("host: x\r\n{header}"), 1).as_bytes()).await
    }

    async fn exchange(&self, request: &[u8]) -> (u16, String) {
        let address = self.base.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), dechunked(head, body))
    }

    pub(crate) async fn post_json(&self, route: &str, body: &Value) -> Value {
        let (status, text) = self.post(route, &body.to_string()).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn post_bytes(route: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {route} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn dechunked(head: &str, body: &str) -> String {
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut text) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        text.push_str(&after[..size]);
        rest = &after[size + 2..];
        if size == 0 {
            break;
        }
    }
    text
}

async fn until(mut check: impl AsyncFnMut() -> bool) {
    tokio::time::timeout(PATIENCE, async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it happens before patience ends");
}

#[tokio::test]
async fn the_second_turn_finds_the_first_and_its_answer_cached() {
    let served = Served::start(|_| {}).await;
    let workload =
        Workload::new(&WorkloadConfig { seed: 1, sessions: 1, think_mean: Duration::ZERO, shape: Shape::AGENTIC });
    let session = &workload.sessions[0];
    let client = Client::new().unwrap();
    let mut replies = Vec::new();
    for turn in 0..2 {
        let messages = session.messages(turn);
        let chat = Chat { model: "demo", messages: &messages, answer: &session.turns[turn].answer };
        replies.push(client.chat(&served.base, chat).await.unwrap());
    }
    let answer_tokens = session.turns[0].answer.len() as u64 / 4;
    assert_eq!(replies[0].cached_tokens, 0);
    let reachable = replies[0].prompt_tokens + answer_tokens;
    let missed = reachable - replies[1].cached_tokens;
    assert!(missed <= 17, "all but the last partial block, {missed} tokens missed");
    assert!(replies[1].cached_tokens.is_multiple_of(16));
    assert_eq!(served.metric("vllm:prefix_cache_hits_total").await, replies[1].cached_tokens as f64);
    let queried = replies[0].prompt_tokens + replies[1].prompt_tokens;
    assert_eq!(served.metric("vllm:prefix_cache_queries_total").await, queried as f64);
    assert_eq!(served.metric("vllm:prompt_tokens_total").await, queried as f64);
}

#[tokio::test]
async fn a_stream_has_vllms_chunks_in_vllms_order() {
    let served = Served::start(|_| {}).await;
    let body = json!({"model": "demo", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "q"}], "covey_script": {"answer": "eight bytes or more"}});
    let (status, text) = served.post("/v1/chat/completions", &body.to_string()).await;
    assert_eq!(status, 200);
    let events: Vec<_> = text.split("\n\n").filter(|event| !event.is_empty()).collect();
    let data: Vec<_> = events.iter().map(|event| event.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(data.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> = data[..data.len() - 1].iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"]));
    let said: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(said, "eight bytes or more");
    let (usage, last) = (&chunks[chunks.len() - 1], &chunks[chunks.len() - 2]);
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let completion = usage["usage"]["completion_tokens"].as_u64().unwrap() as usize;
    assert!((4..=5).contains(&completion) && chunks.len() == completion + 3, "one chunk a token, role, end, usage");
}

#[tokio::test]
async fn usage_is_streamed_only_when_asked_for() {
    let served = Served::start(|_| {}).await;
    let body = json!({"prompt": "p", "stream": true, "max_tokens": 2}).to_string();
    let (_, text) = served.post("/v1/completions", &body).await;
    assert!(text.ends_with("data: [DONE]\n\n") && !text.contains("usage"), "{text}");
}

#[tokio::test]
async fn whole_answers_carry_usage_and_count_tokens() {
    let served = Served::start(|_| {}).await;
    let body = json!({"prompt": "x".repeat(640), "max_tokens": 24});
    let first = served.post_json("/v1/completions", &body).await;
    assert_eq!(first["object"], "text_completion");
    assert_eq!(first["choices"][0]["finish_reason"], "length");
    assert_eq!(first["choices"][0]["text"].as_str().unwrap().len(), 24 * 4);
    let usage = json!({"prompt_tokens": 160, "total_tokens": 184, "completion_tokens": 24,
        "prompt_tokens_details": {"cached_tokens": 0}});
    assert_eq!(first["usage"], usage);
    let second = served.post_json("/v1/completions", &body).await;
    assert_eq!(second["choices"], first["choices"], "the same prompt has the same answer");
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 144, "the last block is computed again");
    let chat = json!({"messages": [{"role": "user", "content": "q"}], "max_completion_tokens": 1});
    let chat = served.post_json("/v1/chat/completions", &chat).await;
    assert_eq!(chat["choices"][0]["message"]["role"], "assistant");
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_blocks() {
    for stream in [true, false] {
        // A thousand tokens of ten milliseconds: it would run for ten seconds.
        let served = Served::start(|args| args.decode_step_ms = 10).await;
        let address = served.base.strip_prefix("http://").unwrap().to_owned();
        let body = json!({"prompt": "y".repeat(400), "max_tokens": 1000, "stream": stream}).to_string();
        let mut hung = TcpStream::connect(address).await.unwrap();
        hung.write_all(&post_bytes("/v1/completions", &body)).await.unwrap();
        until(async || served.metric("vllm:num_requests_running").await > 0.0).await;
        assert!(served.metric("vllm:kv_cache_usage_perc").await > 0.0);
        drop(hung);
        until(async || served.metric("vllm:num_requests_running").await == 0.0).await;
        assert_eq!(served.metric("vllm:kv_cache_usage_perc").await, 0.0);
        assert_eq!(served.metric("covey_sim_requests_cancelled_total").await, 1.0);
        assert_eq!(served.metric("vllm:request_success_total").await, 0.0);
    }
}

#[tokio::test]
async fn metrics_say_how_large_the_cache_is_and_when_it_was_born() {
    let served = Served::start(|args| args.cache_tokens = 1_000).await;
    let page = Client::new().unwrap().page(&format!("{}/metrics", served.base), PATIENCE).await.unwrap();
    let info = page.lines().find(|line| line.starts_with("vllm:cache_config_info{")).unwrap();
    assert!(info.contains(r#"block_size="16""#) && info.contains(r#"num_gpu_blocks="62""#), "{info}");
    assert!(served.metric("process_start_time_seconds").await > 1.7e9);
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    }
}

#[tokio::test]
async fn refusals_are_json_that_says_what_is_wrong() {
    let served = Served::start(|args| args.cache_tokens = 160).await;
    let long = json!({"prompt": "z".repeat(4_000)}).to_string();
    for (route, body, status, word) in [
        ("/v1/completions", "{", 400, "not a request"),
        ("/v1/completions", "{}", 400, "prompt"),
        ("/v1/completions", r#"{"prompt": ["a", "b"]}"#, 400, "one string"),
        ("/v1/completions", r#"{"prompt": [[1], [2]]}"#, 400, "no batches"),
        ("/v1/completions", r#"{"prompt": [1, -2]}"#, 400, "token ids"),
        ("/v1/completions", r#"{"prompt": []}"#, 400, "token ids"),
        ("/v1/completions", r#"{"prompt": "p", "max_tokens": 0}"#, 400, "max_tokens"),
        ("/v1/completions", r#"{"prompt": "p", "n": 2}"#, 400, "n must be 1"),
        ("/v1/completions", r#"{"prompt": "p", "model": "gpt"}"#, 404, "serves `demo`"),
        ("/v1/completions", long.as_str(), 400, "cache holds 160"),
        ("/v1/chat/completions", r#"{"messages": []}"#, 400, "messages is empty"),
        ("/v1/chat/completions", r#"{"messages": [{"role": "user", "content": 3}]}"#, 400, "messages[0].content"),
        ("/v1/nothing", "{}", 404, "no such route"),
        ("/health", "{}", 405, "wrong method"),
    ] {
        let (got, text) = served.post(route, body).await;
        let error: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
        assert_eq!(got, status, "{body}: {text}");
        assert!(error["error"]["message"].as_str().unwrap().contains(word), "{text}");
        assert_eq!(error["error"]["code"], status);
    }
    assert_eq!(served.metric("vllm:prefix_cache_queries_total").await, 0.0, "a refusal touches no cache");
}

#[tokio::test]
async fn an_oversized_body_is_refused() {
    let served = Served::start(|_| {}).await;
    let body = json!({"prompt": "x".repeat(33 * 1024 * 1024)}).to_string();
    let address = served.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut read, mut write) = stream.split();
    let mut answer = vec![0; 512];
    let bytes = post_bytes("/v1/completions", &body);
    // The server may stop reading, and the write fail, before all of it is sent.
    let (_, length) = tokio::join!(write.write_all(&bytes), read.read(&mut answer));
    let text = String::from_utf8_lossy(&answer[..length.unwrap()]).into_owned();
    assert!(text.starts_with("HTTP/1.1 413") && text.contains("body is larger than"), "{text}");
}

#[tokio::test]
async fn a_client_tells_a_refusal_and_a_dead_server_apart() {
    let served = Served::start(|_| {}).await;
    let client = Client::new().unwrap();
    let messages = [Message { role: "user", content: "q".into() }];
    let chat = Chat { model: "other", messages: &messages, answer: "a" };
    let refused = client.chat(&served.base, chat).await.unwrap_err();
    assert!(matches!(refused, Failure::Refused { status: 404, .. }), "{refused}");
    let dead = client.chat("http://127.0.0.1:1", chat).await.unwrap_err();
    assert!(matches!(dead, Failure::Unreachable(_)), "{dead}");
}

#[tokio::test]
async fn a_script_in_metadata_survives_routers_that_drop_unknown_fields() {
    let worker = Served::start(|_| {}).await;
    let messages = json!([{"role": "user", "content": "a question of some length"}]);
    let body = json!({"model": "demo", "messages": messages, "metadata": {"covey_script": "exactly this"}});
    let answer = worker.post_json("/v1/chat/completions", &body).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "exactly this");
}

#[tokio::test]
async fn rendering_tells_the_ids_that_the_engine_will_compute() {
    let worker = Served::start(|_| {}).await;
    let body = json!({"model": "demo", "messages": [{"role": "user", "content": "a question of some length"}]});
    let rendered = worker.post_json("/v1/chat/completions/render", &body).await;
    let ids = rendered["token_ids"].as_array().unwrap().clone();
    let by_text = worker.post_json("/v1/chat/completions", &body).await;
    assert_eq!(by_text["usage"]["prompt_tokens"], ids.len());
    let body = json!({"model": "demo", "prompt": ids});
    let rendered = worker.post_json("/v1/completions/render", &body).await;
    assert_eq!(rendered[0]["token_ids"], body["prompt"], "ids are themselves");
    assert_eq!(worker.metric("vllm:prefix_cache_queries_total").await, ids.len() as f64, "nothing was computed for it");
}
