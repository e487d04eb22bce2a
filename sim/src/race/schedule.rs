//! When each request is due and which gateway it goes to: drawn from the seed, before anything runs.
//!
//! Sessions come by a Poisson process. A later turn is due a while after the turn before it was due, whatever that one's
//! answer takes: slow answers do not make the load lighter, except that nobody asks on before there is an answer.
//!
//! Not here: sending (`drive`). Upholds: same flags, same schedule; it does not depend on the arm, and the times not on how
//! many gateways there are.

use std::time::Duration;

use super::args::{RaceArgs, WorkloadName};
use crate::client::Chat;
use crate::processes::MODEL;
use crate::workload::{Dice, Message, Session, Workload, WorkloadConfig};

/// One request to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which session.
    pub session: usize,
    /// Which turn of it; 0 is the first.
    pub turn: usize,
    /// When, since the arm began.
    pub at: Duration,
    /// At which gateway.
    pub gateway: usize,
}

/// Everything that an arm has to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Of what.
    pub workload: WorkloadName,
    /// To how many gateways.
    pub gateways: usize,
    /// What is said, in the order in which sessions begin.
    pub sessions: Vec<Session>,
    /// When, a list a session.
    pub dues: Vec<Vec<Due>>,
}

impl Schedule {
    /// Draws it.
    #[must_use]
    pub fn new(args: &RaceArgs, workload: WorkloadName, gateways: usize) -> Self {
        let starts = arrivals(args.seed, args.rate_of(workload), Duration::from_secs(args.seconds));
        let config = WorkloadConfig {
            seed: args.seed,
            sessions: starts.len(),
            think_mean: Duration::from_millis(args.think_ms),
            shape: workload.shape(),
        };
        let sessions = Workload::new(&config).sessions;
        let dues = sessions.iter().zip(starts);
        let dues = dues.map(|(session, start)| due(session, start, args, gateways)).collect();
        Self { workload, gateways, sessions, dues }
    }

    /// Requests in all.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.dues.iter().map(Vec::len).sum()
    }

    /// When the last request is due.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.dues.iter().flatten().map(|due| due.at).max().unwrap_or_default()
    }

    /// All requests by the times at which they are due.
    #[must_use]
    pub fn in_order(&self) -> Vec<Due> {
        let mut all: Vec<_> = self.dues.iter().flatten().copied().collect();
        all.sort_by_key(|due| (due.at, due.session));
        all
    }

    /// What a request says.
    #[must_use]
    pub fn messages(&self, due: &Due) -> Vec<Message> {
        self.sessions[due.session].messages(due.turn)
    }

    /// The request itself.
    #[must_use]
    pub fn chat<'a>(&'a self, due: &Due, messages: &'a [Message]) -> Chat<'a> {
        Chat { model: MODEL, messages, answer: &self.sessions[due.session].turns[due.turn].answer }
    }
}

/// When sessions begin.
fn arrivals(seed: u64, rate: f64, within: Duration) -> Vec<Duration> {
    let mut dice = Dice::new(seed, "arrivals", 0);
    let mut at_s = 0.0;
    let starts = std::iter::from_fn(|| {
        at_s += dice.exponential(1.0 / rate);
        (at_s < within.as_secs_f64()).then(|| Duration::from_secs_f64(at_s))
    });
    starts.collect()
}

fn due(session: &Session, start: Duration, args: &RaceArgs, gateways: usize) -> Vec<Due> {
    let mut at = start;
    let turns = session.turns.iter().enumerate().map(|(turn, what)| {
        if turn > 0 {
            at += args.turn_min() + what.think;
        }
        let mut dice = Dice::new(args.seed, "gateway", ((session.index as u64) << 16) | turn as u64);
        Due { session: session.index, turn, at, gateway: dice.below(gateways) }
    });
    turns.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: RaceArgs,
    }

    pub(in crate::race) fn args(flags: &[&str]) -> RaceArgs {
        Cli::parse_from([&["race"], flags].concat()).args
    }

    #[test]
    fn a_seed_names_one_schedule_and_the_gateways_do_not_move_it() {
        let args = args(&["--seconds", "20"]);
        let three = Schedule::new(&args, WorkloadName::Chat, 3);
        assert_eq!(three, Schedule::new(&args, WorkloadName::Chat, 3));
        let one = Schedule::new(&args, WorkloadName::Chat, 1);
        let times = |schedule: &Schedule| schedule.in_order().iter().map(|due| due.at).collect::<Vec<_>>();
        assert_eq!((times(&one), &one.sessions), (times(&three), &three.sessions));
        let other = Schedule::new(&RaceArgs { seed: 2, ..args }, WorkloadName::Chat, 3);
        assert_ne!(times(&three), times(&other));
    }

    #[test]
    fn sessions_come_at_the_rate_and_turns_are_sprayed() {
        let args = args(&["--seconds", "200", "--rate", "4"]);
        let schedule = Schedule::new(&args, WorkloadName::Chat, 4);
        assert!((700..900).contains(&schedule.sessions.len()), "{} sessions", schedule.sessions.len());
        let starts: Vec<_> = schedule.dues.iter().map(|dues| dues[0].at.as_secs_f64()).collect();
        let gaps: Vec<_> = starts.windows(2).map(|two| two[1] - two[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((0.85..1.15).contains(&(deviation / mean)), "gaps of a Poisson process, not a metronome's");
        for gateway in 0..4 {
            let share = schedule.dues.iter().flatten().filter(|due| due.gateway == gateway).count() as f64;
            assert!((0.22..0.28).contains(&(share / schedule.requests() as f64)), "gateway {gateway}");
        }
        let stays = schedule.dues.iter().filter(|dues| dues.iter().all(|due| due.gateway == dues[0].gateway));
        assert!(stays.count() < schedule.sessions.len() / 5, "sessions move between gateways");
    }

    #[test]
    fn a_turn_is_due_after_the_turn_before_it_by_at_least_the_pause() {
        let args = args(&["--seconds", "20", "--turn-ms", "700"]);
        let schedule = Schedule::new(&args, WorkloadName::Agentic, 2);
        for (dues, session) in schedule.dues.iter().zip(&schedule.sessions) {
            assert_eq!(dues.len(), session.turns.len());
            for (two, turn) in dues.windows(2).zip(&session.turns[1..]) {
                assert_eq!(two[1].at - two[0].at, Duration::from_millis(700) + turn.think);
            }
        }
    }
}
