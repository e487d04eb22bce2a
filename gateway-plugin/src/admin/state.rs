//! `/mesh/state`, `/mesh/state/holder` and `/mesh/state/stored`: a replica in pages, as the mesh thread answers them.
//!
//! They say which workers, holders and blocks a gateway knows by names and keyed hashes, never what a prompt contained.
//!
//! Not here: making the pages (`covey_mesh::inspect`), comparing two gateways' (`diff`).

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use covey_crdt::id::WorkerId;
use covey_mesh::inspect::{AfterBlock, AfterStored, Answer, Ask, Hex64, Hex128, StampRow};
use serde::{Deserialize, Serialize};

use crate::server::Gateway;

/// Query of `/mesh/state`: everything, or what follows a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateQuery {
    /// The last worker seen.
    pub(crate) worker: Option<String>,
    /// Its rank.
    pub(crate) rank: Option<u16>,
}

/// Query of `/mesh/state/holder`: which holder, and the block after which to go on (all four of the last, or none).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HolderQuery {
    pub(crate) worker: String,
    pub(crate) rank: Option<u16>,
    pub(crate) id: Hex64,
    pub(crate) ms: Option<u64>,
    pub(crate) counter: Option<u16>,
    pub(crate) life: Option<Hex128>,
    pub(crate) depth: Option<u32>,
}

impl HolderQuery {
    pub(crate) fn after(mut self, block: Option<AfterBlock>) -> Self {
        self.ms = block.map(|block| block.stamp.ms);
        self.counter = block.map(|block| block.stamp.counter);
        self.life = block.map(|block| block.stamp.life);
        self.depth = block.map(|block| block.depth);
        self
    }

    fn ask(&self) -> Result<Ask, String> {
        let after = match (self.ms, self.counter, self.life, self.depth) {
            (None, None, None, None) => None,
            (Some(ms), Some(counter), Some(life), Some(depth)) => {
                Some(AfterBlock { stamp: StampRow { ms, counter, life }, depth })
            }
            _ => return Err("ms, counter, life and depth name the last block seen: give all of them or none".into()),
        };
        Ok(Ask::Holder { worker: worker(&self.worker, self.rank)?, id: self.id.0, after })
    }
}

/// Query of `/mesh/state/stored`: whose events, and the block after which to go on (set and hash, or neither).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredQuery {
    pub(crate) worker: String,
    pub(crate) rank: Option<u16>,
    pub(crate) id: Option<Hex64>,
    pub(crate) block: Option<Hex64>,
}

impl StoredQuery {
    fn ask(&self) -> Result<Ask, String> {
        let after = match (self.id, self.block) {
            (None, None) => None,
            (Some(id), Some(block)) => Some(AfterStored { id, block }),
            (None, Some(_)) | (Some(_), None) => {
                return Err("id and block name the last block seen: give both of them or none".into());
            }
        };
        Ok(Ask::Stored { worker: worker(&self.worker, self.rank)?, after })
    }
}

fn worker(name: &str, rank: Option<u16>) -> Result<WorkerId, String> {
    WorkerId::new(name, rank.unwrap_or(0)).map_err(|error| format!("worker: {error}"))
}

pub(super) async fn serve_state(State(gateway): State<Arc<Gateway>>, Query(query): Query<StateQuery>) -> Response {
    let after = query.worker.map(|name| worker(&name, query.rank)).transpose();
    answer(&gateway, after.map(|after| Ask::State { after })).await
}

pub(super) async fn serve_holder(State(gateway): State<Arc<Gateway>>, Query(query): Query<HolderQuery>) -> Response {
    answer(&gateway, query.ask()).await
}

pub(super) async fn serve_stored(State(gateway): State<Arc<Gateway>>, Query(query): Query<StoredQuery>) -> Response {
    answer(&gateway, query.ask()).await
}

async fn answer(gateway: &Gateway, ask: Result<Ask, String>) -> Response {
    let ask = match ask {
        Ok(ask) => ask,
        Err(why) => return (StatusCode::BAD_REQUEST, why + "\n").into_response(),
    };
    let body = match gateway.mesh().inspect(ask).await {
        Ok(Answer::State(page)) => serde_json::to_string(&page),
        Ok(Answer::Holder(page)) => serde_json::to_string(&page),
        Ok(Answer::Stored(page)) => serde_json::to_string(&page),
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    };
    ([(CONTENT_TYPE, "application/json")], body.expect("plain data serializes")).into_response()
}
