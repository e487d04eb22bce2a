//! Reading a worker off its own metrics: which life it is in, how much its cache holds, how many requests it has.
//!
//! vLLM: `process_start_time_seconds` is the life's token, `vllm:cache_config_info{block_size, num_gpu_blocks}` the
//! capacity, of each data-parallel rank where its series carry `engine`. An engine without metrics that answers `/get_server_info` (SGLang) gives `max_total_num_tokens`; its lives
//! cannot be told apart, so only idle expiry clears its coverage after a restart, and a warning says so once.
//!
//! Not here: when to probe (`health`).

use std::collections::BTreeMap;
use std::time::Duration;

use covey_crdt::id::Token;
use serde_json::Value;

use super::workers::Probed;

/// Most bytes read of a worker's metrics.
const METRICS_BYTES_MAX: usize = 16 << 20;
/// How long a probe may take; metrics of a busy engine can be slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// What vLLM and SGLang call the requests they have.
const REQUEST_GAUGES: [&str; 4] =
    ["vllm:num_requests_running", "vllm:num_requests_waiting", "sglang:num_running_reqs", "sglang:num_queue_reqs"];
/// The token of an engine that does not tell its lives apart.
pub(super) const UNTRACKED: &str = "untracked";

/// What an address says of its engine, or engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metrics {
    token: String,
    /// Of all ranks together, as far as it is divided at all.
    capacity_tokens: Option<u64>,
    /// Of single ranks.
    ranks: BTreeMap<u16, u64>,
    /// Requests running and waiting, of all ranks together.
    requests: Option<u32>,
    /// Of single ranks.
    requests_of: BTreeMap<u16, u32>,
}

impl Metrics {
    /// What they say of one rank, or of the only one. Where no rank has a series, each has what is told of all.
    pub(super) fn of(&self, rank: Option<u16>) -> Probed {
        let of_rank = |rank| if self.ranks.is_empty() { self.capacity_tokens } else { self.ranks.get(&rank).copied() };
        // Unlike a capacity, what several ranks have to do together says nothing of one.
        let requests = rank.map_or(self.requests, |rank| self.requests_of.get(&rank).copied());
        Probed { token: self.token.clone(), capacity_tokens: rank.map_or(self.capacity_tokens, of_rank), requests }
    }

    /// Whether a rank's capacity is what is told of all.
    pub(super) fn is_shared(&self, rank: Option<u16>) -> bool {
        rank.is_some() && self.ranks.is_empty() && self.capacity_tokens.is_some()
    }
}

/// Asks an address. `None`: it did not answer, or nothing that can be believed; ask again later.
pub(super) async fn probe(client: &reqwest::Client, url: &str) -> Option<Metrics> {
    tokio::time::timeout(PROBE_TIMEOUT, ask(client, url)).await.ok().flatten()
}

async fn ask(client: &reqwest::Client, url: &str) -> Option<Metrics> {
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
fn parse(text: &str) -> Metrics {
    let mut token = UNTRACKED.to_owned();
    let mut capacity: Option<u64> = None;
    let mut ranks = BTreeMap::new();
    let (mut requests, mut requests_of): (Option<u32>, BTreeMap<u16, u32>) = (None, BTreeMap::new());
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
                let tokens = size.saturating_mul(blocks);
                capacity = Some(capacity.unwrap_or_default().saturating_add(tokens));
                let rank = label(labels, "engine").and_then(|rank| rank.parse::<u16>().ok());
                ranks.extend(rank.filter(|_| tokens > 0).map(|rank| (rank, tokens)));
            }
        } else if let Some((engine, count)) = REQUEST_GAUGES.iter().find_map(|gauge| count_of(line, gauge)) {
            requests = Some(requests.unwrap_or_default().saturating_add(count));
            if let Some(rank) = engine {
                let of_rank = requests_of.entry(rank).or_default();
                *of_rank = of_rank.saturating_add(count);
            }
        }
    }
    Metrics { token, capacity_tokens: capacity.filter(|tokens| *tokens > 0), ranks, requests, requests_of }
}

/// A gauge of requests: the rank that it is of, if it says, and how many.
fn count_of(line: &str, gauge: &str) -> Option<(Option<u16>, u32)> {
    let rest = line.strip_prefix(gauge)?;
    let (labels, value) = match rest.strip_prefix('{') {
        Some(labelled) => labelled.rsplit_once('}')?,
        None => ("", rest.strip_prefix(' ')?),
    };
    let value: f64 = value.split_whitespace().next()?.parse().ok()?;
    // One count for all that compute a prompt together, not one for each part of a layer or of the layers.
    let is_first = |name| label(labels, name).is_none_or(|rank| rank == "0");
    if !is_first("tp_rank") || !is_first("pp_rank") {
        return None;
    }
    let rank = ["engine", "dp_rank"].iter().find_map(|name| label(labels, name)).and_then(|rank| rank.parse().ok());
    (value.is_finite() && value >= 0.0).then_some((rank, value as u32))
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
        let expected =
            Probed { token: "1.76440000123e+09".to_owned(), capacity_tokens: Some(120_000), requests: Some(3) };
        assert_eq!(parse(VLLM).of(None), expected);
    }

    #[test]
    fn each_rank_has_its_own_series_and_without_any_what_is_told_of_all() {
        let two =
            format!("{VLLM}vllm:cache_config_info{{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"100\"}} 1.0\n");
        let metrics = parse(&two);
        let capacity = |rank| metrics.of(rank).capacity_tokens;
        assert_eq!([None, Some(0), Some(1), Some(2)].map(capacity), [Some(121_600), Some(120_000), Some(1_600), None]);
        assert!(!metrics.is_shared(Some(0)));
        let whole = parse("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1.0\n");
        assert_eq!((whole.of(Some(3)).capacity_tokens, whole.is_shared(Some(3))), (Some(1_600), true));
        assert!(!whole.is_shared(None));
    }

    #[test]
    fn other_text_is_an_untracked_engine_of_unknown_capacity() {
        for text in ["", "<html>", "vllm:cache_config_info{block_size=\"16\"", "process_start_time_seconds\n"] {
            let expected = Probed { token: UNTRACKED.to_owned(), capacity_tokens: None, requests: None };
            assert_eq!((parse(text).of(None), parse(text).of(Some(1))), (expected.clone(), expected), "{text:?}");
        }
        let unknown = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1.0\n";
        assert_eq!(parse(unknown).of(None).capacity_tokens, None);
    }

    #[test]
    fn requests_that_run_and_wait_are_told_of_each_rank() {
        let told = |text: &str, rank| parse(text).of(rank).requests;
        let vllm = format!(
            "{VLLM}vllm:num_requests_waiting{{engine=\"0\"}} 4.0\nvllm:num_requests_running{{engine=\"1\"}} 2\n\
             vllm:num_requests_waiting_by_reason{{engine=\"0\",reason=\"capacity\"}} 4.0\n"
        );
        assert_eq!([None, Some(0), Some(1), Some(2)].map(|rank| told(&vllm, rank)), [Some(9), Some(7), Some(2), None]);
        let sglang = "sglang:num_running_reqs{dp_rank=\"0\"} 5.0\nsglang:num_queue_reqs{dp_rank=\"0\"} 6.0\n";
        assert_eq!([None, Some(0)].map(|rank| told(sglang, rank)), [Some(11), Some(11)]);
        let sharded = "sglang:num_queue_reqs{tp_rank=\"0\",pp_rank=\"0\"} 6\nsglang:num_queue_reqs{tp_rank=\"1\",pp_rank=\"0\"} 6\n";
        assert_eq!(told(sharded, None), Some(6), "one engine in two parts");
        assert_eq!(told("sglang:num_queue_reqs 7\n", None), Some(7), "without labels");
        assert_eq!(told("sglang:num_queue_reqs 7\n", Some(0)), None, "of which rank is not said");
        for damaged in ["vllm:num_requests_running", "vllm:num_requests_running{a=\"}", "vllm:num_requests_running NaN"]
        {
            assert_eq!(told(damaged, None), None, "{damaged}");
        }
    }

    #[test]
    fn labels_of_the_server_info_are_found() {
        assert_eq!(server_info(r#"{"max_total_num_tokens": 5000}"#), Some(5_000));
        assert_eq!(server_info("[]"), None);
    }
}
