//! The published comparison again: 240 workers, one and eight gateways, three rates of sessions, four shapes of prompts, and one
//! gateway cut off for a third of the run.
//!
//! Published (shared-index-tier work; 240 workers, 8 gateways, 611 sessions/s): cached share of follow-ups 0.873 and 0.878 with
//! the tier, 0.727 with an event tree in each gateway, 0.633 with a mesh that syncs trees; spread of the work (standard
//! deviation over mean) 0.045 against 0.43 and 0.46. Its prompts were not published, so only differences between arms of one
//! run compare, not the numbers.
//!
//! Not here: one run (`play`), the shapes (`generate`).

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::arms::{Arm, Setting};
use super::figures::Figures;
use super::fleet::FleetConfig;
use super::generate::{Shape, sessions};
use super::play::play;
use super::run::in_parallel;

/// Sessions a second, for 240 workers.
const RATES: [f64; 3] = [305.0, 611.0, 900.0];
/// Above this rate nothing is promised: queues grow without bound.
const RATE_MARKED_MAX: f64 = 611.0;
const GATEWAYS: [usize; 2] = [1, 8];
const ARMS: [Arm; 4] = [Arm::Covey, Arm::CoveyEvents, Arm::SharedTier, Arm::PerGateway];
/// Requests of a leg at least.
const REQUESTS_MIN: f64 = 52_000.0;
/// The cached share may differ by so much between one gateway and eight.
const FLAT: f64 = 0.005;

/// What is played: everything, or a tenth of the fleet for a few thousand requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suite {
    pub(super) is_quick: bool,
    pub(super) seed: u64,
}

/// One leg: the same sessions through one arm.
#[derive(Clone, Copy, Debug)]
struct Leg {
    shape: Shape,
    rate: f64,
    gateways: usize,
    is_cut: bool,
    arm: Arm,
}

struct Row {
    leg: Leg,
    figures: Figures,
}

const HEAD: &str = "shape      sessions/s gateways arm           follow-up    hit  ttft mean s  p99 s  spread  max/mean  degraded  \
    diverged  KiB/s/gw  p99 ms\n";

impl Suite {
    fn fleet(self) -> FleetConfig {
        let workers = if self.is_quick { 24 } else { 240 };
        FleetConfig { workers, cache_tokens: 120_000, prefill_tokens_per_s: 10_000, block_tokens: 64 }
    }

    fn legs(self) -> Vec<Leg> {
        let shapes = if self.is_quick { vec![Shape::AGENTIC] } else { Shape::ALL.to_vec() };
        let rates = if self.is_quick { &RATES[1..2] } else { &RATES[..] };
        let mut legs = Vec::new();
        for shape in shapes {
            for &rate in rates {
                for gateways in GATEWAYS {
                    legs.extend(ARMS.map(|arm| Leg { shape, rate, gateways, is_cut: false, arm }));
                }
            }
        }
        legs.extend([Arm::Covey, Arm::CoveyEvents].map(|arm| Leg {
            shape: Shape::AGENTIC,
            rate: RATES[1],
            gateways: 8,
            is_cut: true,
            arm,
        }));
        legs
    }

    fn play(self, leg: &Leg) -> Figures {
        let config = self.fleet();
        let per_s = leg.rate * config.workers as f64 / 240.0;
        let turns = (leg.shape.turns.0 + leg.shape.turns.1) as f64 / 2.0;
        let requests = if self.is_quick { REQUESTS_MIN / 20.0 } else { REQUESTS_MIN };
        let seconds = (requests / per_s / turns).ceil();
        let trace = sessions(&leg.shape, per_s, seconds, config.block_tokens, self.seed);
        let third_us = (seconds * 1e6 / 3.0) as u64;
        let cut = leg.is_cut.then_some((third_us, 2 * third_us));
        play(leg.arm, &trace, config, &Setting { seed: self.seed, gateways: leg.gateways, cut })
    }

    /// Plays it; gives the table, the figures for programs, and what was missed.
    pub(super) fn run(self) -> (String, Value, Vec<String>) {
        let legs = self.legs();
        let figures = in_parallel(legs.len(), |nth| self.play(&legs[nth]));
        let rows: Vec<_> = legs.into_iter().zip(figures).map(|(leg, figures)| Row { leg, figures }).collect();
        let mut text = HEAD.to_owned();
        rows.iter().for_each(|row| text.push_str(&row.line()));
        let missed = missed(&rows);
        for why in &missed {
            let _infallible = writeln!(text, "missed: {why}");
        }
        let config = self.fleet();
        let json = json!({
            "suite": "published",
            "quick": self.is_quick,
            "workers": config.workers,
            "legs": rows.iter().map(Row::json).collect::<Vec<_>>(),
            "published": {"tier": [0.873, 0.878], "per_gateway_trees": 0.727, "mesh_tree_sync": 0.633},
            "missed": missed,
        });
        (text, json, missed)
    }
}

impl Row {
    fn shape(&self) -> String {
        if self.leg.is_cut { format!("{}+cut", self.leg.shape.name) } else { self.leg.shape.name.to_owned() }
    }

    fn line(&self) -> String {
        let (leg, of) = (&self.leg, &self.figures);
        let mesh = of.mesh.as_ref();
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        format!(
            "{:<13} {:>7} {:>8} {:<13} {:>9.4} {:>6.4} {:>12.3} {:>6.2} {:>7.3} {:>9.3} {:>9} {:>9} {:>9} {:>7}\n",
            self.shape(),
            leg.rate,
            leg.gateways,
            leg.arm.name(),
            of.followup_cached_share,
            of.hit,
            of.ttft_mean_s,
            of.ttft_p99_s,
            of.work_variation,
            of.max_over_mean_work,
            of.degraded,
            or_dash(mesh.map(|mesh| mesh.diverged_holders.to_string())),
            or_dash(mesh.map(|mesh| format!("{:.0}", mesh.bytes_per_gateway_per_s / 1_024.0))),
            or_dash(mesh.map(|mesh| mesh.propagation_p99_ms.to_string())),
        )
    }

    fn json(&self) -> Value {
        let (leg, of) = (&self.leg, &self.figures);
        let mesh = of.mesh.as_ref();
        json!({
            "trace": self.shape(),
            "sessions_per_s": leg.rate,
            "gateways": leg.gateways,
            "arm": leg.arm.name(),
            "requests": of.requests,
            "followup_cached_share": of.followup_cached_share,
            "hit": of.hit,
            "hit_over_hstar": of.hit / of.bound,
            "ttft_mean_s": of.ttft_mean_s,
            "ttft_p99_s": of.ttft_p99_s,
            "work_variation": of.work_variation,
            "max_over_mean_work": of.max_over_mean_work,
            "degraded": of.degraded,
            "diverged_holders": mesh.map(|mesh| mesh.diverged_holders),
            "bytes_per_gateway_per_s": mesh.map(|mesh| mesh.bytes_per_gateway_per_s),
            "propagation_p99_ms": mesh.map(|mesh| mesh.propagation_p99_ms),
        })
    }
}

/// What the suite promises and was not kept.
fn missed(rows: &[Row]) -> Vec<String> {
    let mut missed = Vec::new();
    let marked = |row: &&Row| row.leg.rate <= RATE_MARKED_MAX && !row.leg.is_cut;
    for row in rows.iter().filter(marked).filter(|row| row.leg.arm == Arm::Covey) {
        let of = |arm: Arm, gateways: usize| {
            let same = |other: &&Row| {
                other.leg.arm == arm
                    && other.leg.gateways == gateways
                    && !other.leg.is_cut
                    && other.leg.rate == row.leg.rate
                    && other.leg.shape == row.leg.shape
            };
            rows.iter().find(same).map(|other| other.figures.followup_cached_share)
        };
        let (own, name) = (row.figures.followup_cached_share, format!("{} at {}/s", row.shape(), row.leg.rate));
        if row.figures.degraded > 0 {
            missed.push(format!("{name}, {} gateways: {} lookups degraded", row.leg.gateways, row.figures.degraded));
        }
        if let Some(one) = of(Arm::Covey, 1).filter(|one| (one - own).abs() > FLAT) {
            missed.push(format!(
                "{name}: follow-up share {own:.4} with {} gateways, {one:.4} with one",
                row.leg.gateways
            ));
        }
        if let Some(tier) = of(Arm::SharedTier, row.leg.gateways).filter(|tier| own < *tier) {
            missed
                .push(format!("{name}, {} gateways: follow-up share {own:.4}, the tier's {tier:.4}", row.leg.gateways));
        }
    }
    let diverged = |row: &&Row| row.figures.mesh.as_ref().is_some_and(|mesh| mesh.diverged_holders > 0);
    missed.extend(
        rows.iter().filter(diverged).map(|row| format!("{} {}: replicas differ", row.shape(), row.leg.arm.name())),
    );
    missed
}
