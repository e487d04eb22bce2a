//! Asking a gateway's admin port: one JSON answer at a time.
//!
//! Whatever answers may be no gateway: no answer is read beyond a bound, and what is shown of one is printable.
//!
//! Not here: streams of frames (`stream`), what the answers mean.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::printable::printable;

/// Why a gateway could not be asked.
#[derive(Debug)]
pub enum AskError {
    /// The admin port did not answer. Fault: the address, or the gateway is down.
    Unreachable {
        /// Where it was sought.
        admin: String,
        /// What the client said.
        error: String,
    },
    /// Something answered that is no gateway of this version.
    Foreign {
        /// Where it was found.
        admin: String,
        /// What was wrong with its answer.
        error: String,
    },
    /// The gateway says that it cannot answer now.
    Refused {
        /// Which.
        admin: String,
        /// Why, in its words.
        error: String,
    },
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { admin, error } => write!(
                f,
                "cannot reach a gateway's admin port at {admin}: {error}; is it running, and is that its --admin-listen?"
            ),
            Self::Foreign { admin, error } => {
                write!(f, "{admin} does not answer like a covey gateway: {error}; is that its --admin-listen?")
            }
            Self::Refused { admin, error } => write!(f, "the gateway at {admin} cannot answer: {error}"),
        }
    }
}

impl std::error::Error for AskError {}

/// An HTTP client for one admin port.
#[derive(Clone, Debug)]
pub(crate) struct AdminClient {
    admin: String,
    base: String,
    http: reqwest::Client,
    timeout: Option<Duration>,
}

impl AdminClient {
    /// A client that waits `timeout` for each answer to begin and to end; `None` for streams, which do not end.
    pub(crate) fn new(admin: &str, timeout: Option<Duration>) -> Result<Self, AskError> {
        // Fails when a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = admin.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let builder = reqwest::Client::builder().no_proxy().connect_timeout(timeout.unwrap_or(CONNECT_TIMEOUT));
        let builder = match timeout {
            Some(timeout) => builder.timeout(timeout),
            None => builder,
        };
        let http = builder.build().map_err(|error| unreachable_at(admin, &error))?;
        Ok(Self { admin: admin.to_owned(), base, http, timeout })
    }

    /// The address as it was given.
    pub(crate) fn admin(&self) -> &str {
        &self.admin
    }

    /// A successful response to a GET of `path`.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<reqwest::Response, AskError> {
        let response = self.send(path, headers).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(self.unsuccessful(path, status, &reason(response).await)),
        }
    }

    async fn send(&self, path: &str, headers: &[(&str, &str)]) -> Result<reqwest::Response, AskError> {
        let mut request = self.http.get(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.map_err(|error| self.unreachable(&error))
    }

    fn unsuccessful(&self, path: &str, status: reqwest::StatusCode, text: &str) -> AskError {
        match status {
            reqwest::StatusCode::SERVICE_UNAVAILABLE => self.refused(text),
            _ => self.foreign(format!("status {status} to {path}")),
        }
    }

    /// The JSON answer to a GET of `path`.
    pub(crate) async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, AskError> {
        let response = self.get(path, &[]).await?;
        self.read(path, response).await
    }

    /// The same, or `None` when a gateway says 404 in words that begin with `none`.
    pub(crate) async fn json_unless<T: DeserializeOwned>(&self, path: &str, none: &str) -> Result<Option<T>, AskError> {
        let response = self.send(path, &[]).await?;
        match response.status() {
            status if status.is_success() => self.read(path, response).await.map(Some),
            status => match (status, reason(response).await) {
                (reqwest::StatusCode::NOT_FOUND, text) if text.starts_with(none) => Ok(None),
                (status, text) => Err(self.unsuccessful(path, status, &text)),
            },
        }
    }

    async fn read<T: DeserializeOwned>(&self, path: &str, mut response: reqwest::Response) -> Result<T, AskError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + chunk.len() > JSON_BYTES_MAX {
                let error = format!("its answer to {path} has more than {} MiB", JSON_BYTES_MAX >> 20);
                return Err(self.foreign(error));
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|error| self.foreign(error.to_string()))
    }

    /// What `reading` gives, unless its answers together take longer than one may.
    pub(crate) async fn whole<T>(
        &self,
        what: &str,
        reading: impl Future<Output = Result<T, AskError>>,
    ) -> Result<T, AskError> {
        let Some(most) = self.timeout else { return reading.await };
        tokio::time::timeout(most, reading).await.unwrap_or_else(|_| {
            let seconds = most.as_secs_f64();
            Err(self.refused(&format!("{what} did not come whole within {seconds} s; a longer --timeout waits longer")))
        })
    }

    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> AskError {
        unreachable_at(&self.admin, error)
    }

    pub(crate) fn foreign(&self, error: String) -> AskError {
        AskError::Foreign { admin: self.admin.clone(), error: printable(&error) }
    }

    fn refused(&self, error: &str) -> AskError {
        AskError::Refused { admin: self.admin.clone(), error: printable(error) }
    }
}

/// The beginning of an answer that says why there is none.
async fn reason(mut response: reqwest::Response) -> String {
    let mut text = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        text.extend_from_slice(&chunk[..chunk.len().min(REASON_BYTES_MAX - text.len())]);
        if text.len() == REASON_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Bytes of one JSON answer at most: a page of a replica has some hundred thousand.
const JSON_BYTES_MAX: usize = 64 << 20;
/// Bytes read of an answer that only says why there is none.
const REASON_BYTES_MAX: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The innermost cause says what is wrong; what is around it says only that something is.
fn unreachable_at(admin: &str, error: &reqwest::Error) -> AskError {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    AskError::Unreachable { admin: admin.to_owned(), error: printable(&text) }
}
