//! A `covey gateway` process in front of a worker of this process, asked in turns that wait for the worker's events.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use covey_sim::client::Client;
use serde_json::{Value, json};

use crate::worker::Served;

const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway; killed when the test is over.
pub(crate) struct Gateway {
    child: Child,
    listen: String,
    admin: String,
    http: reqwest::Client,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The worker, as the gateway names it.
    pub(crate) worker: String,
    /// Who answered, by its own word.
    pub(crate) engine: String,
    pub(crate) predicted: u64,
    pub(crate) reported: u64,
    pub(crate) body: Value,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Gateway {
    /// Starts one in front of the worker, which it calls w0, and waits until it is ready.
    pub(crate) async fn start(covey: &Path, served: &Served, more: &[&str]) -> Self {
        let mut command = Command::new(covey);
        command.args(["gateway", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--model", "demo"]);
        command.args(["--probe-interval", "100ms", "--health-interval", "50ms"]);
        command.arg("--worker").arg(format!("w0={}", served.base)).args(more).env_clear();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut banner = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut banner).unwrap();
        let after = |mark: &str| {
            let rest = banner.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {banner:?}")).1;
            rest.split([',', '\n']).next().unwrap().to_owned()
        };
        let (listen, admin) = (after("clients "), after("admin "));
        // The simulator's client installs what a client needs.
        drop(Client::new().unwrap());
        let gateway = Self { child, listen, admin, http: reqwest::Client::builder().no_proxy().build().unwrap() };
        let url = format!("{}/readyz", gateway.admin);
        let is_ready = async || gateway.http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success());
        let started = Instant::now();
        while !is_ready().await {
            assert!(started.elapsed() < PATIENCE, "not ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        gateway
    }

    pub(crate) async fn ask(&self, path: &str, body: &Value) -> Answered {
        let post = self.http.post(format!("{}{path}", self.listen)).header("x-covey-debug", "1");
        let response = post.body(body.to_string()).send().await.unwrap();
        let status = response.status();
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let worker = header("x-covey-worker").unwrap_or_default();
        let predicted = header("x-covey-predicted-tokens").unwrap_or_default().parse().unwrap_or(u64::MAX);
        let text = response.text().await.unwrap();
        assert_eq!(status, 200, "{text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        let reported = body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        Answered { worker, engine: body["system_fingerprint"].as_str().unwrap().to_owned(), predicted, reported, body }
    }

    /// A page of the admin port.
    pub(crate) async fn page(&self, path: &str) -> String {
        self.http.get(format!("{}{path}", self.admin)).send().await.unwrap().text().await.unwrap()
    }

    /// The feeds, in the order of the workers.
    pub(crate) async fn feeds(&self) -> Vec<Value> {
        serde_json::from_str(&self.page("/feeds").await).unwrap()
    }

    /// Waits until the feeds are as wanted.
    pub(crate) async fn until(&self, what: &str, mut wanted: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let feeds = self.feeds().await;
            if wanted(&feeds) {
                return feeds;
            }
            assert!(started.elapsed() < PATIENCE, "{what} did not come: {feeds:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until every rank is read, then asks something and waits until the gateway has its events, and with them the block
    /// size: prompts of token ids are looked up by nothing else.
    pub(crate) async fn warm(&self, served: &Served, ranks: usize) {
        let is_read = |feed: &Value| feed["role"] == "publisher" && feed["trouble"].is_null();
        self.until("a reader of each rank", |feeds| feeds.iter().all(is_read)).await;
        self.ask("/v1/completions", &json!({"model": "demo", "prompt": "Once upon a time. ".repeat(40)})).await;
        let has_report = |feed: &Value| feed["counted"]["batches"].as_u64() >= Some(1);
        self.until("a report of the first batch", |feeds| feeds.iter().any(has_report)).await;
        self.in_step(served, ranks).await;
    }

    /// Waits until each rank's feed is where its engine is; gives both.
    pub(crate) async fn in_step(&self, served: &Served, ranks: usize) -> (Vec<Value>, Vec<Value>) {
        let mut truths = Vec::new();
        for rank in 0..ranks {
            truths.push(served.truth(rank).await);
        }
        let is_there = |(feed, truth): (&Value, &Value)| {
            let position = feed["position"].as_u64().unwrap_or_default();
            Some(position) == truth["position"].as_u64() && (position == 0 || feed["is_complete"] == true)
        };
        let all = |feeds: &[Value]| feeds.len() == ranks && feeds.iter().zip(&truths).all(is_there);
        (self.until("all that engines published", all).await, truths)
    }
}
