//! Plays the legs and prints what they came to.
//!
//! Not here: processes (`cluster`), requests (`drive`). Exit codes: 0 every mark was met, 1 one was missed.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::{EventsArgs, Leg};
use super::chaos::{self, Outcome};
use super::cluster::{Cluster, MODEL, Wiring};
use super::drive::{Control, Drive, Driven};
use super::figures::Figures;
use super::model::{self, ModelConfig};
use super::traffic::{Traffic, TrafficConfig};
use crate::client::Client;
use crate::engine::{BLOCK_TOKENS, EngineConfig};
use crate::worker::asked_to_stop;

/// Least share of requests predicted exactly where events are read.
const EXACT_SHARE_MIN: f64 = 0.99;

/// What one leg came to.
struct Row {
    leg: Leg,
    figures: Figures,
    /// Blocks that a worker stored in a second.
    blocks_per_s: f64,
    failed: Vec<String>,
}

impl Row {
    /// What was missed, in words.
    fn missed(&self) -> Vec<String> {
        let (figures, mut missed) = (&self.figures, Vec::new());
        let (share_min, p95_max) = match self.leg {
            Leg::Model | Leg::Events => (EXACT_SHARE_MIN, 0),
            Leg::Placements => (0.0, u64::from(BLOCK_TOKENS)),
            // They have rows of their own.
            Leg::KillOwner | Leg::KillBoth | Leg::KillBothShort | Leg::Restart => (0.0, u64::MAX),
        };
        if figures.requests == 0 {
            missed.push("nothing was answered".to_owned());
        }
        if figures.exact_share() < share_min {
            missed.push(format!("{:.4} predicted exactly, at least {share_min} wanted", figures.exact_share()));
        }
        if figures.p95_error > p95_max {
            missed.push(format!("p95 error {} tokens, at most {p95_max} wanted", figures.p95_error));
        }
        if let Some(why) = self.failed.last() {
            missed.push(format!("{} requests failed, the last: {why}", self.failed.len()));
        }
        missed
    }

    fn json(&self) -> Value {
        json!({
            "leg": self.leg.name(),
            "figures": self.figures,
            "exact_share": self.figures.exact_share(),
            "blocks_per_worker_s": self.blocks_per_s,
            "failed": self.failed.len(),
            "missed": self.missed(),
        })
    }

    fn line(&self) -> String {
        let figures = &self.figures;
        format!(
            "{:<11} {:>8} {:>7.4} {:>5} {:>5} {:>6} {:>6} {:>6} {:>9.0} {:>6}\n",
            self.leg.name(),
            figures.requests,
            figures.exact_share(),
            figures.over,
            figures.under,
            figures.p95_error,
            figures.p99_error,
            figures.max_error,
            self.blocks_per_s,
            self.failed.len(),
        )
    }
}

const HEAD: &str =
    "leg         requests   exact  over under    p95    p99    max  blocks/s failed   (errors in tokens)\n";

/// Runs what was asked for and prints a table. Exit code 1 when a mark was missed.
///
/// # Errors
/// When something is missing, cannot be started or never becomes ready; in words for a terminal.
pub async fn run(args: &EventsArgs) -> Result<ExitCode, String> {
    let cannot = |why: std::io::Error| format!("report cannot be written: {why}");
    let (rows, outcomes) = tokio::select! {
        all = play(args) => all?,
        () = asked_to_stop() => return Err("interrupted: every process it had started was stopped".to_owned()),
    };
    let missed = rows.iter().map(|row| (row.leg.name(), row.missed()));
    let missed = missed.chain(outcomes.iter().map(|outcome| (outcome.name, outcome.missed())));
    let missed: Vec<_> =
        missed.flat_map(|(leg, why)| why.into_iter().map(move |why| format!("{leg}: {why}\n"))).collect();
    let heads = [(HEAD, rows.is_empty()), (Outcome::HEAD, outcomes.is_empty())];
    let [head, chaos_head] = heads.map(|(head, is_empty)| if is_empty { "" } else { head }.to_owned());
    let lines = std::iter::once(head).chain(rows.iter().map(Row::line));
    let lines = lines.chain(std::iter::once(chaos_head)).chain(outcomes.iter().map(Outcome::line));
    let text: String = lines.chain(missed.iter().cloned()).collect();
    std::io::stdout().write_all(text.as_bytes()).map_err(cannot)?;
    if let Some(file) = &args.json {
        let json = format!(
            "{:#}\n",
            json!(rows.iter().map(Row::json).chain(outcomes.iter().map(Outcome::json)).collect::<Vec<_>>())
        );
        std::fs::write(file, json).map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn play(args: &EventsArgs) -> Result<(Vec<Row>, Vec<Outcome>), String> {
    let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
    for &leg in &args.legs {
        match leg {
            Leg::Model => rows.push(in_virtual_time(args)),
            Leg::Events | Leg::Placements => rows.push(with_processes(args, leg).await?),
            Leg::KillOwner | Leg::KillBoth | Leg::KillBothShort | Leg::Restart => {
                outcomes.extend(chaos::play(args, leg).await?)
            }
        }
    }
    Ok((rows, outcomes))
}

pub(super) fn traffic(args: &EventsArgs, workers: u32) -> TrafficConfig {
    TrafficConfig { seed: args.seed, live: (args.live * workers) as usize, ..TrafficConfig::default() }
}

fn in_virtual_time(args: &EventsArgs) -> Row {
    let engine =
        EngineConfig { cache_tokens: args.cache_tokens, prefill_tokens_per_s: 16_000, ..EngineConfig::default() };
    let run = model::run(ModelConfig {
        engine,
        traffic: traffic(args, 1),
        blocks_per_s: args.blocks_per_s,
        lag_us: u64::from(args.lag_ms) * 1_000,
        seconds: args.warm_s + args.seconds,
        bridge_us: 1_000_000,
    });
    Row { leg: Leg::Model, figures: run.figures, blocks_per_s: run.blocks_per_s, failed: Vec::new() }
}

async fn with_processes(args: &EventsArgs, leg: Leg) -> Result<Row, String> {
    let client = Arc::new(Client::new()?);
    let wiring = Wiring { events: leg == Leg::Events, ..Wiring::of(args) };
    let mut cluster = Cluster::start(args, &client, wiring).await?;
    let gateways = cluster.bases();
    let blocks_per_s = f64::from(args.blocks_per_s * args.workers);
    let control = Control::default();
    let drive = Drive { client: &client, model: MODEL, gateways: &gateways, blocks_per_s, control: &control };
    let mut traffic = Traffic::new(traffic(args, args.workers));
    let warm = Duration::from_secs(args.warm_s.into());
    let Driven { samples, failed } = drive.run(&mut traffic, warm + Duration::from_secs(args.seconds.into())).await;
    cluster.check()?;
    let measured: Vec<_> = samples.iter().filter(|sample| sample.at >= warm).collect();
    let blocks: f64 = measured.iter().map(|sample| sample.blocks).sum();
    let figures = Figures::of(&measured.iter().map(|sample| sample.pair).collect::<Vec<_>>());
    Ok(Row { leg, figures, blocks_per_s: blocks / f64::from(args.seconds * args.workers), failed })
}
