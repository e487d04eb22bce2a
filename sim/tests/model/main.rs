//! Model checking: the real core, every interleaving of a few ops among three nodes.
//!
//! The simulator draws long histories by chance; this tries *all* short ones. Each test explores one scenario to the end
//! and fails with a short history that breaks a property, when it has become trivial, or when it does not meet what
//! it is there to meet. Abstracted: time moves in few, equal steps and clocks agree (skew is the simulator's business);
//! connections stay up; the random generator's choices (see `lab`); loads and engine events are not used.
//!
//! `cargo test -p covey-sim --test model -- --nocapture` prints how many states there are.

mod cluster;
mod lab;
mod model;
mod returned;
mod scenario;

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use model::Interleavings;
use scenario::{GIVEN_UP, LOG, PUSHES, RELAY, SESSION, Scenario};

#[expect(clippy::print_stdout, reason = "states explored are what the test is worth")]
fn explore(scenario: Scenario) {
    let (name, states_min) = (scenario.name, scenario.states_min);
    let started = Instant::now();
    let checker = Interleavings::new(scenario).checker();
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let (nodes, turns) = checker.model().lab().size();
    let took = started.elapsed().as_secs_f64();
    let calms = checker.model().converged();
    println!(
        "{name}: {states} states, {depth} deep, {nodes} node states, {turns} turns, {calms} runs to convergence, {took:.1} s"
    );
    let (mut failed, mut missing) = (Vec::new(), Vec::new());
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        match (property.expectation, found) {
            (Expectation::Always, Some(path)) => {
                let model = checker.model();
                let broken: Vec<String> = path.last_state().wrong.iter().map(|wrong| wrong.what.clone()).collect();
                let why = if broken.is_empty() { model.diverged().unwrap_or_default() } else { broken.join("; ") };
                let history = model.tell(&path.into_actions());
                failed.push(format!("{}\n  {why}, after{history}", property.name));
            }
            (Expectation::Sometimes, None) => missing.push(property.name),
            (Expectation::Always, None) | (Expectation::Sometimes, Some(_)) | (Expectation::Eventually, _) => {}
        }
    }
    assert!(failed.is_empty(), "{name}: {}", failed.join("\n"));
    assert!(missing.is_empty(), "{name}: never happened: {missing:?}");
    assert!(states >= states_min, "{name}: {states} states, at least {states_min} were expected");
}

#[test]
fn ops_in_every_order() {
    explore(PUSHES);
}

#[test]
fn one_log_in_every_order() {
    explore(LOG);
}

#[test]
fn a_session_with_ops_between_its_slices() {
    explore(SESSION);
}

#[test]
fn a_session_given_up_half_way() {
    explore(GIVEN_UP);
}

#[test]
fn a_newcomer_joins_from_a_peer_in_the_middle_of_a_session() {
    explore(RELAY);
}
