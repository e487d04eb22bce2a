//! Chat templates: compiled and rendered as `transformers` does it (a sandboxed Jinja with `trim_blocks`,
//! `lstrip_blocks`, loop controls, `tojson`, `raise_exception`, `strftime_now`).
//!
//! Known differences: `~` writes booleans and `None` as Jinja's Rust sibling does (`true`, `none`), and integers above
//! 64 bits are floats. Not here: what is rendered (`messages`), which template is meant (`Tokenizer`). A template comes from
//! whoever made the model: steps and recursion are bounded.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};
use minijinja_contrib::pycompat;
use serde_json::Map;

use super::content_format::{self, ContentFormat};
use super::{clock, python};
use crate::tokens::Unscorable;

/// Steps of one rendering; a conversation of ten thousand messages takes some hundred thousand.
const FUEL: u64 = 20_000_000;
/// Nested macros and recursive loops.
const RECURSION_MAX: usize = 100;
/// Marks where a message that is to be continued ends.
const CONTINUE_MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// Named templates that have been compiled.
#[derive(Debug)]
pub(super) struct Templates {
    environment: Environment<'static>,
    formats: Vec<(String, ContentFormat)>,
}

impl Templates {
    /// Compiles the templates; the error names the one that does not.
    pub(super) fn compile(sources: Vec<(String, String)>) -> Result<Self, (String, String)> {
        let mut templates = Self { environment: environment(), formats: Vec::new() };
        for (name, source) in sources {
            templates.add(name.clone(), &source).map_err(|error| (name, reason(&error)))?;
        }
        Ok(templates)
    }

    fn add(&mut self, name: String, source: &str) -> Result<(), Error> {
        let source = without_generation(source);
        self.formats.push((name.clone(), content_format::detect(&source)?));
        self.environment.add_template_owned(name, source)
    }

    /// These and one more, which a request brought.
    pub(super) fn with(&self, name: &str, source: &str) -> Result<Self, String> {
        let mut more = Self { environment: self.environment.clone(), formats: self.formats.clone() };
        more.add(name.to_owned(), source).map_err(|error| reason(&error))?;
        Ok(more)
    }

    /// How the template wants content; `None` when there is no template of that name.
    pub(super) fn format(&self, name: &str) -> Option<ContentFormat> {
        self.formats.iter().find(|(known, _)| known == name).map(|(_, format)| *format)
    }

    /// The text of a conversation. `variables` hold `messages`, `tools` and whatever else the template may ask for.
    pub(super) fn render(&self, name: &str, variables: &Map<String, serde_json::Value>) -> Result<String, String> {
        let template = self.environment.get_template(name).map_err(|error| reason(&error))?;
        template.render(Value::from(Serde(variables))).map_err(|error| reason(&error))
    }

    /// The same, cut where its last message ends, so that the model goes on writing that.
    pub(super) fn render_open(
        &self,
        name: &str,
        variables: &mut Map<String, serde_json::Value>,
    ) -> Result<String, Unscorable> {
        let messages = variables.get_mut("messages").and_then(serde_json::Value::as_array_mut);
        let content = messages.and_then(|messages| messages.last_mut()?.get_mut("content")).ok_or(Unscorable::Shape)?;
        let text = if content.is_array() { last_text(content) } else { Some(content) };
        let Some(serde_json::Value::String(text)) = text else { return Err(Unscorable::Shape) };
        let last = text.trim_matches(python::is_space).to_owned();
        text.push_str(CONTINUE_MARK);
        let mut rendered = self.render(name, variables).map_err(|_| Unscorable::Template)?;
        let mark = rendered.rfind(CONTINUE_MARK.trim_end()).ok_or(Unscorable::Template)?;
        if !rendered.contains(&last) {
            return Err(Unscorable::Template);
        }
        let keeps_space = rendered[mark..].starts_with(CONTINUE_MARK);
        rendered.truncate(mark);
        if !keeps_space {
            rendered.truncate(rendered.trim_end_matches(python::is_space).len());
        }
        Ok(rendered)
    }
}

fn last_text(parts: &mut serde_json::Value) -> Option<&mut serde_json::Value> {
    parts.as_array_mut()?.last_mut()?.get_mut("text")
}

/// The error with the place where it arose, on one line.
fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text = format!("{text}: {cause}");
    }
    text.replace('\n', " ")
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(print);
    environment.set_unknown_method_callback(method);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |value: &Value| python::text(value));
    environment.add_filter("trim", |text: &str| text.trim_matches(python::is_space).to_owned());
    environment.add_test("sequence", is_sequence);
    environment
        .add_test("iterable", |value: &Value| value.is_undefined() || value.try_iter().is_ok() || is_sequence(value));
    environment.add_function("raise_exception", |why: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, python::text(why)))
    });
    environment.add_function("strftime_now", |format: &str| {
        clock::now(format).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "a date format that is not known"))
    });
    environment
}

fn print(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    out.write_str(&python::text(value)).map_err(Error::from)
}

/// Whatever has a length and items counts in Jinja's Python: strings and mappings too.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

/// Methods of Python's strings and mappings. What strips white space strips what Python calls so.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let stripped = value.as_str().filter(|_| args.is_empty()).and_then(|text| match name {
        "strip" => Some(text.trim_matches(python::is_space)),
        "lstrip" => Some(text.trim_start_matches(python::is_space)),
        "rstrip" => Some(text.trim_end_matches(python::is_space)),
        _ => None,
    });
    match stripped {
        Some(text) => Ok(Value::from(text)),
        None => pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// `json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
fn tojson(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let given = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        let value = match args.get(at) {
            Some(value) => Some(value.clone()),
            None => kwargs.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let indent = given(1, "indent")?.map(usize::try_from).transpose()?;
    let mut dumps = python::Dumps::new(indent.map(|indent| indent.min(64)));
    dumps.ensure_ascii = given(0, "ensure_ascii")?.is_some_and(|value| value.is_true());
    dumps.sort_keys = given(3, "sort_keys")?.is_some_and(|value| value.is_true());
    if let Some(separators) = given(2, "separators")? {
        let mut texts = separators.try_iter()?.map(|text| python::text(&text));
        dumps.item_separator = texts.next().unwrap_or_default();
        dumps.key_separator = texts.next().unwrap_or_default();
    }
    kwargs.assert_all_used()?;
    dumps.text(value)
}

/// `{% generation %}` marks what the model wrote, for training; it renders its body.
fn without_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let word = tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+', ' ', '\n', '\t', '\r']);
        match word {
            "generation" => out.push_str(&tag.replacen(word, "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen(word, "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(source: &str, variables: serde_json::Value) -> Result<String, String> {
        let templates = Templates::compile(vec![("default".to_owned(), source.to_owned())]).expect("compiles");
        let serde_json::Value::Object(variables) = variables else { panic!("variables are an object") };
        templates.render("default", &variables)
    }

    #[test]
    fn templates_have_what_transformers_gives_them() {
        let tools = json!({"x": {"b": "<&>", "a": 1.0}});
        assert_eq!(render("{{ x | tojson }}", tools.clone()).as_deref(), Ok("{\"b\": \"<&>\", \"a\": 1.0}"));
        assert_eq!(
            render("{{ x | tojson(indent=4, sort_keys=true) }}", tools).as_deref(),
            Ok("{\n    \"a\": 1.0,\n    \"b\": \"<&>\"\n}")
        );
        assert!(render("{{ raise_exception('no ' ~ x) }}", json!({"x": "go"})).is_err_and(|why| why.contains("no go")));
        assert_eq!(render("{{ strftime_now('%Y') | length }}", json!({})).as_deref(), Ok("4"));
        assert_eq!(render("{{ x }}|{{ y }}|{{ z }}", json!({"x": true, "y": null})).as_deref(), Ok("True|None|"));
        let list = json!({"x": "ab", "m": {"k": 1}});
        assert_eq!(
            render("{{ x is sequence }}{{ m is sequence }}{{ x is iterable }}", list).as_deref(),
            Ok("TrueTrueTrue")
        );
        let loops = "{% for i in x %}\n  {% if i == 2 %}\n{% continue %}{% endif %}\n{{ i }}\n{% endfor %}";
        assert_eq!(render(loops, json!({"x": [1, 2, 3]})).as_deref(), Ok("1\n3\n"));
        assert_eq!(render("{{ x.split('|')[-1].strip() }}", json!({"x": "a| b\u{1f}"})).as_deref(), Ok("b"));
    }

    #[test]
    fn a_generation_mark_renders_its_body() {
        let source = "a\n{%- generation %}\n b\n{% endgeneration -%}\n c";
        assert_eq!(render(source, json!({})).as_deref(), Ok("a b\nc"));
    }

    #[test]
    fn a_template_without_end_is_stopped() {
        let source = "{% for i in range(9999) %}{% for j in range(9999) %}{% set x = i %}{% endfor %}{% endfor %}";
        assert!(render(source, json!({})).is_err());
        assert!(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", json!({})).is_err());
    }
}
