//! `/metrics` under vLLM's names, as text for Prometheus: a series for each data-parallel rank.
//!
//! Not here: what is counted (`engine`).

use std::fmt::Write as _;

use super::ranks::Ranks;
use crate::engine::Stats;

type Counter = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Counter; 8] = [
    ("vllm:num_preemptions_total", "Requests that lost their blocks while running.", |stats| stats.preempted),
    ("vllm:prompt_tokens_total", "Prompt tokens of requests whose prefill is done.", |stats| stats.prompt_tokens),
    ("vllm:generation_tokens_total", "Tokens generated.", |stats| stats.generated_tokens),
    ("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", |stats| stats.queried_tokens),
    ("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", |stats| stats.hit_tokens),
    ("vllm:request_success_total", "Requests that ended.", |stats| stats.finished),
    ("covey_sim_prefilled_tokens_total", "Tokens prefilled, again after preemption included.", |stats| {
        stats.prefilled_tokens
    }),
    ("covey_sim_requests_cancelled_total", "Requests whose client hung up.", |stats| stats.cancelled),
];

/// The page.
pub(super) fn render(ranks: &Ranks, model: &str) -> String {
    let stats: Vec<Stats> = ranks.all().iter().map(|host| host.stats()).collect();
    let config = ranks.first().config();
    let mut page = Page { text: String::new(), model: escaped(model) };
    page.gauge("vllm:num_requests_running", "Requests with KV blocks.", stats.iter().map(|of| of.running as f64));
    page.gauge(
        "vllm:num_requests_waiting",
        "Requests waiting for KV blocks.",
        stats.iter().map(|of| of.waiting as f64),
    );
    let used = stats.iter().map(|of| f64::from(of.blocks_used) / f64::from(config.blocks()));
    page.gauge("vllm:kv_cache_usage_perc", "Share of KV blocks referred to; 1 is all of them.", used);
    for (name, help, value) in COUNTERS {
        page.counter(name, help, stats.iter().map(value));
    }
    page.cache_config(config.block_tokens, config.blocks(), stats.len());
    page.process_start(ranks.first().started_unix_s());
    page.text
}

struct Page {
    text: String,
    model: String,
}

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str, values: impl Iterator<Item = f64>) {
        self.head(name, help, "gauge");
        for (rank, value) in values.enumerate() {
            let _ = writeln!(self.text, "{name}{{engine=\"{rank}\",model_name=\"{}\"}} {value:?}", self.model);
        }
    }

    fn counter(&mut self, name: &str, help: &str, values: impl Iterator<Item = u64>) {
        self.head(name, help, "counter");
        for (rank, value) in values.enumerate() {
            let _ = writeln!(self.text, "{name}{{engine=\"{rank}\",model_name=\"{}\"}} {value}.0", self.model);
        }
    }

    fn cache_config(&mut self, block_tokens: u32, blocks: u32, ranks: usize) {
        let name = "vllm:cache_config_info";
        self.head(name, "Size of the KV cache.", "gauge");
        for rank in 0..ranks {
            let labels = format!(
                r#"block_size="{block_tokens}",cache_dtype="auto",enable_prefix_caching="True",engine="{rank}",num_gpu_blocks="{blocks}""#
            );
            let _ = writeln!(self.text, "{name}{{{labels}}} 1.0");
        }
    }

    fn process_start(&mut self, unix_s: f64) {
        let name = "process_start_time_seconds";
        self.head(name, "Start time of the process since unix epoch in seconds.", "gauge");
        let _ = writeln!(self.text, "{name} {unix_s:.3}");
    }
}

/// A label value: quotes, backslashes and line ends escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}
