//! Requests that get an answer of the gateway's own.

use covey_gateway_plugin::server::Fault;
use serde_json::json;

use crate::fake::{FakeWorker, chat_json};
use crate::gateway::{ask, error_of, gateway, gateway_at};

#[tokio::test]
async fn an_unknown_model_is_refused_with_the_known_ones() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &["--model", "other"]).await;
    let body = json!({"model": "gpt-9", "messages": []});
    let (status, error) = error_of(gateway.chat(&body).await).await;
    assert_eq!((status, error["code"].as_str()), (404, Some("model_not_found")));
    let message = error["message"].as_str().expect("text");
    assert!(["`gpt-9`", "`test-model`", "`other`"].iter().all(|name| message.contains(name)), "{message}");
    assert_eq!(gateway.faults(Fault::UnknownModel), 1);
    assert!(worker.requests().is_empty());
}

#[tokio::test]
async fn a_request_that_names_no_model_means_the_first() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    assert_eq!(gateway.chat(&json!({"messages": []})).await.status(), 200);
}

#[tokio::test]
async fn a_body_that_is_no_request_is_refused() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    for body in ["", "not json", "[1]", "{\"model\": 3}", "{\"model\":\"test-model\",", "{\"a\":1,\"model\":\"\u{0}"] {
        let request = gateway.client.post(gateway.url("/v1/chat/completions")).body(body.to_owned());
        let (status, error) = error_of(request.send().await.expect("answered")).await;
        assert_eq!((status, error["code"].as_str()), (400, Some("bad_request")), "{body:?}");
    }
    assert_eq!(gateway.faults(Fault::BadRequest), 6);
    assert!(worker.requests().is_empty());
}

#[tokio::test]
async fn an_oversized_body_is_refused_whether_it_says_so_or_not() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &["--max-body-bytes", "1KiB"]).await;
    let (status, error) = error_of(gateway.chat(&ask(&"x".repeat(2_000), false)).await).await;
    assert_eq!((status, error["code"].as_str()), (413, Some("body_too_large")));
    assert!(error["message"].as_str().expect("text").contains("--max-body-bytes"));
    let pieces = (0..8).map(|_| Ok::<_, std::io::Error>(vec![b' '; 512]));
    let unsized_body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let request = gateway.client.post(gateway.url("/v1/completions")).body(unsized_body);
    let (status, _) = error_of(request.send().await.expect("answered")).await;
    assert_eq!(status, 413);
    assert_eq!(gateway.faults(Fault::BodyTooLarge), 2);
    assert!(worker.requests().is_empty());
}

#[tokio::test]
async fn without_a_reachable_worker_the_answer_is_503_or_the_failure() {
    let gateway = gateway_at(&["http://127.0.0.1:1".to_owned()], &[]).await;
    crate::fake::until("the worker is found down", || {
        gateway.running.gateway().workers().all()[0].is_up() == Some(false)
    })
    .await;
    let (status, error) = error_of(gateway.chat(&ask("x", false)).await).await;
    assert_eq!((status, error["code"].as_str()), (503, Some("no_worker")));
    assert!(gateway.faults(Fault::NoWorker) >= 1);
}

#[tokio::test]
async fn unknown_routes_and_methods_are_refused_in_the_apis_own_shape() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let response = gateway.client.get(gateway.url("/v1/nothing")).send().await.expect("answered");
    assert_eq!(error_of(response).await.0, 404);
    let response = gateway.client.get(gateway.url("/v1/completions")).send().await.expect("answered");
    assert_eq!(error_of(response).await.0, 405);
}
