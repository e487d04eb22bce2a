//! How texts become tokens.
//!
//! Not here: chat templates (`template`), what tokens are to the cache (`engine`).

use std::path::Path;

use covey_gateway_plugin::tokens::{Api, Envelope, Tokenizer, TokenizerOptions};
use serde_json::json;

use super::answer::Answer;
use super::ask::Route;
use crate::engine::{text_tokens, tokens_in};

/// A prompt and the answer to it, as ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) prompt: Vec<u32>,
    pub(super) answer: Vec<u32>,
}

/// Turns texts into the ids of their tokens.
pub(super) trait Tokenize: Send + Sync {
    /// A prompt and its answer. `body` is the request, `prompt` its text as `template` renders it.
    ///
    /// # Errors
    /// Says why the prompt has no ids.
    fn text(&self, route: Route, body: &[u8], prompt: &str, answer: &str) -> Result<Tokens, String>;

    /// An answer to a prompt that came as ids.
    fn answer(&self, answer: &str) -> Vec<u32>;

    /// The answer, cut so that it has no more tokens than this; answers come with four bytes a token.
    fn fit(&self, answer: Answer, tokens_max: u32) -> Answer;
}

/// Four bytes of UTF-8 are a token (ruling R12). Prompt and answer are cut as one text, so that an answer that the client
/// sends back in its next prompt is cut as it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct FourBytes;

impl Tokenize for FourBytes {
    fn text(&self, _: Route, _: &[u8], prompt: &str, answer: &str) -> Result<Tokens, String> {
        let mut all = text_tokens(&[prompt.as_bytes(), answer.as_bytes()].concat());
        let answer = all.split_off(tokens_in(prompt.len()) as usize);
        Ok(Tokens { prompt: all, answer })
    }

    fn answer(&self, answer: &str) -> Vec<u32> {
        text_tokens(answer.as_bytes())
    }

    fn fit(&self, answer: Answer, _: u32) -> Answer {
        answer
    }
}

/// As a model's tokenizer and chat template have it: the code that gateways predict with, so what they disagree about is
/// caches, never tokens.
pub(super) struct Model(Tokenizer);

impl Model {
    /// Loads a `tokenizer.json`, or the directory with one.
    ///
    /// # Errors
    /// Names the file that is missing or wrong, and the flag.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let loaded = Tokenizer::load(path, TokenizerOptions::default());
        loaded.map(Self).map_err(|why| format!("--tokenizer: {why}"))
    }

    fn ids(&self, body: &[u8], api: Api) -> Result<Vec<u32>, String> {
        let envelope = Envelope::parse(body).map_err(|why| why.to_string())?;
        let prompt = self.0.prompt(&envelope, api);
        prompt.map(|prompt| prompt.ids).map_err(|why| format!("the prompt has no token ids here: {}", why.name()))
    }
}

impl Tokenize for Model {
    fn text(&self, route: Route, body: &[u8], _: &str, answer: &str) -> Result<Tokens, String> {
        let api = match route {
            Route::Chat => Api::Chat,
            Route::Text => Api::Completions,
        };
        Ok(Tokens { prompt: self.ids(body, api)?, answer: self.answer(answer) })
    }

    fn answer(&self, answer: &str) -> Vec<u32> {
        let body = json!({"prompt": answer, "add_special_tokens": false}).to_string();
        self.ids(body.as_bytes(), Api::Completions).unwrap_or_default()
    }

    fn fit(&self, mut answer: Answer, tokens_max: u32) -> Answer {
        let tokens_max = tokens_max as usize;
        loop {
            let tokens = self.answer(&answer.text).len();
            if tokens <= tokens_max {
                return answer;
            }
            let most = (answer.text.len() * tokens_max / tokens).min(answer.text.len() - 1);
            answer.text.truncate(answer.text.floor_char_boundary(most));
            answer.finish_reason = "length";
        }
    }
}
