//! What `covey-sim eval` is told.
//!
//! Not here: doing it (`run`).

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::arms::Arm;
use super::sweep::Sweep;

/// Comparisons whose settings are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SuiteName {
    /// 240 workers, 1 and 8 gateways, 305 to 900 sessions a second, four shapes of prompts, one gateway cut off or replaced
    Published,
}

/// Settings; the defaults are those of the published yardstick.
#[derive(Args, Clone, Debug)]
pub struct EvalArgs {
    /// Play a fixed comparison in place of a workload of one's own; of the other flags --quick, --shapes, --rates, --seed and --json count
    #[arg(long, value_enum)]
    pub suite: Option<SuiteName>,
    /// A tenth of the suite's fleet and one shape
    #[arg(long, requires = "suite")]
    pub quick: bool,
    /// Only these shapes of the suite: chat, agentic, documents, hot. Default: all
    #[arg(long, requires = "suite", value_delimiter = ',', value_parser = ["chat", "agentic", "documents", "hot"])]
    pub shapes: Vec<String>,
    /// Only these rates of the suite, in sessions a second: 305, 611, 900. Default: all
    #[arg(long, requires = "suite", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub rates: Vec<u32>,
    /// Trace in Mooncake's format (JSON lines, plain or .zst). Default: sessions of agents made up from the seed
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Tokens that a block of the trace stands for
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub block_tokens: u32,
    /// Copies of the trace played at once, which share its first block alone. Default: one for every 8 workers of
    /// Mooncake's conversations, which were recorded of as many; else 1
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub copies: Option<u32>,
    /// Workers
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub workers: u32,
    /// Gateways; each request comes to one of them at random
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub gateways: u32,
    /// Ways to route, compared with one another
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [
        Arm::ExactP2c, Arm::Random, Arm::RoundRobin, Arm::Sticky, Arm::PrefixHash, Arm::PerGateway, Arm::SharedTier,
        Arm::Covey, Arm::CoveyEvents, Arm::CoveyIsolated,
    ])]
    pub arms: Vec<Arm>,
    /// Try a number of Covey's policy at several values, beside exact-p2c, in place of --arms: holders, samples, useful-share,
    /// uncached-weight, request-tokens, hope
    #[arg(long, value_name = "NAME=VALUES", conflicts_with_all = ["suite", "arms"])]
    pub sweep: Option<Sweep>,
    /// Runs of each arm, from --seed on; the table has means and 95 % confidence intervals
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub seeds: u32,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// KV cache of a worker, in tokens
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1_024..=1 << 32))]
    pub cache_tokens: u64,
    /// Prompt tokens that a worker computes in a second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub prefill_tokens_per_s: u64,
    /// Seconds of the trace that are played. Default: all
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,
    /// Write the figures there as JSON, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
