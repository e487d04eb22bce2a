//! Hazards of the command line: a mistake that looks like a run, a worker that outlives who started it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use covey_sim::plan::Plan;
use serde_json::Value;

fn covey_sim(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    command.args(args).stdin(Stdio::null());
    command
}

fn fails(args: &[&str], code: i32) -> String {
    let Output { status, stdout, stderr } = covey_sim(args).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{args:?}: {said}");
    assert!(stdout.is_empty(), "nothing that could be taken for a result");
    said
}

#[test]
fn a_busy_port_is_named() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let said = fails(&["worker", "--listen", &address], 1);
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

#[test]
fn values_out_of_range_are_wrong_usage() {
    for args in
        [["worker", "--cache-tokens", "3"], ["worker", "--prefill-tokens-per-s", "0"], ["demo", "--arms", "none"]]
    {
        let said = fails(&args, 2);
        assert!(said.contains(args[1]), "{said}");
    }
}

#[test]
fn flags_that_make_no_sense_are_wrong_usage_and_name_what_to_write() {
    for (args, word) in [
        (vec!["run", "--seed", "many"], "--seed"),
        (vec!["run", "--until", "41.2"], "needs a unit"),
        (vec!["run", "--seed", "1", "--plan", "x.json"], "cannot be used with"),
        (vec!["swarm", "--seeds", "9..9"], "FROM must be below TO"),
        (vec!["swarm", "--seeds", "9"], "FROM..TO"),
        (vec!["swarm", "--jobs", "0"], "--jobs"),
        (vec!["swarm", "--time", "soon"], "needs a unit"),
        (vec!["shrink", "--runs", "0"], "--runs"),
        (vec!["diff", "gw-0"], "NODE"),
        (vec!["diff", "worker-1", "gw-0"], "write gw-3"),
    ] {
        let said = fails(&args, 2);
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn plans_that_cannot_be_run_are_refused_naming_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let whole = serde_json::to_value(Plan::from_seed(1)).unwrap();
    let write = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut plan = whole.clone();
        change(&mut plan);
        let file = folder.path().join(name);
        std::fs::write(&file, serde_json::to_string_pretty(&plan).unwrap()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let crash = |node: u64| serde_json::json!([{ "at_ms": 5, "fault": { "crash": { "node": node } } }]);
    type Change<'a> = &'a dyn Fn(&mut Value);
    let bad: [(&str, Change, &str); 6] = [
        ("extra.json", &|plan| plan["gateways"] = 3.into(), "unknown field `gateways`"),
        ("type.json", &|plan| plan["nodes"] = "three".into(), "line "),
        ("size.json", &|plan| plan["nodes"] = 1_000_000_000.into(), "nodes"),
        ("loss.json", &|plan| plan["network"]["loss"] = 1.5.into(), "network.loss"),
        ("event.json", &|plan| plan["events"] = crash(64), "events[0]"),
        ("fault.json", &|plan| plan["events"] = serde_json::json!([{ "at_ms": 1, "fault": "melt" }]), "melt"),
    ];
    for (name, change, word) in bad {
        let file = write(name, change);
        for command in ["run", "shrink"] {
            let said = fails(&[command, "--plan", &file], 1);
            assert!(said.contains(name) && said.contains(word), "{command} {name}: {said}");
        }
    }
    let said = fails(&["run", "--plan", "/nonexistent/plan.json"], 1);
    assert!(said.contains("/nonexistent/plan.json cannot be read"), "{said}");
    let good = write("good.json", &|_| {});
    for (args, word) in [
        (vec!["run", "--plan", &good, "--trace", "/nonexistent/t.jsonl"], "/nonexistent/t.jsonl cannot be written"),
        (vec!["swarm", "--json", "/nonexistent/s.json"], "/nonexistent/s.json cannot be written"),
        (vec!["shrink", "--plan", &good], "breaks nothing"),
        (vec!["swarm", "--plant", "all"], "make plants"),
        (vec!["run", "--plant", "adopts-v-end"], "--features plants"),
        (vec!["run", "--leg", "earthquake"], "long-partition"),
        (vec!["diff", "--plan", &good, "gw-0", "gw-63"], "gw-63 does not exist"),
        (vec!["diff", "--plan", &good, "gw-0", "gw-0"], "name two nodes"),
    ] {
        let said = fails(&args, 1);
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn a_batch_writes_exactly_what_its_readers_expect() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let args = ["swarm", "--seeds", "0..4", "--json", file.path().to_str().unwrap()];
    assert!(covey_sim(&args).output().unwrap().status.success(), "a batch of four may lack marks");
    let json: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = ["seeds", "failures", "events_per_second_per_core", "ops_per_seed_median", "marks_missing", "plants"];
    assert_eq!(keys, wanted);
    assert_eq!((json["seeds"].as_u64(), json["failures"].as_array().map(Vec::len)), (Some(4), Some(0)));
    assert!(
        json["events_per_second_per_core"].as_u64() > Some(1_000) && json["ops_per_seed_median"].as_u64() > Some(0)
    );
}

#[test]
fn two_nodes_are_compared_at_a_moment() {
    let out = covey_sim(&["diff", "--seed", "3", "--at", "3.2s", "gw-0", "gw-1"]).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{said}");
    for word in ["at 3.200000 s", "gw-0 is ", "log of gw-", "[dirty]", "only at gw-0"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let out = covey_sim(&["diff", "--seed", "3", "gw-0", "gw-1"]).output().unwrap();
    assert!(String::from_utf8(out.stdout).unwrap().contains("no difference"), "in the end they are equal");
}

#[test]
fn a_missing_gateway_binary_is_named_with_what_to_do() {
    let said = fails(&["demo", "--covey", "/nonexistent/covey"], 1);
    assert!(said.contains("/nonexistent/covey is missing") && said.contains("cargo build"), "{said}");
}

#[test]
fn a_demo_that_makes_no_sense_is_refused_before_anything_starts() {
    for (args, word) in [
        (vec!["demo", "--gateways", "0"], "--gateways is 0"),
        (vec!["demo", "--sessions", "0"], "--sessions is 0"),
        (vec!["demo", "--arms", "off,off"], "twice"),
        (vec!["demo", "--chaos", "kill", "--arms", "bound"], "--chaos needs"),
        (vec!["demo", "--chaos", "kill", "--gateways", "1"], "--chaos needs"),
    ] {
        let said = fails(&args, 1);
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_gateway_that_cannot_start_is_quoted() {
    // A program that says something and exits: what a gateway does that is told nonsense.
    let said = fails(&["demo", "--covey", env!("CARGO_BIN_EXE_covey-sim"), "--workers", "1", "--arms", "bound"], 1);
    assert!(said.contains("g0 ended by itself") && said.contains("unrecognized subcommand 'gateway'"), "{said}");
}

#[test]
fn a_worker_ends_with_the_process_that_started_it() {
    let mut command = covey_sim(&["worker", "--exit-with-stdin"]);
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(worker.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(covey_sim::worker::READY), "{line}");
    drop(worker.stdin.take());
    let patience = Instant::now() + Duration::from_secs(10);
    let status = loop {
        if let Some(status) = worker.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > patience {
            worker.kill().unwrap();
            panic!("it outlives who started it");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success());
}
