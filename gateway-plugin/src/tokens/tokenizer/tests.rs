//! The ids against those that the Python stack of an engine gives (`tests/tokens/make.py`), and encoding in parts against
//! encoding whole.

use std::path::PathBuf;
use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tokens::{Answer, ToolCallDelta};

fn cases() -> &'static Value {
    static CASES: OnceLock<Value> = OnceLock::new();
    CASES.get_or_init(|| serde_json::from_str(include_str!("../../../tests/tokens/cases.json")).expect("JSON"))
}

/// A directory as a model ships it.
fn ship(tokenizer: &Value, config: &Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).expect("writes");
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).expect("writes");
    dir
}

fn model(name: &str, options: TokenizerOptions) -> Tokenizer {
    let of = cases()["models"].as_array().expect("models").iter().find(|model| model["name"] == name);
    let of = of.expect("a model of that name");
    let base = of["tokenizer"].as_str().expect("a name");
    let dir = ship(&cases()["tokenizers"][base], &of["config"]);
    Tokenizer::load(dir.path(), options).expect("loads")
}

fn whole() -> TokenizerOptions {
    TokenizerOptions { cache_bytes: 0, ..TokenizerOptions::default() }
}

fn ids(tokenizer: &Tokenizer, api: Api, request: &Value) -> Result<Vec<u32>, Unscorable> {
    prompt(tokenizer, api, request).map(|prompt| prompt.ids)
}

fn prompt(tokenizer: &Tokenizer, api: Api, request: &Value) -> Result<TokenPrompt, Unscorable> {
    let body = request.to_string();
    tokenizer.prompt(&Envelope::parse(body.as_bytes()).expect("a request"), api)
}

#[test]
fn requests_become_the_ids_that_the_engines_stack_gives() {
    for name in ["headed", "chatml", "reasoning", "inst", "parts"] {
        let (tokenizer, in_whole) = (model(name, TokenizerOptions::default()), model(name, whole()));
        let mut seen = 0;
        for case in cases()["cases"].as_array().expect("cases").iter().filter(|case| case["model"] == name) {
            let api = if case["api"] == "chat" { Api::Chat } else { Api::Completions };
            let expected: Option<Vec<u32>> = serde_json::from_value(case["ids"].clone()).expect("ids or null");
            for tokenizer in [&tokenizer, &in_whole] {
                let found = ids(tokenizer, api, &case["request"]);
                assert_eq!(found, expected.clone().ok_or(Unscorable::Template), "{name}: {}", case["request"]);
            }
            seen += 1;
        }
        assert!(seen > 15, "{name}: {seen}");
    }
}

#[test]
fn what_has_no_ids_is_named() {
    let tokenizer = model("chatml", TokenizerOptions::default());
    let chat = |request: Value| ids(&tokenizer, Api::Chat, &request);
    let image = json!([{"type": "image_url", "image_url": {"url": "http://x"}}, {"type": "text", "text": "?"}]);
    assert_eq!(chat(json!({"messages": [{"role": "user", "content": image}]})), Err(Unscorable::Multimodal));
    assert_eq!(chat(json!({"messages": []})), Err(Unscorable::Shape));
    assert_eq!(chat(json!({"messages": "x"})), Err(Unscorable::Shape));
    let user = json!([{"role": "user", "content": "x"}]);
    assert_eq!(chat(json!({"messages": user, "chat_template": "{{ 'own' }}"})), Err(Unscorable::Template));
    assert_eq!(chat(json!({"messages": user, "truncate_prompt_tokens": 5})), Err(Unscorable::Truncated));
    let both = json!({"messages": user, "continue_final_message": true, "add_generation_prompt": true});
    assert_eq!(chat(both), Err(Unscorable::Shape));
    let completion = |prompt: Value| ids(&tokenizer, Api::Completions, &json!({"prompt": prompt}));
    assert_eq!(completion(json!(["a", "b"])), Err(Unscorable::Batch));
    assert_eq!(completion(json!([[1], [2]])), Err(Unscorable::Batch));
    assert_eq!(completion(json!("x".repeat(TEXT_BYTES_MAX + 1))), Err(Unscorable::TooLong));
    assert_eq!(completion(json!([])), Err(Unscorable::Shape));
    assert_eq!(completion(json!([1, 2, 3])), Ok(vec![1, 2, 3]));
    assert_eq!(completion(json!([[4, 5]])), Ok(vec![4, 5]));
    let trusting = TokenizerOptions { trust_request_template: true, ..TokenizerOptions::default() };
    let own = ids(&model("chatml", trusting), Api::Chat, &json!({"messages": user, "chat_template": "{{ 'Hello!' }}"}));
    assert_eq!(own, ids(&tokenizer, Api::Completions, &json!({"prompt": "Hello!", "add_special_tokens": false})));
}

#[test]
fn files_that_are_wrong_are_named() {
    let missing = Tokenizer::load(&PathBuf::from("/nonexistent/tokenizer.json"), whole()).expect_err("no file");
    assert!(missing.to_string().contains("/nonexistent/tokenizer.json"), "{missing}");
    let dir = ship(&json!({"model": 3}), &json!({}));
    assert!(matches!(Tokenizer::load(dir.path(), whole()), Err(LoadTokenizer::Malformed { .. })));
    let base = &cases()["tokenizers"]["byte_level"];
    let dir = ship(base, &json!({"chat_template": "{% for %}"}));
    let broken = Tokenizer::load(dir.path(), whole()).expect_err("no template");
    assert!(broken.to_string().contains("\"default\" does not compile"), "{broken}");
    let mut holes = base.clone();
    let added = holes["added_tokens"].as_array_mut().expect("tokens");
    added.push(json!({"id": 9999, "content": "<far>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}));
    let dir = ship(&holes, &json!({}));
    let tokenizer = Tokenizer::load(dir.path(), TokenizerOptions::default()).expect("loads");
    assert!(
        tokenizer.warnings().iter().any(|warning| warning.contains("\"<far>\" has id 9999")),
        "{:?}",
        tokenizer.warnings()
    );
    assert!(tokenizer.warnings().iter().any(|warning| warning.contains("no chat template")));
}

/// The tokenizers of the cases, and variants with what makes cutting delicate.
fn delicate() -> Vec<(&'static str, Value)> {
    let (level, space) = (&cases()["tokenizers"]["byte_level"], &cases()["tokenizers"]["metaspace"]);
    let mut legacy = space.clone();
    legacy["pre_tokenizer"] = Value::Null;
    legacy["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u{2581}"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
    let with = |base: &Value, token: &str, changes: Value| {
        let mut variant = base.clone();
        let added = variant["added_tokens"].as_array_mut().expect("tokens");
        let token = added.iter_mut().find(|of| of["content"] == token).expect("a token of that text");
        for (key, value) in changes.as_object().expect("changes") {
            token[key] = value.clone();
        }
        variant
    };
    let mut prefixed = level.clone();
    prefixed["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = json!(true);
    vec![
        ("byte level", level.clone()),
        ("metaspace first", space.clone()),
        ("legacy", legacy),
        ("prefix space", prefixed),
        ("lstrip", with(level, "<|im_start|>", json!({"lstrip": true}))),
        ("rstrip", with(level, "<|im_end|>", json!({"rstrip": true}))),
        ("both", with(space, "[INST]", json!({"lstrip": true, "rstrip": true}))),
        ("normalized", with(space, "[/INST]", json!({"normalized": true, "special": false}))),
        ("single word", with(level, "<think>", json!({"single_word": true}))),
    ]
}

fn piece() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        "<|im_start|>",
        "<|im_end|>",
        "<|eot|>",
        "<think>",
        "</think>",
        "[INST]",
        "[/INST]",
        "</s>",
        "<s>",
        "<|im_",
        "|>",
    ]);
    prop_oneof![
        4 => special.prop_map(str::to_owned),
        2 => "[ \\n\\t]{1,3}",
        2 => "[a-z ]{1,12}",
        1 => "\\PC{0,6}",
        2 => (300..700usize, "[a-z' ]{2,9}").prop_map(|(bytes, word)| word.repeat(bytes / word.len())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_text_in_parts_has_the_ids_of_the_whole(pieces in prop::collection::vec(piece(), 1..14)) {
        static LOADED: OnceLock<Vec<(&'static str, Tokenizer, bool)>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| {
            let load = |(name, of): (&'static str, Value)| {
                let tokenizer = Tokenizer::load(ship(&of, &json!({})).path(), TokenizerOptions::default()).expect("loads");
                let is_cut = tokenizer.segments.is_some();
                (name, tokenizer, is_cut)
            };
            let loaded: Vec<_> = delicate().into_iter().map(load).collect();
            let whole: Vec<&str> = loaded.iter().filter(|(_, _, is_cut)| !is_cut).map(|(name, ..)| *name).collect();
            assert_eq!(whole, ["single word"]);
            loaded
        });
        for (name, tokenizer, _) in loaded {
            // Every prefix of the pieces, as a conversation grows; then all of it from what was kept.
            for end in 1..=pieces.len() {
                let text = pieces[..end].concat();
                let in_parts = tokenizer.encode(&text, false).expect("encodes");
                prop_assert_eq!(&in_parts, &tokenizer.encode_whole(&text, false).expect("encodes"), "{}: {:?}", name, text);
            }
        }
    }
}

fn answered(content: &str) -> Answer {
    let mut answer = Answer::default();
    answer.content(content);
    answer.finish();
    answer
}

/// What is claimed for an answer is a prefix of the next turn's ids.
#[test]
fn an_answers_ids_are_those_that_the_next_turn_begins_with() {
    for (name, grows) in [("headed", true), ("chatml", true), ("reasoning", true), ("inst", true), ("parts", true)] {
        let tokenizer = model(name, TokenizerOptions::default());
        let mut messages = vec![json!({"role": "user", "content": "What is the weather in Paris?"})];
        for turn in 0..4 {
            let asked = prompt(&tokenizer, Api::Chat, &json!({"messages": messages})).expect("scorable");
            let said = format!("It is {turn}1 degrees and sunny; tomorrow it's going to rain.");
            let claimed = tokenizer.continued(&asked, &answered(&said));
            messages.push(json!({"role": "assistant", "content": said}));
            messages.push(json!({"role": "user", "content": "And in Berlin?"}));
            let next = ids(&tokenizer, Api::Chat, &json!({"messages": messages})).expect("scorable");
            assert!(next.starts_with(&claimed), "{name}");
            assert!(claimed.starts_with(&asked.ids), "{name}");
            assert_eq!(claimed.len() > asked.ids.len() + 10, grows, "{name}");
        }
    }
}

#[test]
fn reasoning_that_the_next_turn_drops_is_not_claimed_and_a_call_is() {
    let tokenizer = model("reasoning", TokenizerOptions::default());
    let tools = json!([{"type": "function", "function": {"name": "get_weather"}}]);
    let mut messages = vec![json!({"role": "user", "content": "Weather?"})];
    let asked = prompt(&tokenizer, Api::Chat, &json!({"messages": messages, "tools": tools})).expect("scorable");
    let mut thought = answered("Sunny.");
    thought.reasoning("I guess.");
    assert_eq!(tokenizer.continued(&asked, &thought), asked.ids);
    let mut call = Answer::default();
    call.reasoning("I need a tool.");
    let delta = |arguments: &str| ToolCallDelta {
        index: 0,
        id: Some("c1".to_owned()),
        name: Some("get_weather".to_owned()),
        arguments: Some(arguments.to_owned()),
    };
    call.tool_call(&delta("{\"city\": \"Paris\"}"));
    call.finish();
    let claimed = tokenizer.continued(&asked, &call);
    messages.push(json!({"role": "assistant", "reasoning": "I need a tool.", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}]}));
    messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": "21"}));
    let next = ids(&tokenizer, Api::Chat, &json!({"messages": messages, "tools": tools})).expect("scorable");
    assert!(next.starts_with(&claimed) && claimed.len() > asked.ids.len() + 10, "{} of {}", claimed.len(), next.len());
    let mut cut = Answer::default();
    cut.tool_call(&delta("{\"city\": \"Pa"));
    assert_eq!(tokenizer.continued(&asked, &cut), asked.ids, "half a call is no JSON");
}

#[test]
fn a_completions_answer_goes_on_where_the_text_does() {
    let tokenizer = model("chatml", TokenizerOptions::default());
    let asked = prompt(&tokenizer, Api::Completions, &json!({"prompt": "The quick brown"})).expect("scorable");
    let claimed = tokenizer.continued(&asked, &answered(" fox jumps over the lazy dog."));
    let next =
        ids(&tokenizer, Api::Completions, &json!({"prompt": "The quick brown fox jumps over the lazy dog. Pack"}));
    assert!(next.expect("scorable").starts_with(&claimed) && claimed.len() > asked.ids.len());
    let torn = prompt(&tokenizer, Api::Completions, &json!({"prompt": "The qui"})).expect("scorable");
    let claimed = tokenizer.continued(&torn, &answered("ck brown fox"));
    let engine = [torn.ids.as_slice(), &tokenizer.encode("ck brown fox", false).expect("encodes")].concat();
    assert!(engine.starts_with(&claimed), "what the engine does not hold is not claimed");
}
