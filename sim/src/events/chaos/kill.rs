//! Gateways that read a worker's events are killed under load.
//!
//! With one left that read them, or with a past that the engine can replay, nothing may be lost and no generation opened. With
//! neither, a generation is opened that says it is not all, until the engine clears its cache.

use std::collections::BTreeSet;

use covey_mesh::feed::Role;
use serde_json::json;
use tokio::time::Instant;

use super::Outcome;
use super::judge::{Verdict, judge};
use super::stage::Stage;
use super::watch::{Count, Look};
use super::witness::{Witness, told};
use crate::events::args::{EventsArgs, Leg};
use crate::events::cluster::Wiring;

/// The standby publishes what is missing 300 ms after it made it; the rest is for a loaded machine.
const OWNER_MS_MAX: f64 = 2_000.0;
/// Survivors have been reachable for the 3 s that an owner must have been, and lose a silent link after 3 s at the latest; that
/// of a process which died on a live host they lose sooner, which leaves time to subscribe and to replay.
const BOTH_MS_MAX: f64 = 3_000.0;
/// Batches of history that are gone before anybody has noticed that the owners are.
const SHORT_STEPS: u32 = 2;
/// Seconds of load after the engine has cleared its cache.
const CLEARED_S: u32 = 2;
/// The worker whose owners are killed.
const VICTIM: &str = "w0";

/// Kills the publisher.
pub(super) async fn owner(args: &EventsArgs) -> Result<Outcome, String> {
    let wiring = Wiring { gateways: args.gateways.max(3), ..Wiring::of(args) };
    let mut play = Play::start(args, Leg::KillOwner, wiring, OWNER_MS_MAX).await?;
    play.strike(&[Role::Publisher]).await?;
    play.finish(args, &Expected::SameGeneration).await
}

/// Kills publisher and standby. Engines replay their whole past, so a state that is the engine's from its first batch on comes
/// of it again, and needs no generation.
pub(super) async fn both(args: &EventsArgs) -> Result<Outcome, String> {
    let wiring = Wiring { gateways: args.gateways.max(4), ..Wiring::of(args) };
    let mut play = Play::start(args, Leg::KillBoth, wiring, BOTH_MS_MAX).await?;
    play.strike(&[Role::Publisher, Role::Standby]).await?;
    play.finish(args, &Expected::SameGeneration).await
}

/// Kills publisher and standby of engines that keep too little for anybody to catch up.
pub(super) async fn both_without_history(args: &EventsArgs) -> Result<Outcome, String> {
    let wiring = Wiring { gateways: args.gateways.max(4), replay_steps: SHORT_STEPS, ..Wiring::of(args) };
    let mut play = Play::start(args, Leg::KillBothShort, wiring, BOTH_MS_MAX).await?;
    play.strike(&[Role::Publisher, Role::Standby]).await?;
    play.finish(args, &Expected::NextGeneration).await
}

/// What must become of the victim's feed.
enum Expected {
    /// It goes on as if nothing had been.
    SameGeneration,
    /// Another generation, labelled as a part until the cache is cleared.
    NextGeneration,
}

/// A worker's feed before the blow.
struct Before {
    /// The engine's life.
    token: String,
    count: Option<Count>,
    /// Who read it.
    readers: [String; 2],
}

/// A leg under way.
struct Play {
    stage: Stage,
    load: Option<super::stage::Load>,
    outcome: Outcome,
    /// Each worker as it was before.
    before: Vec<Before>,
    struck_at: Instant,
    /// How far each engine was when they were dead.
    struck_to: Vec<u64>,
    watch: super::watch::Watch,
}

impl Play {
    async fn start(args: &EventsArgs, leg: Leg, wiring: Wiring, limit_ms: f64) -> Result<Self, String> {
        let mut stage = Stage::start(args, leg, wiring).await?;
        let load = stage.load(None, false);
        stage.say(&format!("load for {} s", args.warm_s));
        stage.pass(args.warm_s).await?;
        let watch = stage.watch();
        let (outcome, struck_at) = (Outcome::new(leg, limit_ms), Instant::now());
        Ok(Self { stage, load: Some(load), outcome, before: Vec::new(), struck_at, struck_to: Vec::new(), watch })
    }

    /// Kills the gateways that have these roles for the victim.
    async fn strike(&mut self, roles: &[Role]) -> Result<(), String> {
        for witness in &self.stage.witnesses {
            let (publisher, row) = self.stage.owner(&witness.worker, Role::Publisher).await?;
            let (standby, _) = self.stage.owner(&witness.worker, Role::Standby).await?;
            let token = witness.latest().map(|(token, _)| token).unwrap_or_default();
            self.before.push(Before { token, count: row.count(), readers: [publisher, standby] });
        }
        let mut names = Vec::new();
        for role in roles {
            names.push(self.stage.owner(VICTIM, *role).await?.0);
        }
        self.struck_at = Instant::now();
        self.stage.kill(&names).await?;
        for worker in &self.stage.cluster.workers {
            self.struck_to.push(told(&self.stage.client, &worker.base).await?.position);
        }
        self.stage.say(&format!("killed {} with engines at {:?}", names.join(" and "), self.struck_to));
        self.outcome.fact("killed", json!(names));
        self.outcome.fact("positions", json!(self.struck_to));
        Ok(())
    }

    async fn finish(mut self, args: &EventsArgs, expected: &Expected) -> Result<Outcome, String> {
        self.stage.pass(args.seconds).await?;
        let load = self.load.take().ok_or("there is load until here")?;
        let (traffic, mut driven) = load.stop().await?;
        let (mut cleared_at, is_short) = (None, matches!(expected, Expected::NextGeneration));
        if is_short {
            cleared_at = Some(self.clear().await?);
            let load = self.stage.load(Some(traffic), false);
            self.stage.pass(CLEARED_S).await?;
            let (_, more) = load.stop().await?;
            driven.samples.extend(more.samples);
            driven.failed.extend(more.failed);
        }
        self.outcome.wrong.extend(self.stage.quiet().await?);
        if let Err(why) = self.stage.settled().await {
            self.outcome.wrong.push(why);
        }
        self.stage.say("all is quiet");
        (self.outcome.requests, self.outcome.failed) = (driven.samples.len(), driven.failed);
        let looks = self.watch.finish();
        let survivors: BTreeSet<_> = self.stage.cluster.gateways.iter().map(|one| one.process.name.clone()).collect();
        let looks: Vec<_> = looks.into_iter().filter(|look| survivors.contains(&look.gateway)).collect();
        let judged = Judged { struck_at: self.struck_at, survivors: &survivors, looks: &looks };
        let mut outcome = self.outcome;
        let mut worst = Some(0.0_f64);
        let witnesses = self.stage.witnesses.iter().zip(&self.before).zip(&self.struck_to);
        for ((witness, before), struck_to) in witnesses {
            outcome.wrong.extend(witness.wrong());
            let verdicts = judged.of(witness, &before.token);
            outcome.compared += verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Open).count();
            outcome.wrong.extend(verdicts.iter().filter_map(|(_, verdict)| match verdict {
                Verdict::Wrong(why) => Some(why.clone()),
                Verdict::Equal | Verdict::Part | Verdict::Open => None,
            }));
            let accepts_part = is_short && before.readers.iter().all(|reader| !survivors.contains(reader));
            let ms = judged.until(&verdicts, *struck_to, accepts_part);
            worst = worst.zip(ms).map(|(worst, ms)| worst.max(ms));
            judged.generations(&mut outcome, witness, before.count, accepts_part);
            if let Some(at) = cleared_at.filter(|_| accepts_part) {
                let again = judged.exact_after(&verdicts, at);
                outcome.fact(&format!("{} exact after a clear, ms", witness.worker), json!(again.map(f64::round)));
                if again.is_none() {
                    outcome.wrong.push(format!("{}'s feed is not all again after a clear", witness.worker));
                }
            }
        }
        outcome.ms = worst;
        Ok(outcome)
    }

    /// Empties engines' caches: what is known from then on is all.
    async fn clear(&mut self) -> Result<Instant, String> {
        self.stage.say("clears the engines' caches");
        let at = Instant::now();
        for worker in &self.stage.cluster.workers {
            self.stage.client.fault(&worker.base, &json!({"kind": "reset"})).await?;
        }
        Ok(at)
    }
}

/// What survivors were seen to show after the blow.
struct Judged<'a> {
    struck_at: Instant,
    survivors: &'a BTreeSet<String>,
    looks: &'a [Look],
}

impl Judged<'_> {
    fn of(&self, witness: &Witness, token: &str) -> Vec<(&Look, Verdict)> {
        let of_worker = self.looks.iter().filter(|look| look.row.worker == witness.worker);
        of_worker.map(|look| (look, judge(look, witness, token))).collect()
    }

    /// When the last survivor showed what the engine held after a batch that it made after the blow: somebody publishes again.
    fn until(&self, verdicts: &[(&Look, Verdict)], struck_to: u64, accepts_part: bool) -> Option<f64> {
        let is_right = |verdict: &Verdict| *verdict == Verdict::Equal || (accepts_part && *verdict == Verdict::Part);
        self.last_of_first(verdicts, self.struck_at, |look, verdict| {
            is_right(verdict) && look.row.position > Some(struck_to) && (accepts_part || look.row.is_complete)
        })
    }

    /// The same, from a clear of the cache on: all of it again.
    fn exact_after(&self, verdicts: &[(&Look, Verdict)], at: Instant) -> Option<f64> {
        self.last_of_first(verdicts, at, |look, verdict| *verdict == Verdict::Equal && look.row.is_complete)
    }

    /// Milliseconds until every survivor had a look that was right.
    fn last_of_first(
        &self,
        verdicts: &[(&Look, Verdict)],
        from: Instant,
        is_right: impl Fn(&Look, &Verdict) -> bool,
    ) -> Option<f64> {
        let first_of = |name: &String| {
            let mut of_gateway = verdicts.iter().filter(|(look, _)| look.gateway == *name && look.at >= from);
            let (look, _) = of_gateway.find(|(look, verdict)| is_right(look, verdict))?;
            Some((look.at - from).as_secs_f64() * 1_000.0)
        };
        self.survivors.iter().map(first_of).try_fold(0.0_f64, |worst, ms| Some(worst.max(ms?)))
    }

    /// Looks at the generations that were shown, and at their labels.
    fn generations(&self, outcome: &mut Outcome, witness: &Witness, before: Option<Count>, is_next: bool) {
        let worker = &witness.worker;
        let of_worker = self.looks.iter().filter(|look| look.row.worker == *worker);
        let counts: BTreeSet<_> = of_worker.clone().filter_map(|look| look.row.count()).collect();
        let last = counts.iter().next_back().copied();
        let number = |count: Option<Count>| count.map(|(_, generation, _)| generation);
        outcome.fact(&format!("{worker}'s generation"), json!([number(before), number(last)]));
        if is_next {
            let is_labelled = of_worker.clone().any(|look| look.row.count() == last && !look.row.is_complete);
            if number(last) <= number(before) || !is_labelled {
                outcome.wrong.push(format!("{worker}'s feed shows no generation that is labelled as a part"));
            }
        } else if counts.iter().any(|count| Some(*count) != before) {
            outcome.wrong.push(format!("{worker}'s feed went on in another generation: {before:?}, then {counts:?}"));
        }
    }
}
