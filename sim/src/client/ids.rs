//! One streamed completion of a prompt of token ids.
//!
//! Not here: retries; who sends again decides where to.

use serde_json::json;

use super::chat::{Client, Failure, data_of, header, next_bytes};
use super::sse::Events;

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
    /// Sends ids to `base` (`http://host:port`) and reads the stream to its end.
    ///
    /// # Errors
    /// When there is no whole answer with ids and usage.
    pub async fn complete(&self, base: &str, ids: Ids<'_>) -> Result<IdsReply, Failure> {
        let body = json!({
            "model": ids.model,
            "prompt": ids.prompt,
            "max_tokens": ids.answer_tokens,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        let mut response = self.open(&format!("{base}/v1/completions"), &body).await?;
        let (mut events, mut answer, mut cached, mut done) = (Events::default(), Vec::new(), None, false);
        while let Some(bytes) = next_bytes(&mut response).await? {
            events.push(&bytes).map_err(Failure::Wrong)?;
            while let Some(data) = events.next() {
                let Some(chunk) = data_of(&data)? else {
                    done = true;
                    continue;
                };
                answer.extend(
                    serde_json::from_value::<Vec<u32>>(chunk["choices"][0]["token_ids"].clone()).unwrap_or_default(),
                );
                cached = cached.or_else(|| chunk["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64());
            }
        }
        if !done || answer.len() != ids.answer_tokens as usize {
            return Err(Failure::Cut(format!("{} of {} ids, then the end", answer.len(), ids.answer_tokens)));
        }
        let header = |name| header(response.headers(), name);
        Ok(IdsReply {
            answer,
            cached_tokens: cached.ok_or_else(|| Failure::Wrong("no usage".to_owned()))?,
            predicted_tokens: header("x-covey-predicted-tokens").and_then(|tokens| tokens.parse().ok()),
            worker: header("x-covey-worker"),
        })
    }
}
