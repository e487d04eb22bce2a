//! Traces in Mooncake's format: one JSON object a line.
//!
//! Not here: files and lines (`lines`), what is done with traces. Blocks have the size that the ids stand for; the caller
//! says which.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::trace::{Ask, Trace};
use crate::lines;

#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u64,
    #[serde(default)]
    output_length: u64,
    hash_ids: Vec<u64>,
    #[serde(default)]
    session: Option<Value>,
}

/// Reads a trace of blocks of `block_tokens` tokens. Requests without a block are left out, and counted.
///
/// # Errors
/// When the file cannot be read or a line is none of this format; says which.
pub fn read(path: &Path, block_tokens: u32) -> Result<(Trace, usize), String> {
    let (mut asks, mut skipped, mut names) = (Vec::new(), 0, HashMap::new());
    let mut has_sessions = true;
    for line in lines::read::<Line>(path)? {
        if line.hash_ids.is_empty() {
            skipped += 1;
            continue;
        }
        has_sessions &= line.session.is_some();
        let next = names.len() as u64;
        let session = line.session.map_or(0, |name| *names.entry(name.to_string()).or_insert(next));
        asks.push(Ask {
            at_us: (line.timestamp.max(0.0) * 1_000.0) as u64,
            session,
            blocks: line.hash_ids.into(),
            input_tokens: line.input_length,
            output_tokens: line.output_length,
            ..Ask::default()
        });
    }
    if asks.is_empty() {
        return Err(lines::unreadable(path, &"no request in it has blocks"));
    }
    asks.sort_by_key(|ask| ask.at_us);
    let start_us = asks[0].at_us;
    asks.iter_mut().for_each(|ask| ask.at_us -= start_us);
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = name.split('.').next().unwrap_or_default().to_owned();
    let mut trace = Trace { name, block_tokens, asks };
    if has_sessions {
        trace.mark_followups();
    } else {
        trace.infer_sessions();
    }
    Ok((trace, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::written;

    const TEXT: &str = r#"{"timestamp": 2000, "input_length": 700, "output_length": 5, "hash_ids": [0, 1], "session": "b"}
{"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [0, 2], "session": "b", "agent": "x"}
{"timestamp": 1500, "input_length": 3, "output_length": 5, "hash_ids": [], "session": "c"}
"#;

    #[test]
    fn plain_and_compressed_files_read_alike() {
        let plain = read(written(TEXT.as_bytes()).path(), 512).expect("a trace");
        let packed = zstd::encode_all(TEXT.as_bytes(), 3).expect("packed");
        let mut unpacked = read(written(&packed).path(), 512).expect("a trace");
        unpacked.0.name.clone_from(&plain.0.name);
        assert_eq!(plain, unpacked);
        let (trace, skipped) = plain;
        assert_eq!((trace.asks.len(), skipped), (2, 1));
        let asks: Vec<_> = trace.asks.iter().map(|ask| (ask.at_us, ask.input_tokens, ask.is_followup)).collect();
        assert_eq!(asks, [(0, 600, false), (1_000_000, 700, true)], "by time, from the first request on");
    }

    #[test]
    fn a_bad_line_is_named() {
        let why = read(written(b"{\"timestamp\": 1}\n").path(), 512).expect_err("no ids");
        assert!(why.contains("line 1"), "{why}");
        let why = read(Path::new("/no/such/trace"), 512).expect_err("no file");
        assert!(why.contains("/no/such/trace"), "{why}");
    }
}
