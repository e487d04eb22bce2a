//! The whole path with real processes, small: three gateways, four workers, few sessions. Needs the `covey` binary beside
//! `covey-sim`; a build of this package alone does not make it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const POLL: Duration = Duration::from_millis(20);

/// The gateway's binary, or `None` with a message. Where `COVEY_TEST_NEEDS_BINARIES` is set (the Makefile builds all
/// binaries first) a missing one is a failure instead.
pub(crate) fn covey() -> Option<std::path::PathBuf> {
    let covey = Path::new(env!("CARGO_BIN_EXE_covey-sim")).with_file_name("covey");
    if covey.is_file() {
        return Some(covey);
    }
    let missing = format!("{} is missing: `cargo build -p covey-gateway-plugin --bin covey` makes it", covey.display());
    assert!(std::env::var_os("COVEY_TEST_NEEDS_BINARIES").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    None
}

fn demo(covey: &Path, json: &Path, more: &[&str]) -> (Option<i32>, String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    command.args(["demo", "--gateways", "3", "--workers", "4", "--live", "6"]);
    for (flag, value) in [("--sessions", "6"), ("--think-ms", "50")] {
        if !more.contains(&flag) {
            command.args([flag, value]);
        }
    }
    // Fast engines: seconds, not minutes. Speeds change times, not what is cached where.
    command.args(["--decode-step-ms", "1", "--prefill-tokens-per-s", "200000"]);
    command.arg("--covey").arg(covey).arg("--json").arg(json).args(more).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let json = std::fs::read(json).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
    (output.status.code(), said, json)
}

#[test]
fn gateways_that_gossip_find_what_one_would_and_agree_in_the_end() {
    let Some(covey) = covey() else { return };
    let files = tempfile::tempdir().unwrap();
    let (code, said, json) = demo(&covey, &files.path().join("demo.json"), &["--arms", "bound,mesh,off"]);
    assert_eq!(code, Some(0), "{said}");
    let [bound, mesh, off] = [0, 1, 2].map(|arm| &json["arms"][arm]);
    assert_eq!((mesh["name"].as_str(), mesh["clean"].as_bool()), (Some("mesh"), Some(true)), "{said}");
    assert_eq!(mesh["diverged_holders"], 0);
    assert_eq!(bound["requests"], off["requests"], "every arm does the same work");
    assert!([bound, mesh, off].iter().all(|arm| arm["errors"] == 0), "{said}");
    let share = |arm: &Value| arm["followup_cached_share"].as_f64().unwrap();
    assert!(share(mesh) > share(off) + 0.05, "the mesh must make a difference: {said}");
    assert!(mesh["propagation_ms"]["p50"].is_number() && off["propagation_ms"]["p50"].is_null());
    assert!(mesh["lookup_cpu_us"]["p99"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_gateway_killed_on_the_way_costs_no_request() {
    let Some(covey) = covey() else { return };
    let files = tempfile::tempdir().unwrap();
    let (_, said, json) = demo(&covey, &files.path().join("demo.json"), &["--arms", "mesh", "--chaos", "kill"]);
    let mesh = &json["arms"][0];
    assert_eq!((mesh["errors"].as_u64(), mesh["clean"].as_bool()), (Some(0), Some(true)), "{said}");
    assert_eq!((json["chaos"]["kind"].as_str(), json["chaos"]["gateway"].as_str()), (Some("kill"), Some("g1")));
    assert!(json["chaos"]["ready_clean_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_gateway_whose_network_is_cut_keeps_answering_and_agrees_again_soon_after() {
    let Some(covey) = covey() else { return };
    let files = tempfile::tempdir().unwrap();
    // Longer than a silent connection lives, so that gateways have to find each other again.
    let flags = ["--arms", "mesh", "--chaos", "cut", "--cut-s", "10", "--think-ms", "1500"];
    let (_, said, json) = demo(&covey, &files.path().join("demo.json"), &flags);
    let (mesh, chaos) = (&json["arms"][0], &json["chaos"]);
    assert_eq!((mesh["errors"].as_u64(), mesh["clean"].as_bool()), (Some(0), Some(true)), "{said}");
    assert_eq!((chaos["kind"].as_str(), chaos["parted"].as_bool()), (Some("cut"), Some(true)), "{said}");
    assert!(chaos["datagrams_dropped"].as_u64().unwrap() > 0, "{said}");
    let answered = |whose: &str| chaos["answered"][whose].as_u64().unwrap();
    assert!(answered("own") > 0 && answered("others") > 0, "{said}");
    // The demo's mark is two seconds; tests share their machine with others.
    assert!(chaos["recovered_ms"].as_f64().unwrap() < 5_000.0, "{said}");
}

#[test]
fn a_mesh_thread_that_panics_and_stalls_costs_no_request() {
    let Some(covey) = covey() else { return };
    let files = tempfile::tempdir().unwrap();
    let flags = ["--arms", "mesh", "--chaos", "panic", "--sessions", "8", "--think-ms", "1200"];
    let (code, said, json) = demo(&covey, &files.path().join("demo.json"), &flags);
    let (mesh, chaos) = (&json["arms"][0], &json["chaos"]);
    assert_eq!((code, mesh["errors"].as_u64(), mesh["clean"].as_bool()), (Some(0), Some(0), Some(true)), "{said}");
    assert_eq!((chaos["kind"].as_str(), chaos["passed"].as_bool()), (Some("panic"), Some(true)), "{said}");
    // The watchdog waits two seconds before it believes in a stall.
    assert!(chaos["stall_recovered_ms"].as_f64().unwrap() > 1_000.0, "{said}");
    assert!(chaos["panic_recovered_ms"].as_f64().unwrap() > 0.0, "{said}");
}

#[test]
fn an_interrupted_demo_leaves_no_process_behind() {
    let Some(covey) = covey() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    // A model name of its own would be clearer, but the workers' command line carries the cache size as well.
    let mark = format!("{}", 100_000 + u64::from(std::process::id()));
    command.args(["demo", "--gateways", "2", "--workers", "2", "--sessions", "50", "--arms", "mesh"]);
    command.args(["--cache-tokens", &mark]).arg("--covey").arg(covey).stdin(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    while children(&mark) < 2 {
        assert_eq!(running.try_wait().unwrap(), None, "the demo runs until it is interrupted");
        std::thread::sleep(POLL);
    }
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(running.wait().unwrap().code(), Some(1));
    // A killed process takes a moment to go.
    let patience = Instant::now() + Duration::from_secs(5);
    while children(&mark) > 0 {
        assert!(Instant::now() < patience, "workers of the interrupted demo still run");
        std::thread::sleep(POLL);
    }
}

/// Worker processes whose command line carries `mark`.
fn children(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let words = lines.map(|line| line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect::<Vec<_>>());
    words
        .filter(|words| words.iter().any(|word| word == b"worker") && words.iter().any(|word| word == mark.as_bytes()))
        .count()
}

/// A process that does not outlive its test, however that ends.
struct Stopped(std::process::Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // Asked, it takes its gateways with it; killed, it could not.
            let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
            let _ = self.0.wait();
        }
    }
}

/// The lines a process writes, until it has written one with `words`.
fn line_with(out: &mut impl std::io::BufRead, words: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before it said {words:?}");
        if line.contains(words) {
            return line;
        }
    }
}

#[test]
fn afterwards_the_mesh_stays_with_its_dashboard_until_it_is_interrupted() {
    let Some(covey) = covey() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    command.args(["demo", "--gateways", "2", "--workers", "2", "--sessions", "2", "--live", "2", "--arms", "mesh"]);
    command.args(["--stay", "on", "--think-ms", "50", "--decode-step-ms", "1", "--prefill-tokens-per-s", "200000"]);
    command.arg("--covey").arg(covey).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Stopped(command.spawn().unwrap());
    let mut out = std::io::BufReader::new(running.0.stdout.take().unwrap());
    let line = line_with(&mut out, "dashboard");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let routed = |frame: &Value| {
        let effects = frame["gateways"].as_array().unwrap().iter().map(|row| &row["effect"]["measured"]);
        frame["verdict"]["word"] == "converged" && effects.map(|of| of.as_u64().unwrap_or(0)).sum::<u64>() > 0
    };
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let frame: Value = runtime.block_on(async {
            let answer = reqwest::get(format!("{url}api/frame")).await.unwrap();
            serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default()
        });
        if frame.is_object() && routed(&frame) {
            break;
        }
        assert!(Instant::now() < patience, "no load on the dashboard: {frame}");
        std::thread::sleep(POLL);
    }
    assert_eq!(running.0.try_wait().unwrap(), None, "it stays");
    Command::new("kill").args(["-INT", &running.0.id().to_string()]).status().unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0), "as asked, and the table had passed");
    let gone = runtime.block_on(async { reqwest::get(url).await });
    assert!(gone.is_err(), "its gateways are gone with it");
}
