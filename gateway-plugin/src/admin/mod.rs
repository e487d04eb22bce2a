//! What operators and tools read: `/metrics`, `/mesh`, `/doctor`, `/decisions`, `/healthz`, `/readyz` and the dashboard on the admin port, and
//! `covey status`.
//!
//! Not here: counting (`server`, `plugin`, the mesh driver). Everything here only reads, except `/workers/forget` and
//! `/test/…`, which a gateway has only when it was started with `--test-hooks`.

mod client;
mod decisions;
pub mod diff;
pub mod doctor;
pub mod explain;
mod forget;
mod metrics;
mod names;
mod printable;
mod record;
mod report;
mod state;
mod status;
mod stream;
mod top;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub use client::AskError;
pub use decisions::DecisionsReport;
pub use doctor::live::{DoctorReport, ModelDoctor, WorkerDoctor};
pub use record::{RecordError, Recorded, record};
pub use report::{MeshReport, Quantiles, WorkerReport};
pub use status::status;
pub use top::{TopError, once, top};

pub use crate::frame::{Verdict, verdict};

use crate::dashboard::{self, Reel};
use crate::server::{Breakage, Gateway, TestHooks, healthz, readyz};

/// The router of the admin port.
pub(crate) fn router(gateway: Arc<Gateway>, reel: &Arc<Reel>, hooks: Option<TestHooks>) -> Router {
    let losing = Arc::clone(&gateway);
    let info = dashboard::Info {
        mode: "live".to_owned(),
        label: gateway.config().mesh.name.to_string(),
        package_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let reading = Router::new()
        .route("/metrics", get(serve_metrics).with_state((Arc::clone(&gateway), Arc::clone(reel))))
        .route("/mesh", get(serve_mesh).with_state((Arc::clone(&gateway), Arc::clone(reel))))
        .route("/doctor", get(doctor::live::serve))
        .route("/decisions", get(decisions::serve_last))
        .route("/decisions/{*id}", get(decisions::serve_one))
        .route("/feeds", get(serve_feeds))
        .route("/workers/forget", post(forget::serve))
        .route("/mesh/state", get(state::serve_state))
        .route("/mesh/state/holder", get(state::serve_holder))
        .route("/mesh/state/stored", get(state::serve_stored))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(gateway)
        .merge(dashboard::router(info, Arc::clone(reel), None));
    match hooks {
        Some(hooks) => reading
            .route("/test/mesh/panic", breaking(&hooks, Breakage::Panic))
            .route("/test/mesh/stall", breaking(&hooks, Breakage::Stall))
            .route("/test/mesh/lose", post(lose_placements).with_state(losing)),
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

async fn lose_placements(State(gateway): State<Arc<Gateway>>) -> StatusCode {
    match gateway.mesh().lose_placements() {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// OpenMetrics for whoever asks for it, as Prometheus does; the older text format for everybody else.
async fn serve_metrics(State((gateway, reel)): State<(Arc<Gateway>, Arc<Reel>)>, headers: HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = metrics::text(&gateway, reel.latest());
    if accepted.contains("application/openmetrics-text") {
        ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
    } else {
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::classic(&text)).into_response()
    }
}

async fn serve_feeds(State(gateway): State<Arc<Gateway>>) -> Response {
    let body = serde_json::to_string(&gateway.feeds_shown()).expect("plain data serializes");
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn serve_mesh(State((gateway, reel)): State<(Arc<Gateway>, Arc<Reel>)>) -> Response {
    let report = MeshReport::of(&gateway, reel.latest().as_deref());
    let body = serde_json::to_string(&report).expect("plain data serializes");
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
