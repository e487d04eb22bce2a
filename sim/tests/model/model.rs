//! The model: three nodes, a network that loses, doubles, delays and reorders, and a list of deeds for each gateway.
//!
//! A state is the three node states with their clocks, the multiset of frames under way, how far each list is, and how
//! many more frames may be doubled. Actions: any frame under way arrives; any arrives and stays under way (doubled); any
//! gateway does the next thing of its list. There is no action for losing a frame: nothing ever has to arrive, and at
//! every state it is asked what happens if all that is under way is lost for good, so every subset is lost somewhere.
//!
//! Time is discrete: a frame arrives in no time, publishing takes two milliseconds, and only a deed `Wait` lets timers
//! fire. Nodes' clocks drift apart by those amounts only.
//!
//! Convergence is checked as "no state from which a fair run diverges": from every state, once faults stop, rounds of
//! exchanges make all three clean and equal, and frames from before that arrive later still change nothing. (An
//! `eventually` property would say less, and the checker's are blind to cycles.)
//!
//! Not here: what one node's turn does and whether it may (`lab`), the starts and lists (`scenario`).

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use covey_sim::invariants::Violation;
use covey_sim::oracle::Oracle;
use stateright::{Model, Property};

use crate::cluster::{Cluster, Frame, NODES};
use crate::lab::{Event, Lab, Sight};
use crate::scenario::Scenario;

/// A node and its clock.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    sight: Arc<Sight>,
    at_ms: u64,
}

/// One moment.
#[derive(Clone)]
pub(crate) struct State {
    seats: [Seat; NODES],
    /// Numbers of the frames under way, sorted; equal ones as often as they are.
    wire: Vec<u32>,
    /// Deeds done.
    done: [usize; NODES],
    /// Frames that may still be doubled.
    copies: u8,
    /// What the last turn broke; nothing happens after that.
    pub(crate) wrong: Arc<[Violation]>,
    /// Follows from the nodes' logs, so it is not part of the state's identity.
    oracle: Arc<Oracle>,
    /// What the last turn was like; not part of the state's identity either.
    last: Last,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    duplicate: bool,
    repaired: bool,
    aborted: bool,
}

/// What may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The frame arrives.
    Deliver(u32),
    /// The frame arrives, and will again.
    Double(u32),
    /// The gateway does the next thing of its list.
    Act(usize),
}

/// What tells two moments apart: node states with their clocks, frames under way, deeds done, doublings left, all well.
type Identity<'a> = ([(u128, u64); NODES], &'a [u32], [usize; NODES], u8, bool);

/// What convergence depends on: node states, their clocks, and the frames that come late.
type Calm = ([(u128, u64); NODES], Vec<u32>);

/// A scenario being explored.
pub(crate) struct Interleavings {
    pub(crate) scenario: Scenario,
    lab: Mutex<Lab>,
    /// What was found to converge: node states with their clocks, and the kinds of frames that came late.
    converged: Mutex<BTreeSet<Calm>>,
    /// Why a state did not converge, for the report.
    diverged: Mutex<Option<String>>,
}

impl Interleavings {
    pub(crate) fn new(scenario: Scenario) -> Self {
        Self { scenario, lab: Mutex::default(), converged: Mutex::default(), diverged: Mutex::default() }
    }

    pub(crate) fn lab(&self) -> MutexGuard<'_, Lab> {
        self.lab.lock().expect("no turn panicked")
    }

    /// From how many starts convergence was tried.
    pub(crate) fn converged(&self) -> usize {
        self.converged.lock().expect("no turn panicked").len()
    }

    /// Why a state did not converge, if one did not.
    pub(crate) fn diverged(&self) -> Option<String> {
        self.diverged.lock().expect("no turn panicked").clone()
    }

    /// A history in words.
    pub(crate) fn tell(&self, actions: &[Action]) -> String {
        let mut done = [0; NODES];
        let lab = self.lab();
        let route = |number: u32| (lab.frame(number).from, lab.frame(number).to);
        let mut told = String::new();
        for action in actions {
            told += &match action {
                Action::Act(nth) => {
                    done[*nth] += 1;
                    format!("\n  gateway {nth}: {:?}", self.scenario.deeds[*nth][done[*nth] - 1])
                }
                Action::Deliver(number) => format!("\n  frame {number} {:?} arrives", route(*number)),
                Action::Double(number) => format!("\n  frame {number} {:?} arrives, and will again", route(*number)),
            };
        }
        told
    }

    fn take(&self, state: &mut State, nth: usize, event: Event) {
        let deed = if let Event::Deed(done) = event { Some(self.scenario.deeds[nth][done]) } else { None };
        let seat = &mut state.seats[nth];
        let turn = self.lab().turn(&seat.sight, seat.at_ms, event, deed, &mut state.oracle);
        *seat = Seat { sight: Arc::clone(&turn.sight), at_ms: turn.at_ms };
        state.wire.extend(&turn.sent);
        state.wire.sort_unstable();
        state.wrong.clone_from(&turn.wrong);
        state.last = Last { duplicate: turn.duplicate, repaired: turn.repaired, aborted: turn.aborted };
    }

    /// Whether the cluster converges from here when all that is under way is lost, and stays so when it comes late.
    fn converges(&self, state: &State) -> bool {
        if !state.wrong.is_empty() {
            return true;
        }
        let mut late = state.wire.clone();
        late.dedup();
        let calm = (state.identity().0, late);
        if self.converged.lock().expect("no turn panicked").contains(&calm) {
            return true;
        }
        let nodes = state.seats.iter().map(|seat| seat.sight.node.clone()).collect();
        let at_ms = state.seats.iter().map(|seat| seat.at_ms).max().unwrap_or(0);
        let mut cluster = Cluster::new(nodes, at_ms, Oracle::clone(&state.oracle));
        let late: Vec<Frame> = calm.1.iter().map(|number| self.lab().frame(*number).clone()).collect();
        match cluster.settle().and_then(|()| cluster.deliver_late(late.into_iter())) {
            Ok(()) => self.converged.lock().expect("no turn panicked").insert(calm),
            Err(why) => {
                self.diverged.lock().expect("no turn panicked").get_or_insert(why);
                false
            }
        }
    }
}

impl Model for Interleavings {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (cluster, under_way) = (self.scenario.start)();
        let mut lab = self.lab();
        let mut nodes = cluster.nodes.into_iter();
        let seats = std::array::from_fn(|_| {
            let node = nodes.next().expect("every scenario starts all nodes");
            Seat { sight: lab.first(node, &cluster.oracle), at_ms: cluster.at_ms }
        });
        vec![State {
            seats,
            wire: under_way.into_iter().map(|frame| lab.number(frame)).collect(),
            done: [0; NODES],
            copies: self.scenario.copies,
            wrong: Arc::new([]),
            oracle: Arc::new(cluster.oracle),
            last: Last::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.wrong.is_empty() {
            return;
        }
        let mut frames = state.wire.clone();
        frames.dedup();
        actions.extend(frames.iter().map(|number| Action::Deliver(*number)));
        if state.copies > 0 {
            actions.extend(frames.iter().map(|number| Action::Double(*number)));
        }
        let deeds = state.done.iter().zip(self.scenario.deeds);
        actions
            .extend(deeds.enumerate().filter(|(_, (done, all))| **done < all.len()).map(|(nth, _)| Action::Act(nth)));
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Act(nth) => {
                state.done[nth] += 1;
                self.take(&mut state, nth, Event::Deed(before.done[nth]));
            }
            Action::Deliver(number) | Action::Double(number) => {
                if action == Action::Deliver(number) {
                    let at = state.wire.binary_search(&number).ok()?;
                    state.wire.remove(at);
                } else {
                    state.copies -= 1;
                }
                let to = self.lab().frame(number).to;
                self.take(&mut state, to, Event::Frame(number));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all: Vec<Property<Self>> = vec![
            Property::always("I1: equal clean vectors, equal state and digest", |_, state: &State| state.holds("I1")),
            Property::always("I2: a clean replica holds what its vector says", |_, state: &State| state.holds("I2")),
            Property::always("I3: coverage is prefix-closed", |_, state: &State| state.holds("I3")),
            Property::always("I4: nothing goes back", |_, state: &State| state.holds("I4")),
            Property::always("I5: nothing retired returns", |_, state: &State| state.holds("I5")),
            Property::always("I6: no phantom", |_, state: &State| state.holds("I6")),
            Property::always("no life and no connection is given up", |_, state: &State| state.holds("link")),
            Property::always("I10: converges once faults stop", Self::converges),
            Property::sometimes("two nodes are unequal", |_, state: &State| state.unequal()),
            Property::sometimes("an op arrives out of order", |_, state: &State| {
                state.seats.iter().any(|s| s.sight.held > 0)
            }),
        ];
        if self.scenario.copies > 0 {
            let name = "an op arrives that was applied already";
            all.push(Property::sometimes(name, |_, state: &State| state.last.duplicate));
        }
        if self.scenario.sessions {
            all.push(Property::sometimes("a session is completed", |_, state: &State| state.last.repaired));
            all.push(Property::sometimes("a node is dirty", |_, s: &State| s.seats.iter().any(|s| !s.sight.clean)));
        }
        if self.scenario.gives_up() {
            all.push(Property::sometimes("a session is given up", |_, state: &State| state.last.aborted));
        }
        all
    }
}

impl State {
    fn holds(&self, invariant: &str) -> bool {
        let equal = |one: &Sight, other: &Sight| {
            invariant != "I1" || !(one.clean && other.clean && one.vector == other.vector) || one.digest == other.digest
        };
        let pairs = [(0, 1), (0, 2), (1, 2)];
        self.wrong.iter().all(|wrong| wrong.invariant != invariant)
            && pairs.iter().all(|(one, other)| equal(&self.seats[*one].sight, &self.seats[*other].sight))
    }

    fn unequal(&self) -> bool {
        let clean = self.seats.iter().filter(|seat| seat.sight.clean);
        let digests: BTreeSet<u128> = clean.map(|seat| seat.sight.digest.0).collect();
        digests.len() > 1
    }

    fn identity(&self) -> Identity<'_> {
        let seats = std::array::from_fn(|nth| (self.seats[nth].sight.print, self.seats[nth].at_ms));
        (seats, &self.wire, self.done, self.copies, self.wrong.is_empty())
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.identity().hash(hasher);
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for seat in &self.seats {
            let vector = seat.sight.node.vector().lives().map(|(_, head)| head.seq).collect::<Vec<_>>();
            write!(out, "{:?} {vector:?} ", seat.sight.node.phase())?;
        }
        write!(out, "under way {:?}", self.wire)
    }
}
