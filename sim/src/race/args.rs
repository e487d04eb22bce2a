//! What `covey-sim race` is told.
//!
//! Not here: what an arm does with it (`arm`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::processes::WorkersPlan;
use crate::workload::Shape;

/// One of those that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArmName {
    /// Computed: one cache as large as all workers' together.
    Bound,
    /// Covey's gateways, in a mesh when there are several.
    Covey,
    /// vllm-router, cache-aware.
    VllmRouter,
    /// sglang-router, cache-aware.
    SglangRouter,
    /// vllm-router, each worker in turn.
    RoundRobin,
}

impl ArmName {
    /// The word for it in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Covey => "covey",
            Self::VllmRouter => "vllm-router",
            Self::SglangRouter => "sglang-router",
            Self::RoundRobin => "round-robin",
        }
    }
}

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadName {
    /// Long first messages, about eight turns.
    Agentic,
    /// Short messages, few turns.
    Chat,
}

impl WorkloadName {
    /// The word for it in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agentic => "agentic",
            Self::Chat => "chat",
        }
    }

    pub(super) const fn shape(self) -> Shape {
        match self {
            Self::Agentic => Shape::AGENTIC,
            Self::Chat => Shape::CHAT,
        }
    }

    /// Sessions that begin in a second unless told otherwise: agents keep six workers busy for half of the time; of chats
    /// it is what two cores carry.
    const fn rate(self) -> f64 {
        match self {
            Self::Agentic => 4.0,
            Self::Chat => 7.0,
        }
    }
}

/// Flags of `covey-sim race`.
#[derive(Args, Clone, Debug)]
pub struct RaceArgs {
    /// How many gateways there are; the race is run with each of these
    #[arg(long, value_delimiter = ',', default_value = "1,3")]
    pub gateways: Vec<usize>,
    /// Workloads, one after the other
    #[arg(long, value_delimiter = ',', value_enum, default_value = "agentic,chat")]
    pub workloads: Vec<WorkloadName>,
    /// Which arms to run, in this order
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        default_value = "bound,covey,vllm-router,sglang-router,round-robin"
    )]
    pub arms: Vec<ArmName>,
    /// Workers
    #[arg(long, default_value_t = 6)]
    pub workers: usize,
    /// Sessions that begin in a second, on average [default: 4 of agentic, 7 of chat]
    #[arg(long)]
    pub rate: Option<f64>,
    /// Seconds in which sessions begin; those that began are played to their ends
    #[arg(long, default_value_t = 45)]
    pub seconds: u64,
    /// Prompts, answers, times and the gateway of each request follow from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory with the programs vllm-router and sglang-router; arms whose program is not there are left out
    #[arg(long, value_name = "DIR")]
    pub routers: Option<PathBuf>,
    /// Tokens of KV cache in each worker
    #[arg(long, default_value_t = 240_000)]
    pub cache_tokens: u64,
    /// Prompt tokens a worker computes in a second
    #[arg(long, default_value_t = 16_000)]
    pub prefill_tokens_per_s: u32,
    /// Milliseconds in which each of a worker's running requests gets one token
    #[arg(long, default_value_t = 10)]
    pub decode_step_ms: u64,
    /// Milliseconds from one turn's time to the next one's at the least, beside a drawn pause: most answers are there by then
    #[arg(long, default_value_t = 2_000)]
    pub turn_ms: u64,
    /// Mean of the drawn pause, in milliseconds
    #[arg(long, default_value_t = 1_500)]
    pub think_ms: u64,
    /// Small requests through a gateway, and as many past it, that tell what it adds to the time to the first byte
    #[arg(long, default_value_t = 1_000)]
    pub added_requests: usize,
    /// Write the figures to this file, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The gateway's binary; by default `covey` beside this one
    #[arg(long, value_name = "FILE")]
    pub covey: Option<PathBuf>,
}

/// Most gateways or workers: the race is for one machine.
const PROCESSES_MAX: usize = 64;

impl RaceArgs {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// Names the flag and what it may be.
    pub(super) fn check(&self) -> Result<(), String> {
        let counts =
            self.gateways.iter().map(|gateways| ("--gateways", *gateways)).chain([("--workers", self.workers)]);
        for (flag, value) in counts {
            if value == 0 || value > PROCESSES_MAX {
                return Err(format!("{flag} is {value}: it must be between 1 and {PROCESSES_MAX}"));
            }
        }
        if !(1..=3_600).contains(&self.seconds) {
            return Err(format!("--seconds is {}: it must be between 1 and 3600", self.seconds));
        }
        if let Some(rate) = self.rate.filter(|rate| !(0.01..=1_000.0).contains(rate)) {
            return Err(format!("--rate is {rate}: it must be between 0.01 and 1000 sessions a second"));
        }
        if (1..self.arms.len()).any(|index| self.arms[..index].contains(&self.arms[index])) {
            return Err("--arms names an arm twice".to_owned());
        }
        Ok(())
    }

    /// Sessions that begin in a second.
    #[must_use]
    pub fn rate_of(&self, workload: WorkloadName) -> f64 {
        self.rate.unwrap_or_else(|| workload.rate())
    }

    pub(super) const fn turn_min(&self) -> Duration {
        Duration::from_millis(self.turn_ms)
    }

    /// The workers that the flags name.
    pub(super) const fn workers_plan(&self) -> WorkersPlan {
        WorkersPlan {
            workers: self.workers,
            cache_tokens: self.cache_tokens,
            prefill_tokens_per_s: self.prefill_tokens_per_s,
            decode_step_ms: self.decode_step_ms,
        }
    }
}
