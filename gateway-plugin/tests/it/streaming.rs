//! Streams: passed on as they come, ended when either side goes.

use std::time::Duration;

use covey_crdt::id::WorkerId;
use covey_gateway_plugin::server::Fault;
use covey_mesh::input::Load;
use futures_util::StreamExt;

use crate::fake::{DONE, FakeWorker, Step, chat_stream, delta, finish, sse_head, until};
use crate::gateway::{TestGateway, ask, gateway, header};

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

#[tokio::test]
async fn pieces_pass_one_by_one_and_unchanged() {
    let worker = FakeWorker::start(|_| {
        vec![
            sse_head(),
            send(": ping\n\n"),
            send(&delta("one")),
            Step::Await,
            send(&delta("two")),
            Step::Await,
            send(DONE),
        ]
    })
    .await;
    let gateway = gateway(&[&worker], &[]).await;
    let response = gateway.chat(&ask(&"x".repeat(2_000), true)).await;
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    assert_eq!(header(&response, "x-covey-worker"), "w0");
    let mut stream = response.bytes_stream();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("one") {
        seen.extend(stream.next().await.expect("more").expect("bytes"));
    }
    assert!(!String::from_utf8_lossy(&seen).contains("two"), "the second piece has not been sent yet");
    assert_eq!(gateway.placements(), 1, "placed, and not extended yet");
    worker.release(2);
    while let Some(piece) = stream.next().await {
        seen.extend(piece.expect("bytes"));
    }
    assert_eq!(String::from_utf8_lossy(&seen), [": ping\n\n", &delta("one"), &delta("two"), DONE].concat());
    until("the answer is published", || gateway.placements() == 2).await;
    assert_eq!(gateway.running.gateway().counters().client_gone_count(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_mid_stream_cancels_the_worker_and_counts_as_an_abort() {
    let worker = FakeWorker::start(|_| vec![sse_head(), send(&delta("one")), Step::Await, send(DONE)]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let response = gateway.chat(&ask(&"x".repeat(2_000), true)).await;
    let mut stream = response.bytes_stream();
    stream.next().await.expect("a piece").expect("bytes");
    drop(stream);
    until("the worker sees the hang-up", || worker.hangups() == 1).await;
    let counters = gateway.running.gateway().counters();
    until("the request is over", || counters.in_flight() == 0 && counters.client_gone_count() == 1).await;
    // What was produced until then is cached: the chain is published again.
    assert_eq!(gateway.placements(), 2);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_cancels_the_worker_and_places_nothing() {
    for stream in [false, true] {
        let worker = FakeWorker::start(|_| vec![Step::Await, sse_head()]).await;
        let gateway = gateway(&[&worker], &[]).await;
        let request =
            gateway.client.post(gateway.url("/v1/chat/completions")).body(ask(&"x".repeat(2_000), stream).to_string());
        let sent = tokio::spawn(request.send());
        until("the worker has the request", || worker.requests().len() == 1).await;
        sent.abort();
        until("the worker sees the hang-up", || worker.hangups() == 1).await;
        let counters = gateway.running.gateway().counters();
        until("the request is over", || counters.in_flight() == 0 && counters.client_gone_count() == 1).await;
        assert_eq!(gateway.placements(), 0);
    }
}

#[tokio::test]
async fn a_worker_that_never_answers_is_a_gateway_timeout_and_not_tried_elsewhere() {
    let worker = FakeWorker::start(|_| vec![Step::Await]).await;
    let other = FakeWorker::start(|_| vec![Step::Await]).await;
    let gateway = gateway(&[&worker, &other], &["--request-timeout", "200ms"]).await;
    let response = gateway.chat(&ask("x", true)).await;
    assert_eq!(response.status(), 504);
    assert_eq!(gateway.faults(Fault::FirstByteTimeout), 1);
    assert_eq!(worker.requests().len() + other.requests().len(), 1);
    until("the worker is told to stop", || worker.hangups() + other.hangups() == 1).await;
}

#[tokio::test]
async fn a_worker_that_sends_only_a_head_is_a_gateway_timeout_too() {
    let worker = FakeWorker::start(|_| vec![sse_head(), Step::Await]).await;
    let gateway = gateway(&[&worker], &["--request-timeout", "200ms"]).await;
    assert_eq!(gateway.chat(&ask(&"x".repeat(2_000), true)).await.status(), 504);
    assert_eq!(gateway.placements(), 1, "the head placed it, the failure adds nothing");
    assert_eq!(load(&gateway), Load::default());
}

fn load(gateway: &TestGateway) -> Load {
    gateway.running.gateway().plugin().own_load(&WorkerId::new("w0", 0).expect("a name"))
}

/// Engines send the head of a stream before they compute anything: the other gateways are told of a long prompt while it is
/// computed, and its worker counts as busy until the first part of the answer.
#[tokio::test]
async fn a_stream_is_placed_at_its_head_and_counts_as_queued_until_its_first_part() {
    let worker =
        FakeWorker::start(|_| vec![sse_head(), Step::Await, send(&delta("one")), Step::Await, send(DONE)]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let body = ask(&"x".repeat(2_000), true);
    let test = async {
        until("the prompt is placed", || gateway.placements() == 1).await;
        let queued = load(&gateway);
        assert!(queued.requests == 1 && queued.queued_tokens >= 500, "{queued:?}");
        worker.release(1);
        until("the prompt is computed", || load(&gateway).queued_tokens == 0).await;
        assert_eq!((load(&gateway).requests, gateway.placements()), (1, 1));
        worker.release(1);
    };
    let (answer, ()) = tokio::join!(async { gateway.chat(&body).await.text().await.expect("a stream") }, test);
    assert!(answer.ends_with(DONE));
    until("the answer is published", || gateway.placements() == 2).await;
    assert_eq!(load(&gateway), Load::default());
}

#[tokio::test]
async fn a_client_that_leaves_between_head_and_first_part_adds_nothing() {
    let worker = FakeWorker::start(|_| vec![sse_head(), Step::Await]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let request = gateway.client.post(gateway.url("/v1/chat/completions"));
    let sent = tokio::spawn(request.body(ask(&"x".repeat(2_000), true).to_string()).send());
    until("the prompt is placed", || gateway.placements() == 1).await;
    sent.abort();
    until("the worker sees the hang-up", || worker.hangups() == 1).await;
    until("the request is over", || gateway.running.gateway().counters().in_flight() == 0).await;
    assert_eq!((gateway.placements(), load(&gateway)), (1, Load::default()));
}

#[tokio::test]
async fn a_worker_that_falls_silent_mid_stream_ends_the_stream() {
    let worker = FakeWorker::start(|_| vec![sse_head(), send(&delta("one")), Step::Await]).await;
    let gateway = gateway(&[&worker], &["--idle-timeout", "200ms"]).await;
    let response = gateway.chat(&ask(&"x".repeat(2_000), true)).await;
    assert_eq!(response.status(), 200);
    assert!(response.bytes().await.is_err(), "the client must see that the answer is incomplete");
    assert_eq!(gateway.faults(Fault::IdleTimeout), 1);
    until("the worker is told to stop", || worker.hangups() == 1).await;
}

#[tokio::test]
async fn a_stream_without_done_is_complete_when_it_has_a_finish_reason() {
    let worker = FakeWorker::start(|_| vec![sse_head(), send(&delta("one")), send(&finish("stop"))]).await;
    let gateway = gateway(&[&worker], &[]).await;
    gateway.chat(&ask(&"x".repeat(2_000), true)).await.bytes().await.expect("a whole stream");
    until("the answer is published", || gateway.placements() == 2).await;
    assert_eq!(gateway.faults(Fault::Cut), 0);
}

#[tokio::test]
async fn two_hundred_streams_at_once_end_cleanly() {
    let worker = FakeWorker::start(|_| chat_stream(&["a", "b", "c"])).await;
    let gateway = gateway(&[&worker], &[]).await;
    let body = ask(&"y".repeat(3_000), true);
    let requests = (0..200).map(|_| async { gateway.chat(&body).await.text().await.expect("a stream") });
    let all = tokio::time::timeout(Duration::from_secs(30), futures_util::future::join_all(requests)).await;
    assert!(all.expect("in time").iter().all(|text| text.ends_with(DONE)));
    until("all are over", || gateway.running.gateway().counters().in_flight() == 0).await;
    assert_eq!(gateway.placements(), 400);
}
