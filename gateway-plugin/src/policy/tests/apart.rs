//! Choices of a gateway that does not hear all others.

use super::*;

/// With such a hope, at two for each share that is not seen.
fn choice(fleet: &Numbers, overlap: Option<&Overlap>, hope: f64, word: u64) -> Choice {
    let query = Query { home: Some(Home { key: 77, unseen: hope / 2.0 }), ..query(overlap) };
    choose(Policy::Mesh, &query, fleet, word).expect("all are usable")
}

fn home_of(fleet: &Numbers) -> WorkerNo {
    choice(fleet, None, 1.0, 1).chosen.worker
}

#[test]
fn gateways_apart_send_a_prompt_to_one_worker_whatever_chance_shows_them() {
    let fleet = Numbers::idle(16);
    let home = home_of(&fleet);
    for word in 0..200 {
        let choice = choice(&fleet, None, 0.5, mix(word));
        assert_eq!((choice.chosen.worker, choice.reason, choice.chosen.depth), (home, Reason::Home, 0));
        assert_eq!(choice.chosen.score, 6_400 - 6_399 / 2, "half of what can be held is hoped for");
    }
}

#[test]
fn hope_is_worth_twice_the_share_that_is_not_seen_and_no_more() {
    let mut fleet = Numbers::idle(16);
    let home = home_of(&fleet);
    let holder = WorkerNo((home.0 + 1) % 16);
    let overlap = Overlap::of(&[(60, &[holder.0])]);
    assert_eq!(choice(&fleet, Some(&overlap), 0.5, 3).chosen.worker, holder, "known to hold more than is hoped for");
    assert_eq!(choice(&fleet, Some(&overlap), 0.9, 3).chosen.worker, home);
    let nothing_unseen = choice(&fleet, None, 0.05, 3);
    assert_ne!(nothing_unseen.reason, Reason::Home, "others that are not heard, and send nothing that anybody sees");
    assert_eq!(choice(&fleet, None, 9.0, 3).chosen.score, 1, "never more than the prompt");
    fleet.others[home.0 as usize] = queued(50 * 64);
    assert_eq!(choice(&fleet, Some(&overlap), 0.9, 3).chosen.worker, holder, "hope is weighed against the queue");
}

#[test]
fn what_a_worker_told_of_unseen_requests_counts_as_its_queue_but_not_for_local() {
    let overlap = Overlap::of(&[(50, &[3])]);
    let mut fleet = Numbers::idle(8);
    fleet.unseen = vec![Load::default(); 8];
    fleet.unseen[3] = queued(40_000);
    for word in 0..100 {
        let chosen = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, mix(word)).expect("all are usable");
        assert_ne!(chosen.chosen.worker, WorkerNo(3));
        let own = choose(Policy::Local, &query(Some(&overlap)), &fleet, mix(word)).expect("all are usable");
        assert_eq!(own.chosen.worker, WorkerNo(3));
    }
}
