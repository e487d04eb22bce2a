//! `POST /workers/forget`: an operator has everything forgotten that any gateway holds of a worker, for when it is believed
//! to be wrong. A worker whose events are read says again what it holds.
//!
//! Not here: what is forgotten (`covey-mesh`). Refuses what is not said to be JSON, so that no page of another site can ask.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use covey_crdt::id::WorkerId;
use serde::Deserialize;

use crate::server::Gateway;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forget {
    /// The worker's id, as in `--worker ID=URL`.
    worker: String,
}

/// 202: the mesh is being told. 404: this gateway has no such worker. 503: its mesh thread is behind; ask again.
pub(super) async fn serve(State(gateway): State<Arc<Gateway>>, Json(ask): Json<Forget>) -> (StatusCode, String) {
    let known = WorkerId::new(&ask.worker, 0).ok().filter(|worker| gateway.has_worker(worker));
    let Some(worker) = known else {
        return (StatusCode::NOT_FOUND, format!("no worker here is called {:?}: see --worker\n", ask.worker));
    };
    if gateway.plugin().worker_forgotten(&worker) {
        tracing::info!(%worker, "an operator has everything forgotten that is held of the worker");
        (StatusCode::ACCEPTED, "the mesh is told\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the mesh thread is behind: ask again\n".to_owned())
    }
}
