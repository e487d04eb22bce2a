//! What an answer adds to its prompt's token ids, as the next turn will carry it.
//!
//! **What is exact.** The engine holds the prompt's ids and the ids it sampled; the next turn is encoded anew. For an answer
//! of plain content, only ids that both agree on are claimed. For one with reasoning or tool calls the sampled text is not
//! known, only what the engine's parsers made of it: what the template renders is claimed, up to the end of the turn, when
//! it continues the prompt and shows the reasoning; a template that drops reasoning claims nothing past the prompt. Engines'
//! events correct either. The end-of-turn token is never claimed: nothing is computed for the last token sampled.
//!
//! Not here: naming blocks, publishing.

use serde_json::{Map, Value, json};

use super::content_format::ContentFormat;
use super::{TokenPrompt, Tokenizer};
use crate::tokens::Answer;

/// How an answer goes on from a prompt.
#[derive(Clone, Debug)]
pub enum Continuation {
    /// Not in a way that could be told.
    None,
    /// As more ids behind a prompt of ids: right if the client sends back what its text encodes to.
    Ids,
    /// As more of the prompt's text.
    Text {
        /// The prompt.
        text: String,
        /// Whether it was encoded with special tokens of the tokenizer's own.
        add_special: bool,
    },
    /// As the next message of a conversation.
    Chat(Box<Turn>),
}

/// A conversation up to the answer.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(super) text: String,
    pub(super) add_special: bool,
    pub(super) name: String,
    pub(super) format: ContentFormat,
    pub(super) variables: Map<String, Value>,
}

impl Tokenizer {
    /// The ids of a prompt and its answer that the next turn has too; the prompt's alone when no more can be told. Costs a
    /// rendering and the encoding of what is new.
    #[must_use]
    pub fn continued(&self, prompt: &TokenPrompt, answer: &Answer) -> Vec<u32> {
        let more = match &prompt.continuation {
            Continuation::None => None,
            Continuation::Ids => {
                let sampled = self.encode(&answer.content, false).unwrap_or_default();
                return [prompt.ids.as_slice(), &sampled].concat();
            }
            Continuation::Text { text, add_special } if answer.is_plain() => {
                let whole = format!("{text}{}", answer.content);
                self.agreed(prompt, &answer.content, &whole, *add_special)
            }
            Continuation::Text { .. } => None,
            Continuation::Chat(turn) => self.next_turn(prompt, turn, answer),
        };
        more.unwrap_or_else(|| prompt.ids.clone())
    }

    /// The ids of `whole` as far as the engine's agree: the prompt's, then what the answer's text encodes to.
    fn agreed(&self, prompt: &TokenPrompt, sampled: &str, whole: &str, add_special: bool) -> Option<Vec<u32>> {
        let mut next = self.encode(whole, add_special).ok()?;
        let engine = prompt.ids.iter().copied().chain(self.encode(sampled, false).ok()?);
        let agreed = next.iter().zip(engine).take_while(|(next, engine)| *next == engine).count();
        next.truncate(agreed);
        (next.len() > prompt.ids.len()).then_some(next)
    }

    fn next_turn(&self, prompt: &TokenPrompt, turn: &Turn, answer: &Answer) -> Option<Vec<u32>> {
        let rendered = self.render_next(turn, answer)?;
        let tail = rendered.strip_prefix(&turn.text)?;
        let end = self.end_of_answer(tail, answer)?;
        let whole = &rendered[..turn.text.len() + end];
        if answer.is_plain() {
            return self.agreed(prompt, &answer.content, whole, turn.add_special);
        }
        self.encode(whole, turn.add_special).ok()
    }

    /// The conversation with the answer and whatever comes next, because templates treat the last message specially.
    fn render_next(&self, turn: &Turn, answer: &Answer) -> Option<String> {
        let content = |text: &str| match turn.format {
            ContentFormat::Text => json!(text),
            ContentFormat::Parts if text.is_empty() => json!([]),
            ContentFormat::Parts => json!([{"type": "text", "text": text}]),
        };
        let mut message = json!({"role": "assistant", "content": content(&answer.content)});
        if !answer.reasoning.is_empty() {
            for name in ["reasoning", "reasoning_content", "thinking"] {
                message[name] = json!(answer.reasoning);
            }
        }
        let mut probe = json!({"role": "user", "content": content("x")});
        if !answer.calls.is_empty() {
            message["tool_calls"] = answer.calls.iter().map(call).collect::<Option<Vec<Value>>>()?.into();
            probe = json!({"role": "tool", "content": content("x"), "tool_call_id": answer.calls[0].id});
        }
        let mut variables = turn.variables.clone();
        variables.insert("add_generation_prompt".to_owned(), false.into());
        let messages = variables.get_mut("messages")?.as_array_mut()?;
        messages.extend([message, probe]);
        self.templates.render(&turn.name, &variables).ok()
    }

    /// Where the answer ends in what follows the prompt; `None` when not all of it is there.
    fn end_of_answer(&self, tail: &str, answer: &Answer) -> Option<usize> {
        let mut at = 0;
        for text in [answer.reasoning.trim(), answer.content.trim()] {
            at += tail[at..].find(text)? + text.len();
        }
        if let Some(last) = answer.calls.last() {
            at += tail[at..].rfind(&last.name)? + last.name.len();
            let eos = self.named_tokens.get("eos_token")?.as_str()?;
            at += tail[at..].find(eos)?;
        }
        Some(at)
    }
}

fn call(call: &crate::tokens::answer::Call) -> Option<Value> {
    let arguments: Value =
        if call.arguments.is_empty() { json!({}) } else { serde_json::from_str(&call.arguments).ok()? };
    let function = json!({"arguments": arguments, "name": call.name});
    Some(json!({"id": call.id, "function": function, "type": "function"}))
}
