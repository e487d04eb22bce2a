//! Seed → script: how many gateways, how the paths are, what goes wrong when, for how long. Every class of fault is in
//! with one chance in two.
//!
//! Not here: carrying it out (`play`).

use std::time::Duration;

use super::dice::Dice;
use super::ground::Hearsay;
use super::network::Paths;

/// When every fault is over.
pub(super) const HEALED: Duration = Duration::from_secs(10);
const HEALED_MS: u64 = 10_000;

/// One thing that goes wrong; gateways by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// Nothing passes between two.
    Cut(usize, usize),
    /// Nothing passes from the first to the second.
    OneWay(usize, usize),
    /// Nothing passes to or from one.
    Isolate(usize),
    /// Nothing passes between those below and those from a number on.
    Halves(usize),
    /// A process is gone without a word, and later started again on its address.
    Crash(usize),
    /// The same within a moment, so that the peers still believe in the old one.
    Swap(usize),
    /// It says goodbye, and is started again later.
    Leave(usize),
    /// Crashes, and starts again at another address.
    Move(usize),
    /// A loop stands still; QUIC goes on.
    StallLoop(usize),
    /// A whole process stands still.
    StallAll(usize),
    /// A NAT gives a gateway another address.
    Renumber(usize),
}

/// One fault's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) at_ms: u64,
    pub(super) for_ms: u64,
    pub(super) fault: Fault,
}

/// Everything a seed decides.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) seed: u64,
    pub(super) gateways: usize,
    /// Whether everybody is given everybody's address; otherwise only the first one's.
    pub(super) all_seeds: bool,
    pub(super) paths: Paths,
    pub(super) hearsay: Hearsay,
    pub(super) events: Vec<Event>,
    /// A gateway is handed a chain this often, on average.
    pub(super) place_every_ms: u64,
    pub(super) blocks_max: u64,
}

impl Script {
    /// The script of a seed.
    pub(super) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "script");
        let gateways = usize::try_from(dice.between(2, 5)).expect("few");
        let mut events: Vec<Event> = (0..dice.between(0, 5)).map(|_| event(&mut dice, gateways)).collect();
        events.sort_by_key(|event| event.at_ms);
        // A second one would leave two gateways that no address leads to.
        let mut moved = false;
        events.retain(|event| !matches!(event.fault, Fault::Renumber(_)) || !std::mem::replace(&mut moved, true));
        Self {
            seed,
            gateways,
            all_seeds: dice.happens(500),
            paths: paths(&mut dice),
            hearsay: hearsay(&mut dice),
            events,
            place_every_ms: dice.log_between(20, 500),
            blocks_max: dice.log_between(1, 100),
        }
    }
}

fn event(dice: &mut Dice, gateways: usize) -> Event {
    let who = |dice: &mut Dice| usize::try_from(dice.below(gateways as u64)).expect("few");
    let a = who(dice);
    let b = (a + 1 + usize::try_from(dice.below(gateways as u64 - 1)).expect("few")) % gateways;
    let fault = match dice.below(11) {
        0 => Fault::Cut(a, b),
        1 => Fault::OneWay(a, b),
        2 => Fault::Isolate(a),
        3 => Fault::Halves(a.max(1)),
        4 => Fault::Crash(a),
        5 => Fault::Swap(a),
        6 => Fault::Leave(a),
        7 => Fault::Move(a),
        8 => Fault::StallLoop(a),
        9 => Fault::StallAll(a),
        _ => Fault::Renumber(a),
    };
    let at_ms = dice.between(200, HEALED_MS - 2_000);
    let for_ms = dice.log_between(50, HEALED_MS).min(HEALED_MS - at_ms);
    let for_ms = match fault {
        Fault::Swap(_) => dice.below(60),
        // Longer, a real process would have nobody left who reads: QUIC lives on the same thread.
        Fault::StallLoop(_) => for_ms.min(1_800),
        Fault::Cut(..) | Fault::OneWay(..) | Fault::Isolate(_) | Fault::Halves(_) => for_ms,
        Fault::Crash(_) | Fault::Leave(_) | Fault::Move(_) | Fault::StallAll(_) | Fault::Renumber(_) => for_ms,
    };
    Event { at_ms, for_ms, fault }
}

/// What the paths are like.
pub(super) fn paths(dice: &mut Dice) -> Paths {
    let delay_us = dice.log_between(100, 60_000);
    Paths {
        delay_us,
        jitter_us: if dice.happens(500) { dice.log_between(100, 2 * delay_us) } else { 0 },
        loss_permille: if dice.happens(500) { dice.log_between(1, 200) } else { 0 },
        duplicate_permille: if dice.happens(500) { dice.log_between(1, 200) } else { 0 },
        mtu_bytes: dice.one_of(&[1_200, 1_280, 1_400, 1_452, 1_500]),
    }
}

fn hearsay(dice: &mut Dice) -> Hearsay {
    Hearsay {
        up_ms: dice.between(200, 1_500),
        down_ms: dice.between(500, 3_000),
        wrong_permille: if dice.happens(300) { dice.between(1, 10) } else { 0 },
    }
}
