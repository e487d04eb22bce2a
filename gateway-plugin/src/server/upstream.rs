//! Sending a request to a worker and reading pieces of its answer, each within its time.
//!
//! Not here: what an answer means (`exchange`).

use std::error::Error;
use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::fault::Fault;
use crate::cli::Timeouts;

/// Idle connections are dropped before engines do (5 s is usual): a request must not meet a closing connection.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// What went wrong, in words.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) detail: String,
    /// Whether nobody could be connected to at all.
    pub(super) unreachable: bool,
}

/// The client for all workers.
pub(super) fn client(timeouts: &Timeouts) -> Result<reqwest::Client, reqwest::Error> {
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(64)
        .connect_timeout(timeouts.connect)
        .build()
}

/// Sends a request and waits for the head of the answer.
pub(super) async fn send(
    client: &reqwest::Client,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    deadline: Instant,
) -> Result<reqwest::Response, Failure> {
    let sent = client.post(url).headers(headers).body(body).send();
    match timeout_at(deadline, sent).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => {
            Err(Failure { fault: Fault::Connect, unreachable: error.is_connect(), detail: causes(&error) })
        }
        Err(_) => Err(Failure {
            fault: Fault::FirstByteTimeout,
            unreachable: false,
            detail: "no answer within --request-timeout".to_owned(),
        }),
    }
}

/// The next piece of a body; `None` at its end.
pub(super) async fn next(
    response: &mut reqwest::Response,
    deadline: Instant,
    late: Fault,
) -> Result<Option<Bytes>, Failure> {
    match timeout_at(deadline, response.chunk()).await {
        Ok(Ok(piece)) => Ok(piece),
        Ok(Err(error)) => Err(Failure { fault: Fault::Cut, unreachable: false, detail: causes(&error) }),
        Err(_) => Err(Failure { fault: late, unreachable: false, detail: "the worker fell silent".to_owned() }),
    }
}

/// An error with what caused it; the client's own text says little.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
