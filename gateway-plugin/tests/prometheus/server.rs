//! A Prometheus server of one's own: started on a free port with an empty database, asked over its HTTP API, killed at the
//! end.
//!
//! Not here: what is asked.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::gateway::client;

/// How long anything may take to become true.
const PATIENCE: Duration = Duration::from_secs(40);

/// One series of an answer at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) labels: Value,
    pub(crate) value: f64,
}

pub(crate) struct Prometheus {
    child: Child,
    url: String,
    http: reqwest::Client,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts a server that scrapes `targets` as job `covey` each second.
    pub(crate) async fn start(targets: &[&str], rules: &str) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let targets = serde_json::to_string(targets).expect("strings");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [covey.rules.yml]\n\
             scrape_configs:\n  - job_name: covey\n    static_configs: [{{targets: {targets}}}]\n"
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).expect("written");
        std::fs::write(folder.path().join("covey.rules.yml"), rules).expect("written");
        // Free now; that somebody else takes it in the meantime shows as a server that does not become ready.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).expect("a free port");
        let child = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"])
            .arg(format!("--web.listen-address={free}"))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .spawn()
            .expect("prometheus runs; it is in Debian's package `prometheus`");
        let server = Self { child, url: format!("http://{free}"), http: client(), _folder: folder };
        let start = Instant::now();
        while !server.is_ready().await {
            assert!(start.elapsed() < PATIENCE, "Prometheus does not become ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    async fn is_ready(&self) -> bool {
        let answer = self.http.get(format!("{}/-/ready", self.url)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// One call of the HTTP API; its data.
    pub(crate) async fn api(&self, path: &str, params: &[(&str, &str)]) -> Value {
        let url = format!("{}/api/v1/{path}", self.url);
        let url = url::Url::parse_with_params(&url, params).expect("an address");
        let answer = self.http.get(url).send().await.expect("Prometheus answers");
        let answer: Value = answer.json().await.expect("JSON");
        assert_eq!(answer["status"], "success", "{params:?}: {answer}");
        answer["data"].clone()
    }

    /// An instant query.
    pub(crate) async fn query(&self, query: &str) -> Vec<Sample> {
        let data = self.api("query", &[("query", query)]).await;
        assert_eq!(data["resultType"], "vector", "{query}");
        let sample = |series: &Value| {
            let value = series["value"][1].as_str().and_then(|text| text.parse().ok());
            Sample { labels: series["metric"].clone(), value: value.expect("a number") }
        };
        data["result"].as_array().expect("series").iter().map(sample).collect()
    }

    /// Waits until a query finds so many series; how long that took.
    pub(crate) async fn until(&self, what: &str, query: &str, series: usize) -> Duration {
        self.until_it(what, query, |found| found == series).await
    }

    /// Waits until a query finds anything.
    pub(crate) async fn until_some(&self, what: &str, query: &str) {
        self.until_it(what, query, |found| found > 0).await;
    }

    async fn until_it(&self, what: &str, query: &str, is_enough: impl Fn(usize) -> bool) -> Duration {
        let start = Instant::now();
        loop {
            let found = self.query(query).await;
            if is_enough(found.len()) {
                return start.elapsed();
            }
            assert!(start.elapsed() < PATIENCE, "never: {what}: {query} finds {found:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
