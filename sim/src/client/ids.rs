//! One completion of a prompt of token ids, whole.
//!
//! Not here: retries; who sends again decides where to.

use serde_json::{Value, json};

use super::chat::{Client, Failure};

/// What to ask.
#[derive(Clone, Copy, Debug)]
pub struct Ids<'a> {
    /// Model name.
    pub model: &'a str,
    /// The prompt.
    pub prompt: &'a [u32],
    /// Tokens to generate.
    pub answer_tokens: u32,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdsReply {
    /// Ids of the answer's tokens.
    pub answer: Vec<u32>,
    /// Tokens of the prompt that the worker's cache held, as it says.
    pub cached_tokens: u64,
    /// The same as the gateway predicted; `None` when it says nothing, or no gateway was asked.
    pub predicted_tokens: Option<u64>,
    /// Which worker answered, as the gateway says.
    pub worker: Option<String>,
}

impl Client {
    /// Sends ids to `base` (`http://host:port`) and waits for the whole answer.
    ///
    /// # Errors
    /// When there is no whole answer with ids and usage.
    pub async fn complete(&self, base: &str, ids: Ids<'_>) -> Result<IdsReply, Failure> {
        let body = json!({"model": ids.model, "prompt": ids.prompt, "max_tokens": ids.answer_tokens});
        let (text, header) = self.post_json(&format!("{base}/v1/completions"), &body).await?;
        let wrong = || Failure::Wrong(format!("an answer without ids or usage: {text}"));
        let answer: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
        let cached = &answer["usage"]["prompt_tokens_details"]["cached_tokens"];
        Ok(IdsReply {
            answer: serde_json::from_value(answer["choices"][0]["token_ids"].clone()).map_err(|_| wrong())?,
            cached_tokens: cached.as_u64().ok_or_else(wrong)?,
            predicted_tokens: header("x-covey-predicted-tokens").and_then(|tokens| tokens.parse().ok()),
            worker: header("x-covey-worker"),
        })
    }
}
