//! What can go wrong with a request, as one closed list: an OpenAI-shaped answer, a counter and a log line each.
//!
//! Not here: errors of an engine itself. They are its answer and are passed through.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request failed at this gateway. The names are metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The body is no JSON request. Fault: the client.
    BadRequest,
    /// The body did not arrive in time or broke off. Fault: the client.
    BodyIncomplete,
    /// The body is larger than the gateway takes. Fault: the client.
    BodyTooLarge,
    /// Nobody serves the model. Fault: the client.
    UnknownModel,
    /// No worker can take a request. Fault: the workers, or the operator.
    NoWorker,
    /// The worker could not be connected to, or closed before it answered.
    Connect,
    /// The worker said 429, 502 or 503 and was replaced by another one.
    Busy,
    /// The worker's first byte did not come in time.
    FirstByteTimeout,
    /// The worker fell silent in the middle of its answer.
    IdleTimeout,
    /// The worker's answer broke off.
    Cut,
    /// The worker's answer is not what the API promises.
    Nonsense,
    /// A line, an event or a body of the worker's answer has no end.
    Overlong,
    /// The worker reported an error inside its stream.
    ErrorEvent,
}

impl Fault {
    /// How many there are.
    pub const COUNT: usize = 13;

    /// Every fault, in the order of their discriminants.
    pub const ALL: [Self; Self::COUNT] = [
        Self::BadRequest,
        Self::BodyIncomplete,
        Self::BodyTooLarge,
        Self::UnknownModel,
        Self::NoWorker,
        Self::Connect,
        Self::Busy,
        Self::FirstByteTimeout,
        Self::IdleTimeout,
        Self::Cut,
        Self::Nonsense,
        Self::Overlong,
        Self::ErrorEvent,
    ];

    /// The label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::BodyIncomplete => "body_incomplete",
            Self::BodyTooLarge => "body_too_large",
            Self::UnknownModel => "unknown_model",
            Self::NoWorker => "no_worker",
            Self::Connect => "connect",
            Self::Busy => "busy",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::Cut => "cut",
            Self::Nonsense => "nonsense",
            Self::Overlong => "overlong",
            Self::ErrorEvent => "error_event",
        }
    }

    /// The status a client gets when nothing has been sent to it yet.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::BodyIncomplete => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownModel => StatusCode::NOT_FOUND,
            Self::NoWorker | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::FirstByteTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Connect | Self::IdleTimeout | Self::Cut | Self::Nonsense | Self::Overlong | Self::ErrorEvent => {
                StatusCode::BAD_GATEWAY
            }
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::BadRequest | Self::BodyIncomplete | Self::BodyTooLarge | Self::UnknownModel => {
                "invalid_request_error"
            }
            Self::NoWorker | Self::Busy => "service_unavailable",
            Self::FirstByteTimeout
            | Self::Connect
            | Self::IdleTimeout
            | Self::Cut
            | Self::Nonsense
            | Self::Overlong
            | Self::ErrorEvent => "upstream_error",
        }
    }

    const fn code(self) -> &'static str {
        if matches!(self, Self::UnknownModel) { "model_not_found" } else { self.name() }
    }
}

/// An answer of the gateway's own, in the shape of OpenAI's errors.
pub(super) fn refusal(fault: Fault, message: &str) -> Response {
    error(fault.status(), message, fault.kind(), fault.code(), (fault == Fault::UnknownModel).then_some("model"))
}

/// An error that is not a fault of the list above (unknown routes, wrong methods).
pub(super) fn error(status: StatusCode, message: &str, kind: &str, code: &str, param: Option<&str>) -> Response {
    let body = json!({"error": {"message": message, "type": kind, "param": param, "code": code}});
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_stands_at_its_place_under_its_own_name() {
        for (at, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, at);
            assert!(Fault::ALL[..at].iter().all(|other| other.name() != fault.name()));
        }
    }
}
