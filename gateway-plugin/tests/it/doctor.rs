//! `covey doctor --capture` on what real engines published.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::process::covey;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)
}

fn doctor(capture: &str, requests: Option<&str>) -> (Output, Value) {
    let json = tempfile::NamedTempFile::new().expect("a file");
    let mut command = covey(&["doctor", "--capture"]);
    command.arg(file(capture)).arg("--json").arg(json.path());
    if let Some(requests) = requests {
        command.arg("--requests").arg(file(requests));
    }
    let output = command.output().expect("it runs");
    let value = serde_json::from_slice(&std::fs::read(json.path()).expect("written")).unwrap_or_default();
    (output, value)
}

#[test]
fn every_llama_request_is_predicted_exactly() {
    let (output, report) = doctor("llama_bs32_sha256cbor.events.jsonl", Some("llama_bs32_sha256cbor.http.jsonl"));
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!((report["frames"].as_u64(), &report["missing_frames"]), (Some(25), &Value::from(0)));
    assert_eq!((&report["requests"], &report["exact"]), (&Value::from(24), &Value::from(24)), "{report}");
    assert_eq!((&report["refused"], &report["unjudged"]), (&serde_json::json!({}), &Value::from(2)), "two chats");
}

#[test]
fn events_of_vllm_0_11_are_read_and_do_not_tell_salted_prompts_apart() {
    let (_, report) = doctor("reencoded_as_vllm_0.11.0.events.jsonl", Some("llama_bs32_sha256cbor.http.jsonl"));
    assert_eq!((&report["frames"], &report["refused"]), (&Value::from(25), &serde_json::json!({})));
    assert_eq!((&report["requests"], &report["exact"]), (&Value::from(24), &Value::from(23)), "{report}");
    // That version's events do not carry the salt: the second salted request cannot be found.
    assert_eq!(report["mismatches"][0]["line"], 8);
    assert!(report["mismatches"][0]["why"].as_str().expect("words").contains("salt"));
}

#[test]
fn every_request_under_eviction_is_predicted_but_those_between_a_reset_and_its_batch() {
    let (output, report) = doctor("stream_full.jsonl.gz", None);
    assert_eq!(output.status.code(), Some(1), "it is not all exact");
    assert_eq!((&report["requests"], &report["exact"], &report["frames"]), (&600.into(), &597.into(), &1567.into()));
    let mismatches = report["mismatches"].as_array().expect("a list");
    assert_eq!(mismatches.len(), 3);
    for mismatch in mismatches {
        assert_eq!(mismatch["reported"], 0, "{mismatch}");
        assert!(mismatch["why"].as_str().expect("words").contains("reset"), "{mismatch}");
    }
}

#[test]
fn frames_of_hybrid_engines_are_read_and_their_other_groups_said() {
    for (capture, requests) in
        [("gemma3_bs32.events.jsonl", Some("gemma3_bs32.requests.jsonl")), ("stream_gemma.jsonl.gz", None)]
    {
        let (_, report) = doctor(capture, requests);
        assert!(report["frames"].as_u64().expect("a number") > 10, "{report}");
        assert!(report["refused"]["other_group"].as_u64().expect("counted") > 0, "{report}");
        for why in ["shape", "field", "tokens", "block_size", "broken"] {
            assert!(report["refused"][why].is_null(), "{why} in {report}");
        }
    }
}

#[test]
fn what_is_no_capture_is_named_with_its_line() {
    let json = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(json.path(), "{\"t\": 1.0, \"frames_hex\": [\"00\", \"90\"]}\n").expect("written");
    let output = covey(&["doctor", "--capture"]).arg(json.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("line 1") && text.contains("not 8"), "{text}");
    let output = covey(&["doctor", "--capture", "/nowhere"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("/nowhere") && output.status.code() == Some(3), "{text}");
}
