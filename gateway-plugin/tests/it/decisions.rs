//! A request's name, what its gateway keeps of the decision, and `covey explain` against real processes.

use std::process::Output;

use serde_json::{Value, json};

use crate::fake::{DONE, FakeWorker, Step, chat_json, chat_stream, delta, reply, sse_head, until};
use crate::gateway::{MODEL, TestGateway, ask, client, gateway, header};
use crate::process::{Process, covey};

async fn get(gateway: &TestGateway, path: &str) -> (u16, String) {
    let response = gateway.client.get(gateway.admin_url(path)).send().await.expect("the gateway answers");
    (response.status().as_u16(), response.text().await.expect("a body"))
}

async fn decisions(gateway: &TestGateway, path: &str) -> Vec<Value> {
    let (status, text) = get(gateway, path).await;
    assert_eq!(status, 200, "{text}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    report["decisions"].as_array().expect("a list").clone()
}

async fn named(gateway: &TestGateway, id: &str, body: &Value) -> reqwest::Response {
    let request = gateway.client.post(gateway.url("/v1/chat/completions")).header("x-request-id", id);
    request.body(body.to_string()).send().await.expect("the gateway answers")
}

#[tokio::test]
async fn every_answer_has_a_name_the_clients_own_where_it_will_do() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let response = named(&gateway, "r-17", &ask("x", false)).await;
    assert_eq!(header(&response, "x-request-id"), "r-17");
    let odd = named(&gateway, "two words", &ask("x", false)).await;
    let made = header(&odd, "x-request-id").to_owned();
    assert_eq!(made.len(), 32, "{made}");
    let none = gateway.chat(&ask("x", false)).await;
    assert!(header(&none, "x-request-id").len() == 32 && header(&none, "x-request-id") != made);
    let refused = named(&gateway, "r-18", &json!("no object")).await;
    assert_eq!((refused.status().as_u16(), header(&refused, "x-request-id")), (400, "r-18"));
    let sent: Vec<_> = worker.requests().iter().map(|r| r.header("x-request-id").map(str::to_owned)).collect();
    assert_eq!(
        sent,
        [Some("r-17".to_owned()), Some("two words".to_owned()), None],
        "the worker gets what the client sent"
    );
    assert_eq!(decisions(&gateway, &format!("/decisions/{made}")).await.len(), 1);
}

#[tokio::test]
async fn a_decision_is_kept_with_what_came_of_it() {
    let worker = FakeWorker::start(|_| vec![chat_json("hello")]).await;
    let other = FakeWorker::start(|_| vec![chat_json("hello")]).await;
    let gateway = gateway(&[&worker, &other], &[]).await;
    gateway.ready().await;
    until("both workers are recorded", || gateway.running.gateway().mesh().status().workers == 2).await;
    named(&gateway, "first", &ask(&"x".repeat(8_000), false)).await.bytes().await.expect("a body");
    until("it is covered", || gateway.running.gateway().mesh().status().blocks >= 31).await;
    let response = named(&gateway, "a/b=1", &ask(&"x".repeat(8_000), false)).await;
    let chosen = header(&response, "x-covey-worker").to_owned();
    let one = decisions(&gateway, "/decisions/a%2Fb%3D1").await.remove(0);
    assert_eq!(
        (&one["chosen"]["worker"], &one["reason"], &one["outcome"]),
        (&json!(chosen), &json!("holder"), &json!("hit"))
    );
    assert_eq!((&one["policy"], &one["attempt"], &one["looked_up_by"]), (&json!("mesh"), &json!(1), &json!("bytes")));
    let (prompt, predicted) = (one["prompt_tokens"].as_u64(), one["chosen"]["predicted_tokens"].as_u64());
    assert!(prompt > Some(2_000) && predicted > Some(1_900) && predicted < prompt, "{one}");
    let rival = &one["runners_up"][0];
    assert!(rival["worker"] != json!(chosen) && rival["score"].as_u64() > one["chosen"]["score"].as_u64(), "{one}");
    let answer = &one["answer"];
    assert_eq!((&answer["state"], &answer["reported_cached_tokens"]), (&json!("completed"), &json!(64)));
    assert_eq!(answer["reported_prompt_tokens"], 100);
    assert!(answer["ttft_ms"].is_u64() && one["view"]["changes"].as_u64() > Some(0), "{one}");
    assert_eq!(decisions(&gateway, "/decisions/a/b=1").await.len(), 1, "slashes need no escape");
    let ids = |all: Vec<Value>| all.iter().map(|one| one["request_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(decisions(&gateway, "/decisions").await), ["first", "a/b=1"]);
    assert_eq!(ids(decisions(&gateway, "/decisions?last=1").await), ["a/b=1"]);
    assert_eq!(ids(decisions(&gateway, &format!("/decisions?worker={chosen}")).await), ["first", "a/b=1"]);
    let (status, why) = get(&gateway, "/decisions?worker=w9").await;
    assert!(status == 404 && why.contains("no worker here is called w9: see --worker"), "{why}");
    let (status, why) = get(&gateway, "/decisions/r-99").await;
    assert!(status == 404 && why.starts_with("no decision about request r-99 among the last 4096"), "{why}");
}

#[tokio::test]
async fn a_refusal_and_the_second_worker_are_two_decisions_of_one_request() {
    let busy = FakeWorker::start(|_| vec![reply("503 Service Unavailable", "application/json", "{}")]).await;
    let good = FakeWorker::start(|_| vec![sse_head(), Step::Send(delta("one").into_bytes())]).await;
    let gateway = gateway(&[&busy, &good], &["--policy", "round-robin"]).await;
    named(&gateway, "r", &ask("x", true)).await.bytes().await.expect("what there is");
    let both = decisions(&gateway, "/decisions/r").await;
    let of = |one: &Value| (one["chosen"]["worker"].clone(), one["attempt"].clone(), one["answer"]["state"].clone());
    assert_eq!(of(&both[0]), (json!("w0"), json!(1), json!("refused")));
    assert_eq!(both[0]["answer"]["status"], 503);
    assert_eq!(of(&both[1]), (json!("w1"), json!(2), json!("failed")));
    assert_eq!((&both[1]["answer"]["fault"], both[1]["answer"]["ttft_ms"].is_u64()), (&json!("cut"), true));
}

#[tokio::test]
async fn a_decision_is_seen_while_its_answer_is_waited_for_and_after_the_client_left() {
    let worker = FakeWorker::start(|_| vec![sse_head(), Step::Await, Step::Send(DONE.into())]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let request = gateway.client.post(gateway.url("/v1/chat/completions")).header("x-request-id", "r");
    let sent = tokio::spawn(request.body(ask("x", true).to_string()).send());
    until("the worker has the request", || worker.requests().len() == 1).await;
    assert_eq!(decisions(&gateway, "/decisions/r").await[0]["answer"]["state"], "waiting");
    sent.abort();
    until("the request is over", || gateway.running.gateway().counters().in_flight() == 0).await;
    let one = decisions(&gateway, "/decisions/r").await.remove(0);
    assert_eq!((&one["answer"]["state"], &one["answer"]["ttft_ms"]), (&json!("aborted"), &Value::Null));
}

#[tokio::test]
async fn no_more_are_kept_than_asked_for() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let two = gateway(&[&worker], &["--decisions", "2"]).await;
    for id in ["a", "b", "c"] {
        named(&two, id, &ask("x", false)).await.bytes().await.expect("a body");
    }
    assert_eq!(decisions(&two, "/decisions").await.len(), 2);
    assert_eq!(get(&two, "/decisions/a").await.0, 404);
    let none = gateway(&[&worker], &["--decisions", "0"]).await;
    let response = named(&none, "a", &ask("x", false)).await;
    assert_eq!((response.status().as_u16(), header(&response, "x-request-id")), (200, "a"));
    let (status, why) = get(&none, "/decisions/a").await;
    assert!(status == 404 && why.contains("start it with --decisions COUNT"), "{why}");
}

fn explain(args: &[&str]) -> Output {
    covey(&[&["explain"], args].concat()).output().expect("it runs")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_asks_every_gateway_until_one_knows_and_exits_3_when_none_does() {
    let worker = FakeWorker::start(|_| chat_stream(&["hi"])).await;
    let (one, two) = (Process::start(&worker, &[]), Process::start(&worker, &[]));
    let url = format!("http://{}/v1/chat/completions", two.listen);
    let request = client().post(url).header("x-request-id", "r/1").body(ask("hello", true).to_string());
    request.send().await.expect("answered").bytes().await.expect("a stream");
    let both = format!("{},127.0.0.1:1", one.admin);
    let told = explain(&["r/1", "--admin", &both, "--admin", &two.admin]);
    let text = words(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{text}{}", words(&told.stderr));
    for line in [
        "request    r/1, decided by ",
        "went to    w0, by policy mesh\n",
        "answer     completed, first part ",
        "compared   ",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    let told = explain(&["r/1", "--admin", &two.admin, "--json"]);
    let report: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!((told.status.code(), &report["decisions"][0]["chosen"]["worker"]), (Some(0), &json!("w0")));

    let unknown = explain(&["r/2", "--admin", &both]);
    let log = words(&unknown.stderr);
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(3), 0), "{log}");
    let none = format!("{}: answers, and has no decision of that name", one.admin);
    for part in ["no gateway that was asked knows request r/2", &none, "cannot reach", "127.0.0.1:1", "x-request-id"] {
        assert!(log.contains(part), "no {part:?} in\n{log}");
    }
    let unknown = explain(&["r/2", "--admin", &one.admin, "--json"]);
    let said: Value = serde_json::from_slice(&unknown.stdout).expect("JSON");
    assert!(unknown.status.code() == Some(3) && said["error"].is_string(), "{said}");
}

/// Gateways that do not talk to each other send a new conversation to the same worker all the same.
#[tokio::test]
async fn the_named_header_is_the_session_and_breaks_ties() {
    let workers =
        [FakeWorker::start(|_| vec![chat_json("hi")]).await, FakeWorker::start(|_| vec![chat_json("hi")]).await];
    let mut homes: Vec<Vec<String>> = Vec::new();
    for _ in 0..2 {
        let gateway =
            gateway(&[&workers[0], &workers[1]], &["--session-header", "X-Chat", "--session-from-user"]).await;
        let mut chosen = Vec::new();
        for session in 0..12 {
            let request = gateway.client.post(gateway.url("/v1/chat/completions")).header("x-covey-debug", "1");
            let user = json!({"model": MODEL, "messages": [], "user": session.to_string()});
            let request = match session % 2 {
                0 => request.header("x-chat", session.to_string()).body(ask("x", false).to_string()),
                _ => request.body(user.to_string()),
            };
            let response = request.send().await.expect("answered");
            assert_eq!(header(&response, "x-covey-reason"), "session");
            chosen.push(header(&response, "x-covey-worker").to_owned());
            response.bytes().await.expect("a body");
        }
        let response = gateway.client.post(gateway.url("/v1/chat/completions")).header("x-session-id", "1");
        let response = response.header("x-covey-debug", "1").body(ask("x", false).to_string()).send().await;
        assert_eq!(header(&response.expect("answered"), "x-covey-reason"), "load", "another header names no session");
        homes.push(chosen);
    }
    assert_eq!(homes[0], homes[1]);
    assert!(["w0", "w1"].iter().all(|worker| homes[0].iter().any(|home| home == worker)), "{homes:?}");
}
