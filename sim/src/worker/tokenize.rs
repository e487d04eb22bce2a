//! How texts become tokens.
//!
//! Not here: chat templates (`template`), what tokens are to the cache (`engine`).

use crate::engine::{text_tokens, tokens_in};

/// A prompt and the answer to it, as ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) prompt: Vec<u32>,
    pub(super) answer: Vec<u32>,
}

/// Turns texts into the ids of their tokens.
pub(super) trait Tokenize: Send + Sync {
    /// A prompt and its answer.
    fn text(&self, prompt: &str, answer: &str) -> Tokens;

    /// An answer to a prompt that came as ids.
    fn answer(&self, answer: &str) -> Vec<u32>;
}

/// Four bytes of UTF-8 are a token (ruling R12). Prompt and answer are cut as one text, so that an answer that the client
/// sends back in its next prompt is cut as it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct FourBytes;

impl Tokenize for FourBytes {
    fn text(&self, prompt: &str, answer: &str) -> Tokens {
        let mut all = text_tokens(&[prompt.as_bytes(), answer.as_bytes()].concat());
        let answer = all.split_off(tokens_in(prompt.len()) as usize);
        Tokens { prompt: all, answer }
    }

    fn answer(&self, answer: &str) -> Vec<u32> {
        text_tokens(answer.as_bytes())
    }
}
