//! Killing one gateway in the middle of the mesh arm and starting it again: when, and what that did.
//!
//! Clients do not send to a gateway from the moment it is killed until it is ready again, as behind a load balancer that
//! checks readiness; what was under way there is sent to another gateway. Afterwards it gets more follow-ups than its
//! share until it has had enough of them to judge.
//!
//! Not here: sending (`drive`). Upholds: requests of the other gateways are never sent twice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use covey_mesh::status::Phase;
use tokio::time::{Instant, sleep};

use super::fleet::Fleet;
use super::measure::{Sample, share};
use super::probe;
use super::process::POLL;
use crate::client::Client;
use crate::workload::Dice;

/// Follow-ups by which a restarted gateway is judged.
pub(super) const FOLLOW_UPS: usize = 50;
/// How far below the others its cached share may be.
const SHARE_BEHIND_MAX: f64 = 0.05;
/// How long it may take to come back at all.
const BACK_MAX: Duration = Duration::from_secs(20);
/// One in so many follow-ups goes to the restarted gateway on purpose.
const PREFERRED_ONE_IN: usize = 3;

/// The gateway that is killed.
#[derive(Debug)]
pub(super) struct Victim {
    /// Its number.
    pub(super) index: usize,
    kill_after: usize,
    answered: AtomicUsize,
    kills: AtomicUsize,
    out: AtomicBool,
    after: Mutex<After>,
}

/// What was seen since it came back.
#[derive(Debug, Default)]
struct After {
    back_after: Option<Duration>,
    own: Vec<Sample>,
    fleet: Vec<Sample>,
}

impl Victim {
    /// The second gateway, to be killed after a quarter of the requests.
    pub(super) fn new(requests: usize) -> Arc<Self> {
        Arc::new(Self {
            index: 1,
            kill_after: requests / 4,
            answered: AtomicUsize::new(0),
            kills: AtomicUsize::new(0),
            out: AtomicBool::new(false),
            after: Mutex::new(After::default()),
        })
    }

    /// How often it was killed.
    pub(super) fn kills(&self) -> usize {
        self.kills.load(Ordering::SeqCst)
    }

    /// Whether this gateway is killed and not ready again.
    pub(super) fn is_out(&self, gateway: usize) -> bool {
        gateway == self.index && self.out.load(Ordering::SeqCst)
    }

    /// Whether it is time to kill it.
    pub(super) fn is_due(&self) -> bool {
        self.kills() == 0 && self.answered.load(Ordering::SeqCst) >= self.kill_after
    }

    /// The restarted gateway, for some of the follow-ups, until it has had enough.
    pub(super) fn prefers(&self, turn: usize, dice: &mut Dice) -> Option<usize> {
        let after = self.after();
        let wanting = after.back_after.is_some() && after.own.len() < FOLLOW_UPS;
        (wanting && turn > 0 && dice.below(PREFERRED_ONE_IN) == 0).then_some(self.index)
    }

    /// One request was answered.
    pub(super) fn saw(&self, sample: &Sample) {
        self.answered.fetch_add(1, Ordering::SeqCst);
        let mut after = self.after();
        if after.back_after.is_none() || !sample.follow_up() || after.own.len() >= FOLLOW_UPS {
            return;
        }
        if sample.gateway == self.index {
            after.own.push(sample.clone());
        } else {
            after.fleet.push(sample.clone());
        }
    }

    /// Kills it, starts it again and waits until it is ready and clean.
    pub(super) async fn strike(&self, fleet: &mut Fleet, client: &Client) -> Result<Duration, String> {
        self.out.store(true, Ordering::SeqCst);
        self.kills.fetch_add(1, Ordering::SeqCst);
        fleet.kill(self.index).await?;
        let started = Instant::now();
        fleet.restart(self.index)?;
        fleet.ready(self.index, client, BACK_MAX).await?;
        while probe::status(client, &fleet.gateways[self.index].admin).await?.phase != Phase::Clean {
            if started.elapsed() > BACK_MAX {
                return Err(format!("g{} was killed, came back, and is not clean after {BACK_MAX:?}", self.index));
            }
            sleep(POLL).await;
        }
        let back_after = started.elapsed();
        self.after().back_after = Some(back_after);
        self.out.store(false, Ordering::SeqCst);
        Ok(back_after)
    }

    /// What came of it; `None` when it was not killed or did not come back before the end.
    pub(super) fn figures(&self, resent: usize) -> Option<ChaosFigures> {
        let after = self.after();
        Some(ChaosFigures {
            gateway: format!("g{}", self.index),
            resent,
            back_after: after.back_after?,
            follow_ups: after.own.len(),
            followup_cached_share: share(after.own.iter()),
            fleet_followup_cached_share: share(after.fleet.iter()),
        })
    }

    fn after(&self) -> MutexGuard<'_, After> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a killed gateway cost.
#[derive(Clone, Debug, PartialEq)]
pub struct ChaosFigures {
    /// Its name.
    pub gateway: String,
    /// Requests that clients sent to another gateway instead.
    pub resent: usize,
    /// From its start to being ready and clean.
    pub back_after: Duration,
    /// Follow-ups it has answered since, the first 50 at most.
    pub follow_ups: usize,
    /// Cached share of those.
    pub followup_cached_share: Option<f64>,
    /// Cached share of the other gateways' follow-ups in the same time.
    pub fleet_followup_cached_share: Option<f64>,
}

impl ChaosFigures {
    /// Whether it routes as well as the others. Doing better is no fault.
    #[must_use]
    pub fn passed(&self) -> bool {
        let shares = self.followup_cached_share.zip(self.fleet_followup_cached_share);
        shares.is_some_and(|(own, fleet)| own >= fleet - SHARE_BEHIND_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::sample;
    use super::*;

    fn back(victim: &Victim) {
        victim.after().back_after = Some(Duration::from_secs(1));
    }

    #[test]
    fn only_follow_ups_after_the_return_are_judged_and_only_the_first_fifty() {
        let victim = Victim::new(400);
        victim.saw(&sample(1, 1, 0, 100));
        assert_eq!(victim.figures(0), None, "it was never killed");
        back(&victim);
        victim.saw(&sample(0, 1, 0, 100));
        victim.saw(&sample(1, 0, 80, 100));
        (0..FOLLOW_UPS).for_each(|_| victim.saw(&sample(1, 1, 90, 100)));
        victim.saw(&sample(1, 1, 0, 100));
        victim.saw(&sample(1, 0, 0, 100));
        let figures = victim.figures(3).expect("it is back");
        assert_eq!((figures.follow_ups, figures.followup_cached_share), (FOLLOW_UPS, Some(0.9)));
        assert_eq!(figures.fleet_followup_cached_share, Some(0.8));
        assert!(figures.passed());
    }

    #[test]
    fn a_gateway_that_came_back_empty_does_not_pass() {
        let victim = Victim::new(400);
        back(&victim);
        victim.saw(&sample(1, 1, 30, 100));
        victim.saw(&sample(1, 0, 90, 100));
        assert!(!victim.figures(0).expect("it is back").passed());
    }

    #[test]
    fn it_is_killed_once_after_a_quarter_of_the_requests() {
        let victim = Victim::new(8);
        assert!(!victim.is_due());
        (0..2).for_each(|_| victim.saw(&sample(0, 0, 0, 1)));
        assert!(victim.is_due());
        victim.kills.fetch_add(1, Ordering::SeqCst);
        assert!(!victim.is_due());
    }
}
