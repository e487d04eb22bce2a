//! The HTTP client of the exporter: the gateway's own, so that no other HTTP or TLS stack is linked.
//!
//! Not here: what is sent. An exchange is bounded in time and bytes.

use std::time::Duration;

use async_trait::async_trait;
use axum::http::{Request, Response};
use bytes::{Bytes, BytesMut};
use opentelemetry_http::{HttpClient, HttpError};

/// How long a batch may take, retries included.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// A collector's answer is a few bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Client(reqwest::Client);

impl Client {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        // Fails when a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        builder.timeout(TIMEOUT).build().map(Self)
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = self.0.execute(request.try_into()?).await?;
        let mut body = BytesMut::new();
        while let Some(piece) = answer.chunk().await? {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(format!("an answer of more than {ANSWER_BYTES_MAX} bytes").into());
            }
            body.extend_from_slice(&piece);
        }
        let mut response = Response::new(body.freeze());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        Ok(response)
    }
}
