//! The prefix law over random conversations, and that no two conversations share a rendering.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn prompt(body: &Value, api: Api) -> Result<Prompt, Unscorable> {
    let bytes = serde_json::to_vec(body).expect("a value serializes");
    Envelope::parse(&bytes).expect("a request").prompt(api)
}

fn chat(messages: &[Value]) -> Prompt {
    prompt(&json!({"model": "m", "messages": messages}), Api::Chat).expect("scorable")
}

#[derive(Clone, Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// One exchange: what the client says, what the worker answers, and how the client echoes it.
#[derive(Clone, Debug)]
struct Turn {
    said: Vec<Value>,
    reasoning: String,
    content: String,
    calls: Vec<Call>,
    pieces: usize,
    null_content: bool,
    as_part: bool,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z ]{1,20}",
        "\\PC{0,12}",
        any::<String>(),
        Just("\u{0}\u{1}\u{7f}\u{80}\u{10ffff}assistant\n".to_owned()),
    ]
}

fn said() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|t| json!({"role": "user", "content": t})),
        text().prop_map(
            |t| json!({"role": "system", "content": [{"type": "text", "text": t}, {"type": "text", "text": "b"}]})
        ),
        (text(), text()).prop_map(|(t, id)| json!({"role": "tool", "content": t, "tool_call_id": id})),
        (text(), text()).prop_map(|(t, name)| json!({"role": "user", "name": name, "content": t, "refusal": null})),
        text().prop_map(|u| json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": u}}]})),
        Just(json!({"role": "user"})),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let call = (text(), text(), text()).prop_map(|(id, name, arguments)| Call { id, name, arguments });
    (
        prop::collection::vec(said(), 1..4),
        prop_oneof![Just(String::new()), text()],
        text(),
        prop::collection::vec(call, 0..3),
        1..6usize,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(said, reasoning, content, calls, pieces, null_content, as_part)| Turn {
            said,
            reasoning,
            content,
            calls,
            pieces,
            null_content,
            as_part,
        })
}

fn pieces(text: &str, count: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(chars.len().div_ceil(count).max(1)).map(|chunk| chunk.iter().collect()).collect()
}

impl Turn {
    /// The answer as a stream delivers it.
    fn streamed(&self) -> Answer {
        let mut answer = Answer::default();
        pieces(&self.reasoning, self.pieces).iter().for_each(|piece| answer.reasoning(piece));
        pieces(&self.content, self.pieces).iter().for_each(|piece| answer.content(piece));
        for (index, call) in self.calls.iter().enumerate() {
            let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
            answer.tool_call(&ToolCallDelta { index, id, name, arguments: None });
            for piece in pieces(&call.arguments, self.pieces) {
                answer.tool_call(&ToolCallDelta { index, id: None, name: None, arguments: Some(piece) });
            }
        }
        answer.finish();
        answer
    }

    /// The answer as the next turn carries it.
    fn echoed(&self) -> Value {
        let calls: Vec<Value> = self
            .calls
            .iter()
            .map(|c| json!({"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}))
            .collect();
        let content = match (self.content.is_empty() && self.null_content, self.as_part) {
            (true, _) => Value::Null,
            (false, true) => json!([{"type": "text", "text": self.content}]),
            (false, false) => json!(self.content),
        };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        if !calls.is_empty() || self.null_content {
            message["tool_calls"] = if calls.is_empty() { Value::Null } else { json!(calls) };
        }
        message
    }
}

/// The rendering taken apart again: fields of messages, in order.
fn parse_back(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut fields: Vec<(u8, Vec<u8>)> = Vec::new();
    for byte in bytes {
        if matches!(byte, 0xC0 | 0xC1 | 0xF5..=0xFF) {
            fields.push((*byte, Vec::new()));
        } else {
            fields.last_mut().expect("a rendering opens with a frame").1.push(*byte);
        }
    }
    fields
}

/// What a conversation says, written down without the renderer: fields as `parse_back` finds them.
fn fields_of(message: &Value) -> Vec<(u8, Vec<u8>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().as_bytes().to_vec();
    let mut fields = vec![(0xFF, text(&message["role"])), (0xFE, Vec::new())];
    match &message["content"] {
        Value::Array(parts) => {
            for (i, part) in parts.iter().enumerate() {
                if i > 0 {
                    fields.push((0xFC, Vec::new()));
                }
                match part["text"].as_str() {
                    Some(_) => fields.last_mut().expect("a body").1.extend(text(&part["text"])),
                    None => fields.push((0xFB, Vec::new())),
                }
            }
        }
        Value::String(text) => fields.last_mut().expect("a body").1.extend(text.as_bytes()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
    for (tag, key) in [(0xF6, "name"), (0xF5, "tool_call_id")] {
        if message[key].as_str().is_some_and(|value| !value.is_empty()) {
            fields.push((tag, text(&message[key])));
        }
    }
    fields.push((0xFD, Vec::new()));
    fields
}

proptest! {
    #[test]
    fn a_turn_and_its_answer_are_a_prefix_of_the_next_turn(turns in prop::collection::vec(turn(), 1..6)) {
        let mut messages = Vec::new();
        let mut before: Vec<u8> = Vec::new();
        for turn in &turns {
            messages.extend(turn.said.iter().cloned());
            let prompt = chat(&messages);
            prop_assert!(prompt.bytes.starts_with(&before));
            before = prompt.bytes.clone();
            before.extend(turn.streamed().render(prompt.form));
            messages.push(turn.echoed());
        }
        prop_assert!(chat(&messages).bytes.starts_with(&before));
    }

    #[test]
    fn an_aborted_answer_is_a_prefix_of_what_it_would_have_been(turn in turn(), take in 0..8usize) {
        let mut whole = chat(&turn.said).bytes;
        whole.extend(turn.streamed().render(AnswerForm::Message));
        let mut answer = Answer::default();
        answer.reasoning(&turn.reasoning);
        pieces(&turn.content, 4).iter().take(take).for_each(|piece| answer.content(piece));
        if take > 4 {
            for (index, call) in turn.calls.iter().enumerate().take(take - 4) {
                let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
                answer.tool_call(&ToolCallDelta { index, id, name, arguments: Some(call.arguments.clone()) });
            }
        }
        let mut part = chat(&turn.said).bytes;
        part.extend(answer.render(AnswerForm::Message));
        prop_assert!(whole.starts_with(&part));
    }

    #[test]
    fn a_rendering_can_be_taken_apart_again(said in prop::collection::vec(said(), 1..6)) {
        let mut found = parse_back(&chat(&said).bytes);
        for field in &mut found {
            if field.0 == 0xFB {
                field.1.clear();
            }
        }
        let mut expected: Vec<_> = said.iter().flat_map(fields_of).collect();
        expected.extend([(0xFF, b"assistant".to_vec()), (0xFE, Vec::new())]);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_completion_extends_its_prompt(prompt_text in text(), answer_text in text()) {
        let first = prompt(&json!({"prompt": prompt_text}), Api::Completions).expect("scorable");
        let mut answer = Answer::default();
        answer.content(&answer_text);
        answer.finish();
        let mut before = first.bytes.clone();
        before.extend(answer.render(first.form));
        let next = prompt(&json!({"prompt": format!("{prompt_text}{answer_text} more")}), Api::Completions);
        prop_assert!(next.expect("scorable").bytes.starts_with(&before));
    }
}

#[test]
fn text_keeps_its_bytes() {
    let bytes = chat(&[json!({"role": "user", "content": "h\u{e9}llo \u{1F600}"})]).bytes;
    assert_eq!(bytes, [b"\xFFuser\xFEh\xC3\xA9llo \xF0\x9F\x98\x80\xFD".as_slice(), b"\xFFassistant\xFE"].concat());
}

#[test]
fn tools_and_template_options_precede_the_messages_whatever_their_white_space() {
    let spaced = br#"{"messages":[{"role":"user","content":"x"}],"tools":[ {"b": 1,  "a": 2} ]}"#;
    let tight = br#"{"messages":[{"role":"user","content":"x"}],"tools":[{"b":1,"a":2}]}"#;
    let render = |body: &[u8]| Envelope::parse(body).expect("parses").prompt(Api::Chat).expect("scorable").bytes;
    assert_eq!(render(spaced), render(tight));
    assert!(render(tight).starts_with(b"\xC1[{\"b\":1,\"a\":2}]\xFFuser\xFE"));
    let without = br#"{"messages":[{"role":"user","content":"x"}],"tools":[]}"#;
    assert!(render(without).starts_with(b"\xFFuser"));
    let thinking = br#"{"messages":[],"chat_template_kwargs":{"enable_thinking":false}}"#;
    assert!(render(thinking).starts_with(b"\xC0\xC0{\"enable_thinking\":false}\xC0"));
}

#[test]
fn a_continued_message_stays_open_and_reasoning_cannot_extend_it() {
    let body = json!({"messages": [{"role": "assistant", "content": "Once"}], "continue_final_message": true});
    let open = prompt(&body, Api::Chat).expect("scorable");
    assert_eq!((open.bytes.as_slice(), open.form), (b"\xFFassistant\xFEOnce".as_slice(), AnswerForm::Continuation));
    let mut answer = Answer::default();
    answer.content(" upon");
    answer.finish();
    assert_eq!(answer.render(open.form), b" upon\xFD");
    answer.reasoning("hm");
    assert!(answer.render(open.form).is_empty());
}

#[test]
fn what_has_no_bytes_is_named() {
    let of = |body: Value| prompt(&body, Api::Completions).map(|_| ());
    assert_eq!(of(json!({"prompt": [1, 2, 3]})), Err(Unscorable::TokenIds));
    assert_eq!(of(json!({"prompt": [[1]]})), Err(Unscorable::TokenIds));
    assert_eq!(of(json!({"prompt": [[1], [2]]})), Err(Unscorable::Batch));
    assert_eq!(of(json!({"prompt": ["a", "b"]})), Err(Unscorable::Batch));
    assert_eq!(of(json!({"prompt": {"a": 1}})), Err(Unscorable::Shape));
    assert_eq!(of(json!({"prompt": []})), Err(Unscorable::Shape));
    assert_eq!(of(json!({})), Err(Unscorable::Shape));
    assert_eq!(of(json!({"prompt": ["only"]})), Ok(()));
    assert_eq!(prompt(&json!({"messages": "hi"}), Api::Chat), Err(Unscorable::Shape));
    assert!(Envelope::parse(b"[1]").is_err());
    assert!(Envelope::parse(b"{\"model\": 3}").is_err());
}

#[test]
fn an_answer_beyond_its_bound_is_cut_to_a_prefix() {
    let mut answer = Answer::default();
    answer.content("short");
    answer.content(&"x".repeat(ANSWER_BYTES_MAX));
    answer.content("late");
    answer.tool_call(&ToolCallDelta { index: usize::MAX, ..ToolCallDelta::default() });
    answer.finish();
    assert_eq!(answer.render(AnswerForm::Message), b"short");
}
