//! How Python writes values: what chat templates print and what `json.dumps` gives, which is what engines' templates see.
//!
//! Not here: when templates do so (`template`).

use std::fmt::Write;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Levels of nesting written; deeper values come from nobody's request.
const DEPTH_MAX: usize = 128;

/// How `json.dumps` is asked to write.
#[derive(Clone, Debug)]
pub(super) struct Dumps {
    pub(super) ensure_ascii: bool,
    pub(super) indent: Option<usize>,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    pub(super) sort_keys: bool,
}

impl Dumps {
    /// What `json.dumps` does unless told otherwise; with an indent nothing follows a comma but the line's end.
    pub(super) fn new(indent: Option<usize>) -> Self {
        let item_separator = if indent.is_some() { "," } else { ", " }.to_owned();
        Self { ensure_ascii: false, indent, item_separator, key_separator: ": ".to_owned(), sort_keys: false }
    }

    /// The JSON of a value.
    pub(super) fn text(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(value, 0, &mut out)?;
        Ok(out)
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(ErrorKind::BadSerialization, "nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value, ["NaN", "Infinity", "-Infinity"])),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.enclosed(['[', ']'], &items, depth, out, |item, out| self.write(item, depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.enclosed(['{', '}'], &keys, depth, out, |key, out| {
                    self.key(key, out);
                    out.push_str(&self.key_separator);
                    self.write(&value.get_item(key)?, depth + 1, out)
                })?;
            }
            ValueKind::Undefined | ValueKind::Bytes | ValueKind::Plain | ValueKind::Invalid | _ => {
                return Err(Error::new(ErrorKind::BadSerialization, format!("a {} is no JSON", value.kind())));
            }
        }
        Ok(())
    }

    fn enclosed(
        &self,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        out: &mut String,
        each: impl Fn(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(&self.item_separator);
            }
            self.new_line(depth + 1, out);
            each(item, out)?;
        }
        if !items.is_empty() {
            self.new_line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn key(&self, key: &Value, out: &mut String) {
        match key.as_str() {
            Some(text) => self.string(text, out),
            None if key.is_none() => self.string("null", out),
            None if key.kind() == ValueKind::Bool => self.string(&key.is_true().to_string(), out),
            None => self.string(&number(key, ["NaN", "Infinity", "-Infinity"]), out),
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// `str(value)`: what `{{ value }}` prints.
pub(super) fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_undefined() => String::new(),
        None => {
            let mut out = String::new();
            repr(value, 0, &mut out);
            out
        }
    }
}

fn repr(value: &Value, depth: usize, out: &mut String) {
    let items = || value.try_iter().map(Iterator::collect::<Vec<Value>>).unwrap_or_default();
    match value.kind() {
        _ if depth > DEPTH_MAX => out.push_str("..."),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value, ["nan", "inf", "-inf"])),
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (at, item) in items().iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(item, depth + 1, out);
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (at, key) in items().iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(key, depth + 1, out);
                out.push_str(": ");
                repr(&value.get_item(key).unwrap_or_default(), depth + 1, out);
            }
            out.push('}');
        }
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Bytes | ValueKind::Plain | ValueKind::Invalid | _ => {
            let _ = write!(out, "{value}");
        }
    }
}

/// `repr` of a string: single quotes unless only double ones save escapes.
fn quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 || (0x7f..=0xa0).contains(&u32::from(c)) || c == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

fn number(value: &Value, [nan, inf, minus_inf]: [&str; 3]) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) if float.is_nan() => nan.to_owned(),
        Ok(float) if float.is_infinite() => if float > 0.0 { inf } else { minus_inf }.to_owned(),
        Ok(float) => float_repr(float),
        Err(_) => value.to_string(),
    }
}

/// The shortest digits that read back as the number, in Python's choice between plain and exponent.
fn float_repr(float: f64) -> String {
    let short = format!("{float:e}");
    let (digits, exponent) = short.split_once('e').expect("an exponent was asked for");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// What `str.strip()` takes away: Unicode's white space, and the four separators that only Python counts.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use minijinja::value::Serde;
    use serde_json::json;

    use super::*;

    fn value(json: serde_json::Value) -> Value {
        Value::from(Serde(json))
    }

    #[test]
    fn json_is_what_python_writes() {
        let of = value(
            json!({"b": [1, 2.0, 1e22, 1.5e-7, -0.0, true, null], "a": "<&'\"\\\n\u{1}\u{7f}é😀", "e": {}, "l": []}),
        );
        let plain = Dumps::new(None).text(&of).expect("plain data");
        let expected = "{\"b\": [1, 2.0, 1e+22, 1.5e-07, -0.0, true, null], \"a\": \"<&'\\\"\\\\\\n\\u0001\u{7f}é😀\", \"e\": {}, \"l\": []}";
        assert_eq!(plain, expected);
        let indented = Dumps::new(Some(2)).text(&value(json!({"a": [1], "b": {}}))).expect("plain data");
        assert_eq!(indented, "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
        let ascii = Dumps { ensure_ascii: true, sort_keys: true, ..Dumps::new(None) };
        let sorted = ascii.text(&value(json!({"z": "é😀", "a": 1}))).expect("plain data");
        assert_eq!(sorted, "{\"a\": 1, \"z\": \"\\u00e9\\ud83d\\ude00\"}");
        assert!(Dumps::new(None).text(&Value::UNDEFINED).is_err());
    }

    #[test]
    fn values_print_as_python_prints_them() {
        let of = value(json!([null, true, false, 1, 0.0001, 1e16, "it's", "a\"b'", {"k": [1.0]}]));
        assert_eq!(text(&of), r#"[None, True, False, 1, 0.0001, 1e+16, "it's", 'a"b\'', {'k': [1.0]}]"#);
        assert_eq!((text(&Value::UNDEFINED), text(&Value::from("x'y"))), (String::new(), "x'y".to_owned()));
    }
}
