//! A request body, read: prompt text, answer, and how the client wants it.
//!
//! Not here: the engine. Unknown fields are ignored, as engines do.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::Answer;
use super::error::ApiError;
use super::template::{Message, render};
use crate::engine::Job;

/// Answer length when neither a script nor `max_tokens` says; OpenAI's default for plain completions.
const ANSWER_TOKENS_DEFAULT: u32 = 16;
/// Longest made-up answer: a typo in `max_tokens` must not make the worker write for hours.
const ANSWER_TOKENS_MAX: u32 = 16_384;

/// Which of the two routes was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Chat,
    Text,
}

/// One request, ready for the engine.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) route: Route,
    pub(super) model: Option<String>,
    pub(super) prompt: String,
    pub(super) answer: Answer,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    salt: String,
}

#[derive(Deserialize)]
struct ChatBody {
    messages: Vec<Message>,
    tools: Option<Value>,
    max_completion_tokens: Option<u32>,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Deserialize)]
struct TextBody {
    prompt: Value,
    #[serde(flatten)]
    rest: Rest,
}

/// What the two routes have in common.
#[derive(Deserialize)]
struct Rest {
    model: Option<String>,
    max_tokens: Option<u32>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    cache_salt: Option<String>,
    covey_script: Option<Script>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct Script {
    answer: String,
}

impl Ask {
    /// Reads a body of `/v1/chat/completions`.
    pub(super) fn chat(body: &[u8]) -> Result<Self, ApiError> {
        let body: ChatBody = parse(body)?;
        if body.messages.is_empty() {
            return Err(ApiError::bad("messages", "messages is empty: send at least one"));
        }
        let prompt = render(&body.messages, body.tools.as_ref()).map_err(|why| ApiError::bad("messages", &why))?;
        let tokens_max = body.max_completion_tokens.or(body.rest.max_tokens);
        Self::new(Route::Chat, prompt, tokens_max, body.rest)
    }

    /// Reads a body of `/v1/completions`.
    pub(super) fn text(body: &[u8]) -> Result<Self, ApiError> {
        let body: TextBody = parse(body)?;
        let only = body.prompt.as_array().filter(|prompts| prompts.len() == 1).map(|prompts| &prompts[0]);
        let prompt = only.unwrap_or(&body.prompt).as_str();
        let prompt = prompt.ok_or_else(|| {
            ApiError::bad("prompt", "prompt must be one string: this model takes neither batches nor token ids")
        })?;
        let prompt = prompt.to_owned();
        let tokens_max = body.rest.max_tokens;
        Self::new(Route::Text, prompt, tokens_max, body.rest)
    }

    fn new(route: Route, prompt: String, tokens_max: Option<u32>, rest: Rest) -> Result<Self, ApiError> {
        if tokens_max == Some(0) || tokens_max.is_some_and(|tokens| tokens > ANSWER_TOKENS_MAX) {
            let why = format!("max_tokens must be between 1 and {ANSWER_TOKENS_MAX}");
            return Err(ApiError::bad("max_tokens", &why));
        }
        if rest.n.is_some_and(|n| n != 1) {
            return Err(ApiError::bad("n", "n must be 1: this model gives one choice"));
        }
        let answer = match rest.covey_script {
            Some(script) => Answer::scripted(&script.answer, tokens_max),
            None => Answer::made_up(&prompt, tokens_max.unwrap_or(ANSWER_TOKENS_DEFAULT)),
        };
        Ok(Self {
            route,
            model: rest.model,
            prompt,
            answer,
            stream: rest.stream,
            include_usage: rest.stream_options.is_some_and(|options| options.include_usage),
            salt: rest.cache_salt.unwrap_or_default(),
        })
    }

    /// The request as the engine sees it.
    pub(super) fn job(&self) -> Job {
        Job::new(&self.salt, &self.prompt, &self.answer.text)
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|why| ApiError::bad("body", &format!("body is not a request: {why}")))
}
