//! One workload through one arm: requests come, are routed, wait at their worker and are answered, in virtual time.
//!
//! Not here: how arms decide, what many runs come to (`report`). Upholds: same arguments, same figures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arms::{Arm, Decision, Request, Router, Setting, router};
use super::figures::{Figures, Sample, Troubled};
use super::fleet::{Fleet, FleetConfig, Sent};
use super::lru::Lru;
use super::trace::Trace;
use crate::workload::Dice;

/// What happens, in the order in which it is done at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Answered,
    Sent,
    Arrives,
}

#[derive(Clone, Debug, Default)]
struct Flight {
    gateway: usize,
    arrived_us: u64,
    decision: Decision,
    bound_tokens: u64,
    sent: Option<Sent>,
}

struct Play<'a> {
    trace: &'a Trace,
    fleet: Fleet,
    router: Box<dyn Router>,
    /// The bound: one cache as large as all together.
    pooled: Lru,
    gateways: usize,
    spray: Dice,
    flights: Vec<Flight>,
    /// Which requests wait for each one.
    followers: Vec<Vec<usize>>,
    due: BinaryHeap<Reverse<(u64, Event, usize)>>,
    samples: Vec<Sample>,
    ended_us: u64,
}

/// Plays a workload through an arm. Each request comes to a gateway drawn from the seed.
#[must_use]
pub fn play(arm: Arm, trace: &Trace, config: FleetConfig, setting: &Setting) -> Figures {
    let fleet = Fleet::new(config);
    let router = router(arm, &fleet, setting);
    let pooled = Lru::new((config.cache_tokens * config.workers as u64 / u64::from(config.block_tokens)) as usize);
    let mut followers = vec![Vec::new(); trace.asks.len()];
    let mut due = BinaryHeap::new();
    for (nth, ask) in trace.asks.iter().enumerate() {
        match ask.after {
            Some(before) => followers[before].push(nth),
            None => due.push(Reverse((ask.at_us, Event::Arrives, nth))),
        }
    }
    let mut play = Play {
        trace,
        fleet,
        router,
        pooled,
        gateways: setting.gateways,
        spray: Dice::new(setting.seed, "eval spray", 0),
        flights: vec![Flight::default(); trace.asks.len()],
        followers,
        due,
        samples: Vec::with_capacity(trace.asks.len()),
        ended_us: 0,
    };
    play.run();
    let mesh = play.router.finish();
    let mut figures = Figures::new(&play.samples, &play.fleet, mesh);
    figures.troubled = setting.trouble.map(|trouble| Troubled::new(&play.samples, &trouble));
    figures
}

impl Play<'_> {
    fn run(&mut self) {
        while let Some(Reverse((now_us, event, nth))) = self.due.pop() {
            self.ended_us = now_us;
            match event {
                Event::Arrives => self.arrive(now_us, nth),
                Event::Sent => self.send(now_us, nth),
                Event::Answered => self.answer(now_us, nth),
            }
        }
    }

    fn arrive(&mut self, now_us: u64, nth: usize) {
        let ask = &self.trace.asks[nth];
        let drawn = self.spray.below(self.gateways);
        let mut from_drawn = (0..self.gateways).map(|step| (drawn + step) % self.gateways);
        let gateway = from_drawn.find(|gateway| self.router.is_ready(now_us, *gateway)).unwrap_or(drawn);
        let block_tokens = self.fleet.config().block_tokens;
        let bound_tokens = ask.tokens_in(self.pooled.depth(&ask.blocks), block_tokens);
        let _ = self.pooled.touch(&ask.blocks);
        let decision = self.router.route(now_us, &Request { nth, gateway, ask }, &self.fleet);
        self.flights[nth] = Flight { gateway, arrived_us: now_us, decision, bound_tokens, sent: None };
        if decision.took_us == 0 {
            return self.send(now_us, nth);
        }
        self.due.push(Reverse((now_us + decision.took_us, Event::Sent, nth)));
    }

    fn send(&mut self, now_us: u64, nth: usize) {
        let (ask, flight) = (&self.trace.asks[nth], &mut self.flights[nth]);
        let worker = flight.decision.worker;
        let sent = self.fleet.send(now_us, worker, ask);
        self.router.sent(now_us, &Request { nth, gateway: flight.gateway, ask }, worker);
        self.due.push(Reverse((sent.first_byte_us, Event::Answered, nth)));
        flight.sent = Some(sent);
    }

    fn answer(&mut self, now_us: u64, nth: usize) {
        let (ask, flight) = (&self.trace.asks[nth], std::mem::take(&mut self.flights[nth]));
        let Some(sent) = flight.sent else { return };
        let request = Request { nth, gateway: flight.gateway, ask };
        self.router.answered(now_us, &request, flight.decision.worker, &sent);
        for &follower in &self.followers[nth] {
            self.due.push(Reverse((now_us + self.trace.asks[follower].at_us, Event::Arrives, follower)));
        }
        self.samples.push(Sample {
            gateway: flight.gateway,
            arrived_us: flight.arrived_us,
            ttft_us: now_us - flight.arrived_us,
            input_tokens: ask.input_tokens,
            hit_tokens: sent.hit_tokens,
            bound_tokens: flight.bound_tokens,
            predicted_tokens: flight.decision.predicted_tokens,
            is_followup: ask.is_followup,
            is_degraded: flight.decision.is_degraded,
        });
    }
}
