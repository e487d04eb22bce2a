//! From a request to the engine's own token ids: its tokenizer file, its chat template, and what vLLM does around both.
//!
//! A chat prompt is rendered and encoded without special tokens of the tokenizer's own, because templates write theirs; a
//! completion prompt with them. Requests say otherwise with `add_special_tokens`. Long conversations are encoded
//! incrementally (`segments`), with the same result.
//!
//! Not here: naming blocks of ids (`ingest::naming`), HTTP. What cannot be told exactly is [`Unscorable`], by name; a
//! mismatch with an engine that does otherwise (another zone's date, a server-side default of template options) is what the
//! detector finds.

mod clock;
mod content_format;
mod continuation;
mod files;
mod messages;
mod python;
mod segments;
mod template;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use serde_json::{Map, Value};

pub use self::continuation::Continuation;
use self::continuation::Turn;
use self::files::Files;
pub use self::files::LoadTokenizer;
use self::segments::{Cuts, Segments};
use self::template::Templates;
use super::{Api, Envelope, Unscorable};

/// Bytes of a chat template that a request may bring, with [`TokenizerOptions::trust_request_template`].
const REQUEST_TEMPLATE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a rendered prompt: some four million tokens, which take seconds to encode.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// The template that is meant when nobody says which.
const DEFAULT: &str = "default";
/// The one that is meant when there are tools, where a model has it.
const TOOL_USE: &str = "tool_use";
/// How a template that a request brought is called.
const OF_REQUEST: &str = "the request's";

/// What a tokenizer is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenizerOptions {
    /// Bytes of token ids kept of texts encoded before; 0 encodes every prompt whole.
    pub cache_bytes: usize,
    /// Whether a `chat_template` in a request is rendered. Engines refuse them unless told otherwise.
    pub trust_request_template: bool,
}

impl Default for TokenizerOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, trust_request_template: false }
    }
}

/// A prompt as the engine will compute it.
#[derive(Clone, Debug)]
pub struct TokenPrompt {
    /// The token ids.
    pub ids: Vec<u32>,
    /// How an answer goes on from them.
    pub continuation: Continuation,
}

/// A model's tokenizer and chat templates.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    templates: Templates,
    named_tokens: Map<String, Value>,
    segments: Option<Segments>,
    options: TokenizerOptions,
    warnings: Vec<String>,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("templates", &self.templates).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Loads a `tokenizer.json`, or a directory with one and what Hugging Face ships beside it.
    ///
    /// # Errors
    /// [`LoadTokenizer`] naming the file that is missing or wrong.
    pub fn load(path: &Path, options: TokenizerOptions) -> Result<Self, LoadTokenizer> {
        let files = Files::read(path)?;
        let malformed = |why: String| LoadTokenizer::Malformed { path: files.path.clone(), why };
        let mut inner =
            tokenizers::Tokenizer::from_bytes(&files.tokenizer).map_err(|error| malformed(error.to_string()))?;
        // Engines hand prompts over one by one and whole, whatever the file was saved with.
        inner.with_truncation(None).map_err(|error| malformed(error.to_string()))?;
        inner.with_padding(None);
        let mut warnings = renumbered(&files.tokenizer, &inner);
        let added = inner.get_added_tokens_decoder();
        let cuts = Cuts::new(added.values()).filter(|_| options.cache_bytes > 0);
        if cuts.is_none() && options.cache_bytes > 0 {
            warnings.push("its added tokens allow no exact cut: every prompt is encoded whole".to_owned());
        }
        if files.templates.is_empty() {
            warnings.push("it has no chat template: chats are named by their bytes".to_owned());
        }
        let seed = RandomState::new().hash_one(path);
        let templates =
            Templates::compile(files.templates).map_err(|(name, why)| LoadTokenizer::Template { name, why })?;
        let segments = cuts.map(|cuts| Segments::new(cuts, options.cache_bytes, seed));
        Ok(Self { inner, templates, named_tokens: files.named_tokens, segments, options, warnings })
    }

    /// What an operator should know about the files.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Bytes of token ids kept of texts encoded before.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.segments.as_ref().map_or(0, Segments::bytes)
    }

    /// The token ids of a request.
    ///
    /// # Errors
    /// [`Unscorable`] when they cannot be told.
    pub fn prompt(&self, envelope: &Envelope<'_>, api: Api) -> Result<TokenPrompt, Unscorable> {
        if envelope.truncate_prompt_tokens.is_some_and(|most| most > 0) {
            return Err(Unscorable::Truncated);
        }
        match api {
            Api::Completions => self.completion(envelope),
            Api::Chat => self.chat(envelope),
        }
    }

    fn completion(&self, envelope: &Envelope<'_>) -> Result<TokenPrompt, Unscorable> {
        if let Some(ids) = envelope.token_ids()? {
            return Ok(TokenPrompt { ids, continuation: Continuation::Ids });
        }
        let (text, _) = envelope.text_prompt()?;
        let add_special = envelope.add_special_tokens.unwrap_or(true);
        let ids = self.encode(&text, add_special)?;
        let opaque = envelope.echo == Some(true);
        let continuation = if opaque { Continuation::None } else { Continuation::Text { text, add_special } };
        Ok(TokenPrompt { ids, continuation })
    }

    fn chat(&self, envelope: &Envelope<'_>) -> Result<TokenPrompt, Unscorable> {
        let raw = envelope.messages.ok_or(Unscorable::Shape)?.get();
        let tools = envelope.tools.map(|raw| messages::tools(raw.get())).transpose()?.flatten();
        let (of_request, name) = self.template(envelope, tools.is_some())?;
        let templates = of_request.as_ref().unwrap_or(&self.templates);
        let format = templates.format(&name).ok_or(Unscorable::Template)?;
        let is_open = envelope.continue_final_message == Some(true);
        let opens_answer = envelope.add_generation_prompt.unwrap_or(!is_open);
        if is_open && opens_answer {
            // Engines refuse the request: what would it ask for?
            return Err(Unscorable::Shape);
        }
        let mut variables = self.variables(envelope)?;
        variables.insert("messages".to_owned(), Value::Array(messages::conversation(raw, format)?));
        variables.insert("tools".to_owned(), tools.map_or(Value::Null, Value::Array));
        variables.insert("add_generation_prompt".to_owned(), opens_answer.into());
        let text = if is_open {
            templates.render_open(&name, &mut variables)?
        } else {
            templates.render(&name, &variables).map_err(|_| Unscorable::Template)?
        };
        let add_special = envelope.add_special_tokens.unwrap_or(false);
        let ids = self.encode(&text, add_special)?;
        let continuation = if is_open {
            Continuation::Text { text, add_special }
        } else if opens_answer && of_request.is_none() {
            Continuation::Chat(Box::new(Turn { text, add_special, name, format, variables }))
        } else {
            Continuation::None
        };
        Ok(TokenPrompt { ids, continuation })
    }

    /// Which template renders a request, and the set it is in when the request brought it.
    fn template(&self, envelope: &Envelope<'_>, has_tools: bool) -> Result<(Option<Templates>, String), Unscorable> {
        let given: Option<String> = match envelope.chat_template {
            None => None,
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| Unscorable::Shape)?,
        };
        match given {
            None if has_tools && self.templates.format(TOOL_USE).is_some() => Ok((None, TOOL_USE.to_owned())),
            None => Ok((None, DEFAULT.to_owned())),
            Some(name) if self.templates.format(&name).is_some() => Ok((None, name)),
            Some(source) if self.options.trust_request_template && source.len() <= REQUEST_TEMPLATE_BYTES_MAX => {
                let templates = self.templates.with(OF_REQUEST, &source).map_err(|_| Unscorable::Template)?;
                Ok((Some(templates), OF_REQUEST.to_owned()))
            }
            Some(_) => Err(Unscorable::Template),
        }
    }

    /// What a template may ask for beside the conversation; the request's own fields come before its template options.
    fn variables(&self, envelope: &Envelope<'_>) -> Result<Map<String, Value>, Unscorable> {
        let mut variables = self.named_tokens.clone();
        if let Some(raw) = envelope.chat_template_kwargs {
            let given: Option<Map<String, Value>> = serde_json::from_str(raw.get()).map_err(|_| Unscorable::Shape)?;
            variables.extend(given.unwrap_or_default());
        }
        for (name, raw) in [("documents", envelope.documents), ("reasoning_effort", envelope.reasoning_effort)] {
            let value: Value = match raw {
                None => Value::Null,
                Some(raw) => serde_json::from_str(raw.get()).map_err(|_| Unscorable::Shape)?,
            };
            if !value.is_null() {
                variables.insert(name.to_owned(), value);
            }
        }
        // Engines always pass documents, which a template sees as none rather than as undefined.
        variables.entry("documents").or_insert(Value::Null);
        Ok(variables)
    }

    /// The ids of a text: the same whether it is encoded whole or in parts.
    fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, Unscorable> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Unscorable::TooLong);
        }
        match &self.segments {
            Some(segments) if !add_special => segments.encode(text, |part| self.encode_whole(part, false)),
            _ => self.encode_whole(text, add_special),
        }
    }

    fn encode_whole(&self, text: &str, add_special: bool) -> Result<Vec<u32>, Unscorable> {
        let encoding = self.inner.encode_fast(text, add_special).map_err(|_| Unscorable::Tokenizer)?;
        Ok(encoding.get_ids().to_vec())
    }
}

/// Added tokens whose id is not the one in the file: the library closes holes, an engine on another one may not.
fn renumbered(file: &[u8], inner: &tokenizers::Tokenizer) -> Vec<String> {
    let file: Value = serde_json::from_slice(file).unwrap_or_default();
    let added = file.get("added_tokens").and_then(Value::as_array).cloned().unwrap_or_default();
    let wrong = added.iter().filter_map(|token| {
        let (content, id) = (token.get("content")?.as_str()?, token.get("id")?.as_u64()?);
        let loaded = inner.token_to_id(content)?;
        (u64::from(loaded) != id)
            .then(|| format!("its added token {content:?} has id {id} in the file and {loaded} here"))
    });
    wrong.take(5).collect()
}
