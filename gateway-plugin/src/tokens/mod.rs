//! From an OpenAI request to the bytes that the byte keyspace names: one canonical rendering of chat messages, prompts
//! and answers. With feature `tokens`, to the engine's own token ids (`tokenizer`).
//!
//! The law it upholds: the rendering of turn *n* plus the answer it got is a byte prefix of the rendering of turn
//! *n + 1*, which carries that answer. The rendering is injective up to what no chat template tells apart (missing,
//! `null` and empty content; a string and its single text part). Text is kept as it is, so 4 bytes stay about a token
//! (ruling R12).
//!
//! Not here: hashing (`covey-crdt`), reading the answer off the wire (`server`).

mod answer;
mod block_sizes;
mod chat;
mod content;
mod envelope;
mod frame;
#[cfg(test)]
mod tests;
#[cfg(feature = "tokens")]
mod tokenizer;

pub use answer::{ANSWER_BYTES_MAX, Answer, AnswerForm, ToolCallDelta};
pub use block_sizes::{BlockSize, BlockSizes, Learned};
pub use envelope::{Api, Envelope, ParseBody};
#[cfg(feature = "tokens")]
pub use tokenizer::{Continuation, LoadTokenizer, TokenPrompt, Tokenizer, TokenizerOptions};

/// A prompt as the byte keyspace sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The rendering, the opening of the answer included.
    pub bytes: Vec<u8>,
    /// Keeps prompts apart whose cache entries the engine keeps apart (`cache_salt`); empty for none. The model or
    /// adapter is not in it: it names the keyspace.
    pub salt: Vec<u8>,
    /// How an answer extends the bytes.
    pub form: AnswerForm,
}

/// Why a request has no bytes, or no token ids, in a keyspace. It is forwarded all the same, and routed on load when it has
/// neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unscorable {
    /// The prompt is token ids, which have no bytes: their text is the tokenizer's secret.
    TokenIds,
    /// Several prompts in one request: there is no one prefix.
    Batch,
    /// Something other than text is part of the prompt: which tokens it becomes is the engine's secret.
    Multimodal,
    /// There is no chat template for it, the template refuses the conversation, or the request brings one of its own.
    Template,
    /// The engine is asked to keep only a part of the prompt.
    Truncated,
    /// It is longer than any model's context: encoding it would only cost.
    TooLong,
    /// The tokenizer cannot encode it.
    Tokenizer,
    /// The model has no tokenizer here.
    NoTokenizer,
    /// The prompt or the messages are missing or of a shape that this build does not know.
    Shape,
}

impl Unscorable {
    /// How many there are.
    pub const COUNT: usize = 9;

    /// Every reason, in the order of its discriminant.
    pub const ALL: [Self; Self::COUNT] = [
        Self::TokenIds,
        Self::Batch,
        Self::Multimodal,
        Self::Template,
        Self::Truncated,
        Self::TooLong,
        Self::Tokenizer,
        Self::NoTokenizer,
        Self::Shape,
    ];

    /// The word for it in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenIds => "token_ids",
            Self::Batch => "batch",
            Self::Multimodal => "multimodal",
            Self::Template => "template",
            Self::Truncated => "truncated",
            Self::TooLong => "too_long",
            Self::Tokenizer => "tokenizer",
            Self::NoTokenizer => "no_tokenizer",
            Self::Shape => "shape",
        }
    }
}
