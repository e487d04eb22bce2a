//! The spans of a request: `request` with `receive`, `render`, and for each worker tried `route` (with `lookup` and
//! `policy`), `first_byte` and `answer`. Target `covey::decision`, level debug: `--log info,covey::decision=debug` writes a line for each, and with
//! feature `otel` they become a trace.
//!
//! Not here: the spans within a decision (`plugin::spans`), where they go (`otel`). When nobody listens, each costs one
//! atomic load.

use axum::http::HeaderMap;
use covey_crdt::id::WorkerId;
use tracing::field::{Empty, display};
use tracing::{Span, debug_span};

use super::fault::Fault;
use super::proxy::Decision;
use crate::plugin::End;

/// The target of all spans of decisions.
pub(crate) const DECISION_TARGET: &str = "covey::decision";

/// One request's trace. Cheap to clone; the request's span ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    request: Span,
}

impl Trace {
    /// A request came in on this route.
    pub(super) fn begin(route: &'static str, headers: &HeaderMap) -> Self {
        let request = debug_span!(
            target: DECISION_TARGET, parent: None, "request", otel.kind = "server", otel.status_code = Empty,
            http.route = route, http.response.status_code = Empty, traceparent = Empty,
            covey.worker = Empty, covey.outcome = Empty, covey.reason = Empty,
            covey.prompt_tokens = Empty, covey.predicted_tokens = Empty, covey.reported_tokens = Empty,
            covey.fault = Empty, covey.end = Empty,
        );
        if !request.is_disabled() {
            adopt(&request, headers);
        }
        Self { request }
    }

    /// Until the request's body is there.
    pub(super) fn receiving(&self) -> Span {
        debug_span!(target: DECISION_TARGET, parent: &self.request, "receive", covey.body_bytes = Empty)
    }

    /// Until the prompt is rendered and hashed.
    pub(super) fn rendering(&self) -> Span {
        debug_span!(target: DECISION_TARGET, parent: &self.request, "render")
    }

    /// While a worker is chosen. Entered for the spans within; the request's own is not, because a span that was entered
    /// is over for OpenTelemetry when it is left.
    pub(super) fn routing(&self) -> Span {
        debug_span!(
            target: DECISION_TARGET, parent: &self.request, "route", covey.worker = Empty, covey.outcome = Empty,
            covey.reason = Empty, covey.prompt_tokens = Empty, covey.predicted_tokens = Empty,
        )
    }

    /// Until the worker's first byte that makes sense, or its failure.
    pub(super) fn waiting(&self, worker: &WorkerId) -> Span {
        debug_span!(
            target: DECISION_TARGET, parent: &self.request, "first_byte", otel.kind = "client",
            otel.status_code = Empty, covey.worker = %worker, covey.fault = Empty,
        )
    }

    /// Until the answer is over.
    pub(super) fn answering(&self) -> Span {
        debug_span!(target: DECISION_TARGET, parent: &self.request, "answer", otel.status_code = Empty, covey.fault = Empty)
    }

    /// The decision whose answer the client gets; once a request.
    pub(super) fn decided(&self, decision: &Decision) {
        decided(&self.request, decision);
    }

    /// So many prompt tokens were cached, as the worker says.
    pub(super) fn reported(&self, cached_tokens: u64) {
        self.request.record("covey.reported_tokens", whole(cached_tokens));
    }

    /// The client is told this status; once a request.
    pub(super) fn answered(&self, status: u16) {
        self.request.record("http.response.status_code", i64::from(status));
        if status >= 500 {
            self.request.record("otel.status_code", "ERROR");
        }
    }

    /// The request was refused; once a request.
    pub(super) fn refused(&self, fault: Fault) {
        self.request.record("covey.fault", fault.name());
    }

    /// The answer that a worker began is over.
    pub(super) fn ended(&self, end: End) {
        let word = match end {
            End::Completed => "completed",
            End::Aborted => "aborted",
            End::Failed => "failed",
        };
        self.request.record("covey.end", word);
    }

    /// The answer that a worker began broke off; another worker cannot help any more.
    pub(super) fn broke(&self, fault: Fault) {
        failed(&self.request, fault);
    }
}

/// A worker was chosen.
pub(super) fn decided(span: &Span, decision: &Decision) {
    if !span.is_disabled() {
        span.record("covey.worker", display(&decision.worker));
        span.record("covey.outcome", decision.outcome.name());
        span.record("covey.reason", decision.reason);
        span.record("covey.prompt_tokens", whole(decision.prompt_tokens));
        span.record("covey.predicted_tokens", whole(decision.predicted_tokens));
    }
}

/// The body is there; it was waited for within `receiving`.
pub(super) fn received(receiving: Span, bytes: usize) {
    receiving.record("covey.body_bytes", whole(bytes as u64));
}

/// What a span is about went wrong.
pub(super) fn failed(span: &Span, fault: Fault) {
    span.record("covey.fault", fault.name());
    span.record("otel.status_code", "ERROR");
}

/// OpenTelemetry's numbers are signed; one without a sign would become text.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(feature = "otel")]
fn adopt(request: &Span, headers: &HeaderMap) {
    crate::otel::adopt(request, headers);
}

/// Without an exporter the client's trace is only named.
#[cfg(not(feature = "otel"))]
fn adopt(request: &Span, headers: &HeaderMap) {
    if let Some(text) = headers.get("traceparent").and_then(|value| value.to_str().ok()) {
        request.record("traceparent", text);
    }
}
