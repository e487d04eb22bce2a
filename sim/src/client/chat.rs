//! One streamed chat completion, sent and measured.
//!
//! Not here: retries; who sends again decides where to.

use std::fmt;
use std::sync::Once;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::sse::Events;
use crate::workload::Message;

/// How long a server may say nothing before a request counts as failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How much of an error body is quoted.
const QUOTE_CHARS_MAX: usize = 200;

/// What to ask.
#[derive(Clone, Copy, Debug)]
pub struct Chat<'a> {
    /// Model name.
    pub model: &'a str,
    /// The conversation.
    pub messages: &'a [Message],
    /// What the worker shall answer.
    pub answer: &'a str,
}

impl Chat<'_> {
    /// The body to post. The script is in `metadata`: some routers drop fields that OpenAI's API does not have.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({
            "model": self.model,
            "messages": self.messages,
            "stream": true,
            "stream_options": {"include_usage": true},
            "metadata": {"covey_script": self.answer},
        })
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// From sending to the first piece of the answer.
    pub ttft: Duration,
    /// Tokens of the prompt, as the worker counts them.
    pub prompt_tokens: u64,
    /// Those of them that its cache held.
    pub cached_tokens: u64,
    /// The worker that a gateway says it chose.
    pub worker: Option<String>,
    /// The gateway's outcome.
    pub outcome: Option<String>,
    /// Tokens that the gateway expected to be cached.
    pub predicted_tokens: Option<u64>,
    /// CPU time of the gateway's lookup.
    pub lookup_us: Option<f64>,
}

/// Why a request has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody answered. Fault: the server is gone, or never was. Sending it elsewhere is safe.
    Unreachable(String),
    /// The server refused. The text is its own.
    Refused {
        /// HTTP status.
        status: u16,
        /// What it said, shortened.
        body: String,
    },
    /// The stream ended or broke before its end.
    Cut(String),
    /// The stream is whole but not what was asked for.
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "no answer: {why}"),
            Self::Refused { status, body } => write!(f, "status {status}: {body}"),
            Self::Cut(why) => write!(f, "the stream was cut: {why}"),
            Self::Wrong(why) => write!(f, "wrong answer: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Sends chats over connections that it keeps open. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
}

impl Client {
    /// A client with no connection yet.
    ///
    /// # Errors
    /// When TLS cannot be set up, which even plain HTTP needs to begin with.
    pub fn new() -> Result<Self, String> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Someone else may have installed one: any will do.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let http = reqwest::Client::builder()
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENCE_MAX)
            .build()
            .map_err(|why| format!("HTTP client cannot be built: {why}"))?;
        Ok(Self { http })
    }

    /// Sends a chat to `base` (`http://host:port`) and reads it to its end.
    ///
    /// # Errors
    /// When there is no whole, scripted answer with its usage.
    pub async fn chat(&self, base: &str, chat: Chat<'_>) -> Result<Reply, Failure> {
        let body = chat.body();
        let sent = Instant::now();
        let mut response = self.open(&format!("{base}/v1/chat/completions"), &body).await?;
        let mut reading = Reading::default();
        while let Some(bytes) = next_bytes(&mut response).await? {
            reading.take(&bytes, sent.elapsed())?;
        }
        reading.finish(chat.answer, response.headers())
    }

    /// Posts JSON and waits for the head of the answer.
    pub(super) async fn open(&self, url: &str, body: &Value) -> Result<Response, Failure> {
        let request = self.http.post(url).header("x-covey-debug", "1").json(body);
        let response = request.send().await.map_err(|why| Failure::Unreachable(cause(&why)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await.unwrap_or_default().chars().take(QUOTE_CHARS_MAX).collect();
        Err(Failure::Refused { status: status.as_u16(), body })
    }

    /// Makes something go wrong at an engine model (`POST /covey/fault`).
    ///
    /// # Errors
    /// When nobody answers or the engine refuses; the text says which.
    pub async fn fault(&self, base: &str, fault: &Value) -> Result<(), String> {
        let done = self.open(&format!("{base}/covey/fault"), fault).await;
        done.map(drop).map_err(|why| format!("{base} does not take the fault {fault}: {why}"))
    }

    /// Sends an empty POST.
    ///
    /// # Errors
    /// When nobody answers or the status is not one of success; the text says which.
    pub async fn post(&self, url: &str, timeout: Duration) -> Result<(), String> {
        text(self.http.post(url), timeout).await.map(drop)
    }

    /// Fetches a page as text.
    ///
    /// # Errors
    /// When nobody answers or the status is not one of success; the text says which.
    pub async fn page(&self, url: &str, timeout: Duration) -> Result<String, String> {
        text(self.http.get(url), timeout).await
    }
}

/// The next bytes of an answer; `None` at its end.
pub(super) async fn next_bytes(response: &mut Response) -> Result<Option<Bytes>, Failure> {
    response.chunk().await.map_err(|why| Failure::Cut(cause(&why)))
}

/// The data of an event; `None` when it says that the stream is over.
pub(super) fn data_of(data: &str) -> Result<Option<Value>, Failure> {
    if data == "[DONE]" {
        return Ok(None);
    }
    let chunk: Value = serde_json::from_str(data).map_err(|why| Failure::Wrong(format!("not JSON ({why}): {data}")))?;
    chunk.get("error").map_or(Ok(Some(chunk.clone())), |error| Err(Failure::Cut(error.to_string())))
}

/// A header's text.
pub(super) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

async fn text(request: reqwest::RequestBuilder, timeout: Duration) -> Result<String, String> {
    let response = request.timeout(timeout).send().await.map_err(|why| cause(&why))?;
    let status = response.status();
    let body = response.text().await.map_err(|why| cause(&why))?;
    if status.is_success() { Ok(body) } else { Err(format!("status {}: {body}", status.as_u16())) }
}

/// A stream as far as it was read.
#[derive(Debug, Default)]
struct Reading {
    events: Events,
    first: Option<Duration>,
    text: String,
    usage: Option<Value>,
    done: bool,
}

impl Reading {
    fn take(&mut self, bytes: &[u8], since: Duration) -> Result<(), Failure> {
        self.events.push(bytes).map_err(Failure::Wrong)?;
        while let Some(data) = self.events.next() {
            let Some(chunk) = data_of(&data)? else {
                self.done = true;
                continue;
            };
            if let Some(piece) = chunk["choices"][0]["delta"]["content"].as_str().filter(|piece| !piece.is_empty()) {
                self.first.get_or_insert(since);
                self.text.push_str(piece);
            }
            if chunk["usage"].is_object() {
                self.usage = Some(chunk["usage"].clone());
            }
        }
        Ok(())
    }

    fn finish(self, answer: &str, headers: &HeaderMap) -> Result<Reply, Failure> {
        if !self.done {
            return Err(Failure::Cut(format!("no [DONE] after {} bytes of answer", self.text.len())));
        }
        if self.text != answer {
            return Err(Failure::Wrong(format!("{} bytes differ from the script's {}", self.text.len(), answer.len())));
        }
        let usage = self.usage.ok_or_else(|| Failure::Wrong("no usage".to_owned()))?;
        let number =
            |value: &Value| value.as_u64().ok_or_else(|| Failure::Wrong(format!("usage lacks counts: {usage}")));
        let header = |name| header(headers, name);
        Ok(Reply {
            ttft: self.first.ok_or_else(|| Failure::Wrong("an empty answer".to_owned()))?,
            prompt_tokens: number(&usage["prompt_tokens"])?,
            cached_tokens: number(&usage["prompt_tokens_details"]["cached_tokens"])?,
            worker: header("x-covey-worker"),
            outcome: header("x-covey-outcome"),
            predicted_tokens: header("x-covey-predicted-tokens").and_then(|tokens| tokens.parse().ok()),
            lookup_us: header("x-covey-lookup-us").and_then(|us| us.parse().ok()),
        })
    }
}

/// An error with what caused it, on one line.
fn cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
