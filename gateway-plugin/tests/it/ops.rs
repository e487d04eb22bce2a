//! What is shipped for operators (`ops/`: rules, their tests, the dashboard) against what a gateway really serves, and
//! promtool's opinion of both.
//!
//! Not here: whether alerts fire (`ops/covey.rules.test.yml`, run by promtool), a Prometheus that scrapes
//! (`make check-prometheus`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fake::{FakeWorker, chat_json};
use crate::gateway::{TestGateway, ask, gateway, secret};

#[path = "../../examples/grafana/board.rs"]
mod board;
#[path = "../../examples/grafana/panels.rs"]
mod panels;

const RULES: &str = include_str!("../../ops/covey.rules.yml");
const RULE_TESTS: &str = include_str!("../../ops/covey.rules.test.yml");
const DASHBOARD: &str = include_str!("../../ops/covey.grafana.json");

/// Labels a series may have. Each is a closed list of words, a peer's name or a configured worker's id.
const LABELS: [&str; 18] = [
    "at",
    "class",
    "direction",
    "le",
    "outcome",
    "part",
    "peer",
    "phase",
    "queue",
    "reason",
    "role",
    "state",
    "use",
    "version",
    "what",
    "why",
    "word",
    "worker",
];

/// Two gateways in one mesh, each with a request behind it, until every series that there can be is there.
async fn mesh_metrics() -> String {
    let (secret, worker) = (secret(), FakeWorker::start(|_| vec![chat_json("hi")]).await);
    // Room for ten blocks of the twelve that a prompt has: a worker whose cache was full once has a floor.
    // Nobody publishes its events: its feed is stale.
    let base = [
        "--kv-events",
        "w0=tcp://127.0.0.1:1",
        "--worker-capacity-tokens",
        "640",
        "--block-tokens",
        "16",
        "--mesh",
        "on",
        "--mesh-listen",
        "127.0.0.1:0",
        "--mesh-secret-file",
    ];
    let flags = [&base[..], &[secret.path.to_str().expect("a path")]].concat();
    let one = gateway(&[&worker], &[&flags[..], &["--mesh-name", "one"]].concat()).await;
    let seed = one.running.gateway().mesh().bound_address().expect("mesh on").to_string();
    let two = gateway(&[&worker], &[&flags[..], &["--mesh-name", "two", "--mesh-seeds", &seed]].concat()).await;
    one.ready().await;
    two.ready().await;
    for gateway in [&one, &two] {
        let answer = gateway.chat(&ask(&"x".repeat(3_000), false)).await;
        assert_eq!(answer.status(), 200);
        answer.bytes().await.expect("a body");
        // One that is looked up by its token ids, and judged.
        let ids = gateway.client.post(gateway.url("/v1/completions")).body("{\"prompt\": [1, 2, 3]}").send();
        ids.await.expect("answered").bytes().await.expect("a body");
    }
    let start = std::time::Instant::now();
    let awaited = [
        "covey_mesh_converged 1",
        "covey_mesh_propagation_quantile_seconds{",
        "covey_mesh_peer_quic_rtt_seconds{",
        "covey_mesh_peer_clock_offset_seconds{",
        "covey_mesh_last_converged_timestamp_seconds ",
        "covey_worker_incarnation{",
        "covey_worker_floor_timestamp_seconds{",
    ];
    loop {
        let text = scrape(&two).await;
        let is_stale = |line: &str| line.starts_with("covey_feed_state{") && line.contains("state=\"stale\"} 1");
        let is_there = |sample: &&str| text.lines().any(|line| line.starts_with(*sample));
        if awaited.iter().all(is_there) && text.lines().any(is_stale) {
            return text;
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "never all there: {text}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn scrape(gateway: &TestGateway) -> String {
    let response = gateway.client.get(gateway.admin_url("/metrics")).send().await.expect("answered");
    response.text().await.expect("text")
}

/// The names of samples.
fn served(metrics: &str) -> BTreeSet<&str> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).collect()
}

/// What has no sample here although it is served: how far behind an engine is that sends nothing.
const UNKNOWN_HERE: [&str; 1] = ["covey_feed_lag_seconds"];

/// Metrics of a gateway named anywhere in a text: in PromQL, or in what an alert says to look at.
fn named(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches(':'));
    words.filter(|word| word.starts_with("covey_") || word.starts_with("process_")).collect()
}

fn alerts(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_that_rules_and_dashboard_name_is_served() {
    let metrics = mesh_metrics().await;
    let mut served = served(&metrics);
    for name in UNKNOWN_HERE {
        assert!(metrics.contains(&format!("# TYPE {name} ")) && served.insert(name), "{name}");
    }
    for (file, text, least) in [("rules", RULES, 25), ("rule tests", RULE_TESTS, 25), ("dashboard", DASHBOARD, 60)] {
        let named = named(text);
        assert!(named.len() >= least, "{file} names only {named:?}");
        let unknown: Vec<_> = named.difference(&served).collect();
        assert!(unknown.is_empty(), "{file} name what no gateway serves: {unknown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn series_are_bounded_by_closed_words_peers_and_workers_and_none_comes_twice() {
    let metrics = mesh_metrics().await;
    let mut seen = BTreeSet::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(seen.insert(series), "twice: {series}");
        let Some((_, labels)) = series.split_once('{') else { continue };
        for label in labels.trim_end_matches('}').split("\",") {
            let (name, value) = label.split_once("=\"").expect("a label");
            assert!(LABELS.contains(&name), "an open label: {line}");
            let is_hash = value.len() >= 16 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(!is_hash && value.len() < 40, "a hash as label: {line}");
        }
    }
    assert!(seen.len() > 250 && seen.len() < 500, "{} series with one peer and one worker", seen.len());
}

#[test]
fn the_dashboard_file_is_what_the_generator_writes() {
    assert!(panels::dashboard_text() == DASHBOARD, "`make grafana` writes gateway-plugin/ops/covey.grafana.json anew");
}

#[test]
fn panels_lie_beside_each_other_and_each_asks_something() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut taken: BTreeMap<(u64, u64), &str> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64()), "an id is used twice: {title}");
        let place = |side: &str| panel["gridPos"][side].as_u64().expect("a number");
        let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
        assert!(x + w <= 24, "{title} is too far right");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert_eq!(taken.insert(cell, title), None, "{title} lies over another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().expect("queries");
        let asks = |target: &Value| target["expr"].as_str().is_some_and(|expr| expr.contains("$job"));
        assert!(!targets.is_empty() && targets.iter().all(asks), "{title} asks nothing, or every mesh at once");
    }
    assert!(panels.len() > 50);
}

#[test]
fn every_alert_is_tried_and_says_what_to_do() {
    let alerts = alerts(RULES);
    assert!(alerts.len() >= 24, "{alerts:?}");
    for alert in &alerts {
        assert!(RULE_TESTS.contains(&format!("alertname=\"{alert}\"")), "no test fires {alert}");
        let rule = RULES.split("- alert: ").find(|rule| rule.starts_with(&format!("{alert}\n"))).expect("it is there");
        for part in ["expr:", "labels: {severity: ", "summary: \"", "description: \"", "action: \""] {
            assert!(rule.contains(part), "{alert} has no {part}");
        }
    }
    // An alert that is gone while its test stays would only show where promtool is installed.
    let tried: BTreeSet<&str> =
        RULE_TESTS.split("alertname=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(tried, alerts);
}

/// Where promtool is; `None` only where nobody demands it.
fn promtool() -> Option<String> {
    if let Ok(path) = std::env::var("COVEY_PROMTOOL") {
        return Some(path);
    }
    let found = Command::new("promtool").arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: promtool is not installed (Debian package `prometheus`); `make lint-metrics` installs it");
    }
    found.then(|| "promtool".to_owned())
}

fn passes(promtool: &str, args: &[&str], input: &str) {
    let mut child = Command::new(promtool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "promtool {args:?}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_accepts_metrics_and_rules() {
    let Some(promtool) = promtool() else { return };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/");
    passes(&promtool, &["check", "metrics"], &mesh_metrics().await);
    passes(&promtool, &["check", "rules", &format!("{folder}covey.rules.yml")], "");
    passes(&promtool, &["test", "rules", &format!("{folder}covey.rules.test.yml")], "");
}
