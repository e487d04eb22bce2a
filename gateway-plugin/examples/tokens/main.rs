//! What a growing conversation costs to turn into token ids, with the ids of earlier turns kept and without.
//!
//! `cargo run -p covey-gateway-plugin --example tokens [DIR [TOKENS]]`: a model's directory (default: the test fixture's), and how
//! long the conversation gets (default: 30,000 tokens). Each turn is rendered, encoded both ways, and compared.

use std::path::{Path, PathBuf};
use std::time::Instant;

use covey_gateway_plugin::tokens::{Api, Envelope, Tokenizer, TokenizerOptions};
use serde_json::{Value, json};

/// Words that no two turns have in the same order.
fn said(turn: usize, words: usize) -> String {
    let text = include_str!("../../tests/tokens/make.py");
    let all: Vec<&str> = text.split_whitespace().collect();
    let word = |at: usize| all[(turn * 7_919 + at * (1 + turn % 13)) % all.len()];
    (0..words).map(|at| format!("{} ", word(at))).collect()
}

/// The fixture's model of plain ChatML, as a directory.
fn fixture() -> (tempfile::TempDir, PathBuf) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokens/cases.json");
    let cases: Value = serde_json::from_slice(&std::fs::read(path).expect("the fixture")).expect("JSON");
    let model = cases["models"].as_array().and_then(|models| models.iter().find(|model| model["name"] == "chatml"));
    let model = model.expect("the fixture has it");
    let dir = tempfile::tempdir().expect("a directory");
    let tokenizer = &cases["tokenizers"][model["tokenizer"].as_str().expect("a name")];
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).expect("written");
    std::fs::write(dir.path().join("tokenizer_config.json"), model["config"].to_string()).expect("written");
    let path = dir.path().to_owned();
    (dir, path)
}

fn timed(tokenizer: &Tokenizer, body: &[u8]) -> (Vec<u32>, f64) {
    let start = Instant::now();
    let prompt = Envelope::parse(body).map(|envelope| tokenizer.prompt(&envelope, Api::Chat));
    let ms = start.elapsed().as_secs_f64() * 1e3;
    (prompt.expect("a request").expect("a template that takes it").ids, ms)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let given = args.next().map(PathBuf::from);
    let most: usize = args.next().map_or(30_000, |text| text.parse().expect("a number of tokens"));
    let (_kept, fixture) = fixture();
    let path = given.unwrap_or(fixture);
    let load = |cache_bytes| {
        let options = TokenizerOptions { cache_bytes, ..TokenizerOptions::default() };
        Tokenizer::load(&path, options).unwrap_or_else(|error| panic!("{error}"))
    };
    let (kept, whole) = (load(64 << 20), load(0));
    let mut messages = vec![json!({"role": "system", "content": said(0, 400)})];
    let (mut kept_ms, mut whole_ms, mut turn) = (0.0, 0.0, 0);
    loop {
        turn += 1;
        messages.push(json!({"role": "user", "content": said(turn, 60)}));
        let body = json!({"messages": messages}).to_string();
        let ((ids, fast), (same, slow)) = (timed(&kept, body.as_bytes()), timed(&whole, body.as_bytes()));
        assert_eq!(ids, same, "turn {turn}");
        (kept_ms, whole_ms) = (kept_ms + fast, whole_ms + slow);
        if turn % 10 == 0 || ids.len() >= most {
            let text = format!(
                "turn {turn}: {} tokens, {fast:.2} ms kept, {slow:.2} ms whole: {:.1} times\n",
                ids.len(),
                slow / fast
            );
            eprint!("{text}");
        }
        if ids.len() >= most {
            break;
        }
        messages.push(json!({"role": "assistant", "content": said(turn + 100_000, 120)}));
    }
    eprintln!(
        "all {turn} turns: {kept_ms:.0} ms kept, {whole_ms:.0} ms whole: {:.1} times; {} kB of ids kept",
        whole_ms / kept_ms,
        kept.cached_bytes() / 1_000
    );
}
