//! One request: read, rendered, hashed and routed, then tried on one worker and at most one other.
//!
//! Not here: the attempt itself (`exchange`). The bytes sent upstream are the client's own, whatever the mesh does.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use covey_crdt::id::WorkerId;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::counters::InFlight;
use super::cpu::CpuTime;
use super::decisions::{Decided, Entry};
use super::exchange::{self, Again, Attempted, Outgoing};
use super::fault::{Fault, refusal};
use super::flight::Flight;
use super::gateway::Gateway;
use super::headers;
use super::request_id::RequestId;
use super::scoring::{self, Question};
use super::trace::{self, Trace};
use crate::plugin::{Hints, NoWorker, Outcome, Routed};
use crate::tokens::Api;

/// Workers tried for one request.
const ATTEMPTS_MAX: usize = 2;

/// What the client and its trace are told about a decision.
pub(super) struct Decision {
    pub(super) worker: WorkerId,
    pub(super) outcome: Outcome,
    pub(super) prompt_tokens: u64,
    pub(super) predicted_tokens: u64,
    pub(super) reason: &'static str,
    lookup_us: u64,
    entry: Option<Arc<Entry>>,
}

/// Handles a completion request of either API.
pub(super) async fn handle(gateway: Arc<Gateway>, api: Api, request: Request) -> Response {
    let trace = Trace::begin(api.path(), request.headers());
    let id = gateway.request_ids().of(request.headers());
    let mut response = traced(gateway, api, request, &id, &trace).await;
    response.headers_mut().insert(headers::REQUEST_ID, headers::value(id.as_str()));
    trace.answered(response.status().as_u16());
    response
}

async fn traced(gateway: Arc<Gateway>, api: Api, request: Request, id: &RequestId, trace: &Trace) -> Response {
    let in_flight = Arc::new(gateway.counters().enter());
    let (parts, body) = request.into_parts();
    let receiving = trace.receiving();
    let read = match read_body(&gateway, &parts.headers, body).await {
        Ok(body) => body,
        Err((fault, message)) => return refuse(&gateway, trace, fault, &message),
    };
    trace::received(receiving, read.len());
    let rendering = trace.rendering();
    let session = gateway.config().session.header.as_ref().and_then(|name| parts.headers.get(name));
    let session = session.map(|value| Bytes::copy_from_slice(value.as_bytes()));
    let question = match scoring::question(&gateway, api, session, &read).await {
        Ok(question) => question,
        Err((fault, message)) => return refuse(&gateway, trace, fault, &message),
    };
    drop(rendering);
    debug!(hashing_us = question.hashing_us, tokens = question.key.prompt_tokens(), "request read");
    let deadline = Instant::now() + gateway.config().timeouts.first_byte;
    let outgoing = Outgoing { path: api.path(), headers: headers::upstream(&parts.headers), body: read, deadline };
    let debug = parts.headers.get(headers::DEBUG).is_some_and(|value| value == "1");
    let (answer, decision) = run(&gateway, id, &question, &outgoing, trace, &in_flight).await;
    let mut response = answer.unwrap_or_else(|why| refuse(&gateway, trace, Fault::NoWorker, &why));
    if let Some(decision) = decision {
        label(&mut response, &decision, debug);
        trace.decided(&decision);
    }
    response
}

/// The answer of the worker that was tried last, and the decision for that one.
async fn run(
    gateway: &Arc<Gateway>,
    id: &RequestId,
    question: &Question,
    outgoing: &Outgoing,
    trace: &Trace,
    in_flight: &Arc<InFlight>,
) -> (Result<Response, String>, Option<Decision>) {
    let mut failed: Vec<WorkerId> = Vec::new();
    let mut fallback: Option<(Response, Decision)> = None;
    let started = Instant::now();
    let mut why = "no configured worker could be chosen".to_owned();
    for attempt in 0..ATTEMPTS_MAX {
        let (routed, decision) = match route(gateway, id, question, (attempt + 1, &failed), trace) {
            Ok(routed) => routed,
            Err(none) => {
                why = none.to_string();
                break;
            }
        };
        let Some(worker) = gateway.workers().find(&decision.worker) else {
            // Only workers of the configuration are routable here; another one would be our own mistake.
            warn!(worker = %decision.worker, "routed to a worker that is not configured");
            failed.push(decision.worker);
            continue;
        };
        if attempt > 0 {
            gateway.counters().retried();
        }
        let flight = Flight::new(gateway, routed, question, decision.entry.clone(), in_flight, trace);
        let Attempted { response, again } = exchange::attempt(gateway, worker, outgoing, flight).await;
        match again {
            Again::Never => {
                gateway.counters().first_byte.record_us(started.elapsed().as_micros() as u64);
                return (Ok(response), Some(decision));
            }
            Again::Elsewhere => failed.push(decision.worker.clone()),
            Again::OtherAddress => {
                failed.extend(gateway.workers().behind(&worker.url).map(|worker| worker.id.clone()));
            }
        }
        fallback = Some((response, decision));
    }
    match fallback {
        Some((response, decision)) => (Ok(response), Some(decision)),
        None => (Err(why), None),
    }
}

/// Asks the plugin, measuring what it costs, and keeps what it decided. Attempts count from 1.
fn route(
    gateway: &Gateway,
    id: &RequestId,
    question: &Question,
    (attempt, failed): (usize, &[WorkerId]),
    trace: &Trace,
) -> Result<(Routed, Decision), NoWorker> {
    let span = trace.routing();
    let start = CpuTime::now();
    let hints = Hints { session: question.session, exclude: failed };
    let mut routed = span.in_scope(|| gateway.plugin().route(&question.key, &hints))?;
    let lookup_us = question.hashing_us + start.elapsed_us();
    let unscorable = routed.outcome == Outcome::TooShort && !question.scorable;
    let outcome = if unscorable { Outcome::Unscorable } else { routed.outcome };
    gateway.counters().routed(outcome);
    gateway.counters().lookup_cpu.record_us(lookup_us);
    let entry = gateway.decisions().keep(|| Decided {
        request_id: id.clone(),
        attempt,
        by_tokens: question.then.prompt_tokens().is_some(),
        policy: gateway.plugin().policy(),
        reason: routed.reason,
        outcome,
        worker: routed.worker.clone(),
        prompt_tokens: routed.prompt_tokens,
        predicted_tokens: routed.predicted_tokens,
        queued_tokens: routed.queued_tokens,
        score: routed.score,
        runners_up: std::mem::take(&mut routed.runners_up),
        version: routed.version,
        view_age: routed.view_age,
        lookup_us,
    });
    let decision = Decision {
        worker: routed.worker.clone(),
        outcome,
        prompt_tokens: routed.prompt_tokens,
        predicted_tokens: routed.predicted_tokens,
        reason: routed.reason.name(),
        lookup_us,
        entry,
    };
    trace::decided(&span, &decision);
    Ok((routed, decision))
}

async fn read_body(gateway: &Gateway, headers: &HeaderMap, body: Body) -> Result<Bytes, (Fault, String)> {
    let limit = gateway.config().max_body_bytes;
    let too_large =
        || (Fault::BodyTooLarge, format!("the request body has more than {limit} bytes (--max-body-bytes)"));
    let declared = headers.get(axum::http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared.and_then(|text| text.parse::<usize>().ok()).is_some_and(|bytes| bytes > limit) {
        return Err(too_large());
    }
    match timeout(gateway.config().timeouts.idle, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_limit(&error) => Err(too_large()),
        Ok(Err(error)) => Err((Fault::BodyIncomplete, format!("the request body broke off: {error}"))),
        Err(_) => Err((Fault::BodyIncomplete, "the request body did not arrive in time (--idle-timeout)".to_owned())),
    }
}

fn is_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        cause = error.source();
    }
    false
}

fn refuse(gateway: &Gateway, trace: &Trace, fault: Fault, message: &str) -> Response {
    gateway.counters().fault(fault);
    trace.refused(fault);
    if fault == Fault::NoWorker {
        warn!(fault = fault.name(), "request refused: {message}");
    } else {
        debug!(fault = fault.name(), "request refused: {message}");
    }
    refusal(fault, message)
}

fn label(response: &mut Response, decision: &Decision, debug: bool) {
    let headers = response.headers_mut();
    headers.insert(headers::WORKER, headers::value(&decision.worker.to_string()));
    headers.insert(headers::OUTCOME, headers::value(decision.outcome.name()));
    if debug {
        headers.insert(headers::PREDICTED, decision.predicted_tokens.into());
        headers.insert(headers::LOOKUP_US, decision.lookup_us.into());
        headers.insert(headers::REASON, headers::value(decision.reason));
    }
}
