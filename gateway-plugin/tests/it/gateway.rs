//! Gateways in this process, started as the command line would.

use std::path::PathBuf;

use clap::Parser;
use covey_gateway_plugin::cli::Config;
use covey_gateway_plugin::cli::args::{Cli, Command};
use covey_gateway_plugin::server::{Fault, Running, start};
use serde_json::{Value, json};

use crate::fake::FakeWorker;

pub(crate) const MODEL: &str = "test-model";

pub(crate) struct TestGateway {
    pub(crate) running: Running,
    pub(crate) client: reqwest::Client,
}

/// Starts a gateway on free ports in front of `workers`, named w0, w1, …
pub(crate) async fn gateway(workers: &[&FakeWorker], extra: &[&str]) -> TestGateway {
    let urls: Vec<String> = workers.iter().map(|worker| worker.url()).collect();
    gateway_at(&urls, extra).await
}

pub(crate) async fn gateway_at(urls: &[String], extra: &[&str]) -> TestGateway {
    let mut args: Vec<String> =
        ["covey", "gateway", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--model", MODEL]
            .map(str::to_owned)
            .to_vec();
    for (flag, value) in [("--health-interval", "50ms"), ("--probe-interval", "100ms")] {
        if !extra.contains(&flag) {
            args.extend([flag, value].map(str::to_owned));
        }
    }
    for (i, url) in urls.iter().enumerate() {
        args.extend(["--worker".to_owned(), format!("w{i}={url}")]);
    }
    args.extend(extra.iter().map(|&arg| arg.to_owned()));
    let Command::Gateway(args) = Cli::try_parse_from(args).expect("flags parse").command else {
        panic!("not a gateway")
    };
    let config = Config::parse(&args).expect("a sound configuration");
    let running = start(config).await.expect("the gateway starts");
    TestGateway { running, client: client() }
}

/// A client with connections of its own.
pub(crate) fn client() -> reqwest::Client {
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

impl TestGateway {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.listen())
    }

    pub(crate) fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.admin_listen())
    }

    pub(crate) async fn chat(&self, body: &Value) -> reqwest::Response {
        let request = self.client.post(self.url("/v1/chat/completions")).header("x-covey-debug", "1");
        request.body(body.to_string()).send().await.expect("the gateway answers")
    }

    pub(crate) fn faults(&self, fault: Fault) -> u64 {
        self.running.gateway().counters().fault_count(fault)
    }

    pub(crate) fn placements(&self) -> u64 {
        self.running.gateway().plugin().stats().placements
    }

    /// Waits until clients may come.
    pub(crate) async fn ready(&self) {
        let start = std::time::Instant::now();
        loop {
            let response = self.client.get(self.url("/readyz")).send().await.expect("the gateway answers");
            if response.status() == 200 {
                return;
            }
            let reason = response.text().await.expect("a reason");
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "not ready: {reason}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn ask(content: &str, stream: bool) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": content}], "stream": stream})
}

pub(crate) fn header<'a>(response: &'a reqwest::Response, name: &str) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

pub(crate) async fn error_of(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.expect("a body");
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"));
    assert!(json["error"]["message"].is_string() && json["error"]["type"].is_string(), "not an OpenAI error: {json}");
    (status, json["error"].clone())
}

/// A secret file that lives as long as the value.
pub(crate) struct Secret {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) fn secret() -> Secret {
    secret_of(b's')
}

/// Another one for each byte.
pub(crate) fn secret_of(byte: u8) -> Secret {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("secret");
    std::fs::write(&path, [byte; 48]).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    Secret { _dir: dir, path }
}
