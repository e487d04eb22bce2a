//! Messages and tools as the engine hands them to a template, after vLLM's `parse_chat_messages`: content flattened to
//! one string or spread into parts, the arguments of tool calls parsed, fields in the order of its request types.
//!
//! Not here: rendering (`template`). What vLLM refuses, or turns into something other than text, is refused here too.

use serde_json::{Map, Value, json};

use super::content_format::ContentFormat;
use crate::tokens::Unscorable;

/// The conversation of a request's `messages`.
pub(super) fn conversation(raw: &str, format: ContentFormat) -> Result<Vec<Value>, Unscorable> {
    let messages: Vec<Map<String, Value>> = serde_json::from_str(raw).map_err(|_| Unscorable::Shape)?;
    if messages.is_empty() {
        return Err(Unscorable::Shape);
    }
    messages.into_iter().map(|message| one(message, format)).collect()
}

fn one(mut message: Map<String, Value>, format: ContentFormat) -> Result<Value, Unscorable> {
    let role = message.get("role").and_then(Value::as_str).ok_or(Unscorable::Shape)?.to_owned();
    let texts = texts(message.remove("content"))?;
    let content = match format {
        ContentFormat::Text => Value::String(texts.join("\n")),
        ContentFormat::Parts => texts.into_iter().map(|text| json!({"type": "text", "text": text})).collect(),
    };
    let mut out = Map::new();
    out.insert("role".to_owned(), Value::String(role.clone()));
    out.insert("content".to_owned(), content);
    if role == "assistant" {
        assistant(&mut message, &mut out)?;
    }
    let mut pass = |key: &str| {
        if let Some(value @ Value::String(_)) = message.remove(key) {
            out.insert(key.to_owned(), value);
        }
    };
    if role == "tool" {
        pass("tool_call_id");
    }
    pass("name");
    if role == "developer"
        && let Some(tools @ Value::Array(_)) = message.remove("tools")
    {
        out.insert("tools".to_owned(), tools);
    }
    Ok(Value::Object(out))
}

/// What only the model's own messages carry.
fn assistant(message: &mut Map<String, Value>, out: &mut Map<String, Value>) -> Result<(), Unscorable> {
    match message.remove("tool_calls") {
        Some(Value::Array(calls)) if !calls.is_empty() => {
            let calls: Result<Vec<Value>, Unscorable> = calls.into_iter().map(tool_call).collect();
            out.insert("tool_calls".to_owned(), Value::Array(calls?));
        }
        Some(Value::Array(_) | Value::Null) | None => {}
        Some(_) => return Err(Unscorable::Shape),
    }
    let reasoning = message.remove("reasoning").filter(|text| !text.is_null());
    let reasoning = reasoning.or_else(|| message.remove("reasoning_content")).filter(|text| !text.is_null());
    if let Some(reasoning) = reasoning {
        if !reasoning.is_string() {
            return Err(Unscorable::Shape);
        }
        for name in ["reasoning", "reasoning_content", "thinking"] {
            out.insert(name.to_owned(), reasoning.clone());
        }
    }
    Ok(())
}

/// The texts of a content in any of its wire shapes.
fn texts(content: Option<Value>) -> Result<Vec<String>, Unscorable> {
    match content {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(parts)) => parts.into_iter().map(part).collect(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Err(Unscorable::Shape),
    }
}

fn part(part: Value) -> Result<String, Unscorable> {
    let mut part = match part {
        Value::String(text) => return Ok(text),
        Value::Object(part) => part,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return Err(Unscorable::Shape),
    };
    let key = match part.get("type").and_then(Value::as_str) {
        Some("text" | "input_text" | "output_text") => "text",
        Some("refusal") => "refusal",
        Some("thinking") => "thinking",
        Some(_) => return Err(Unscorable::Multimodal),
        None => return Err(Unscorable::Shape),
    };
    match part.remove(key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Unscorable::Shape),
    }
}

/// A call in the order of the API's types, which a template that writes the whole call as JSON shows.
fn tool_call(call: Value) -> Result<Value, Unscorable> {
    let Value::Object(mut call) = call else { return Err(Unscorable::Shape) };
    let Some(Value::Object(mut function)) = call.remove("function") else { return Err(Unscorable::Shape) };
    let arguments = match function.remove("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(Value::String(text)) if text.is_empty() => Value::Object(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(&text).map_err(|_| Unscorable::Shape)?,
        Some(parsed) => parsed,
    };
    function.insert("arguments".to_owned(), arguments);
    call.insert("function".to_owned(), Value::Object(ordered(function, &["arguments", "name"])));
    Ok(Value::Object(ordered(call, &["id", "function", "type"])))
}

/// The tools of a request: what is left out of a function is there as `null`.
pub(super) fn tools(raw: &str) -> Result<Option<Vec<Value>>, Unscorable> {
    let tools: Option<Vec<Map<String, Value>>> = serde_json::from_str(raw).map_err(|_| Unscorable::Shape)?;
    let one = |mut tool: Map<String, Value>| {
        let Some(Value::Object(mut function)) = tool.remove("function") else { return Err(Unscorable::Shape) };
        for optional in ["description", "parameters"] {
            function.entry(optional).or_insert(Value::Null);
        }
        let function = ordered(function, &["name", "description", "parameters"]);
        tool.entry("type").or_insert_with(|| "function".into());
        tool.insert("function".to_owned(), Value::Object(function));
        Ok(Value::Object(ordered(tool, &["type", "function"])))
    };
    tools.map(|tools| tools.into_iter().map(one).collect()).transpose()
}

/// The fields named first, in that order, then the rest as it came.
fn ordered(mut of: Map<String, Value>, first: &[&str]) -> Map<String, Value> {
    let mut out = Map::new();
    for name in first {
        if let Some(value) = of.shift_remove(*name) {
            out.insert((*name).to_owned(), value);
        }
    }
    out.extend(of);
    out
}
