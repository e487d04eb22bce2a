//! The race with real processes, short: Covey against round robin, done by Covey where no other router is installed. Needs
//! the `covey` binary beside `covey-sim`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::demo::covey;

fn race(covey: &Path, json: &Path) -> (String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    command.args(["race", "--gateways", "2", "--workloads", "chat", "--arms", "bound,covey,round-robin,sglang-router"]);
    command.args(["--workers", "3", "--rate", "4", "--seconds", "3", "--turn-ms", "300", "--think-ms", "100"]);
    command.args(["--decode-step-ms", "1", "--prefill-tokens-per-s", "200000", "--added-requests", "20"]);
    command.arg("--covey").arg(covey).arg("--json").arg(json).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let json = std::fs::read(json).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
    (said, json)
}

#[test]
fn arms_play_one_schedule_and_the_mesh_stays_nearer_to_the_bound_than_turns_do() {
    let Some(covey) = covey() else { return };
    let files = tempfile::tempdir().unwrap();
    let (said, json) = race(&covey, &files.path().join("race.json"));
    assert!(said.contains("SKIPPED: sglang-router"), "{said}");
    let heat = &json["heats"][0];
    let arms = heat["arms"].as_array().unwrap();
    assert_eq!(arms.iter().map(|arm| &arm["name"]).collect::<Vec<_>>(), ["bound", "covey", "round-robin"], "{said}");
    assert!(heat["requests"].as_u64().unwrap() > 10, "{said}");
    for arm in &arms[1..] {
        assert_eq!((&arm["requests"], arm["errors"].as_u64()), (&heat["requests"], Some(0)), "{said}");
        for figure in ["cpu_s_per_1000", "peak_rss_bytes"] {
            assert!(arm[figure].as_f64().unwrap() > 0.0, "{figure}: {said}");
        }
        assert!(arm["ttft_ms"]["p50"].as_f64().unwrap() <= arm["ttft_ms"]["p99"].as_f64().unwrap());
        assert!(arm["added_ms"]["p99"].is_number(), "{said}");
    }
    let share = |nth: usize| arms[nth]["followup_cached_share"].as_f64().unwrap();
    assert!(share(0) >= share(1) && share(1) > share(2) + 0.05, "{said}");
    let marks = json["marks"].as_array().unwrap();
    assert!(marks.iter().any(|mark| mark["words"].as_str().unwrap().contains("round-robin")), "{said}");
}
