//! What `covey-sim demo` is told.
//!
//! Not here: what an arm does with it (`arm`).

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};

use crate::processes::WorkersPlan;
use crate::workload::{RecordingConfig, Shape, WorkloadConfig};

/// One of the settings that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArmName {
    /// One gateway that sees every request: the most that routing by knowledge can reach.
    Bound,
    /// Several gateways with the mesh; each request goes to any of them.
    Mesh,
    /// Several gateways without the mesh; each request goes to any of them.
    Off,
    /// Several gateways without the mesh; each session stays with one.
    Sticky,
}

impl ArmName {
    /// The word for it in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Mesh => "mesh",
            Self::Off => "off",
            Self::Sticky => "sticky",
        }
    }

    /// How many gateways it has when the demo is told `gateways`.
    #[must_use]
    pub const fn gateways(self, gateways: usize) -> usize {
        match self {
            Self::Bound => 1,
            Self::Mesh | Self::Off | Self::Sticky => gateways,
        }
    }
}

/// What to break while the mesh arm runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Chaos {
    /// Kill one gateway (SIGKILL) and start it again with the same flags.
    Kill,
    /// Cut one gateway's network both ways for a while: every datagram of the mesh goes through a switch.
    Cut,
    /// Let one gateway's mesh thread panic, and later stall.
    Panic,
}

/// Whether gateways stay after the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stay {
    /// When somebody is there: standard output is a terminal.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Flags of `covey-sim demo`.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Write the figures to this file, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Append every answered request to this file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// Play the sessions of this recording instead of made-up ones: JSON lines {"timestamp": µs, "input": text, "output":
    /// text, "session_id": text}, plain or .zst; skipped with a message when there is no such file
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Of a trace, the longest pause between an answer and the session's next request, in milliseconds
    #[arg(long, default_value_t = 500, requires = "trace")]
    pub gap_max_ms: u64,
    /// Of a trace, tokens (of four bytes) after which an answer is cut: a worker writes one a step
    #[arg(long, default_value_t = 512, requires = "trace")]
    pub answer_max_tokens: usize,
    /// Gateways in every arm but `bound`
    #[arg(long, default_value_t = 8)]
    pub gateways: usize,
    /// Workers
    #[arg(long, default_value_t = 6)]
    pub workers: usize,
    /// Sessions in each arm; a trace has its own
    #[arg(long, default_value_t = 40, conflicts_with = "trace")]
    pub sessions: usize,
    /// Sessions that are live at the same time
    #[arg(long, default_value_t = 24)]
    pub live: usize,
    /// Prompts, answers, pauses and the gateway of each request follow from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Which arms to run, in this order; of a trace, unless told otherwise, bound,mesh
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        default_value = "bound,mesh,off,sticky",
        default_value_if("trace", ArgPredicate::IsPresent, "bound,mesh")
    )]
    pub arms: Vec<ArmName>,
    /// What to break in the middle of the mesh arm
    #[arg(long, value_enum)]
    pub chaos: Option<Chaos>,
    /// Seconds that `--chaos cut` lasts; connections take 8 to be given up
    #[arg(long, default_value_t = 20)]
    pub cut_s: u64,
    /// Whether the mesh goes on afterwards under light load, with its dashboard, until Ctrl-C: on a terminal, always, never
    #[arg(long, value_enum, default_value_t = Stay::Auto)]
    pub stay: Stay,
    /// The gateways' policy, the same in every arm
    #[arg(long, default_value = "mesh")]
    pub policy: String,
    /// Tokens of KV cache in each worker
    #[arg(long, default_value_t = 120_000)]
    pub cache_tokens: u64,
    /// Prompt tokens a worker computes in a second
    #[arg(long, default_value_t = 16_000)]
    pub prefill_tokens_per_s: u32,
    /// Milliseconds in which each of a worker's running requests gets one token; with a trace, unless told otherwise, 5
    #[arg(long, default_value_t = 10, default_value_if("trace", ArgPredicate::IsPresent, "5"))]
    pub decode_step_ms: u64,
    /// Mean pause between an answer and the next question, in milliseconds; a trace has its own
    #[arg(long, default_value_t = 700, conflicts_with = "trace")]
    pub think_ms: u64,
    /// The gateway's binary; by default `covey` beside this one
    #[arg(long, value_name = "FILE")]
    pub covey: Option<PathBuf>,
}

/// Most gateways or workers: the demo is for one machine.
const PROCESSES_MAX: usize = 64;

impl DemoArgs {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// Names the flag and what it may be.
    pub(super) fn check(&self) -> Result<(), String> {
        for (flag, value, max) in [
            ("--gateways", self.gateways, PROCESSES_MAX),
            ("--workers", self.workers, PROCESSES_MAX),
            ("--sessions", self.sessions, 100_000),
            ("--live", self.live, 10_000),
        ] {
            if value == 0 || value > max {
                return Err(format!("{flag} is {value}: it must be between 1 and {max}"));
            }
        }
        if !(1..=600).contains(&self.cut_s) {
            return Err(format!("--cut-s is {}: it must be between 1 and 600", self.cut_s));
        }
        if self.answer_max_tokens == 0 {
            return Err("--answer-max-tokens is 0: it must be at least 1".to_owned());
        }
        if self.chaos.is_some() && (self.gateways < 2 || !self.arms.contains(&ArmName::Mesh)) {
            return Err("--chaos needs the arm `mesh` and at least two --gateways".to_owned());
        }
        if (1..self.arms.len()).any(|index| self.arms[..index].contains(&self.arms[index])) {
            return Err("--arms names an arm twice".to_owned());
        }
        Ok(())
    }

    /// The workload that the flags name.
    pub(super) const fn workload(&self) -> WorkloadConfig {
        WorkloadConfig {
            seed: self.seed,
            sessions: self.sessions,
            think_mean: Duration::from_millis(self.think_ms),
            shape: Shape::AGENTIC,
        }
    }

    /// How a trace is to be read.
    pub(super) const fn recording(&self) -> RecordingConfig {
        RecordingConfig { gap_max: Duration::from_millis(self.gap_max_ms), answer_tokens_max: self.answer_max_tokens }
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        demo: DemoArgs,
    }

    fn parsed(flags: &[&str]) -> Result<DemoArgs, clap::Error> {
        Cli::try_parse_from([&["demo"], flags].concat()).map(|cli| cli.demo)
    }

    #[test]
    fn a_trace_has_its_own_arms_and_step_and_flags_overrule_them() {
        let made_up = parsed(&[]).expect("no flag is needed");
        assert_eq!((made_up.arms.len(), made_up.decode_step_ms), (4, 10));
        let trace = parsed(&["--trace", "t"]).expect("a trace");
        assert_eq!((&trace.arms[..], trace.decode_step_ms), (&[ArmName::Bound, ArmName::Mesh][..], 5));
        let told = parsed(&["--trace", "t", "--arms", "off", "--decode-step-ms", "10"]).expect("a trace");
        assert_eq!((&told.arms[..], told.decode_step_ms), (&[ArmName::Off][..], 10));
    }

    #[test]
    fn flags_that_would_change_nothing_are_refused() {
        for flags in [["--trace", "t", "--sessions", "4"], ["--trace", "t", "--think-ms", "5"]] {
            assert!(parsed(&flags).is_err(), "{flags:?}");
        }
        for flags in [["--gap-max-ms", "4"], ["--answer-max-tokens", "5"]] {
            assert!(parsed(&flags).is_err(), "{flags:?}");
        }
        let none = parsed(&["--trace", "t", "--answer-max-tokens", "0"]).expect("a number");
        assert!(none.check().is_err());
    }
}
