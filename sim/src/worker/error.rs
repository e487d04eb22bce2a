//! Refusals as vLLM words them: a status and a JSON object that says what is wrong and what to do.
//!
//! Not here: why an engine refuses (`engine`).

use std::fmt;

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::engine::Reject;

/// A request that was not taken. Fault: the client's, or (503) too much load. Nothing was cached.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    param: Option<&'static str>,
    message: String,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, param: Option<&'static str>, message: &str) -> Self {
        Self { status, kind, param, message: message.to_owned() }
    }

    pub(super) fn bad(param: &'static str, message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestError", Some(param), message)
    }

    pub(super) fn unknown_model(asked: &str, served: &str) -> Self {
        let message = format!("model `{asked}` does not exist here: this worker serves `{served}`");
        Self::new(StatusCode::NOT_FOUND, "NotFoundError", Some("model"), &message)
    }

    pub(super) fn no_such_route() -> Self {
        let message = "no such route: try /v1/chat/completions, /v1/completions, /v1/models, /health, /metrics, \
            /covey/truth or /covey/fault";
        Self::new(StatusCode::NOT_FOUND, "NotFoundError", None, message)
    }

    pub(super) fn engine_died() -> Self {
        let message = "the engine restarted before the answer was whole: send the request again";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", None, message)
    }

    pub(super) fn in_use() -> Self {
        let message =
            "a block is in use or a step is being computed: the cache was not reset, try again when it is idle";
        Self::new(StatusCode::CONFLICT, "ConflictError", Some("kind"), message)
    }

    pub(super) fn wrong_method() -> Self {
        let message = "wrong method: completions and faults are POST, everything else is GET";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "BadRequestError", None, message)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Reject> for ApiError {
    fn from(why: Reject) -> Self {
        match why {
            Reject::TooLong { .. } => Self::bad("max_tokens", &why.to_string()),
            Reject::Busy { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", None, &why.to_string())
            }
        }
    }
}

impl From<BytesRejection> for ApiError {
    fn from(why: BytesRejection) -> Self {
        if why.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let message = format!("body is larger than {} bytes", super::BODY_BYTES_MAX);
            return Self::new(StatusCode::PAYLOAD_TOO_LARGE, "BadRequestError", Some("body"), &message);
        }
        Self::bad("body", &why.body_text())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.status.as_u16();
        let error = json!({"message": self.message, "type": self.kind, "param": self.param, "code": code});
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}
