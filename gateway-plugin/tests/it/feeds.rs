//! Engines' events through real gateway processes: two of them read a worker, both predict from what it published, and when
//! the one that publishes dies nothing is lost.

use std::time::Duration;

use serde_json::Value;
use zeromq::{PubSocket, Socket as _, SocketSend as _, ZmqMessage};

use crate::fake::{FakeWorker, chat_json};
use crate::gateway::{client, secret};
use crate::process::Process;

/// An engine's publisher: batches of vLLM's array form.
struct Engine {
    socket: PubSocket,
    endpoint: String,
    seq: u64,
}

type Stored<'a> = (&'a str, Vec<u64>, Option<u64>, Vec<u32>, u32, Option<u32>, &'a str);

impl Engine {
    async fn start() -> Self {
        let mut socket = PubSocket::new();
        let endpoint = socket.bind("tcp://127.0.0.1:0").await.expect("it binds").to_string();
        Self { socket, endpoint, seq: 0 }
    }

    async fn publish(&mut self, payload: Vec<u8>) {
        let mut message = ZmqMessage::from("kv");
        message.push_back(self.seq.to_be_bytes().to_vec().into());
        message.push_back(payload.into());
        self.seq += 1;
        self.socket.send(message).await.expect("it sends");
    }

    /// Blocks of four tokens, from the root.
    async fn stored(&mut self, first: u32, blocks: u64) {
        let tokens = (first..first + 4 * blocks as u32).collect();
        let hashes = (u64::from(first)..u64::from(first) + blocks).collect();
        let event: Stored<'_> = ("BlockStored", hashes, None, tokens, 4, None, "GPU");
        self.publish(rmp_serde::to_vec(&(1.0f64, vec![event])).expect("it encodes")).await;
    }

    async fn removed(&mut self, hash: u64) {
        let event = ("BlockRemoved", vec![hash], "GPU");
        self.publish(rmp_serde::to_vec(&(2.0f64, vec![event])).expect("it encodes")).await;
    }
}

async fn feed(process: &Process) -> Value {
    let text = client().get(format!("http://{}/feeds", process.admin)).send().await.expect("answered");
    let feeds: Value = serde_json::from_str(&text.text().await.expect("a body")).expect("JSON");
    feeds[0].clone()
}

async fn until_feeds(what: &str, processes: &[&Process], wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let started = std::time::Instant::now();
    loop {
        let mut feeds = Vec::new();
        for process in processes {
            feeds.push(feed(process).await);
        }
        if wanted(&feeds) {
            return feeds;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "timed out: {what}: {feeds:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn predicted(process: &Process, tokens: std::ops::Range<u32>) -> Option<u64> {
    let prompt: Vec<u32> = tokens.collect();
    let body = serde_json::json!({ "model": "test-model", "prompt": prompt, "max_tokens": 1 }).to_string();
    let url = format!("http://{}/v1/completions", process.listen);
    let sent = client().post(url).header("x-covey-debug", "1").body(body).send().await.expect("answered");
    sent.headers().get("x-covey-predicted-tokens")?.to_str().ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_read_a_worker_and_the_standby_goes_on_when_the_publisher_dies() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let mut engine = Engine::start().await;
    let events = format!("w0={}", engine.endpoint);
    let start = |name: &str, seeds: &[&str]| {
        let flags = ["--mesh", "on", "--mesh-name", name, "--mesh-secret-file", path, "--mesh-listen", "127.0.0.1:0"];
        Process::start(&worker, &[&flags[..], &["--kv-events", &events], seeds].concat())
    };
    let one = start("one", &[]);
    let udp = one.banner.split(" udp ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address").to_owned();
    let two = start("two", &["--mesh-seeds", &udp]);
    let roles = |feeds: &[Value]| {
        let mut roles: Vec<String> = feeds.iter().map(|feed| feed["role"].to_string()).collect();
        roles.sort();
        roles == ["\"publisher\"", "\"standby\""] && feeds.iter().all(|feed| feed["trouble"].is_null())
    };
    let feeds = until_feeds("two read the worker", &[&one, &two], roles).await;
    // A subscription takes a moment to reach the publisher.
    tokio::time::sleep(Duration::from_millis(300)).await;
    engine.stored(100, 3).await;
    let at = |position: u64, blocks: u64| {
        move |feeds: &[Value]| {
            feeds
                .iter()
                .all(|feed| feed["position"] == position && feed["blocks"] == blocks && feed["is_complete"] == true)
        }
    };
    until_feeds("both replicas have the batch", &[&one, &two], at(1, 3)).await;
    assert_eq!(predicted(&one, 100..117).await, Some(12), "three blocks of four tokens");
    // What the first request was placed with bridges the events that would tell of it.
    assert!(predicted(&two, 100..117).await.is_some_and(|tokens| tokens >= 12));
    assert_eq!(predicted(&two, 500..517).await, Some(0));
    // An operator has it all forgotten. The engine lives, so its ingester says again what it holds.
    let forget = |worker: &str| {
        let url = format!("http://{}/workers/forget", one.admin);
        client().post(url).json(&serde_json::json!({ "worker": worker })).send()
    };
    assert_eq!(forget("w9").await.expect("answered").status(), 404);
    let plain = client().post(format!("http://{}/workers/forget", one.admin)).body("{\"worker\":\"w0\"}").send().await;
    assert_eq!(plain.expect("answered").status(), 415, "a page of another site could send this");
    assert_eq!(forget("w0").await.expect("answered").status(), 202);
    let again = |feeds: &[Value]| at(1, 3)(feeds) && feeds.iter().all(|feed| feed["generation"] == 1);
    until_feeds("both replicas have it anew", &[&one, &two], again).await;
    assert_eq!(predicted(&two, 100..117).await, Some(12));
    // The publisher dies; what the engine says next reaches the mesh through the standby, once.
    let (dead, left) = if feeds[0]["role"] == "publisher" { (one, two) } else { (two, one) };
    drop(dead);
    engine.removed(102).await;
    engine.stored(200, 2).await;
    until_feeds("the standby published", &[&left], at(3, 4)).await;
    assert_eq!(predicted(&left, 200..209).await, Some(8));
}
