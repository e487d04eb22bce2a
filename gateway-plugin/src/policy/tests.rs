//! What each policy promises, against a fleet made of plain numbers.

use covey_crdt::id::ModelName;
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_mesh::input::Load;

use super::*;
use crate::index::Overlap;
use crate::load::WorkerNo;

mod apart;
mod guards;

/// A fleet whose numbers are set by hand.
#[derive(Clone)]
struct Numbers {
    workers: Vec<WorkerNo>,
    down: Vec<u32>,
    own: Vec<Load>,
    others: Vec<Load>,
    computed: Vec<u64>,
    /// What workers told beyond that.
    unseen: Vec<Load>,
    slowness: Vec<f64>,
}

impl Numbers {
    fn idle(count: u32) -> Self {
        let idle = vec![Load::default(); count as usize];
        Self {
            workers: (0..count).map(WorkerNo).collect(),
            down: Vec::new(),
            own: idle.clone(),
            others: idle,
            computed: Vec::new(),
            unseen: Vec::new(),
            slowness: vec![1.0; count as usize],
        }
    }

    fn send(&mut self, choice: &Choice, uncached_tokens: u64) {
        let own = &mut self.own[choice.chosen.worker.0 as usize];
        own.requests += 1;
        own.queued_tokens += uncached_tokens;
    }
}

impl Fleet for Numbers {
    fn workers(&self) -> &[WorkerNo] {
        &self.workers
    }

    fn is_usable(&self, worker: WorkerNo) -> bool {
        !self.down.contains(&worker.0)
    }

    fn own_load(&self, worker: WorkerNo) -> Load {
        self.own[worker.0 as usize]
    }

    fn others_load(&self, worker: WorkerNo) -> Load {
        self.others[worker.0 as usize]
    }

    fn unseen_load(&self, worker: WorkerNo, _: u64) -> Load {
        self.unseen.get(worker.0 as usize).copied().unwrap_or_default()
    }

    fn computed_of(&self, worker: WorkerNo, _: u64) -> u64 {
        self.computed.get(worker.0 as usize).copied().unwrap_or(0)
    }

    fn slowness(&self, worker: WorkerNo) -> f64 {
        self.slowness[worker.0 as usize]
    }

    fn id_hash(&self, worker: WorkerNo) -> u64 {
        mix(u64::from(worker.0) + 1_000)
    }
}

/// A prompt of `blocks` blocks of 64 tokens.
fn prompt(blocks: u64) -> Prompt {
    let model = ModelName::new("m").expect("a name");
    let keyspace = Keyspace::new(model, Unit::Bytes, 256, HashKeyId(0)).expect("a block size");
    Prompt::new(&keyspace, blocks * 256)
}

fn query(overlap: Option<&Overlap>) -> Query<'_> {
    Query { overlap, prompt: prompt(100), session: None, prefix: None, home: None, turn: 0, tuning: Tuning::default() }
}

fn queued(queued_tokens: u64) -> Load {
    Load { requests: 1, queued_tokens }
}

#[test]
fn the_deepest_holder_is_chosen_while_it_is_not_busier_than_what_it_saves() {
    let overlap = Overlap::of(&[(90, &[3]), (40, &[5])]);
    let mut fleet = Numbers::idle(16);
    for word in 0..200 {
        let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, word).expect("all are usable");
        assert_eq!((choice.chosen.worker, choice.reason), (WorkerNo(3), Reason::Holder));
        assert_eq!((choice.chosen.score, choice.runners_up.len()), (10 * 64 * 3 / 2, 3));
    }
    fleet.others[3] = queued(90 * 64);
    for word in 0..200 {
        let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, word).expect("all are usable");
        assert_eq!(choice.chosen.worker, WorkerNo(5), "the second deepest is next");
        assert!(choice.runners_up.iter().any(|other| other.worker == WorkerNo(3)));
    }
    (fleet.others[3], fleet.others[5]) = (queued(180 * 64), queued(180 * 64));
    let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, 1).expect("all are usable");
    assert_eq!((choice.chosen.depth, choice.reason), (0, Reason::Lighter));
    let own_view = choose(Policy::Local, &query(Some(&overlap)), &fleet, 1).expect("all are usable");
    assert_eq!(own_view.chosen.worker, WorkerNo(3), "`local` does not know the others' load");
}

#[test]
fn what_a_worker_has_computed_by_now_is_off_its_queue() {
    let overlap = Overlap::of(&[(50, &[3])]);
    let mut fleet = Numbers::idle(8);
    fleet.others[3] = queued(40_000);
    let chosen = |fleet: &Numbers| choose(Policy::Mesh, &query(Some(&overlap)), fleet, 1).expect("all are up").chosen;
    assert_ne!(chosen(&fleet).worker, WorkerNo(3), "its queue is longer than what it saves");
    fleet.computed = vec![0, 0, 0, 39_000];
    assert_eq!((chosen(&fleet).worker, chosen(&fleet).queued), (WorkerNo(3), 1_000), "most of that is done");
    fleet.computed[3] = u64::MAX;
    assert_eq!((chosen(&fleet).worker, chosen(&fleet).queued), (WorkerNo(3), 0), "never more than there is");
}

#[test]
fn a_worker_that_is_down_is_never_chosen_by_any_policy() {
    let overlap = Overlap::of(&[(90, &[3]), (40, &[1, 2, 5])]);
    let mut fleet = Numbers::idle(6);
    fleet.down = vec![0, 3, 5];
    for policy in Policy::ALL {
        let home = Some(Home { key: 2, unseen: 1.0 });
        let query = Query { session: Some(4), prefix: Some(9), home, ..query(Some(&overlap)) };
        for word in 0..100 {
            let choice = choose(policy, &Query { turn: word, ..query }, &fleet, word).expect("three are up");
            assert!(fleet.is_usable(choice.chosen.worker), "{policy} chose {choice:?}");
            assert!(choice.runners_up.iter().all(|other| fleet.is_usable(other.worker)));
        }
        fleet.down = (0..6).collect();
        assert_eq!(choose(policy, &query, &fleet, 1), None, "{policy} with nobody up");
        fleet.down = vec![0, 3, 5];
    }
    assert_eq!(choose(Policy::Mesh, &query(None), &Numbers::idle(0), 1), None);
}

/// Eight gateways see the same second-old numbers: one worker just became idle. Greedy choice sends everything there.
#[test]
fn gateways_with_the_same_stale_numbers_do_not_herd() {
    let mut arrived = [0u32; 32];
    for gateway in 0..8u64 {
        let mut fleet = Numbers::idle(32);
        fleet.others = vec![queued(50_000); 32];
        fleet.others[7] = Load::default();
        for request in 0..10 {
            let choice = choose(Policy::Mesh, &query(None), &fleet, mix(gateway * 100 + request)).expect("all are up");
            fleet.send(&choice, 6_400);
            arrived[choice.chosen.worker.0 as usize] += 1;
        }
    }
    assert!(arrived[7] <= 16, "{} of 80 requests went to the idle worker; greedy sends about 60", arrived[7]);
    assert!(arrived[7] >= 1, "an idle worker is found all the same");
}

#[test]
fn a_hot_prefix_that_everybody_holds_is_not_chased_load_decides() {
    let everybody: Vec<u32> = (0..8).collect();
    let overlap = Overlap::of(&[(30, &everybody)]);
    let mut fleet = Numbers::idle(8);
    fleet.others[0] = queued(1_000_000);
    for word in 0..700 {
        let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, mix(word)).expect("all are up");
        fleet.send(&choice, 70 * 64);
    }
    let requests: Vec<u32> = fleet.own.iter().map(|load| load.requests).collect();
    assert_eq!(requests[0], 0, "the busy holder gets nothing: {requests:?}");
    assert!(requests[1..].iter().all(|count| (80..=120).contains(count)), "the others share alike: {requests:?}");
}

#[test]
fn a_first_block_that_one_worker_holds_draws_nothing_to_it() {
    let overlap = Overlap::of(&[(9, &[4])]);
    let mut fleet = Numbers::idle(8);
    for word in 0..800 {
        let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, mix(word)).expect("all are up");
        assert_ne!(choice.reason, Reason::Holder, "9 % of a prompt is not useful");
        fleet.send(&choice, 100 * 64);
    }
    let requests: Vec<u32> = fleet.own.iter().map(|load| load.requests).collect();
    assert!(requests.iter().all(|count| (80..=125).contains(count)), "{requests:?}");
}

#[test]
fn of_many_holders_at_one_depth_any_two_are_compared() {
    let holders = [1u32, 2, 200, 250];
    let overlap = Overlap::of(&[(50, &holders)]);
    let fleet = Numbers::idle(256);
    let mut seen = [0u32; 256];
    for word in 0..4_000 {
        let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, mix(word)).expect("all are up");
        seen[choice.chosen.worker.0 as usize] += 1;
    }
    assert!(holders.iter().all(|worker| (850..=1_150).contains(&seen[*worker as usize])), "no holder is favoured");
}

#[test]
fn a_session_stays_with_its_worker_whatever_becomes_of_the_others() {
    let mut fleet = Numbers::idle(10);
    let of = |fleet: &Numbers, session| {
        let query = Query { session: Some(session), ..query(None) };
        choose(Policy::Sticky, &query, fleet, session).expect("some are up").chosen.worker
    };
    let before: Vec<_> = (0..200).map(|session| of(&fleet, session)).collect();
    fleet.down = vec![4];
    for (session, worker) in (0..200).zip(&before) {
        let now = of(&fleet, session);
        assert!(now == *worker || *worker == WorkerNo(4), "session {session} moved from {worker:?} to {now:?}");
    }
    assert!((0..10).all(|worker| before.contains(&WorkerNo(worker))), "sessions are spread");
    let without_a_key = choose(Policy::Sticky, &query(None), &fleet, 3).expect("some are up");
    assert_eq!(without_a_key.reason, Reason::Load);
}

/// A new conversation that two gateways see at once, before either has told the other.
#[test]
fn of_equally_good_workers_the_sessions_is_chosen_on_every_gateway_and_of_unequal_ones_the_better() {
    let mut fleet = Numbers::idle(16);
    let chosen = |fleet: &Numbers, overlap: Option<&Overlap>, session, word| {
        let query = Query { session: Some(session), ..query(overlap) };
        let choice = choose(Policy::Mesh, &query, fleet, word).expect("all are up");
        (choice.chosen.worker, choice.reason)
    };
    let (home, reason) = chosen(&fleet, None, 5, 1);
    assert_eq!(reason, Reason::Session);
    assert!((0..100).all(|word| chosen(&fleet, None, 5, word) == (home, Reason::Session)), "whatever chance says");
    assert!((0..40).any(|session| chosen(&fleet, None, session, 1).0 != home), "another session has another one");
    let other = (home.0 + 1) % 16;
    let overlap = Overlap::of(&[(90, &[other])]);
    assert_eq!(chosen(&fleet, Some(&overlap), 5, 1), (WorkerNo(other), Reason::Holder), "coverage comes first");
    fleet.others[home.0 as usize] = queued(1);
    assert!((0..100).all(|word| chosen(&fleet, None, 5, word).0 != home), "load comes first");
    let of_load = choose(Policy::LeastLoad, &Query { session: Some(5), ..query(None) }, &fleet, 1).expect("all are up");
    assert_eq!(of_load.reason, Reason::Load, "no other policy looks at it");
}

#[test]
fn equal_prefixes_meet_on_one_worker() {
    let fleet = Numbers::idle(10);
    let of = |prefix, word| {
        let choice = choose(Policy::PrefixHash, &Query { prefix: Some(prefix), ..query(None) }, &fleet, word);
        choice.map(|choice| (choice.chosen.worker, choice.reason))
    };
    assert_eq!(of(5, 1), of(5, 2));
    assert!((0..40).any(|prefix| of(prefix, 1) != of(5, 1)));
    assert_eq!(of(5, 1).map(|(_, reason)| reason), Some(Reason::Prefix));
}

#[test]
fn round_robin_takes_turns_and_random_takes_any() {
    let fleet = Numbers::idle(5);
    let turns = |turn| choose(Policy::RoundRobin, &Query { turn, ..query(None) }, &fleet, 0).expect("all are up");
    assert_eq!((0..7).map(|turn| turns(turn).chosen.worker.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 0, 1]);
    let mut seen = [false; 5];
    for word in 0..100 {
        let choice = choose(Policy::Random, &query(None), &fleet, word).expect("all are up");
        seen[choice.chosen.worker.0 as usize] = true;
    }
    assert_eq!(seen, [true; 5]);
}

#[test]
fn least_load_counts_the_whole_mesh() {
    let mut fleet = Numbers::idle(4);
    fleet.own = [queued(10), queued(500), queued(20), queued(30)].to_vec();
    fleet.others = [queued(700), queued(0), queued(100), queued(80)].to_vec();
    let choice = choose(Policy::LeastLoad, &query(None), &fleet, 1).expect("all are up");
    assert_eq!(choice.chosen.worker, WorkerNo(3));
}

#[test]
fn an_unknown_policy_is_refused_with_the_list() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    let error = "fastest".parse::<Policy>().expect_err("not a policy");
    assert_eq!(
        error.to_string(),
        "no policy is called \"fastest\"; choose one of: mesh, least-load, round-robin, random, sticky, prefix-hash, local"
    );
}
