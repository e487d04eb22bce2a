//! Carrying out a script: faults, healing, bounded convergence, a while in which nothing may move, the end of every
//! task.
//!
//! Not here: what is drawn (`script`), what must hold at any moment (`world`).

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use super::dice::Dice;
use super::now;
use super::script::{Event, Fault, HEALED, Script};
use super::socket::Gates;
use super::world::{World, address, known, wish};
use crate::net::metrics::LinkFailure;

/// After healing, all must be clean, equal and linked within this: a peer that died behind a cut is given up by QUIC
/// after 3 s, then redialled, at worst after a backoff of 5 s; a life that was dirty for 5 s meanwhile starts anew.
pub(super) const CONVERGED_WITHIN: Duration = Duration::from_secs(20);
/// By then QUIC has given up what was cut off just before, and two that dialled each other keep one connection.
const SETTLED: Duration = Duration::from_secs(5);
/// Then nothing may move for this long.
const STEADY: Duration = Duration::from_secs(3);
/// After the last process went, every task has ended within this.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
const STEP_MS: u64 = 50;

/// What a run met, for the coverage marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    pub(super) converged: Duration,
    pub(super) datagrams: u64,
    pub(super) trace: u64,
    pub(super) stalled: u64,
    pub(super) reborn: u64,
    pub(super) overflowed: u64,
    pub(super) duplicate_links: u64,
    pub(super) dials_timed_out: u64,
    pub(super) placed_bytes: u64,
}

struct Player {
    world: World,
    script: Script,
    dice: Dice,
    /// What is under way, and when it ends.
    open: Vec<(u64, Event, Option<Gates>)>,
    moves: u8,
    played: Played,
}

/// Plays a script to its end.
pub(super) async fn play(script: &Script) -> Played {
    let mut world = World::new(script.seed, script.paths);
    for index in 0..script.gateways {
        let others = (0..script.gateways).filter(|other| *other != index && (script.all_seeds || *other == 0));
        let mut wish = wish(index, &others.collect::<Vec<_>>());
        wish.hearsay = script.hearsay;
        world.start(wish);
    }
    let dice = Dice::new(script.seed, "traffic");
    let mut player =
        Player { world, script: script.clone(), dice, open: Vec::new(), moves: 0, played: Played::default() };
    player.disturb().await;
    player.heal();
    player.converge().await;
    player.end().await
}

impl Player {
    async fn disturb(&mut self) {
        let events = std::mem::take(&mut self.script.events);
        let mut coming = events.into_iter().peekable();
        let mut at_ms = 0;
        while Duration::from_millis(at_ms) < HEALED {
            for over in self.open.extract_if(.., |(until, _, _)| *until <= at_ms).collect::<Vec<_>>() {
                self.end_fault(over.1.fault, over.2);
            }
            while let Some(event) = coming.next_if(|event| event.at_ms <= at_ms) {
                let gates = self.begin_fault(event.fault).await;
                self.open.push((event.at_ms + event.for_ms, event, gates));
            }
            self.traffic();
            self.world.pass(Duration::from_millis(STEP_MS)).await;
            at_ms += STEP_MS;
        }
    }

    fn traffic(&mut self) {
        for index in 0..self.script.gateways {
            if self.world.processes[index].is_some() && self.dice.happens(100) {
                let _ = self.world.process(index).mesh.submit(known());
            }
            let chains = 1 + STEP_MS / self.script.place_every_ms;
            let chance = (1_000 * STEP_MS / self.script.place_every_ms).min(1_000);
            for _ in 0..chains {
                if self.dice.happens(chance) {
                    let blocks = self.dice.between(1, self.script.blocks_max);
                    self.played.placed_bytes += u64::from(self.world.place(index, blocks)) * blocks * 8;
                }
            }
        }
    }

    async fn begin_fault(&mut self, fault: Fault) -> Option<Gates> {
        match fault {
            Fault::Cut(..) | Fault::OneWay(..) | Fault::Isolate(_) | Fault::Halves(_) => {
                for (from, to) in self.cuts(fault) {
                    self.world.scene.network.cut(from, to);
                }
            }
            Fault::Crash(who) | Fault::Swap(who) | Fault::Move(who) => {
                self.count(who);
                self.world.crash(who);
            }
            Fault::Leave(who) => {
                self.count(who);
                self.world.leave(who).await;
            }
            Fault::StallLoop(who) | Fault::StallAll(who) => {
                let process = self.world.processes[who].as_ref()?;
                return Some(process.stall(matches!(fault, Fault::StallAll(_))));
            }
            Fault::Renumber(who) => {
                let process = self.world.processes[who].as_ref()?;
                let mut appears = process.address();
                appears.set_port(40_000);
                self.world.scene.network.renumber(process.address(), appears);
            }
        }
        None
    }

    fn end_fault(&mut self, fault: Fault, gates: Option<Gates>) {
        match fault {
            Fault::Cut(..) | Fault::OneWay(..) | Fault::Isolate(_) | Fault::Halves(_) => {
                for (from, to) in self.cuts(fault) {
                    self.world.scene.network.mend(from, to);
                }
            }
            Fault::Crash(who) | Fault::Swap(who) | Fault::Leave(who) => self.world.restart(who),
            Fault::Move(who) => {
                if let Some(wish) = self.world.down.get_mut(&who) {
                    self.moves += 1;
                    wish.address.set_port(8_000 + u16::from(self.moves));
                }
                self.world.restart(who);
            }
            Fault::StallLoop(_) | Fault::StallAll(_) => {
                if let Some(gates) = gates {
                    gates.turns.open();
                    gates.quic.open();
                }
            }
            // A NAT does not take its address back.
            Fault::Renumber(_) => {}
        }
    }

    fn cuts(&self, fault: Fault) -> Vec<(std::net::SocketAddr, std::net::SocketAddr)> {
        let all = self.script.gateways;
        let at =
            |index: usize| self.world.processes[index].as_ref().map_or(address(index), |process| process.address());
        let mut cuts = Vec::new();
        for (from, to) in (0..all).flat_map(|from| (0..all).map(move |to| (from, to))).filter(|(from, to)| from != to) {
            let (low, high) = (from.min(to), from.max(to));
            let is_cut = match fault {
                Fault::Cut(a, b) => (low, high) == (a.min(b), a.max(b)),
                Fault::OneWay(a, b) => (from, to) == (a, b),
                Fault::Isolate(a) => from == a || to == a,
                Fault::Halves(n) => low < n && high >= n,
                Fault::Crash(_) | Fault::Swap(_) | Fault::Leave(_) | Fault::Move(_) => false,
                Fault::StallLoop(_) | Fault::StallAll(_) | Fault::Renumber(_) => false,
            };
            if is_cut {
                cuts.push((at(from), at(to)));
            }
        }
        cuts
    }

    /// Remembers what a process counted before it goes.
    fn count(&mut self, who: usize) {
        let Some(process) = &self.world.processes[who] else { return };
        let metrics = process.mesh.metrics();
        let of = |why: LinkFailure, list: &[(LinkFailure, u64)]| {
            list.iter().filter(|(what, _)| *what == why).map(|(_, n)| n).sum::<u64>()
        };
        self.played.stalled += metrics.restarts_stalled;
        self.played.duplicate_links += of(LinkFailure::Duplicate, &metrics.dials_failed);
        self.played.dials_timed_out += of(LinkFailure::TimedOut, &metrics.dials_failed);
        let exits = process.exits.lock().expect("no panic inside");
        self.played.reborn +=
            exits.iter().filter(|exit| matches!(exit, crate::net::driver::Exit::Reborn(_))).count() as u64;
    }

    /// Every fault is over; the paths stay as they are, but lose little.
    fn heal(&mut self) {
        for (_, event, gates) in std::mem::take(&mut self.open) {
            self.end_fault(event.fault, gates);
        }
        self.world.scene.network.mend_all();
        let paths = self.script.paths;
        self.world
            .scene
            .network
            .set_paths(super::network::Paths { loss_permille: paths.loss_permille.min(10), ..paths });
        for process in self.world.running() {
            process.ground.hearsay.lock().expect("no panic inside").wrong_permille = 0;
        }
        let down: Vec<usize> = self.world.down.keys().copied().collect();
        for index in down {
            self.world.restart(index);
        }
        // What was agreed before says nothing: this must arrive everywhere.
        for index in 0..self.script.gateways {
            self.world.introduce(index);
        }
    }

    async fn converge(&mut self) {
        let took = self.world.until("all clean, equal and linked", CONVERGED_WITHIN, World::is_whole).await;
        self.played.converged = took;
        self.world.pass(SETTLED).await;
        let before: Vec<_> = self.world.running().map(|process| process.linked()).collect();
        self.world.pass(STEADY).await;
        assert!(self.world.agrees(), "seed {}: they agreed, and then not\n{}", self.script.seed, self.world.describe());
        assert!(self.world.has_placed(), "seed {}: lost\n{}", self.script.seed, self.world.describe());
        for (process, before) in self.world.running().zip(before) {
            for ((name, up_ms), (was, was_ms)) in process.linked().into_iter().zip(before) {
                assert!(
                    name == was && up_ms > was_ms,
                    "seed {}: a link flapped\n{}",
                    self.script.seed,
                    self.world.describe()
                );
            }
        }
    }

    /// Everybody goes, one way or the other, and nothing stays behind.
    async fn end(mut self) -> Played {
        for index in 0..self.script.gateways {
            self.count(index);
            if self.dice.happens(500) {
                self.world.crash(index);
            } else {
                self.world.leave(index).await;
            }
        }
        let counts = self.world.scene.network.counts();
        self.played.datagrams = counts.sent;
        self.played.overflowed = counts.overflowed;
        self.played.trace = self.world.scene.network.trace();
        let until = now() + ENDED_WITHIN;
        // The network's own task is the one that stays.
        while Handle::current().metrics().num_alive_tasks() > 1 {
            let left = Handle::current().metrics().num_alive_tasks() - 1;
            assert!(now() < until, "seed {}: {left} tasks are left after {ENDED_WITHIN:?}", self.script.seed);
            sleep(Duration::from_millis(100)).await;
        }
        self.played
    }
}
