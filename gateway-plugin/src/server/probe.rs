//! Reading a worker's cache off its own metrics: which life it is in, and how much it holds.
//!
//! vLLM: `process_start_time_seconds` is the life's token, `vllm:cache_config_info{block_size, num_gpu_blocks}` the
//! capacity. An engine without metrics that answers `/get_server_info` (SGLang) gives `max_total_num_tokens`; its lives
//! cannot be told apart, so only idle expiry clears its coverage after a restart, and a warning says so once.
//!
//! Not here: when to probe (`health`).

use std::time::Duration;

use covey_crdt::id::Token;
use serde_json::Value;

use super::workers::Probed;

/// Most bytes read of a worker's metrics.
const METRICS_BYTES_MAX: usize = 16 << 20;
/// How long a probe may take; metrics of a busy engine can be slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The token of an engine that does not tell its lives apart.
pub(super) const UNTRACKED: &str = "untracked";

/// Asks a worker. `None`: it did not answer, or nothing that can be believed; ask again later.
pub(super) async fn probe(client: &reqwest::Client, url: &str) -> Option<Probed> {
    tokio::time::timeout(PROBE_TIMEOUT, ask(client, url)).await.ok().flatten()
}

async fn ask(client: &reqwest::Client, url: &str) -> Option<Probed> {
    let response = client.get(format!("{url}/metrics")).send().await.ok()?;
    let missing = response.status().as_u16() == 404;
    if !missing && !response.status().is_success() {
        return None;
    }
    let text = if missing { String::new() } else { body(response).await? };
    let mut found = parse(&text);
    if found.capacity_tokens.is_none()
        && let Ok(response) = client.get(format!("{url}/get_server_info")).send().await
        && response.status().is_success()
    {
        found.capacity_tokens = server_info(&body(response).await?);
    }
    Some(found)
}

async fn body(mut response: reqwest::Response) -> Option<String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > METRICS_BYTES_MAX {
            return None;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Reads Prometheus text.
fn parse(text: &str) -> Probed {
    let mut token = UNTRACKED.to_owned();
    let mut capacity: Option<u64> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("process_start_time_seconds") {
            let value = rest.rsplit_once('}').map_or(rest, |(_, value)| value).split_whitespace().next();
            if let Some(value) = value.filter(|value| Token::new(value).is_ok()) {
                value.clone_into(&mut token);
            }
        } else if let Some(labels) = line.strip_prefix("vllm:cache_config_info{") {
            let number = |name| label(labels, name).and_then(|value| value.parse::<u64>().ok());
            let blocks = number("num_gpu_blocks").filter(|blocks| *blocks > 0);
            if let (Some(size), Some(blocks)) = (number("block_size"), blocks) {
                // One line per data-parallel engine behind the URL: together they are the worker's cache.
                capacity = Some(capacity.unwrap_or_default().saturating_add(size.saturating_mul(blocks)));
            }
        }
    }
    Probed { token, capacity_tokens: capacity.filter(|tokens| *tokens > 0) }
}

/// The value of one label of `a="x",b="y"} 1.0`. Values that hold escapes are of no interest here.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = labels;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        if key.trim_start_matches([',', ' ']) == name {
            return Some(value);
        }
        rest = after;
    }
}

fn server_info(text: &str) -> Option<u64> {
    let info: Value = serde_json::from_str(text).ok()?;
    info.get("max_total_num_tokens").and_then(Value::as_u64).filter(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: &str = "# HELP process_start_time_seconds Start time.\n\
        # TYPE process_start_time_seconds gauge\n\
        process_start_time_seconds 1.76440000123e+09\n\
        vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",num_gpu_blocks=\"7500\",x=\"None\"} 1.0\n\
        vllm:num_requests_running{engine=\"0\"} 3.0\n";

    #[test]
    fn vllm_metrics_say_life_and_capacity() {
        let expected = Probed { token: "1.76440000123e+09".to_owned(), capacity_tokens: Some(120_000) };
        assert_eq!(parse(VLLM), expected);
    }

    #[test]
    fn other_text_is_an_untracked_engine_of_unknown_capacity() {
        for text in ["", "<html>", "vllm:cache_config_info{block_size=\"16\"", "process_start_time_seconds\n"] {
            assert_eq!(parse(text), Probed { token: UNTRACKED.to_owned(), capacity_tokens: None }, "{text:?}");
        }
        let unknown = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1.0\n";
        assert_eq!(parse(unknown).capacity_tokens, None);
    }

    #[test]
    fn labels_of_the_server_info_are_found() {
        assert_eq!(server_info(r#"{"max_total_num_tokens": 5000}"#), Some(5_000));
        assert_eq!(server_info("[]"), None);
    }
}
