//! From the first turn to the next: what a worker accepted is what the next lookup finds.

use serde_json::{Value, json};

use crate::fake::{DONE, FakeWorker, Step, chat_json, chat_stream, delta, finish, reply, sse_head, until};
use crate::gateway::{MODEL, TestGateway, ask, gateway, gateway_at, header, secret};

/// A prompt of about 1,500 tokens.
fn long_prompt() -> String {
    (0..1_000).map(|i| format!("word{i} ")).collect()
}

fn predicted(response: &reqwest::Response) -> u64 {
    header(response, "x-covey-predicted-tokens").parse().expect("a number")
}

/// Waits until the replica covers `blocks` blocks or more.
async fn covered(gateway: &TestGateway, blocks: u64) {
    until("the replica covers the chain", || gateway.running.gateway().mesh().status().blocks >= blocks).await;
}

async fn next_turn(gateway: &TestGateway, first: &str, answer: Value) -> (String, u64, String) {
    let messages = json!([{"role": "user", "content": first}, answer, {"role": "user", "content": "and then?"}]);
    let response = gateway.chat(&json!({"model": MODEL, "messages": messages})).await;
    let worker = header(&response, "x-covey-worker").to_owned();
    let outcome = header(&response, "x-covey-outcome").to_owned();
    (worker, predicted(&response), outcome)
}

#[tokio::test]
async fn the_next_turn_goes_where_the_first_one_went_and_its_answer_counts() {
    let answer = "answer ".repeat(300);
    let (first, again) = (answer.clone(), answer.clone());
    let workers = [
        FakeWorker::start(move |_| vec![chat_json(&first)]).await,
        FakeWorker::start(move |_| vec![chat_json(&again)]).await,
    ];
    let gateway = gateway(&[&workers[0], &workers[1]], &[]).await;
    gateway.ready().await;
    until("both workers are recorded", || gateway.running.gateway().mesh().status().workers == 2).await;
    let prompt = long_prompt();
    let response = gateway.chat(&ask(&prompt, false)).await;
    assert_eq!((predicted(&response), header(&response, "x-covey-outcome")), (0, "none"));
    let worker = header(&response, "x-covey-worker").to_owned();
    response.bytes().await.expect("a body");
    let bytes = (prompt.len() + answer.len()) as u64;
    covered(&gateway, bytes / 256).await;
    let (next, tokens, outcome) = next_turn(&gateway, &prompt, json!({"role": "assistant", "content": answer})).await;
    assert_eq!((next, outcome.as_str()), (worker, "hit"));
    assert!(tokens * 4 > bytes - 300 && tokens * 4 <= bytes + 300, "{tokens} tokens predicted of {bytes} bytes");
}

#[tokio::test]
async fn a_streamed_tool_call_is_part_of_the_next_turns_prefix() {
    let call =
        |delta: Value| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}));
    let arguments = format!("{{\"path\":\"{}\"}}", "a/".repeat(600));
    let (head, tail) = arguments.split_at(500);
    let events = [
        delta("Let me look."),
        call(json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}})),
        call(json!({"index": 0, "function": {"arguments": head}})),
        call(json!({"index": 0, "function": {"arguments": tail}})),
        finish("tool_calls"),
        DONE.to_owned(),
    ];
    let worker = FakeWorker::start(move |_| {
        let events = events.iter().map(|event| Step::Send(event.clone().into_bytes()));
        std::iter::once(sse_head()).chain(events).collect()
    })
    .await;
    let gateway = gateway(&[&worker], &[]).await;
    gateway.ready().await;
    until("the worker is recorded", || gateway.running.gateway().mesh().status().workers == 1).await;
    let prompt = long_prompt();
    gateway.chat(&ask(&prompt, true)).await.bytes().await.expect("a stream");
    covered(&gateway, (prompt.len() + arguments.len()) as u64 / 256).await;
    let function = json!({"name": "read", "arguments": arguments});
    let answer = json!({"role": "assistant", "content": "Let me look.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}]});
    let (_, tokens, outcome) = next_turn(&gateway, &prompt, answer).await;
    let bytes = (prompt.len() + arguments.len()) as u64;
    assert_eq!(outcome, "hit");
    assert!(tokens * 4 > bytes - 256, "{tokens} tokens predicted of {bytes} bytes");
}

#[tokio::test]
async fn a_completion_continues_its_text() {
    let text = " more".repeat(300);
    let body = json!({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}).to_string();
    let worker = FakeWorker::start(move |_| vec![reply("200 OK", "application/json", &body)]).await;
    let gateway = gateway(&[&worker], &[]).await;
    gateway.ready().await;
    until("the worker is recorded", || gateway.running.gateway().mesh().status().workers == 1).await;
    let prompt = long_prompt();
    let send = |prompt: String| {
        let request = gateway.client.post(gateway.url("/v1/completions")).header("x-covey-debug", "1");
        request.body(json!({"model": MODEL, "prompt": prompt}).to_string()).send()
    };
    send(prompt.clone()).await.expect("answered").bytes().await.expect("a body");
    let bytes = (prompt.len() + text.len()) as u64;
    covered(&gateway, bytes / 256).await;
    let response = send(format!("{prompt}{text} and on")).await.expect("answered");
    assert!(predicted(&response) * 4 > bytes - 256);
}

#[tokio::test]
async fn salts_and_models_are_kept_apart() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &["--model", "adapter"]).await;
    gateway.ready().await;
    until("the worker is recorded", || gateway.running.gateway().mesh().status().workers == 1).await;
    let prompt = long_prompt();
    let body = |model: &str, salt: &str| json!({"model": model, "cache_salt": salt, "messages": [{"role": "user", "content": prompt}]});
    gateway.chat(&body(MODEL, "a")).await.bytes().await.expect("a body");
    covered(&gateway, prompt.len() as u64 / 256).await;
    assert!(predicted(&gateway.chat(&body(MODEL, "a")).await) > 0);
    assert_eq!(predicted(&gateway.chat(&body(MODEL, "b")).await), 0);
    assert_eq!(predicted(&gateway.chat(&body("adapter", "a")).await), 0);
}

#[tokio::test]
async fn a_prompt_without_bytes_is_labelled_unscorable() {
    let body = json!({"choices": [{"index": 0, "text": "x", "finish_reason": "stop"}]}).to_string();
    let worker = FakeWorker::start(move |_| vec![reply("200 OK", "application/json", &body)]).await;
    let gateway = gateway(&[&worker], &[]).await;
    gateway.ready().await;
    let body = json!({"model": MODEL, "prompt": [1, 2, 3]}).to_string();
    let response = gateway.client.post(gateway.url("/v1/completions")).body(body).send().await.expect("answered");
    assert_eq!(header(&response, "x-covey-outcome"), "unscorable");
    assert_eq!(gateway.placements(), 0);
}

#[tokio::test]
async fn a_worker_that_came_back_as_another_life_holds_nothing() {
    let worker = FakeWorker::start(|_| chat_stream(&["hi"])).await;
    let gateway = gateway(&[&worker], &[]).await;
    gateway.ready().await;
    until("the worker is recorded", || gateway.running.gateway().mesh().status().workers == 1).await;
    let prompt = long_prompt();
    gateway.chat(&ask(&prompt, true)).await.bytes().await.expect("a stream");
    covered(&gateway, prompt.len() as u64 / 256).await;
    "1764500000".clone_into(&mut worker.token.lock().expect("not poisoned"));
    until("its coverage is gone", || gateway.running.gateway().mesh().status().blocks == 0).await;
    let response = gateway.chat(&ask(&prompt, true)).await;
    assert_eq!((predicted(&response), header(&response, "x-covey-outcome")), (0, "none"));
}

#[tokio::test]
async fn a_second_gateway_of_the_mesh_knows_what_the_first_one_sent() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let worker = FakeWorker::start(|_| chat_stream(&["hi"])).await;
    let other = FakeWorker::start(|_| chat_stream(&["hi"])).await;
    let urls = [worker.url(), other.url()];
    let mesh = ["--mesh", "on", "--mesh-secret-file", path, "--mesh-listen", "127.0.0.1:0"];
    let one = gateway_at(&urls, &[&mesh[..], &["--mesh-name", "one"]].concat()).await;
    let seed = one.running.gateway().mesh().bound_address().expect("the mesh is on").to_string();
    let two = gateway_at(&urls, &[&mesh[..], &["--mesh-name", "two", "--mesh-seeds", &seed]].concat()).await;
    one.ready().await;
    two.ready().await;
    until("both know both workers", || {
        [&one, &two].iter().all(|gateway| gateway.running.gateway().mesh().status().workers == 2)
    })
    .await;
    let prompt = long_prompt();
    let response = one.chat(&ask(&prompt, true)).await;
    let first = header(&response, "x-covey-worker").to_owned();
    response.bytes().await.expect("a stream");
    covered(&two, prompt.len() as u64 / 256).await;
    let response = two.chat(&ask(&prompt, true)).await;
    assert_eq!(header(&response, "x-covey-worker"), first);
    assert!(predicted(&response) > 1_000);
}

#[tokio::test]
async fn a_session_stays_with_its_worker_by_header_or_user() {
    let workers =
        [FakeWorker::start(|_| vec![chat_json("hi")]).await, FakeWorker::start(|_| vec![chat_json("hi")]).await];
    let gateway = gateway(&[&workers[0], &workers[1]], &["--policy", "sticky"]).await;
    let send = |header_key: Option<String>, user: Option<String>| {
        let mut request = gateway.client.post(gateway.url("/v1/chat/completions"));
        if let Some(key) = header_key {
            request = request.header("x-session-id", key);
        }
        request.body(json!({"model": MODEL, "messages": [], "user": user}).to_string()).send()
    };
    let mut used = std::collections::BTreeSet::new();
    for session in (0..16).map(|i| format!("session-{i}")) {
        let mut homes = std::collections::BTreeSet::new();
        for (key, user) in
            [(Some(session.clone()), None), (None, Some(session.clone())), (Some(session), Some("x".into()))]
        {
            let response = send(key, user).await.expect("answered");
            assert_eq!(header(&response, "x-covey-outcome"), "sticky");
            homes.insert(header(&response, "x-covey-worker").to_owned());
        }
        assert_eq!(homes.len(), 1, "one session, one worker");
        used.extend(homes);
    }
    assert_eq!(used.len(), 2, "sessions spread");
}
