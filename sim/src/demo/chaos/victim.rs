//! The gateway that is broken: when, what clients do about it meanwhile, and the requests that are counted for it.
//!
//! Clients do not send to a gateway from the moment it is killed until it is ready again, as behind a load balancer that
//! checks readiness; what was under way there is sent to another gateway. Afterwards it gets more follow-ups than its
//! share until it has had enough of them to judge. A gateway that is cut off or whose mesh thread breaks is sent to as if
//! nothing were the matter, and nothing is sent again.
//!
//! Not here: sending (`drive`). Upholds: requests of the other gateways are never sent twice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{ChaosFigures, CutFigures, Flow, Kind, PanicFigures, cut, kill, panic};
use crate::client::Client;
use crate::demo::args::{Chaos, DemoArgs};
use crate::demo::fleet::Fleet;
use crate::demo::measure::{Sample, share};
use crate::workload::Dice;

/// Follow-ups by which a restarted gateway is judged.
const FOLLOW_UPS: usize = 50;
/// One in so many follow-ups goes to the restarted gateway on purpose.
const PREFERRED_ONE_IN: usize = 3;

/// The gateway that is broken.
#[derive(Debug)]
pub(in crate::demo) struct Victim {
    /// Its number.
    pub(in crate::demo) index: usize,
    chaos: Chaos,
    cut: Duration,
    requests: usize,
    strike_after: usize,
    answered: AtomicUsize,
    strikes: AtomicUsize,
    kills: AtomicUsize,
    out: AtomicBool,
    after: Mutex<After>,
}

/// What was seen since it was broken, and since it came back.
#[derive(Debug, Default)]
struct After {
    recovered: Option<Recovered>,
    flow: Flow,
    own: Vec<Sample>,
    fleet: Vec<Sample>,
}

/// How it came back.
#[derive(Clone, Copy, Debug)]
enum Recovered {
    Killed(Duration),
    Cut(Duration, CutFigures),
    Broken(PanicFigures),
}

impl Victim {
    /// A gateway to be broken when part of the requests are answered: a cut earlier than the rest, because it lasts. The
    /// second gateway is killed; which one is cut off or broken follows from the seed.
    pub(in crate::demo) fn new(args: &DemoArgs, chaos: Chaos, requests: usize) -> Arc<Self> {
        let (index, part) = match chaos {
            Chaos::Kill => (1, 4),
            Chaos::Cut => (Dice::new(args.seed, "victim", 0).below(args.gateways), 8),
            Chaos::Panic => (Dice::new(args.seed, "victim", 0).below(args.gateways), 4),
        };
        Arc::new(Self {
            index,
            chaos,
            cut: Duration::from_secs(args.cut_s),
            requests,
            strike_after: requests / part,
            answered: AtomicUsize::new(0),
            strikes: AtomicUsize::new(0),
            kills: AtomicUsize::new(0),
            out: AtomicBool::new(false),
            after: Mutex::new(After::default()),
        })
    }

    /// How often it was killed.
    pub(in crate::demo) fn kills(&self) -> usize {
        self.kills.load(Ordering::SeqCst)
    }

    /// Whether this gateway is killed and not ready again.
    pub(in crate::demo) fn is_out(&self, gateway: usize) -> bool {
        gateway == self.index && self.out.load(Ordering::SeqCst)
    }

    /// Whether it is time to break it.
    pub(in crate::demo) fn is_due(&self) -> bool {
        self.strikes.load(Ordering::SeqCst) == 0 && self.answered.load(Ordering::SeqCst) >= self.strike_after
    }

    /// What is about to happen to it, in words before its name.
    pub(in crate::demo) const fn doing(&self) -> &'static str {
        match self.chaos {
            Chaos::Kill => "killing and starting again",
            Chaos::Cut => "cutting off",
            Chaos::Panic => "breaking the mesh thread of",
        }
    }

    /// Whether it was broken and is not back.
    pub(in crate::demo) fn is_broken(&self) -> bool {
        self.strikes.load(Ordering::SeqCst) > 0 && self.after().recovered.is_none()
    }

    /// The restarted gateway, for some of the follow-ups, until it has had enough.
    pub(in crate::demo) fn prefers(&self, turn: usize, dice: &mut Dice) -> Option<usize> {
        let after = self.after();
        let wanting = matches!(after.recovered, Some(Recovered::Killed(_))) && after.own.len() < FOLLOW_UPS;
        (wanting && turn > 0 && dice.below(PREFERRED_ONE_IN) == 0).then_some(self.index)
    }

    /// One request was answered.
    pub(in crate::demo) fn saw(&self, sample: &Sample) {
        self.answered.fetch_add(1, Ordering::SeqCst);
        let (own, broken) = (sample.gateway == self.index, self.is_broken());
        let mut after = self.after();
        if broken {
            let flow = &mut after.flow;
            flow.own += usize::from(own);
            flow.own_stale += usize::from(own && sample.reply.outcome.as_deref() == Some("stale"));
            flow.others += usize::from(!own);
        }
        if after.recovered.is_none() || !sample.follow_up() || after.own.len() >= FOLLOW_UPS {
            return;
        }
        if own {
            after.own.push(sample.clone());
        } else {
            after.fleet.push(sample.clone());
        }
    }

    /// Breaks it and waits until it is back.
    pub(in crate::demo) async fn strike(&self, fleet: &mut Fleet, client: &Client) -> Result<(), String> {
        self.strikes.fetch_add(1, Ordering::SeqCst);
        let recovered = match self.chaos {
            Chaos::Kill => {
                self.out.store(true, Ordering::SeqCst);
                self.kills.fetch_add(1, Ordering::SeqCst);
                Recovered::Killed(kill::strike(self.index, fleet, client).await?)
            }
            Chaos::Cut => {
                let (equal, mut figures) = cut::strike(self.index, self.cut, fleet, client).await?;
                figures.under_traffic = self.answered.load(Ordering::SeqCst) < self.requests;
                Recovered::Cut(equal, figures)
            }
            Chaos::Panic => Recovered::Broken(panic::strike(self.index, fleet, client).await?),
        };
        self.after().recovered = Some(recovered);
        self.out.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// What came of it; `None` when it was not broken or did not come back before the end.
    pub(in crate::demo) fn figures(&self, errors: usize, resent: usize) -> Option<ChaosFigures> {
        let after = self.after();
        let (recovered, kind) = match after.recovered? {
            Recovered::Killed(back) => {
                let kind = Kind::Kill {
                    follow_ups: after.own.len(),
                    followup_cached_share: share(after.own.iter()),
                    fleet_followup_cached_share: share(after.fleet.iter()),
                };
                (back, kind)
            }
            Recovered::Cut(equal, figures) => (equal, Kind::Cut(CutFigures { flow: after.flow, ..figures })),
            Recovered::Broken(figures) => {
                (figures.panic.max(figures.stall), Kind::Panic(PanicFigures { flow: after.flow, ..figures }))
            }
        };
        Some(ChaosFigures { gateway: format!("g{}", self.index), errors, resent, recovered, kind })
    }

    fn after(&self) -> MutexGuard<'_, After> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::demo::measure::tests::sample;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        demo: DemoArgs,
    }

    fn victim(chaos: Chaos, requests: usize) -> Arc<Victim> {
        Victim::new(&Cli::parse_from(["demo"]).demo, chaos, requests)
    }

    fn back(victim: &Victim) {
        victim.after().recovered = Some(Recovered::Killed(Duration::from_secs(1)));
    }

    #[test]
    fn only_follow_ups_after_the_return_are_judged_and_only_the_first_fifty() {
        let victim = victim(Chaos::Kill, 400);
        victim.saw(&sample(1, 1, 0, 100));
        assert_eq!(victim.figures(0, 0), None, "it was never killed");
        back(&victim);
        victim.saw(&sample(0, 1, 0, 100));
        victim.saw(&sample(1, 0, 80, 100));
        (0..FOLLOW_UPS).for_each(|_| victim.saw(&sample(1, 1, 90, 100)));
        victim.saw(&sample(1, 1, 0, 100));
        victim.saw(&sample(1, 0, 0, 100));
        let figures = victim.figures(0, 3).expect("it is back");
        let (followup_cached_share, fleet_followup_cached_share) = (Some(0.9), Some(0.8));
        let kind = Kind::Kill { follow_ups: FOLLOW_UPS, followup_cached_share, fleet_followup_cached_share };
        assert_eq!((figures.kind, figures.resent), (kind, 3));
        assert!(figures.passed());
    }

    #[test]
    fn a_gateway_that_came_back_empty_does_not_pass() {
        let victim = victim(Chaos::Kill, 400);
        back(&victim);
        victim.saw(&sample(1, 1, 30, 100));
        victim.saw(&sample(1, 0, 90, 100));
        assert!(!victim.figures(0, 0).expect("it is back").passed());
    }

    #[test]
    fn it_is_killed_once_after_a_quarter_of_the_requests() {
        let victim = victim(Chaos::Kill, 8);
        assert!(!victim.is_due());
        (0..2).for_each(|_| victim.saw(&sample(0, 0, 0, 1)));
        assert!(victim.is_due());
        victim.strikes.fetch_add(1, Ordering::SeqCst);
        assert!(!victim.is_due());
    }

    #[test]
    fn requests_count_as_meanwhile_only_between_the_breakage_and_the_return() {
        let victim = victim(Chaos::Cut, 8);
        let other = (victim.index + 1) % 8;
        let mut stale = sample(1, victim.index, 0, 1);
        stale.reply.outcome = Some("stale".to_owned());
        victim.saw(&stale);
        victim.strikes.fetch_add(1, Ordering::SeqCst);
        victim.saw(&stale);
        victim.saw(&sample(1, victim.index, 0, 1));
        victim.saw(&sample(1, other, 0, 1));
        victim.after().recovered = Some(Recovered::Cut(Duration::from_secs(1), CutFigures::default()));
        victim.saw(&stale);
        let figures = victim.figures(0, 0).expect("it is back");
        let flow = Flow { own: 2, own_stale: 1, others: 1 };
        assert_eq!(figures.kind, Kind::Cut(CutFigures { flow, ..CutFigures::default() }));
        assert_eq!(
            victim.prefers(1, &mut Dice::new(1, "x", 0)),
            None,
            "only a restarted gateway is judged by its share"
        );
    }
}
