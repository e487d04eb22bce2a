//! Plays sessions against gateways: a fixed number live at a time, each turn after the answer to the one before it.
//!
//! Not here: starting gateways (`fleet`), figures (`measure`). Upholds: which gateway a request goes to follows from the
//! seed alone, except while a gateway that was killed on purpose is out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::args::ArmName;
use super::chaos::Victim;
use super::measure::Sample;
use super::progress::Progress;
use crate::client::{Chat, Client, Failure, Reply};
use crate::processes::MODEL;
use crate::workload::{Dice, Session, Workload};

/// What one arm plays.
#[derive(Debug)]
pub(super) struct Play<'a> {
    pub(super) arm: ArmName,
    pub(super) seed: u64,
    pub(super) live: usize,
    pub(super) workload: &'a Workload,
    /// `http://host:port` of each gateway.
    pub(super) gateways: Vec<String>,
    pub(super) victim: Option<Arc<Victim>>,
    pub(super) client: Client,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    pub(super) samples: Vec<Sample>,
    /// Why requests have no sample.
    pub(super) failures: Vec<String>,
    /// Requests that were sent to another gateway because theirs was killed.
    pub(super) resent: usize,
}

/// What the tasks share.
struct Stand {
    arm: ArmName,
    seed: u64,
    gateways: Vec<String>,
    victim: Option<Arc<Victim>>,
    client: Client,
    started: Instant,
    next: AtomicUsize,
    sessions: Vec<Session>,
}

impl Play<'_> {
    /// Plays all sessions to their ends.
    pub(super) async fn run(self, progress: &Arc<Progress>) -> Result<Played, String> {
        let stand = Arc::new(Stand {
            arm: self.arm,
            seed: self.seed,
            gateways: self.gateways,
            victim: self.victim,
            client: self.client,
            started: Instant::now(),
            next: AtomicUsize::new(0),
            sessions: self.workload.sessions.clone(),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..self.live.min(stand.sessions.len()) {
            tasks.spawn(Arc::clone(&stand).play_until_none_is_left(Arc::clone(progress)));
        }
        let mut all = Played::default();
        while let Some(played) = tasks.join_next().await {
            let played = played.map_err(|why| format!("a client broke: {why}"))?;
            all.samples.extend(played.samples);
            all.failures.extend(played.failures);
            all.resent += played.resent;
        }
        all.samples.sort_by_key(|sample| (sample.session, sample.turn));
        Ok(all)
    }
}

impl Stand {
    async fn play_until_none_is_left(self: Arc<Self>, progress: Arc<Progress>) -> Played {
        let mut played = Played::default();
        while let Some(session) = self.sessions.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            for turn in 0..session.turns.len() {
                sleep(session.turns[turn].think).await;
                match self.ask(session, turn, &mut played.resent).await {
                    Ok(sample) => played.samples.push(sample),
                    Err(why) => played.failures.push(why),
                }
                progress.request();
            }
        }
        played
    }

    async fn ask(&self, session: &Session, turn: usize, resent: &mut usize) -> Result<Sample, String> {
        let messages = session.messages(turn);
        let chat = Chat { model: MODEL, messages: &messages, answer: &session.turns[turn].answer };
        let mut dice = Dice::new(self.seed, "gateway", ((session.index as u64) << 16) | turn as u64);
        let mut gateway = self.choose(session, turn, &mut dice);
        if self.victim.as_ref().is_some_and(|victim| victim.is_out(gateway)) {
            *resent += 1;
            gateway = self.another(gateway, &mut dice);
        }
        let at = self.started.elapsed();
        let was_alive = self.victim.as_ref().map(|victim| victim.kills());
        let mut reply = self.client.chat(&self.gateways[gateway], chat).await;
        if self.lost_to_a_kill(gateway, was_alive, &reply) {
            *resent += 1;
            gateway = self.another(gateway, &mut dice);
            reply = self.client.chat(&self.gateways[gateway], chat).await;
        }
        let name = || format!("session {} turn {turn} at gateway g{gateway}", session.index);
        let reply = reply.map_err(|why| format!("{}: {why}", name()))?;
        let sample = Sample { session: session.index, turn, gateway, at, reply };
        if let Some(victim) = &self.victim {
            victim.saw(&sample);
        }
        Ok(sample)
    }

    fn choose(&self, session: &Session, turn: usize, dice: &mut Dice) -> usize {
        let sprayed = dice.below(self.gateways.len());
        let preferred = self.victim.as_ref().and_then(|victim| victim.prefers(turn, dice));
        match self.arm {
            ArmName::Bound => 0,
            ArmName::Mesh | ArmName::Off => preferred.unwrap_or(sprayed),
            ArmName::Sticky => Dice::new(self.seed, "pin", session.index as u64).below(self.gateways.len()),
        }
    }

    /// Any gateway but this one.
    fn another(&self, gateway: usize, dice: &mut Dice) -> usize {
        (gateway + dice.between(1, self.gateways.len() - 1)) % self.gateways.len()
    }

    /// Whether a request failed because its gateway was killed on purpose while it ran, or just before.
    fn lost_to_a_kill(&self, gateway: usize, kills_before: Option<usize>, reply: &Result<Reply, Failure>) -> bool {
        let Some(victim) = &self.victim else { return false };
        let killed = victim.index == gateway && (Some(victim.kills()) != kills_before || victim.is_out(gateway));
        killed && matches!(reply, Err(Failure::Unreachable(_) | Failure::Cut(_)))
    }
}
