//! Hazards of the command line: a mistake that looks like a run, a worker that outlives who started it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

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
