//! What a worker answered, gathered from stream deltas or a whole body, and rendered as the next turn will carry it.
//!
//! Reasoning is rendered where the model produced it, before the content. A next turn that does not carry it departs
//! from the chain there, as it does in the engine's cache.

use super::chat;
use super::frame::END;

/// Bytes of answer gathered; the rest of a longer one is not recorded, which is still a prefix of the next turn.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Tool calls gathered from one answer.
const CALLS_MAX: usize = 256;

/// How an answer extends its prompt's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnswerForm {
    /// As an assistant message whose header the prompt already holds.
    Message,
    /// As more content of the prompt's last message (`continue_final_message`).
    Continuation,
    /// As raw text (`/v1/completions`).
    Text,
    /// Not at all: the next turn's rendering cannot be told (`echo`, no generation prompt).
    Opaque,
}

/// One tool call's part of a stream delta; a whole call when it comes from a whole body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallDelta {
    /// Which call of the answer.
    pub index: usize,
    /// Its id, in the delta that opens it.
    pub id: Option<String>,
    /// The function's name or more of it.
    pub name: Option<String>,
    /// More of the arguments' text.
    pub arguments: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// An answer as far as it has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub(super) reasoning: String,
    pub(super) content: String,
    pub(super) calls: Vec<Call>,
    token_ids: Vec<u32>,
    finished: bool,
    bytes: usize,
    full: bool,
}

impl Answer {
    /// Takes more content.
    pub fn content(&mut self, text: &str) {
        if self.take(text.len()) {
            self.content.push_str(text);
        }
    }

    /// Takes ids of tokens that were generated, where the engine says them.
    pub fn token_ids(&mut self, ids: &[u32]) {
        if self.take(size_of_val(ids)) {
            self.token_ids.extend_from_slice(ids);
        }
    }

    /// The ids of what was generated, but for the last: what a token is followed by is computed from it, so nothing of the last
    /// one is cached. Empty when the engine did not say.
    #[must_use]
    pub fn computed_ids(&self) -> &[u32] {
        self.token_ids.split_last().map_or(&[], |(_, computed)| computed)
    }

    /// Takes more reasoning.
    pub fn reasoning(&mut self, text: &str) {
        if self.take(text.len()) {
            self.reasoning.push_str(text);
        }
    }

    /// Takes more of a tool call.
    pub fn tool_call(&mut self, delta: &ToolCallDelta) {
        let texts = [&delta.id, &delta.name, &delta.arguments];
        if delta.index >= CALLS_MAX {
            self.full = true;
        }
        if !self.take(texts.iter().filter_map(|text| text.as_ref()).map(String::len).sum()) {
            return;
        }
        if self.calls.len() <= delta.index {
            self.calls.resize(delta.index + 1, Call::default());
        }
        let call = &mut self.calls[delta.index];
        if let Some(id) = delta.id.as_ref().filter(|id| !id.is_empty()) {
            call.id.clone_from(id);
        }
        call.name.push_str(delta.name.as_deref().unwrap_or_default());
        call.arguments.push_str(delta.arguments.as_deref().unwrap_or_default());
    }

    /// The worker gave a finish reason: the answer is whole.
    pub const fn finish(&mut self) {
        self.finished = true;
    }

    /// Whether the worker gave a finish reason.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether it is content and nothing else.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.reasoning.is_empty() && self.calls.is_empty()
    }

    /// The bytes that extend the prompt's rendering; empty when nothing can be said to be cached.
    #[must_use]
    pub fn render(&self, form: AnswerForm) -> Vec<u8> {
        let mut out = Vec::new();
        match form {
            AnswerForm::Opaque => {}
            AnswerForm::Text => out.extend_from_slice(self.content.as_bytes()),
            AnswerForm::Continuation if !self.reasoning.is_empty() => {}
            AnswerForm::Message | AnswerForm::Continuation => self.render_message(&mut out),
        }
        out
    }

    fn render_message(&self, out: &mut Vec<u8>) {
        chat::reasoning(&self.reasoning, out);
        out.extend_from_slice(self.content.as_bytes());
        for call in &self.calls {
            chat::tool_call(&call.name, &call.arguments, &call.id, out);
        }
        if !self.finished
            && let Some(last) = self.calls.last()
        {
            // An open call has no id yet as the next turn will carry it: end with its arguments.
            out.truncate(out.len() - 1 - last.id.len());
        }
        if self.finished && !self.full {
            out.push(END);
        }
    }

    fn take(&mut self, bytes: usize) -> bool {
        self.full |= self.bytes + bytes > ANSWER_BYTES_MAX;
        if !self.full {
            self.bytes += bytes;
        }
        !self.full
    }
}
