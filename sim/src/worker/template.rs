//! The worker's chat template: messages to text, in the manner of ChatML.
//!
//! Upholds: a turn's text followed by its answer is a prefix of the next turn's text, as long as the client sends the
//! answer back unchanged.
//!
//! Not here: how a gateway renders the same messages for its own keyspace; the two need not agree.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

/// One message as OpenAI's API spells it; fields that do not reach the prompt are ignored.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Message {
    role: String,
    #[serde(default)]
    content: Value,
    name: Option<String>,
    tool_calls: Option<Value>,
    tool_call_id: Option<String>,
}

/// Renders a conversation up to where the answer begins.
///
/// # Errors
/// Names the message whose content has no text form.
pub(super) fn render(messages: &[Message], tools: Option<&Value>) -> Result<String, String> {
    let mut text = String::new();
    if let Some(tools) = tools.filter(|tools| !tools.is_null()) {
        let _ = write!(text, "<|im_start|>tools\n{tools}<|im_end|>\n");
    }
    for (index, message) in messages.iter().enumerate() {
        message.render(&mut text).map_err(|why| format!("messages[{index}].content {why}"))?;
    }
    text.push_str("<|im_start|>assistant\n");
    Ok(text)
}

impl Message {
    fn render(&self, text: &mut String) -> Result<(), String> {
        text.push_str("<|im_start|>");
        text.push_str(&self.role);
        for (label, value) in [("name", &self.name), ("answers", &self.tool_call_id)] {
            if let Some(value) = value {
                let _ = write!(text, " {label}={value}");
            }
        }
        text.push('\n');
        self.push_content(text)?;
        if let Some(calls) = &self.tool_calls {
            let _ = write!(text, "{calls}");
        }
        text.push_str("<|im_end|>\n");
        Ok(())
    }

    fn push_content(&self, text: &mut String) -> Result<(), String> {
        match &self.content {
            Value::Null => Ok(()),
            Value::String(content) => {
                text.push_str(content);
                Ok(())
            }
            Value::Array(parts) => parts.iter().try_for_each(|part| {
                let part = part.get("text").and_then(Value::as_str);
                text.push_str(part.ok_or("has a part that is not text: this model reads text only")?);
                Ok(())
            }),
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                Err("must be a string or a list of text parts".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(json: &str) -> Vec<Message> {
        serde_json::from_str(json).expect("valid messages")
    }

    #[test]
    fn a_turn_and_its_answer_begin_the_next_turn() {
        let one = render(&messages(r#"[{"role":"system","content":"s"},{"role":"user","content":"q"}]"#), None);
        let two = messages(
            r#"[{"role":"system","content":"s"},{"role":"user","content":"q"},
                {"role":"assistant","content":"the answer"},{"role":"tool","tool_call_id":"c1","content":"r"}]"#,
        );
        let two = render(&two, None).expect("text");
        assert!(two.starts_with(&format!("{}the answer", one.expect("text"))));
    }

    #[test]
    fn what_changes_the_prompt_changes_the_text() {
        let plain = render(&messages(r#"[{"role":"user","content":"q"}]"#), None).expect("text");
        let tools = serde_json::json!([{"type": "function"}]);
        assert_ne!(plain, render(&messages(r#"[{"role":"user","content":"q"}]"#), Some(&tools)).expect("text"));
        assert_ne!(plain, render(&messages(r#"[{"role":"user","name":"n","content":"q"}]"#), None).expect("text"));
        assert_eq!(
            plain,
            render(&messages(r#"[{"role":"user","content":[{"type":"text","text":"q"}]}]"#), None).expect("text")
        );
    }

    #[test]
    fn content_without_text_is_named() {
        let image = messages(r#"[{"role":"user","content":"a"},{"role":"user","content":[{"type":"image_url"}]}]"#);
        let why = render(&image, None).expect_err("no text");
        assert!(why.starts_with("messages[1].content has a part that is not text"), "{why}");
    }
}
