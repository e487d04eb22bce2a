//! What `covey-sim events` is told.
//!
//! Not here: doing it (`run`).

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Leg {
    /// One engine and one reader of its events in virtual time: what gateways are measured by
    Model,
    /// Gateways that ingest events, under eviction
    Events,
    /// Gateways that know only what they sent and saw answered
    Placements,
    /// The gateway that publishes a worker's feed is killed: the one that stands by goes on in the same generation
    KillOwner,
    /// Both gateways that read a worker's events are killed at the same moment: others replay the engine's past
    KillBoth,
    /// The same, with engines that keep no past: a generation is opened, and labelled as a part until the cache is cleared
    KillBothShort,
    /// An engine restarts with its clock an hour back: nothing of its old life is predicted any more
    Restart,
}

impl Leg {
    /// The word for it in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Events => "events",
            Self::Placements => "placements",
            Self::KillOwner => "kill-owner",
            Self::KillBoth => "kill-both",
            Self::KillBothShort => "kill-both-short",
            Self::Restart => "restart",
        }
    }
}

/// Settings; the defaults are those under which the marks are set.
#[derive(Args, Clone, Debug)]
pub struct EventsArgs {
    /// What to try, in this order. Those that break something start at least 3 gateways (kill-both… 4), watch from the break
    /// on for `--seconds` under load, and compare every state that a gateway shows with what the engine held at that position
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Leg::Model, Leg::Events, Leg::Placements])]
    pub legs: Vec<Leg>,
    /// Gateway processes, joined in a mesh; some legs start more
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub gateways: u32,
    /// Worker processes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub workers: u32,
    /// Blocks that each worker is to store in a second
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub blocks_per_s: u32,
    /// Batches that each worker keeps for replays
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub replay_steps: u32,
    /// Milliseconds by which each worker's events lag behind its steps
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub lag_ms: u32,
    /// KV cache of each worker, in tokens
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(4_096..=1 << 32))]
    pub cache_tokens: u64,
    /// Conversations at a time, for each worker
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub live: u32,
    /// Seconds before measuring, in which caches fill up
    #[arg(long, default_value_t = 15)]
    pub warm_s: u32,
    /// Seconds of measuring
    #[arg(long, default_value_t = 45, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,
    /// Everything that is drawn follows from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the figures there as JSON, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The gateway's binary. Default: `covey` beside this program
    #[arg(long, value_name = "FILE")]
    pub covey: Option<PathBuf>,
}
