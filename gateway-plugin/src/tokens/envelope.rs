//! The parts of a request body that a gateway looks at. The body itself is forwarded byte for byte.
//!
//! Lenient on purpose: what this build does not understand is the engine's to judge, and is routed on load.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::AnswerForm;
use super::chat::{self, Message};
use super::frame::{self, field};
use super::{Prompt, Unscorable};

/// Which route a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

impl Api {
    /// The route, at gateways and at workers.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }
}

/// Why a body is refused: it is not a JSON object with the fields' types. Fault: the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseBody(String);

impl fmt::Display for ParseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request body is not a valid JSON request: {}", self.0)
    }
}

impl std::error::Error for ParseBody {}

/// A request body, read as far as routing needs.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// The model asked for; the gateway's first one when `None`.
    #[serde(default, borrow)]
    pub model: Option<Cow<'a, str>>,
    /// Whether the answer is to be streamed.
    #[serde(default)]
    pub stream: Option<bool>,
    /// The end user, for session affinity.
    #[serde(default, borrow)]
    pub user: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) cache_salt: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) messages: Option<&'a RawValue>,
    #[serde(default, borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) tools: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) chat_template: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) chat_template_kwargs: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) documents: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) continue_final_message: Option<bool>,
    #[serde(default)]
    pub(super) add_generation_prompt: Option<bool>,
    #[serde(default)]
    pub(super) echo: Option<bool>,
    #[serde(default)]
    #[cfg_attr(not(feature = "tokens"), expect(dead_code, reason = "only a chat template asks for it"))]
    pub(super) add_special_tokens: Option<bool>,
    #[serde(default, borrow)]
    #[cfg_attr(not(feature = "tokens"), expect(dead_code, reason = "only a chat template asks for it"))]
    pub(super) reasoning_effort: Option<&'a RawValue>,
    /// Engines keep so many of the prompt's last tokens; as many as the model takes when negative.
    #[serde(default)]
    #[cfg_attr(not(feature = "tokens"), expect(dead_code, reason = "only a chat template asks for it"))]
    pub(super) truncate_prompt_tokens: Option<i64>,
}

impl<'a> Envelope<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseBody`] when it is not a JSON object or one of the fields above has another type.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseBody> {
        serde_json::from_slice(body).map_err(|error| ParseBody(error.to_string()))
    }

    /// What keeps its cache entries apart; `None` and an empty text mean nothing.
    #[must_use]
    pub fn salt(&self) -> Option<&str> {
        self.cache_salt.as_deref().filter(|salt| !salt.is_empty())
    }

    /// The canonical rendering.
    ///
    /// # Errors
    /// [`Unscorable`] when the request has none.
    pub fn prompt(&self, api: Api) -> Result<Prompt, Unscorable> {
        let (bytes, form) = match api {
            Api::Chat => self.chat()?,
            Api::Completions => self.completion()?,
        };
        Ok(Prompt { bytes, form, salt: self.cache_salt.as_deref().unwrap_or_default().as_bytes().to_vec() })
    }

    fn chat(&self) -> Result<(Vec<u8>, AnswerForm), Unscorable> {
        let raw = self.messages.ok_or(Unscorable::Shape)?.get();
        let messages: Vec<Message> = serde_json::from_str(raw).map_err(|_| Unscorable::Shape)?;
        let mut out = Vec::with_capacity(raw.len());
        self.options(&mut out)?;
        for message in &messages {
            chat::open_message(message, &mut out);
            out.push(frame::END);
        }
        if self.continue_final_message == Some(true) {
            out.pop();
            return Ok((out, AnswerForm::Continuation));
        }
        if self.add_generation_prompt == Some(false) {
            return Ok((out, AnswerForm::Opaque));
        }
        chat::open_answer(&mut out);
        Ok((out, AnswerForm::Message))
    }

    /// What a template renders before the messages, white space of the JSON aside.
    fn options(&self, out: &mut Vec<u8>) -> Result<(), Unscorable> {
        let named = [self.chat_template, self.chat_template_kwargs, self.documents];
        if named.iter().any(Option::is_some) {
            let values = named.map(|raw| raw.map(compact).transpose());
            for value in values {
                field(out, frame::OPTIONS, &value?.unwrap_or_default());
            }
        }
        if let Some(raw) = self.tools {
            let tools = compact(raw)?;
            if tools != "[]" && tools != "null" {
                field(out, frame::TOOLS, &tools);
            }
        }
        Ok(())
    }

    fn completion(&self) -> Result<(Vec<u8>, AnswerForm), Unscorable> {
        if self.token_ids()?.is_some() {
            return Err(Unscorable::TokenIds);
        }
        self.text_prompt().map(|(text, form)| (text.into_bytes(), form))
    }

    /// The prompt of a completion when it is one list of token ids, alone or in a list; `None` when it is text.
    ///
    /// # Errors
    /// [`Unscorable`] when it is several lists, or none of both.
    pub fn token_ids(&self) -> Result<Option<Vec<u32>>, Unscorable> {
        let raw = self.prompt.ok_or(Unscorable::Shape)?.get();
        if !raw.trim_start().starts_with('[') {
            return Ok(None);
        }
        if let Ok(ids) = serde_json::from_str::<Vec<u32>>(raw) {
            return if ids.is_empty() { Err(Unscorable::Shape) } else { Ok(Some(ids)) };
        }
        match serde_json::from_str::<Vec<Vec<u32>>>(raw) {
            Ok(mut lists) if lists.len() == 1 => Ok(lists.pop().filter(|ids| !ids.is_empty())),
            Ok(_) => Err(Unscorable::Batch),
            Err(_) => Ok(None),
        }
    }

    /// The prompt of a completion when it is one text, alone or in a list.
    ///
    /// # Errors
    /// [`Unscorable`] when it is several, or no text.
    pub(super) fn text_prompt(&self) -> Result<(String, AnswerForm), Unscorable> {
        let raw = self.prompt.ok_or(Unscorable::Shape)?;
        let text = match serde_json::from_str(raw.get()).map_err(|_| Unscorable::Shape)? {
            Value::String(text) => text,
            Value::Array(mut prompts) => match (prompts.len(), prompts.pop()) {
                (1, Some(Value::String(text))) => text,
                (2.., Some(Value::String(_) | Value::Array(_))) => return Err(Unscorable::Batch),
                (_, _) => return Err(Unscorable::Shape),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Err(Unscorable::Shape),
        };
        Ok((text, if self.echo == Some(true) { AnswerForm::Opaque } else { AnswerForm::Text }))
    }
}

fn compact(raw: &RawValue) -> Result<String, Unscorable> {
    let value: Value = serde_json::from_str(raw.get()).map_err(|_| Unscorable::Shape)?;
    Ok(value.to_string())
}
