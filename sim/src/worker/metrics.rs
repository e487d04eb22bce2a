//! `/metrics` under vLLM's names, as text for Prometheus.
//!
//! Not here: what is counted (`engine`).

use std::fmt::Write as _;

use super::host::Host;

/// The page.
pub(super) fn render(host: &Host, model: &str) -> String {
    let stats = host.stats();
    let blocks = host.config().blocks();
    let mut page = Page { text: String::new(), labels: format!(r#"engine="0",model_name="{}""#, escaped(model)) };
    page.gauge("vllm:num_requests_running", "Requests with KV blocks.", stats.running as f64);
    page.gauge("vllm:num_requests_waiting", "Requests waiting for KV blocks.", stats.waiting as f64);
    let used = f64::from(stats.blocks_used) / f64::from(blocks);
    page.gauge("vllm:kv_cache_usage_perc", "Share of KV blocks referred to; 1 is all of them.", used);
    for (name, help, value) in [
        ("vllm:num_preemptions_total", "Requests that lost their blocks while running.", stats.preempted),
        ("vllm:prompt_tokens_total", "Prompt tokens of requests whose prefill is done.", stats.prompt_tokens),
        ("vllm:generation_tokens_total", "Tokens generated.", stats.generated_tokens),
        ("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", stats.queried_tokens),
        ("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", stats.hit_tokens),
        ("vllm:request_success_total", "Requests that ended.", stats.finished),
        (
            "covey_sim_prefilled_tokens_total",
            "Tokens prefilled, again after preemption included.",
            stats.prefilled_tokens,
        ),
        ("covey_sim_requests_cancelled_total", "Requests whose client hung up.", stats.cancelled),
    ] {
        page.counter(name, help, value);
    }
    page.cache_config(host.config().block_tokens, blocks);
    page.process_start(host.started_unix_s());
    page.text
}

struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{{{}}} {value:?}", self.labels);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} counter\n{name}{{{}}} {value}.0", self.labels);
    }

    fn cache_config(&mut self, block_tokens: u32, blocks: u32) {
        let name = "vllm:cache_config_info";
        let labels = format!(
            r#"block_size="{block_tokens}",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks="{blocks}""#
        );
        let _ = writeln!(self.text, "# HELP {name} Size of the KV cache.\n# TYPE {name} gauge\n{name}{{{labels}}} 1.0");
    }

    fn process_start(&mut self, unix_s: f64) {
        let name = "process_start_time_seconds";
        let help = "Start time of the process since unix epoch in seconds.";
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {unix_s:.3}");
    }
}

/// A label value: quotes, backslashes and line ends escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}
