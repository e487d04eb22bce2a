//! What operators and tools read: `/metrics`, `/mesh`, `/healthz`, `/readyz` on the admin port, and `covey status`.
//!
//! Not here: counting (`server`, `plugin`, the mesh driver). Everything here only reads, except `/test/…`, which a gateway
//! has only when it was started with `--test-hooks`.

mod converged;
mod metrics;
mod names;
mod report;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub use crate::frame::{Verdict, verdict};
pub(crate) use converged::watch as watch_converged;
pub use report::{MeshReport, Quantiles, WorkerReport};
pub use status::{StatusError, status};

use crate::server::{Breakage, Gateway, TestHooks, healthz, readyz};

/// The router of the admin port.
pub(crate) fn router(gateway: Arc<Gateway>, hooks: Option<TestHooks>) -> Router {
    let reading = Router::new()
        .route("/metrics", get(serve_metrics))
        .route("/mesh", get(serve_mesh))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(gateway);
    match hooks {
        Some(hooks) => reading
            .route("/test/mesh/panic", breaking(&hooks, Breakage::Panic))
            .route("/test/mesh/stall", breaking(&hooks, Breakage::Stall)),
        None => reading,
    }
}

fn breaking(hooks: &TestHooks, breakage: Breakage) -> axum::routing::MethodRouter {
    let hooks = hooks.clone();
    post(move || {
        hooks.set(breakage);
        std::future::ready(StatusCode::ACCEPTED)
    })
}

/// OpenMetrics for whoever asks for it, as Prometheus does; the older text format for everybody else.
async fn serve_metrics(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = metrics::text(&gateway);
    if accepted.contains("application/openmetrics-text") {
        ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
    } else {
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::classic(&text)).into_response()
    }
}

async fn serve_mesh(State(gateway): State<Arc<Gateway>>) -> Response {
    let report = MeshReport::of(&gateway);
    let body = serde_json::to_string(&report).expect("plain data serializes");
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
