//! The messages that engines were recorded to send: the captures of the tests, plain or gzip.
//!
//! Not here: what becomes of them (`fuzz`, `cost`).

use std::path::Path;

use flate2::read::MultiGzDecoder;

/// The captures, one stream each.
pub(crate) const NAMES: [&str; 5] = [
    "llama_bs32_sha256cbor.events.jsonl",
    "reencoded_as_vllm_0.11.0.events.jsonl",
    "gemma3_bs32.events.jsonl",
    "stream_full.jsonl.gz",
    "stream_gemma.jsonl.gz",
];

/// The payloads of the captures that the tests use, stream by stream.
pub(crate) fn captures() -> Vec<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    NAMES.map(|name| payloads(&std::fs::read(folder.join(name)).expect("the captures are in the repository"))).into()
}

fn payloads(file: &[u8]) -> Vec<Vec<u8>> {
    let is_gzip = file.starts_with(&[0x1f, 0x8b]);
    let text = if is_gzip { std::io::read_to_string(MultiGzDecoder::new(file)) } else { std::io::read_to_string(file) };
    let hex =
        |text: &str| (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect();
    let payload = |line: &str| -> Option<Vec<u8>> {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let of = line.get("payload_hex").or_else(|| line.get("frames_hex")?.as_array()?.last())?;
        hex(of.as_str()?)
    };
    text.expect("text").lines().filter_map(payload).collect()
}
