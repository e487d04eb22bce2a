//! The published comparison again: 240 workers, one and eight gateways, three rates of sessions, four shapes of prompts, one
//! gateway cut off for a third of the run, and one replaced by a new process that knows nothing.
//!
//! Published (shared-index-tier work; 240 workers, 8 gateways, 611 sessions/s): cached share of follow-ups 0.873 and 0.878 with
//! the tier, 0.727 with an event tree in each gateway, 0.633 with a mesh that syncs trees; spread of the work (standard
//! deviation over mean) 0.045 against 0.43 and 0.46. Its prompts were not published, so only differences between arms of one
//! run compare, not the numbers.
//!
//! Not here: one run (`play`), the shapes (`generate`).

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::arms::{Arm, Harm, Setting, Trouble};
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

/// How far a gateway that was replaced may be behind the others from then on; in the quick form, where that are 200 requests, more.
const COLD: f64 = 0.02;
const COLD_QUICK: f64 = 0.06;

/// What is played: everything, or a tenth of the fleet for a few thousand requests.
#[derive(Clone, Debug)]
pub(super) struct Suite {
    pub(super) is_quick: bool,
    pub(super) seed: u64,
    /// Only shapes of these names; all when there are none.
    pub(super) shapes: Vec<String>,
    /// Only these rates; all when there are none.
    pub(super) rates: Vec<u32>,
}

/// One leg: the same sessions through one arm.
#[derive(Clone, Copy, Debug)]
struct Leg {
    shape: Shape,
    rate: f64,
    gateways: usize,
    harm: Option<Harm>,
    arm: Arm,
}

struct Row {
    leg: Leg,
    figures: Figures,
}

const HEAD: &str = "shape      sessions/s gateways arm           follow-up    hit  ttft mean s  p99 s  spread  max/mean  degraded  \
    diverged  KiB/s/gw  p99 ms\n";

const PUBLISHED: &str = "published of other prompts at 611/s, 8 gateways: tier 0.873 and 0.878, an event tree in each gateway 0.727, \
    a mesh that syncs trees 0.633\n";

impl Suite {
    fn fleet(&self) -> FleetConfig {
        let workers = if self.is_quick { 24 } else { 240 };
        FleetConfig { workers, cache_tokens: 120_000, prefill_tokens_per_s: 10_000, block_tokens: 64 }
    }

    fn legs(&self) -> Vec<Leg> {
        let mut shapes = if self.is_quick { vec![Shape::AGENTIC] } else { Shape::ALL.to_vec() };
        shapes.retain(|shape| self.shapes.is_empty() || self.shapes.iter().any(|name| name == shape.name));
        let mut rates = if self.is_quick { RATES[1..2].to_vec() } else { RATES.to_vec() };
        rates.retain(|rate| self.rates.is_empty() || self.rates.contains(&(*rate as u32)));
        let mut legs = Vec::new();
        for shape in &shapes {
            for &rate in &rates {
                for gateways in GATEWAYS {
                    legs.extend(ARMS.map(|arm| Leg { shape: *shape, rate, gateways, harm: None, arm }));
                }
            }
        }
        let is_troubled = |leg: &&Leg| leg.shape == Shape::AGENTIC && leg.rate == RATES[1] && leg.gateways == 8;
        let troubled: Vec<Leg> = legs.iter().filter(is_troubled).copied().collect();
        let with = |harm: Harm| troubled.iter().map(move |leg| Leg { harm: Some(harm), ..*leg });
        // A tier that is cut off, or index-less gateways, are other experiments.
        legs.extend(with(Harm::Cut).filter(|leg| leg.arm.is_covey()));
        legs.extend(with(Harm::Cold));
        legs
    }

    fn play(&self, leg: &Leg) -> Figures {
        let config = self.fleet();
        let per_s = leg.rate * config.workers as f64 / 240.0;
        let turns = (leg.shape.turns.0 + leg.shape.turns.1) as f64 / 2.0;
        let requests = if self.is_quick { REQUESTS_MIN / 20.0 } else { REQUESTS_MIN };
        let seconds = (requests / per_s / turns).ceil();
        let trace = sessions(&leg.shape, per_s, seconds, config.block_tokens, self.seed);
        let third_us = (seconds * 1e6 / 3.0) as u64;
        let to_us = match leg.harm {
            Some(Harm::Cold) => u64::MAX,
            Some(Harm::Cut) | None => 2 * third_us,
        };
        let trouble = leg.harm.map(|what| Trouble { what, from_us: third_us, to_us });
        play(
            leg.arm,
            &trace,
            config,
            &Setting { seed: self.seed, gateways: leg.gateways, trouble, ..Setting::default() },
        )
    }

    /// Plays it; gives the table, the figures for programs, and what was missed.
    pub(super) fn run(&self) -> (String, Value, Vec<String>) {
        let legs = self.legs();
        let figures = in_parallel(legs.len(), |nth| self.play(&legs[nth]));
        let rows: Vec<_> = legs.into_iter().zip(figures).map(|(leg, figures)| Row { leg, figures }).collect();
        let mut text = HEAD.to_owned();
        rows.iter().for_each(|row| text.push_str(&row.line()));
        rows.iter().filter_map(Row::troubled_line).for_each(|line| text.push_str(&line));
        text.push_str(PUBLISHED);
        let missed = missed(&rows, if self.is_quick { COLD_QUICK } else { COLD });
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
        let shape = self.leg.shape.name;
        match self.leg.harm {
            None => shape.to_owned(),
            Some(Harm::Cut) => format!("{shape}+cut"),
            Some(Harm::Cold) => format!("{shape}+cold"),
        }
    }

    /// How the gateway in trouble fared.
    fn troubled_line(&self) -> Option<String> {
        let of = self.figures.troubled?;
        let at_first = of.there_at_first.map_or_else(String::new, |share| format!(" ({share:.4} in the first 2 s)"));
        Some(format!(
            "{:<13} {:<13} follow-ups at the first gateway {:.4}{at_first}, at the others meanwhile {:.4}\n",
            self.shape(),
            self.leg.arm.name(),
            of.there,
            of.elsewhere
        ))
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
            "first_gateway_share": of.troubled.map(|of| of.there),
            "first_gateway_share_at_first": of.troubled.and_then(|of| of.there_at_first),
            "other_gateways_share": of.troubled.map(|of| of.elsewhere),
        })
    }
}

/// What the suite promises and was not kept.
fn missed(rows: &[Row], cold: f64) -> Vec<String> {
    let mut missed = Vec::new();
    let marked = |row: &&Row| row.leg.rate <= RATE_MARKED_MAX && row.leg.harm.is_none();
    for row in rows.iter().filter(marked).filter(|row| row.leg.arm == Arm::Covey) {
        let of = |arm: Arm, gateways: usize| {
            let same = |other: &&Row| {
                other.leg.arm == arm
                    && other.leg.gateways == gateways
                    && other.leg.harm.is_none()
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
    for row in rows.iter().filter(|row| row.leg.harm == Some(Harm::Cold) && row.leg.arm.is_covey()) {
        let of = row.figures.troubled.unwrap_or_default();
        // Its first two seconds are a fourteenth of that.
        let at_first = of.there_at_first.unwrap_or(0.0);
        if of.there < of.elsewhere - cold || at_first < of.elsewhere - 3.0 * cold {
            missed.push(format!(
                "{} {}: follow-up share {:.4} at the new gateway ({at_first:.4} in the first 2 s), {:.4} at the others",
                row.shape(),
                row.leg.arm.name(),
                of.there,
                of.elsewhere
            ));
        }
        if row.figures.degraded > 0 {
            missed.push(format!("{}: {} lookups degraded", row.shape(), row.figures.degraded));
        }
    }
    let diverged = |row: &&Row| row.figures.mesh.as_ref().is_some_and(|mesh| mesh.diverged_holders > 0);
    missed.extend(
        rows.iter().filter(diverged).map(|row| format!("{} {}: replicas differ", row.shape(), row.leg.arm.name())),
    );
    missed
}
