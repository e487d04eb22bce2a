//! Gateways and engines that break under load, as real processes, short: `covey-sim events --legs kill-owner` and its like.
//! Coverage must be exact whatever the machine's load; times may be longer than the legs' own marks.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::demo::covey;

/// Times on a machine that does other things as well, in milliseconds.
const MS_MAX: f64 = 12_000.0;

/// Plays a leg; its rows, and all it said.
fn play(leg: &str, more: &[&str]) -> Option<(Vec<Value>, String)> {
    let (covey, files) = (covey()?, tempfile::tempdir().unwrap());
    let json = files.path().join("events.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    command.args(["events", "--legs", leg, "--blocks-per-s", "100", "--live", "24", "--cache-tokens", "16384"]);
    command.args(more).arg("--covey").arg(covey).arg("--json").arg(&json).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let rows = std::fs::read(json).unwrap_or_else(|_| panic!("no figures: {said}"));
    Some((serde_json::from_slice(&rows).unwrap(), said))
}

/// What may not depend on how loaded the machine is.
fn check(row: &Value, said: &str) {
    assert_eq!(row["wrong"], Value::Array(Vec::new()), "{said}");
    assert_eq!(row["failed"], 0, "{said}");
    assert!(row["compared"].as_u64().unwrap() > 20 && row["requests"].as_u64().unwrap() > 5, "{said}");
    assert!(row["ms"].as_f64().is_some_and(|ms| ms < MS_MAX), "{said}");
}

#[test]
fn the_standby_of_a_killed_owner_goes_on_without_a_loss_in_the_same_generation() {
    let flags = ["--gateways", "3", "--workers", "1", "--warm-s", "2", "--seconds", "6"];
    let Some((rows, said)) = play("kill-owner", &flags) else { return };
    assert_eq!(rows.len(), 1, "{said}");
    check(&rows[0], &said);
    assert_eq!(rows[0]["facts"]["w0's generation"], serde_json::json!([0, 0]), "{said}");
}

#[test]
fn who_comes_after_both_owners_replays_the_past_or_says_that_it_is_gone() {
    let flags = ["--gateways", "4", "--workers", "1", "--warm-s", "2", "--seconds", "7"];
    let Some((rows, said)) = play("kill-both", &flags) else { return };
    assert_eq!(rows.len(), 2, "{said}");
    rows.iter().for_each(|row| check(row, &said));
    assert_eq!(rows[0]["facts"]["w0's generation"], serde_json::json!([0, 0]), "{said}");
    assert_eq!(rows[1]["facts"]["w0's generation"][0], 0, "{said}");
    assert!(rows[1]["facts"]["w0's generation"][1].as_u64() > Some(0), "{said}");
}

#[test]
fn nothing_of_a_restarted_engine_s_old_life_is_predicted_once_its_new_life_was_seen() {
    let flags = ["--gateways", "3", "--workers", "2", "--warm-s", "3", "--seconds", "3"];
    let Some((rows, said)) = play("restart", &flags) else { return };
    check(&rows[0], &said);
    assert!(rows[0]["facts"]["old prompts asked"].as_u64().unwrap() > 3, "{said}");
}
