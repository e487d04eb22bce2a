//! The routes that clients see.
//!
//! Not here: operators' routes (`admin`).

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;

use super::fault::error;
use super::gateway::{Gateway, Readiness};
use super::proxy;
use crate::tokens::Api;

/// The router of the client port.
pub(super) fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route(Api::Chat.path(), post(chat))
        .route(Api::Completions.path(), post(completions))
        .route("/v1/models", get(models))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(gateway)
}

async fn chat(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    proxy::handle(gateway, Api::Chat, request).await
}

async fn completions(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    proxy::handle(gateway, Api::Completions, request).await
}

async fn models(State(gateway): State<Arc<Gateway>>) -> Response {
    let created = gateway.started_unix();
    let model = |name: &str| json!({"id": name, "object": "model", "created": created, "owned_by": "covey"});
    let data: Vec<_> = gateway.served().map(|name| model(name.as_str())).collect();
    ([(CONTENT_TYPE, "application/json")], json!({"object": "list", "data": data}).to_string()).into_response()
}

/// The process answers.
pub(crate) async fn healthz() -> Response {
    "ok\n".into_response()
}

/// Whether clients should be sent here, and if not, why.
pub(crate) async fn readyz(State(gateway): State<Arc<Gateway>>) -> Response {
    let readiness = gateway.readiness();
    let status = if readiness == Readiness::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{}\n", readiness.reason())).into_response()
}

async fn unknown(method: Method, uri: Uri) -> Response {
    let message = format!("Unknown request URL: {method} {}", uri.path());
    error(StatusCode::NOT_FOUND, &message, "invalid_request_error", "unknown_url", None)
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let message = format!("Not allowed to {method} {}", uri.path());
    error(StatusCode::METHOD_NOT_ALLOWED, &message, "invalid_request_error", "method_not_allowed", None)
}
