//! `/decisions` and `/decisions/ID`: what this gateway decided of late, and what came of it.
//!
//! Not here: keeping them (`server::decisions`), words for people (`explain`).

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::printable::printable;
use crate::server::{DecisionShown, Gateway};

/// Decisions listed when nobody says how many.
const LAST: usize = 20;
/// Decisions listed at most.
const LAST_MAX: usize = 1_000;
/// How the answer begins when the gateway has nothing under a name.
pub(super) const NONE: &str = "no decision";

/// What both routes answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionsReport {
    /// Whose decisions.
    pub gateway: String,
    /// The decisions, oldest first; of one request, one for each worker that was tried.
    pub decisions: Vec<DecisionShown>,
}

impl DecisionsReport {
    fn answer(gateway: &Gateway, decisions: Vec<DecisionShown>) -> Response {
        let report = Self { gateway: gateway.config().mesh.name.to_string(), decisions };
        let body = serde_json::to_string(&report).expect("plain data serializes");
        ([(CONTENT_TYPE, "application/json")], body).into_response()
    }
}

/// Query of `/decisions`.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    /// Those that sent a request to this worker; all when empty.
    worker: Option<String>,
    /// How many, the latest; [`LAST_MAX`] at most.
    last: Option<usize>,
}

/// The latest decisions. 404: no such worker.
pub(super) async fn serve_last(State(gateway): State<Arc<Gateway>>, Query(which): Query<Which>) -> Response {
    let worker = which.worker.as_deref().filter(|worker| !worker.is_empty());
    let is_known = |worker: &str| gateway.workers().all().iter().any(|known| known.id.to_string() == worker);
    match worker {
        Some(worker) if !is_known(worker) => {
            let why = format!("no worker here is called {}: see --worker\n", printable(worker));
            (StatusCode::NOT_FOUND, why).into_response()
        }
        _ => {
            let count = which.last.unwrap_or(LAST).min(LAST_MAX);
            DecisionsReport::answer(&gateway, gateway.decisions().last(worker, count))
        }
    }
}

/// The decisions about one request. 404: none is kept under that name.
pub(super) async fn serve_one(State(gateway): State<Arc<Gateway>>, Path(id): Path<String>) -> Response {
    let decisions = gateway.decisions().of(&id);
    if !decisions.is_empty() {
        return DecisionsReport::answer(&gateway, decisions);
    }
    let why = match gateway.decisions().capacity() {
        0 => format!("{NONE} is kept by this gateway: start it with --decisions COUNT\n"),
        count => format!(
            "{NONE} about request {} among the last {count} of this gateway (--decisions): ask the one that answered it, with \
             the id in its answer's x-request-id; a request that was refused before a worker was chosen has none\n",
            printable(&id)
        ),
    };
    (StatusCode::NOT_FOUND, why).into_response()
}
