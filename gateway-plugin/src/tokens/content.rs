//! A message's content as clients send it: nothing, a string, or an array of parts.
//!
//! Parts that are not text are rendered as a digest: a data URL of a megabyte is not a quarter of a million tokens.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use super::frame::{OPAQUE, PART};

/// Content in one of its wire shapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Digest of the part's JSON.
    Opaque(u128),
}

impl Content {
    pub(super) fn render(&self, out: &mut Vec<u8>) {
        for (i, part) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(PART);
            }
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Opaque(digest) => {
                    out.push(OPAQUE);
                    out.extend_from_slice(format!("{digest:032x}").as_bytes());
                }
            }
        }
    }
}

/// The text of a part that has any: `{"type": "text", "text": …}` and the spellings of the responses API.
fn text_of(part: &Value) -> Option<&str> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    matches!(kind, "text" | "input_text" | "output_text" | "refusal")
        .then(|| part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str))
        .flatten()
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, null or an array of content parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content(vec![Part::Text(text.to_owned())]))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Content, E> {
        Ok(Content(vec![Part::Text(text)]))
    }

    fn visit_unit<E: Error>(self) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element::<Value>()? {
            parts.push(match (&part, text_of(&part)) {
                (Value::String(text), _) => Part::Text(text.clone()),
                (_, Some(text)) => Part::Text(text.to_owned()),
                (_, None) => Part::Opaque(xxh3_128(part.to_string().as_bytes())),
            });
        }
        Ok(Content(parts))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}
