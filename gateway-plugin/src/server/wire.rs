//! What a worker's answer says: stream events and whole bodies of both APIs, read leniently.
//!
//! Only the first choice is followed: the next turn can carry one answer, and it is the first unless a client says
//! otherwise.

use serde::Deserialize;
use serde_json::Value;

use crate::tokens::{Answer, ToolCallDelta};

/// Token counts as the worker reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt_tokens: u64,
    /// `None` when the worker does not say.
    pub(super) cached_tokens: Option<u64>,
}

/// What one event or body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Part of an answer, or all of it.
    Part { usage: Option<Usage> },
    /// The end of the stream.
    Done,
    /// The worker reports an error.
    Error,
    /// Not what the API promises.
    Nonsense,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    text: Option<String>,
    /// With `return_token_ids`: the ids of what was generated.
    #[serde(default)]
    token_ids: Option<Vec<u32>>,
    #[serde(default)]
    finish_reason: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

/// Reads one event's data or one whole body, adding what it says to `answer`.
pub(super) fn read(data: &[u8], answer: &mut Answer) -> Message {
    if data.trim_ascii() == b"[DONE]" {
        return Message::Done;
    }
    let Ok(chunk) = serde_json::from_slice::<Chunk>(data) else { return Message::Nonsense };
    if chunk.error.is_some_and(|error| !error.is_null()) {
        return Message::Error;
    }
    let usage = chunk.usage.map(|usage| Usage {
        prompt_tokens: usage.prompt_tokens.unwrap_or_default(),
        cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens),
    });
    let Some(choices) = chunk.choices else {
        return if usage.is_some() { Message::Part { usage } } else { Message::Nonsense };
    };
    for choice in choices.into_iter().filter(|choice| choice.index.unwrap_or_default() == 0) {
        take(choice, answer);
    }
    Message::Part { usage }
}

fn take(choice: Choice, answer: &mut Answer) {
    if let Some(delta) = choice.delta {
        answer.reasoning(delta.reasoning_content.or(delta.reasoning).as_deref().unwrap_or_default());
        answer.content(delta.content.as_deref().unwrap_or_default());
        for (at, call) in delta.tool_calls.into_iter().flatten().enumerate() {
            let (name, arguments) = call.function.map_or((None, None), |function| (function.name, function.arguments));
            answer.tool_call(&ToolCallDelta { index: call.index.unwrap_or(at), id: call.id, name, arguments });
        }
    }
    answer.content(choice.text.as_deref().unwrap_or_default());
    answer.token_ids(choice.token_ids.as_deref().unwrap_or_default());
    if choice.finish_reason.is_some_and(|reason| !reason.is_null()) {
        answer.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::AnswerForm;

    fn gather(events: &[&str]) -> (Vec<u8>, Vec<Message>) {
        let mut answer = Answer::default();
        let messages = events.iter().map(|event| read(event.as_bytes(), &mut answer)).collect();
        (answer.render(AnswerForm::Message), messages)
    }

    #[test]
    fn deltas_and_a_whole_body_give_the_same_answer() {
        let (streamed, messages) = gather(&[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"Hel"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            "[DONE]",
        ]);
        let (whole, _) = gather(&[
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello","tool_calls":[{"id":"c1","type":"function",
            "function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9}}"#,
        ]);
        assert_eq!(streamed, whole);
        assert_eq!(streamed, b"Hello\xF9f\xF8{\"a\":1}\xF7c1\xFD");
        assert_eq!(messages[7], Message::Part { usage: Some(Usage { prompt_tokens: 9, cached_tokens: Some(4) }) });
        assert_eq!(messages[8], Message::Done);
    }

    #[test]
    fn completions_carry_text() {
        let mut answer = Answer::default();
        read(br#"{"choices":[{"index":0,"text":" wor"}]}"#, &mut answer);
        read(br#"{"choices":[{"index":0,"text":"ld","finish_reason":"stop"}]}"#, &mut answer);
        assert_eq!(answer.render(AnswerForm::Text), b" world");
    }

    #[test]
    fn nonsense_and_errors_are_told_apart() {
        let (_, messages) = gather(&["<html>", "{}", "[1]", "", r#"{"error":{"message":"oom"}}"#, r#"{"choices":3}"#]);
        assert_eq!(messages[..4], [Message::Nonsense; 4]);
        assert_eq!(messages[4..], [Message::Error, Message::Nonsense]);
    }
}
