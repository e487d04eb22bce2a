//! Workers that answer nonsense: one counter, a clear error, nothing placed beyond what the head of a stream of events
//! placed, nothing panics.

use covey_gateway_plugin::server::Fault;

use crate::fake::{DONE, FakeWorker, Step, chunk, delta, finish, reply, sse_head, sse_head_chunked, until};
use crate::gateway::{TestGateway, ask, error_of, gateway};

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

async fn wrong(steps: Vec<Step>, stream: bool) -> (FakeWorker, TestGateway, reqwest::Response) {
    let worker = FakeWorker::start(move |_| steps.clone()).await;
    let gateway = gateway(&[&worker], &[]).await;
    let response = gateway.chat(&ask(&"x".repeat(2_000), stream)).await;
    (worker, gateway, response)
}

fn faults(gateway: &TestGateway) -> u64 {
    Fault::ALL.iter().map(|fault| gateway.faults(*fault)).sum()
}

#[tokio::test]
async fn nonsense_under_status_200_is_a_502_and_one_count() {
    let json = "application/json";
    let long = format!("data: {}\n\n", "x".repeat(300));
    let cases: Vec<(&str, Vec<Step>)> = vec![
        ("HTML", vec![reply("200 OK", "text/html", "<html><body>Welcome to nginx!</body></html>")]),
        ("HTML as JSON", vec![reply("200 OK", json, "<html></html>")]),
        ("empty JSON body", vec![reply("200 OK", json, "")]),
        ("JSON of another kind", vec![reply("200 OK", json, "{\"hello\":1}")]),
        ("a list", vec![reply("200 OK", json, "[]")]),
        ("choices of another type", vec![reply("200 OK", json, "{\"choices\":7}")]),
        ("a done mark as body", vec![reply("200 OK", json, "[DONE]")]),
        ("no content type", vec![send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello")]),
        ("no content", vec![send("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")]),
    ];
    let events: Vec<(&str, Vec<Step>)> = vec![
        ("HTML as events", vec![sse_head(), send("<html>\n\n<p>\n")]),
        ("events that are no JSON", vec![sse_head(), send(&long)]),
        ("done at once", vec![sse_head(), send(DONE)]),
        ("an empty stream", vec![sse_head()]),
    ];
    let of_events = events.into_iter().map(|(what, steps)| (what, steps, 1));
    for (what, steps, placements) in cases.into_iter().map(|(what, steps)| (what, steps, 0)).chain(of_events) {
        let (_worker, gateway, response) = wrong(steps, true).await;
        let (status, error) = error_of(response).await;
        assert_eq!((status, error["type"].as_str()), (502, Some("upstream_error")), "{what}");
        assert!(error["message"].as_str().expect("text").contains("w0"), "{what}: {error}");
        assert_eq!(faults(&gateway), 1, "{what}");
        assert_eq!(gateway.placements(), placements, "{what}");
        assert_eq!(gateway.running.gateway().counters().in_flight(), 0, "{what}");
    }
}

/// The head of a stream says that the worker took the prompt; what breaks off before the first event adds nothing to that. An
/// answer in one piece has said nothing before it is whole.
#[tokio::test]
async fn an_answer_cut_before_its_first_event_places_no_more_than_its_head_did() {
    let cut = vec![sse_head_chunked(), chunk("data: {\"choi")];
    let (_worker, gateway, response) = wrong(cut, true).await;
    assert_eq!(error_of(response).await.0, 502);
    assert_eq!((gateway.faults(Fault::Cut), faults(&gateway), gateway.placements()), (1, 1, 1));
    let short = send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"choices\":[");
    let (_worker, gateway, response) = wrong(vec![short], false).await;
    assert_eq!(error_of(response).await.0, 502);
    assert_eq!((gateway.faults(Fault::Cut), faults(&gateway), gateway.placements()), (1, 1, 0));
}

/// The prompt was published at the head of the stream and is no phantom (I6), whatever becomes of the stream. The cut adds
/// nothing to it: how much of the answer the engine still holds is not known. If the engine died with the stream, its next
/// probe finds another token, and everything placed on its last life goes with it.
#[tokio::test]
async fn a_stream_cut_in_the_middle_ends_and_its_answer_is_not_placed() {
    let (_worker, gateway, response) = wrong(vec![sse_head_chunked(), chunk(&delta("one"))], true).await;
    assert_eq!(response.status(), 200);
    assert!(response.bytes().await.is_err(), "the client must see that the answer is incomplete");
    assert_eq!((gateway.faults(Fault::Cut), faults(&gateway), gateway.placements()), (1, 1, 1));
    // The same when the connection's end is the only end there is.
    let (_worker, gateway, response) = wrong(vec![sse_head(), send(&delta("one"))], true).await;
    assert_eq!(response.bytes().await.expect("passed on").as_ref(), delta("one").as_bytes());
    assert_eq!((gateway.faults(Fault::Cut), faults(&gateway), gateway.placements()), (1, 1, 1));
}

#[tokio::test]
async fn an_endless_line_is_cut_off_at_its_bound() {
    let (worker, gateway, response) = wrong(vec![sse_head(), Step::Forever(vec![b'x'; 65_536])], true).await;
    assert_eq!(error_of(response).await.0, 502);
    until("the worker is hung up on", || worker.hangups() == 1).await;
    assert_eq!((gateway.faults(Fault::Overlong), faults(&gateway), gateway.placements()), (1, 1, 1));
    let endless = vec![sse_head(), send(&delta("one")), send("data: "), Step::Forever(vec![b'x'; 65_536])];
    let (worker, gateway, response) = wrong(endless, true).await;
    assert!(response.bytes().await.is_err());
    until("the worker is hung up on", || worker.hangups() == 1).await;
    assert_eq!((gateway.faults(Fault::Overlong), faults(&gateway), gateway.placements()), (1, 1, 1));
}

#[tokio::test]
async fn nonsense_in_the_middle_ends_the_stream() {
    let steps =
        vec![sse_head(), send(&delta("one")), Step::Await, send("data: }{\n\n"), Step::Await, send(&finish("stop"))];
    let (worker, gateway, response) = wrong(steps, true).await;
    worker.release(1);
    assert!(response.bytes().await.is_err());
    assert_eq!((gateway.faults(Fault::Nonsense), faults(&gateway), gateway.placements()), (1, 1, 1));
}

#[tokio::test]
async fn an_error_event_reaches_the_client_and_adds_nothing() {
    let event = "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"InternalServerError\"}}\n\n";
    let (_worker, gateway, response) = wrong(vec![sse_head(), send(event), send(DONE)], true).await;
    assert_eq!(response.text().await.expect("a stream"), [event, DONE].concat());
    assert_eq!((gateway.faults(Fault::ErrorEvent), faults(&gateway), gateway.placements()), (1, 1, 1));
}

#[tokio::test]
async fn bytes_that_are_no_http_are_a_502() {
    let (_worker, gateway, response) = wrong(vec![send("\u{1}\u{2}garbage\r\n\r\n")], false).await;
    assert_eq!(error_of(response).await.0, 502);
    assert_eq!((gateway.faults(Fault::Connect), gateway.placements()), (1, 0));
}
