//! A request body, read: prompt text, answer, and how the client wants it.
//!
//! Not here: the engine. Unknown fields are ignored, as engines do.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::Answer;
use super::error::ApiError;
use super::template::{Message, render};
use super::tokenize::{Tokenize, Tokens};
use crate::engine::Job;

/// Answer length when neither a script nor `max_tokens` says; OpenAI's default for plain completions.
const ANSWER_TOKENS_DEFAULT: u32 = 16;
/// Longest made-up answer: a typo in `max_tokens` must not make the worker write for hours.
const ANSWER_TOKENS_MAX: u32 = 16_384;
/// What a prompt may be.
const PROMPT_FORMS: &str = "prompt must be one string or one list of token ids: this model takes no batches";

/// Which of the two routes was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Chat,
    Text,
}

impl Route {
    /// The field that holds the prompt.
    const fn prompt_field(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Text => "prompt",
        }
    }
}

/// One request, ready for the engine.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) route: Route,
    pub(super) model: Option<String>,
    pub(super) answer: Answer,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Whether the answer's ids are told, so that the next prompt can be made of them.
    pub(super) tells_ids: bool,
    /// The request as the engine sees it.
    pub(super) job: Job,
}

/// What is to be answered.
enum Prompt {
    Text(String),
    Ids(Vec<u32>),
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
    #[serde(default)]
    return_token_ids: bool,
    covey_script: Option<Script>,
    metadata: Option<Metadata>,
}

/// OpenAI's free field. Routers that drop fields they do not know keep it.
#[derive(Deserialize)]
struct Metadata {
    covey_script: Option<String>,
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
    pub(super) fn chat(body: &[u8], tokenizer: &dyn Tokenize) -> Result<Self, ApiError> {
        let raw = body;
        let body: ChatBody = parse(raw)?;
        if body.messages.is_empty() {
            return Err(ApiError::bad("messages", "messages is empty: send at least one"));
        }
        let prompt = render(&body.messages, body.tools.as_ref()).map_err(|why| ApiError::bad("messages", &why))?;
        let tokens_max = body.max_completion_tokens.or(body.rest.max_tokens);
        Self::new(raw, Route::Chat, Prompt::Text(prompt), tokens_max, body.rest, tokenizer)
    }

    /// Reads a body of `/v1/completions`.
    pub(super) fn text(body: &[u8], tokenizer: &dyn Tokenize) -> Result<Self, ApiError> {
        let raw = body;
        let body: TextBody = parse(raw)?;
        let prompt = Prompt::read(&body.prompt).ok_or_else(|| ApiError::bad("prompt", PROMPT_FORMS))?;
        let tokens_max = body.rest.max_tokens;
        Self::new(raw, Route::Text, prompt, tokens_max, body.rest, tokenizer)
    }

    fn new(
        body: &[u8],
        route: Route,
        prompt: Prompt,
        tokens_max: Option<u32>,
        rest: Rest,
        tokenizer: &dyn Tokenize,
    ) -> Result<Self, ApiError> {
        if tokens_max == Some(0) || tokens_max.is_some_and(|tokens| tokens > ANSWER_TOKENS_MAX) {
            let why = format!("max_tokens must be between 1 and {ANSWER_TOKENS_MAX}");
            return Err(ApiError::bad("max_tokens", &why));
        }
        if rest.n.is_some_and(|n| n != 1) {
            return Err(ApiError::bad("n", "n must be 1: this model gives one choice"));
        }
        let in_metadata = rest.metadata.and_then(|metadata| metadata.covey_script);
        let script = rest.covey_script.map(|script| script.answer).or(in_metadata);
        let is_scripted = script.is_some();
        let answer = match script {
            Some(script) => Answer::scripted(&script, tokens_max),
            None => Answer::made_up(&prompt.bytes(), tokens_max.unwrap_or(ANSWER_TOKENS_DEFAULT)),
        };
        let answer = match tokens_max.or((!is_scripted).then_some(ANSWER_TOKENS_DEFAULT)) {
            Some(tokens_max) => tokenizer.fit(answer, tokens_max),
            None => answer,
        };
        let tells_ids = rest.return_token_ids || matches!(prompt, Prompt::Ids(_));
        let tokens = prompt.answered(route, body, &answer.text, tokenizer);
        let tokens = tokens.map_err(|why| ApiError::bad(route.prompt_field(), &why))?;
        Ok(Self {
            route,
            model: rest.model,
            answer,
            stream: rest.stream,
            include_usage: rest.stream_options.is_some_and(|options| options.include_usage),
            tells_ids,
            job: Job::new(&rest.cache_salt.unwrap_or_default(), &tokens.prompt, &tokens.answer),
        })
    }
}

impl Prompt {
    /// A string, a list of ids, or a list of one of these.
    fn read(value: &Value) -> Option<Self> {
        let only = value.as_array().filter(|items| items.len() == 1).map(|items| &items[0]);
        let value = only.filter(|only| !only.is_number()).unwrap_or(value);
        if let Some(text) = value.as_str() {
            return Some(Self::Text(text.to_owned()));
        }
        let ids = value.as_array().filter(|ids| !ids.is_empty())?;
        let ids: Option<_> = ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect();
        ids.map(Self::Ids)
    }

    /// What an answer follows from.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.as_bytes().to_vec(),
            Self::Ids(ids) => ids.iter().flat_map(|id| id.to_le_bytes()).collect(),
        }
    }

    fn answered(self, route: Route, body: &[u8], answer: &str, tokenizer: &dyn Tokenize) -> Result<Tokens, String> {
        match self {
            Self::Text(prompt) => tokenizer.text(route, body, &prompt, answer),
            Self::Ids(prompt) => Ok(Tokens { prompt, answer: tokenizer.answer(answer) }),
        }
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|why| ApiError::bad("body", &format!("body is not a request: {why}")))
}
