//! Routes of the dashboard.
//!
//! Not here: authentication; the admin port is private.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::reel::{CLIENTS_MAX, Reel};
use super::{assets, plain};

/// What a page may do: use what this port serves, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

/// What a page is told first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// `live` or `playback`.
    pub mode: String,
    /// Whose frames these are: a gateway's name, a seed, a file.
    pub label: String,
    /// The version of Covey.
    pub package_version: String,
}

/// A recording that is played back: JSON lines of frames.
pub type Recording = Bytes;

#[derive(Clone)]
struct Served {
    info: Info,
    reel: Arc<Reel>,
    recording: Option<Recording>,
}

/// The routes: live frames come from `reel`; with a recording the page plays that instead.
pub fn router(info: Info, reel: Arc<Reel>, recording: Option<Recording>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/plain", get(plain_page))
        .route("/plain.css", get(plain_style))
        .route("/assets/{*name}", get(asset))
        .route("/api/info", get(api_info))
        .route("/api/frame", get(api_frame))
        .route("/api/frames", get(api_frames))
        .route("/api/recording", get(api_recording))
        .layer(axum::middleware::map_response(guard))
        .with_state(Served { info, reel, recording })
}

async fn guard(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn page(headers: HeaderMap) -> Response {
    // Without the built page there is the plain one, which says how to build it.
    if assets::is_built() { assets::serve("index.html", &headers) } else { Redirect::to("/plain").into_response() }
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    assets::serve(&format!("assets/{name}"), &headers)
}

async fn plain_page(State(served): State<Served>) -> Response {
    let html = plain::render(&served.info.label, served.reel.latest().as_deref());
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

async fn plain_style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], plain::STYLE).into_response()
}

async fn api_info(State(served): State<Served>) -> Response {
    axum::Json(served.info).into_response()
}

async fn api_frame(State(served): State<Served>) -> Response {
    match served.reel.latest_json() {
        Some(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "no frame yet: ask again in a second\n").into_response(),
    }
}

#[derive(Deserialize)]
struct After {
    after: Option<u64>,
}

async fn api_frames(State(served): State<Served>, Query(query): Query<After>, headers: HeaderMap) -> Response {
    // A browser that reconnects says what it saw last, and that is later than what its address says.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    match served.reel.events(last.or(query.after)) {
        Some(events) => ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response(),
        None => {
            let full = format!("{CLIENTS_MAX} readers are connected already: close some, or ask for /api/frame\n");
            (StatusCode::SERVICE_UNAVAILABLE, full).into_response()
        }
    }
}

async fn api_recording(State(served): State<Served>) -> Response {
    match served.recording {
        Some(lines) => ([(CONTENT_TYPE, "application/x-ndjson")], lines).into_response(),
        None => (StatusCode::NOT_FOUND, "this is live: there is no recording; see /api/frames\n").into_response(),
    }
}
