//! Chat messages, tools and template options to bytes.
//!
//! Fields that no template renders (`refusal`, `annotations`, `audio`, …) are left out: clients echo them or drop them
//! as they like.

use serde::Deserialize;
use serde_json::Value;

use super::content::Content;
use super::frame::{self, field};

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Message {
    role: String,
    #[serde(default)]
    content: Content,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ToolCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default, alias = "custom")]
    function: Option<Function>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default, alias = "input")]
    arguments: Option<Value>,
}

/// Renders one message without its end.
pub(super) fn open_message(message: &Message, out: &mut Vec<u8>) {
    field(out, frame::MESSAGE, &message.role);
    out.push(frame::BODY);
    reasoning(message.reasoning_content.as_ref().or(message.reasoning.as_ref()).map_or("", String::as_str), out);
    message.content.render(out);
    for call in message.tool_calls.iter().flatten() {
        let function = call.function.clone().unwrap_or_default();
        let arguments = match function.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(json) => json.to_string(),
        };
        tool_call(
            function.name.as_deref().unwrap_or_default(),
            &arguments,
            call.id.as_deref().unwrap_or_default(),
            out,
        );
    }
    if let Some(name) = message.name.as_deref().filter(|name| !name.is_empty()) {
        field(out, frame::NAME, name);
    }
    if let Some(id) = message.tool_call_id.as_deref().filter(|id| !id.is_empty()) {
        field(out, frame::ANSWERS, id);
    }
}

/// Renders the header that opens the assistant's answer.
pub(super) fn open_answer(out: &mut Vec<u8>) {
    field(out, frame::MESSAGE, "assistant");
    out.push(frame::BODY);
}

pub(super) fn reasoning(text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        field(out, frame::REASONING, text);
        out.push(frame::BODY);
    }
}

pub(super) fn tool_call(name: &str, arguments: &str, id: &str, out: &mut Vec<u8>) {
    field(out, frame::CALL, name);
    field(out, frame::ARGUMENTS, arguments);
    field(out, frame::CALL_ID, id);
}
