//! An engine restarts under load, with its clock an hour back, and gateways are asked at once for conversations of its old life.
//!
//! A gateway may predict what the old life held until it sees the first event of the new one, and no longer than a second. What
//! it may predict then is what the worker really finds cached, which the worker reports with each answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Outcome;
use super::judge::{Verdict, judge};
use super::stage::Stage;
use super::watch::{Count, Look};
use super::witness::Witness;
use crate::client::{Client, Ids};
use crate::engine::BLOCK_TOKENS;
use crate::events::args::{EventsArgs, Leg};
use crate::events::cluster::{MODEL, Wiring};

/// Nothing of the old life is predicted later than this.
const OLD_MS_MAX: f64 = 1_000.0;
/// The new life's first state and the floor under placements come to other gateways by two logs: so far apart at most.
const SEEN_MS: f64 = 100.0;
/// How far back the clock of the new life is.
const CLOCK_BACK_S: f64 = 3_600.0;
/// The worker that restarts.
const VICTIM: &str = "w0";
/// Blocks of an old prompt that the old life must have held for it to be asked: more than conversations share.
const OLD_BLOCKS: usize = 36;
/// For how long old prompts are asked, and how many at most.
const ASK_FOR: Duration = Duration::from_millis(2_000);
const OLD_MAX: usize = 120;

/// An old prompt that was answered.
#[derive(Clone, Debug)]
struct Probe {
    gateway: String,
    /// By the worker that had restarted.
    by_victim: bool,
    sent_ms: f64,
    predicted: u64,
    cached: u64,
}

impl Probe {
    /// More was predicted than the new life held: it was the old one's.
    const fn is_old(&self) -> bool {
        self.by_victim && self.predicted > self.cached
    }
}

pub(super) async fn play(args: &EventsArgs) -> Result<Outcome, String> {
    let wiring = Wiring { gateways: args.gateways.max(3), ..Wiring::of(args) };
    let mut stage = Stage::start(args, Leg::Restart, wiring).await?;
    let load = stage.load(None, true);
    stage.say(&format!("load for {} s", args.warm_s));
    stage.pass(args.warm_s).await?;
    let watch = stage.watch();
    let mut outcome = Outcome::new(Leg::Restart, OLD_MS_MAX);
    let before = counts(&stage).await?;
    let (old_token, old) = old_prompts(&stage, load.answered()).await?;
    outcome.fact("old prompts held", json!(old.len()));

    let at = Instant::now();
    let base = stage.cluster.workers[0].base.clone();
    stage.client.fault(&base, &json!({"kind": "restart", "clock_back_s": CLOCK_BACK_S})).await?;
    stage.witnesses[0].connect();
    stage.say(&format!("restarted {VICTIM}, which held {} of the prompts that are asked now", old.len()));
    let probes = ask_all(&stage, old, at).await;
    stage.pass(args.seconds).await?;
    let (_, driven) = load.stop().await?;
    outcome.wrong.extend(stage.quiet().await?);
    if let Err(why) = stage.settled().await {
        outcome.wrong.push(why);
    }
    stage.say("all is quiet");
    (outcome.requests, outcome.failed) = (driven.samples.len(), driven.failed);
    let looks = watch.finish();
    let seen = first_seen(&looks, before.get(VICTIM).copied(), at);
    judge_probes(&mut outcome, &stage, &probes, &seen);
    for witness in &stage.witnesses {
        let count = before.get(witness.worker.as_str()).copied();
        let token = if witness.worker == VICTIM { Some(old_token.as_str()) } else { None };
        judge_looks(&mut outcome, witness, &looks, count, token);
    }
    Ok(outcome)
}

/// Which count each worker's feed is in.
async fn counts(stage: &Stage) -> Result<BTreeMap<String, Count>, String> {
    let mut counts = BTreeMap::new();
    for witness in &stage.witnesses {
        let (_, row) = stage.owner(&witness.worker, covey_mesh::feed::Role::Publisher).await?;
        counts.extend(row.count().map(|count| (witness.worker.clone(), count)));
    }
    Ok(counts)
}

/// Old prompts of which the victim holds more than conversations share, the latest first; and the token of its life.
async fn old_prompts(stage: &Stage, answered: Vec<(String, Vec<u32>)>) -> Result<(String, Vec<Vec<u32>>), String> {
    let witness = &stage.witnesses[0];
    let (told, held) = witness.told().await?;
    let held: std::collections::HashSet<_> = held.blocks().into_iter().collect();
    let mut old: Vec<Vec<u32>> = Vec::new();
    let mut begun = std::collections::HashSet::new();
    for (_, prompt) in answered.into_iter().rev().filter(|(worker, _)| worker == VICTIM) {
        let chain = stage.naming.chain(&prompt);
        let is_held = chain.len() >= OLD_BLOCKS && chain[..OLD_BLOCKS].iter().all(|block| held.contains(block));
        if is_held && old.len() < OLD_MAX && begun.insert(chain[OLD_BLOCKS - 1]) {
            old.push(prompt[..OLD_BLOCKS * BLOCK_TOKENS as usize + 1].to_vec());
        }
    }
    Ok((told.token, old))
}

/// Asks gateways in turn for old prompts, each prompt once, evenly over some time.
async fn ask_all(stage: &Stage, old: Vec<Vec<u32>>, at: Instant) -> Vec<Probe> {
    let gateways: Vec<_> =
        stage.cluster.gateways.iter().map(|one| (one.process.name.clone(), one.base.clone())).collect();
    let (pause, mut under_way) = (ASK_FOR / u32::try_from(old.len().max(1)).unwrap_or(u32::MAX), JoinSet::new());
    for (prompt, (name, base)) in old.into_iter().zip(gateways.iter().cycle()) {
        under_way.spawn(ask(Arc::clone(&stage.client), name.clone(), base.clone(), prompt, at));
        sleep(pause).await;
    }
    under_way.join_all().await.into_iter().flatten().collect()
}

async fn ask(client: Arc<Client>, gateway: String, base: String, prompt: Vec<u32>, at: Instant) -> Option<Probe> {
    let sent_ms = at.elapsed().as_secs_f64() * 1_000.0;
    let reply = client.complete(&base, Ids { model: MODEL, prompt: &prompt, answer_tokens: 1 }).await.ok()?;
    let by_victim = reply.worker.as_deref() == Some(VICTIM);
    let predicted = reply.predicted_tokens.unwrap_or(0);
    Some(Probe { gateway, by_victim, sent_ms, predicted, cached: reply.cached_tokens })
}

/// When each gateway was first seen without the old life's state, in milliseconds after the restart.
fn first_seen(looks: &[Look], before: Option<Count>, at: Instant) -> BTreeMap<String, f64> {
    let mut seen = BTreeMap::new();
    for look in looks.iter().filter(|look| look.row.worker == VICTIM && look.at >= at && look.row.count() != before) {
        let ms = (look.at - at).as_secs_f64() * 1_000.0;
        seen.entry(look.gateway.clone()).or_insert(ms);
    }
    seen
}

fn judge_probes(outcome: &mut Outcome, stage: &Stage, probes: &[Probe], seen: &BTreeMap<String, f64>) {
    let last_old = probes.iter().filter(|probe| probe.is_old()).map(|probe| probe.sent_ms).fold(0.0, f64::max);
    // Only a gateway that was asked later shows that it is over.
    let names = stage.cluster.gateways.iter().map(|one| &one.process.name);
    let asked_later =
        |name: &String| probes.iter().any(|one| one.gateway == *name && !one.is_old() && one.sent_ms > last_old);
    let all_later = names.clone().all(asked_later);
    outcome.ms = all_later.then_some(last_old);
    if !all_later {
        outcome.wrong.push(format!("not every gateway was asked for an old prompt after {last_old:.0} ms: {probes:?}"));
    }
    for name in names.filter(|name| !seen.contains_key(*name)) {
        outcome.wrong.push(format!("{name} never showed another state than the old life's"));
    }
    for probe in probes.iter().filter(|probe| probe.is_old()) {
        let seen_ms = seen.get(&probe.gateway).copied().unwrap_or(f64::MAX);
        if probe.sent_ms > seen_ms + SEEN_MS {
            outcome.wrong.push(format!("predicted after the new life was seen at {seen_ms:.0} ms: {probe:?}"));
        }
    }
    let old = probes.iter().filter(|probe| probe.is_old()).count();
    outcome.fact("old prompts asked", json!(probes.len()));
    outcome.fact("predicted of the old life", json!(old));
    let latest = seen.values().copied().fold(0.0, f64::max);
    outcome.fact("new life seen by all, ms", json!(latest.round()));
}

/// Compares states: those of the count before with the life before, others with the life that is there now.
fn judge_looks(outcome: &mut Outcome, witness: &Witness, looks: &[Look], before: Option<Count>, old: Option<&str>) {
    let now = witness.latest().map(|(token, _)| token).unwrap_or_default();
    let of_worker = looks.iter().filter(|look| look.row.worker == witness.worker);
    let mut last = before;
    for look in of_worker {
        let is_old = look.row.count() == before;
        let verdict = judge(look, witness, old.filter(|_| is_old).unwrap_or(&now));
        outcome.compared += usize::from(verdict != Verdict::Open);
        last = last.max(look.row.count());
        if let Verdict::Wrong(why) = verdict {
            outcome.wrong.push(why);
        }
    }
    outcome.wrong.extend(witness.wrong());
    let shown = |count: Option<Count>| count.map(|(incarnation, generation, _)| [incarnation, u64::from(generation)]);
    let name = format!("{}'s incarnation and generation", witness.worker);
    outcome.fact(&name, json!([shown(before), shown(last)]));
    let is_victim = old.is_some();
    if is_victim && last.map(|count| count.0) <= before.map(|count| count.0) {
        outcome.wrong.push(format!("{}'s incarnation did not rise", witness.worker));
    }
}
