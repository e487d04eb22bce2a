//! One attempt at one worker: send, look at the head of the answer, and decide what the client gets.
//!
//! Tried again on another worker, while nothing has been sent to the client: a connection that failed or broke before the
//! head of an answer, and the statuses 429, 502 and 503, by which a worker says that it did not do the work. Not tried
//! again: time-outs and nonsense after a 200, because the worker may have done all of it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use tokio::time::Instant;

use super::answer_body::AnswerBody;
use super::fault::{Fault, refusal};
use super::flight::Flight;
use super::gateway::Gateway;
use super::upstream;
use super::workers::Worker;
use super::{headers, health};

/// Most bytes of an answer that is not streamed.
const BODY_BYTES_MAX: usize = 64 << 20;

/// What became of an attempt.
pub(super) struct Attempted {
    /// What the client gets.
    pub(super) response: Response,
    /// Whether another worker may do better; if there is none, the response stands.
    pub(super) again: Again,
}

/// Who may do better than the worker that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Nobody.
    Never,
    /// Any other worker.
    Elsewhere,
    /// Any worker at another address: the connection failed, and all ranks of one engine share it.
    OtherAddress,
}

/// A request as it is sent to any worker.
pub(super) struct Outgoing {
    pub(super) path: &'static str,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) deadline: Instant,
}

/// What an answer's content type promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Events,
    Json,
    Other,
}

/// Tries one worker.
pub(super) async fn attempt(
    gateway: &Arc<Gateway>,
    worker: &Worker,
    request: &Outgoing,
    mut flight: Flight,
) -> Attempted {
    let url = format!("{}{}", worker.url, request.path);
    let (mut headers, body) = (request.headers.clone(), request.body.clone());
    if let Some(rank) = worker.rank {
        headers.insert(headers::DATA_PARALLEL_RANK, rank.into());
    }
    let response = match upstream::send(gateway.client(), url, headers, body, request.deadline).await {
        Ok(response) => response,
        Err(failure) => {
            if failure.unreachable {
                health::unreachable(gateway, &worker.url);
            }
            flight.fail(failure.fault, &failure.detail);
            let answer = refusal(failure.fault, &format!("worker {}: {}", worker.id, failure.detail));
            let again = if failure.fault == Fault::Connect { Again::OtherAddress } else { Again::Never };
            return Attempted { response: answer, again };
        }
    };
    let status = response.status();
    gateway.counters().upstream_status(status.as_u16());
    let idle = gateway.config().timeouts.idle;
    if !status.is_success() {
        flight.refused(status.as_u16());
        let (head, answer) = (head(&response), AnswerBody::unread(response, flight, idle));
        let again = if matches!(status.as_u16(), 429 | 502 | 503) { Again::Elsewhere } else { Again::Never };
        if again == Again::Elsewhere {
            gateway.counters().fault(Fault::Busy);
        }
        return Attempted { response: assemble(head, answer.into_body()), again };
    }
    let answered = if is_coded(response.headers()) {
        gateway.counters().unmeasured();
        Ok(assemble(head(&response), AnswerBody::unread(response, flight, idle).into_body()))
    } else {
        match kind(response.headers()) {
            Kind::Events => stream(gateway, response, flight, request.deadline).await,
            Kind::Json => whole(gateway, response, flight, request.deadline).await,
            Kind::Other => {
                let kind = response.headers().get(CONTENT_TYPE).cloned();
                flight.fail(Fault::Nonsense, &format!("{status} with content type {kind:?}"));
                Err(Fault::Nonsense)
            }
        }
    };
    let response = answered.unwrap_or_else(|fault| {
        refusal(fault, &format!("worker {} gave no usable answer ({})", worker.id, fault.name()))
    });
    Attempted { response, again: Again::Never }
}

/// Whether the worker compressed its answer although it was asked not to.
fn is_coded(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn kind(headers: &HeaderMap) -> Kind {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("text/event-stream") {
        Kind::Events
    } else if essence.eq_ignore_ascii_case("application/json") {
        Kind::Json
    } else {
        Kind::Other
    }
}

fn head(response: &reqwest::Response) -> (StatusCode, HeaderMap) {
    (response.status(), headers::downstream(response.headers()))
}

fn assemble((status, headers): (StatusCode, HeaderMap), body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

async fn stream(
    gateway: &Gateway,
    response: reqwest::Response,
    mut flight: Flight,
    deadline: Instant,
) -> Result<Response, Fault> {
    flight.accept();
    let head = head(&response);
    let mut body = AnswerBody::events(response, flight, gateway.config().timeouts.idle);
    body.open(deadline).await?;
    Ok(assemble(head, body.into_body()))
}

/// An answer in one piece. It is read whole before anything is sent: only then is it known to make sense.
async fn whole(
    gateway: &Gateway,
    mut response: reqwest::Response,
    mut flight: Flight,
    deadline: Instant,
) -> Result<Response, Fault> {
    let mut head = head(&response);
    let body = match collect(gateway, &mut response, deadline).await {
        Ok(body) => body,
        Err(failure) => {
            flight.fail(failure.fault, &failure.detail);
            return Err(failure.fault);
        }
    };
    match flight.read(&body) {
        Ok(()) if flight.is_answering() => flight.complete(),
        Err(Fault::ErrorEvent) => flight.fail(Fault::ErrorEvent, &"an error under status 200"),
        Ok(()) | Err(_) => {
            flight.fail(Fault::Nonsense, &"the body is not an answer of the API");
            return Err(Fault::Nonsense);
        }
    }
    head.1.insert(axum::http::header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    Ok(assemble(head, Body::from(body)))
}

async fn collect(
    gateway: &Gateway,
    response: &mut reqwest::Response,
    deadline: Instant,
) -> Result<Bytes, upstream::Failure> {
    let idle = gateway.config().timeouts.idle;
    let mut first = upstream::next(response, deadline, Fault::FirstByteTimeout).await?;
    let mut body = Vec::new();
    while let Some(piece) = first {
        if body.len() + piece.len() > BODY_BYTES_MAX {
            let detail = format!("a body of more than {BODY_BYTES_MAX} bytes");
            return Err(upstream::Failure { fault: Fault::Overlong, detail, unreachable: false });
        }
        body.extend_from_slice(&piece);
        first = upstream::next(response, Instant::now() + idle, Fault::IdleTimeout).await?;
    }
    Ok(body.into())
}
