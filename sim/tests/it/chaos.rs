//! Gateways and engines that break under load, as real processes, short: `covey-sim events --legs kill-owner` and its like.
//! Coverage must be exact whatever the machine's load; times may be longer than the legs' own marks.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::demo::covey;

/// Times on a machine that does other things as well, in milliseconds.
const MS_MAX: f64 = 12_000.0;

/// Plays a leg; its row, and all it said.
fn play(leg: &str, more: &[&str]) -> Option<(Value, String)> {
    let (covey, files) = (covey()?, tempfile::tempdir().unwrap());
    let json = files.path().join("events.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    command.args(["events", "--legs", leg, "--blocks-per-s", "100", "--live", "24", "--cache-tokens", "16384"]);
    command.args(more).arg("--covey").arg(covey).arg("--json").arg(&json).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let rows = std::fs::read(json).unwrap_or_else(|_| panic!("no figures: {said}"));
    let rows: Vec<Value> = serde_json::from_slice(&rows).unwrap();
    assert_eq!((rows.len(), rows[0]["leg"].as_str()), (1, Some(leg)), "{said}");
    Some((rows[0].clone(), said))
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
    let Some((row, said)) = play("kill-owner", &["--workers", "1", "--warm-s", "1", "--seconds", "3"]) else { return };
    check(&row, &said);
    assert_eq!(row["facts"]["w0's generation"], json!([0, 0]), "{said}");
}

#[test]
fn who_comes_after_both_owners_replays_the_engine_from_its_first_batch() {
    let Some((row, said)) = play("kill-both", &["--workers", "1", "--warm-s", "1", "--seconds", "4"]) else { return };
    check(&row, &said);
    assert_eq!(row["facts"]["w0's generation"], json!([0, 0]), "{said}");
}

#[test]
fn who_comes_after_both_owners_of_an_engine_without_history_says_that_it_knows_a_part() {
    let flags = ["--workers", "1", "--warm-s", "1", "--seconds", "3"];
    let Some((row, said)) = play("kill-both-short", &flags) else { return };
    check(&row, &said);
    assert_eq!(row["facts"]["w0's generation"][0], 0, "{said}");
    assert!(row["facts"]["w0's generation"][1].as_u64() > Some(0), "{said}");
}

#[test]
fn nothing_of_an_old_life_is_predicted_once_the_restarted_engine_s_new_life_was_seen() {
    let Some((row, said)) = play("restart", &["--workers", "2", "--warm-s", "2", "--seconds", "2"]) else { return };
    check(&row, &said);
    assert!(row["facts"]["old prompts asked"].as_u64().unwrap() > 3, "{said}");
}
