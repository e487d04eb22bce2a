//! A real Prometheus scrapes three real gateways of one mesh, with the rules that are shipped, and is asked over its HTTP
//! API: `make check-prometheus`. Not part of a plain `cargo test`, because it needs the `prometheus` binary.
//!
//! The rules are the shipped ones with every `for:` cut down to two seconds and evaluated each second; everything else is
//! as it is. Not here: whether each alert fires (`ops/covey.rules.test.yml`).

#[path = "../it/fake.rs"]
#[expect(dead_code, reason = "shared with the `it` tests, which use all of it")]
mod fake;
#[path = "../it/gateway.rs"]
#[expect(dead_code, reason = "shared with the `it` tests, which use all of it")]
mod gateway;
#[path = "../it/process.rs"]
#[expect(dead_code, reason = "shared with the `it` tests, which use all of it")]
mod process;
mod server;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zeromq::{PubSocket, Socket as _, SocketSend as _, ZmqMessage};

use crate::fake::{FakeWorker, Recorded, Step, reply};
use crate::gateway::{ask, client, secret};
use crate::process::Process;
use crate::server::{Prometheus, Sample};

const RULES: &str = include_str!("../../ops/covey.rules.yml");
const DASHBOARD: &str = include_str!("../../ops/covey.grafana.json");

/// The shipped rules, waiting two seconds where they wait minutes.
fn hasty_rules() -> String {
    let hasty = |line: &str| {
        let waits = line.trim_start().starts_with("for: ");
        if waits { "        for: 2s".to_owned() } else { line.to_owned() }
    };
    RULES.lines().map(hasty).collect::<Vec<_>>().join("\n") + "\n"
}

fn mesh(worker: &FakeWorker, secret: &str, events: &str) -> Vec<Process> {
    let mut gateways: Vec<Process> = Vec::new();
    for name in ["gw-a", "gw-b", "gw-c"] {
        let seed = gateways.first().map(|first| {
            let rest = first.banner.split(" udp ").nth(1).expect("a UDP address in the banner");
            rest.split(' ').next().expect("an address").to_owned()
        });
        let mut flags = vec!["--mesh", "on", "--mesh-name", name, "--mesh-secret-file", secret];
        flags.extend(["--mesh-listen", "127.0.0.1:0", "--health-interval", "200ms", "--probe-interval", "500ms"]);
        // A little less than the traffic below fills, so that there is a floor.
        flags.extend(["--worker-capacity-tokens", "8000", "--kv-events", events]);
        flags.extend(seed.iter().flat_map(|seed| ["--mesh-seeds", seed.as_str()]));
        gateways.push(Process::start(worker, &flags));
    }
    gateways
}

/// Publishes a batch of KV events five times a second, for as long as the test goes on.
fn publish(mut engine: PubSocket) {
    tokio::spawn(async move {
        for seq in 0u64.. {
            let made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let tokens: Vec<u32> = (0..4).map(|nth| seq as u32 * 4 + nth).collect();
            let event = ("BlockStored", [seq + 1], None::<u64>, tokens, 4u32, None::<u32>, "GPU");
            let mut message = ZmqMessage::from("kv");
            message.push_back(seq.to_be_bytes().to_vec().into());
            message.push_back(rmp_serde::to_vec(&(made, [event])).expect("it encodes").into());
            engine.send(message).await.expect("it sends");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
}

/// A worker that never forgets a prompt, and reports of the next ones what they begin with, four bytes a token.
async fn remembering_worker() -> FakeWorker {
    let seen: Mutex<Vec<String>> = Mutex::default();
    FakeWorker::start(move |request: &Recorded| -> Vec<Step> {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let prompt = body["messages"][0]["content"].as_str().expect("a prompt").to_owned();
        let common = |old: &String| old.bytes().zip(prompt.bytes()).take_while(|(a, b)| a == b).count();
        let mut seen = seen.lock().expect("not poisoned");
        let cached = seen.iter().map(common).max().unwrap_or(0) / 4;
        let usage = json!({"prompt_tokens": prompt.len() / 4, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": cached}});
        seen.push(prompt);
        let message = json!({"role": "assistant", "content": "an answer of some words"});
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        vec![reply("200 OK", "application/json", &json!({"choices": [choice], "usage": usage}).to_string())]
    })
    .await
}

/// Conversations whose turns come to another gateway each time.
async fn traffic(gateways: &[Process]) {
    let http = client();
    for turn in 1..=20_usize {
        for (at, gateway) in gateways.iter().enumerate() {
            let prompt = format!("conversation {} ", (at + turn) % 3).repeat(40 * turn);
            let url = format!("http://{}/v1/chat/completions", gateway.listen);
            let answer = http.post(url).body(ask(&prompt, false).to_string()).send().await.expect("answered");
            assert_eq!(answer.status(), 200);
            answer.bytes().await.expect("a body");
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

fn firing(alerts: &[Sample]) -> BTreeSet<(String, String)> {
    let label = |alert: &Sample, name: &str| alert.labels[name].as_str().unwrap_or_default().to_owned();
    alerts.iter().map(|alert| (label(alert, "alertname"), label(alert, "instance"))).collect()
}

/// Every query of every panel, for this job and all gateways.
fn panel_queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").clone();
    let queries = panels.into_iter().flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (title.clone(), target["expr"].as_str().expect("PromQL").to_owned()))
    });
    let filled =
        |expr: String| expr.replace("$job", "covey").replace("$instance", ".*").replace("$__rate_interval", "30s");
    queries.map(|(title, expr)| (title, filled(expr))).collect()
}

async fn all_rules_are_healthy(prometheus: &Prometheus) {
    let groups = prometheus.api("rules", &[]).await["groups"].as_array().expect("groups").clone();
    let rules: Vec<Value> = groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect();
    let shipped = RULES.matches("- alert: ").count() + RULES.matches("- record: ").count();
    assert_eq!(rules.len(), shipped);
    let ill: Vec<_> = rules.iter().filter(|rule| rule["health"] != "ok").collect();
    assert!(ill.is_empty(), "{ill:#?}");
    eprintln!("{} rules loaded, all healthy", rules.len());
}

async fn every_panel_has_data(prometheus: &Prometheus) {
    let queries = panel_queries();
    for (title, expr) in &queries {
        // Some gauges are a second old when they are scraped.
        prometheus.until_some(title, expr).await;
    }
    eprintln!("{} queries of the dashboard answered with data", queries.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_sees_a_mesh_converge_and_a_gateway_die() {
    let secret = secret();
    let worker = remembering_worker().await;
    let mut engine = PubSocket::new();
    let events = format!("w0={}", engine.bind("tcp://127.0.0.1:0").await.expect("it binds"));
    let gateways = mesh(&worker, secret.path.to_str().expect("a path"), &events);
    let targets: Vec<&str> = gateways.iter().map(|gateway| gateway.admin.as_str()).collect();
    let prometheus = Prometheus::start(&targets, &hasty_rules()).await;

    let took = prometheus.until("three targets are up", "sum(up{job=\"covey\"}) == 3", 1).await;
    eprintln!("three targets up after {took:?}");
    let took = prometheus.until("all are converged", "covey_mesh_converged == 1", 3).await;
    eprintln!("three gateways converged after another {took:?}");

    prometheus.until_some("two of them read the worker's events", "sum(covey_feed_state) == 2").await;
    publish(engine);
    prometheus.until_some("and know its cache", "sum(covey_feed_state{state=\"exact\"}) == 2").await;

    traffic(&gateways).await;
    let quantile = "histogram_quantile(0.99, sum by (le) (rate(covey_mesh_propagation_seconds_bucket[30s]))) > 0";
    prometheus.until("propagation has a quantile", quantile, 1).await;
    let p99 = prometheus.query(quantile).await[0].value;
    assert!(p99 > 0.0 && p99 < 1.0, "{p99}");
    eprintln!("propagation p99 by Prometheus: {:.1} ms", p99 * 1e3);
    prometheus.until("so does the recording rule", "covey:propagation_seconds:p99 > 0", 1).await;
    let applied = prometheus.query("sum(covey_mesh_ops_received_total{use=\"applied\"})").await[0].value;
    assert!(applied >= 100.0, "{applied} ops of peers applied");

    all_rules_are_healthy(&prometheus).await;
    every_panel_has_data(&prometheus).await;
    let alerts = firing(&prometheus.query("ALERTS").await);
    assert!(alerts.is_empty(), "alerts in a mesh that is well: {alerts:?}");

    gateways[2].signal("KILL");
    let (dead, alive) = (&gateways[2].admin, [&gateways[0].admin, &gateways[1].admin]);
    let down = format!("ALERTS{{alertname=\"CoveyGatewayDown\", instance=\"{dead}\", alertstate=\"firing\"}}");
    let took = prometheus.until("the dead gateway is missed", &down, 1).await;
    eprintln!("CoveyGatewayDown fires {took:?} after kill -9");
    let worse = "ALERTS{alertname=~\"CoveyDegraded|CoveyPartitioned\", alertstate=\"firing\"}";
    let took = prometheus.until("its peers miss it too", &format!("count by (instance) ({worse})"), 2).await;
    let alerts = firing(&prometheus.query("ALERTS{alertstate=\"firing\"}").await);
    eprintln!("another {took:?} later these fire: {alerts:?}");
    for gateway in alive {
        assert!(alerts.iter().any(|(_, instance)| instance == gateway), "{gateway} says nothing");
        assert!(!alerts.contains(&("CoveyGatewayDown".to_owned(), gateway.clone())), "{gateway} is well");
    }
    let wrong = ["CoveyDiverged", "CoveyDigestMismatch", "CoveyMeshThreadSilent", "CoveyMeshSplit", "CoveyErrors"];
    assert!(!alerts.iter().any(|(name, _)| wrong.contains(&name.as_str())), "{alerts:?}");
}
