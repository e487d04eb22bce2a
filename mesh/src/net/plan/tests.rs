//! The plan driven by hand: when it dials what.

use super::*;

const ME: LifeId = LifeId(10);
const PEER: LifeId = LifeId(20);

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn at(ms: u64) -> MonoTime {
    MonoTime::from_ms(ms)
}

fn plan(seeds: &[&str]) -> Plan {
    let seeds: Vec<String> = seeds.iter().map(|s| (*s).to_owned()).collect();
    Plan::new(ME, &[address(1)], &seeds, 7)
}

fn dialled_at(plan: &mut Plan, ms: u64) -> Vec<SocketAddr> {
    plan.due(at(ms)).dials.into_iter().map(|(address, _)| address).collect()
}

/// Runs a plan whose every dial fails and says when each dial happened.
fn dials_until(plan: &mut Plan, end_ms: u64) -> Vec<u64> {
    let mut dials = Vec::new();
    for ms in (0..end_ms).step_by(10) {
        let due = plan.due(at(ms));
        for (index, _) in due.seeds {
            plan.resolved(index, &[address(2)], at(ms));
        }
        for (address, _) in due.dials {
            dials.push(ms);
            plan.dialled(address, None, Err(LinkFailure::TimedOut), at(ms));
        }
    }
    dials
}

#[test]
fn seeds_are_dialled_for_ever_one_second_growing_to_five() {
    let dials = dials_until(&mut plan(&["a:2"]), 120_000);
    let gaps: Vec<u64> = dials.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(dials[0] < 200 && (740..=1_270).contains(&gaps[0]), "{dials:?}");
    assert!(gaps.iter().skip(4).all(|gap| (3_740..=6_270).contains(gap)), "{gaps:?}");
    assert!(dials.last().is_some_and(|last| *last > 110_000));
}

#[test]
fn a_linked_peer_is_not_dialled_and_a_lost_one_is_dialled_soon() {
    let mut plan = plan(&["a:2"]);
    dials_until(&mut plan, 3_000);
    plan.linked(PEER, PEER, &[address(2)], at(3_000));
    for ms in (3_000..60_000).step_by(10) {
        assert_eq!(dialled_at(&mut plan, ms), []);
    }
    plan.unlinked(PEER, false, at(60_000));
    assert_eq!(dialled_at(&mut plan, 60_200), [address(2)]);
}

/// Dials of address 2 from a loss at 60 s on, each silent for as long as it may be: when each began.
fn silent_dials_after_a_loss(plan: &mut Plan, link_ms: u64, end_ms: u64) -> Vec<u64> {
    dials_until(plan, 200);
    plan.linked(PEER, PEER, &[address(2)], at(60_000 - link_ms));
    plan.unlinked(PEER, false, at(60_000));
    let (mut began, mut ends) = (Vec::new(), None);
    for ms in (60_000..end_ms).step_by(10) {
        if ends.is_some_and(|ends| ms >= ends) {
            ends = None;
            plan.dialled(address(2), None, Err(LinkFailure::TimedOut), at(ms));
        }
        for (_, patience) in plan.due(at(ms)).dials {
            began.push(ms);
            ends = Some(ms + u64::try_from(patience.as_millis()).expect("seconds"));
        }
    }
    began
}

#[test]
fn a_partition_that_ends_within_minutes_is_noticed_within_its_bound() {
    let began = silent_dials_after_a_loss(&mut plan(&["a:2"]), 10_000, 360_000);
    let gaps: Vec<u64> = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap <= 1_500 + 625 + 20), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < 1_500 + 500) && gaps.iter().any(|gap| *gap > 1_500 + 500), "no jitter");
}

#[test]
fn a_peer_lost_for_long_is_not_dialled_in_haste_any_more() {
    let began = silent_dials_after_a_loss(&mut plan(&["a:2"]), 10_000, 500_000);
    let late: Vec<u64> = began.iter().copied().filter(|ms| *ms > 390_000).collect();
    let gaps: Vec<u64> = late.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= 3_000 + 3_740), "{gaps:?}");
}

#[test]
fn a_link_that_was_never_good_and_a_peer_that_says_no_are_worth_no_haste() {
    let mut short = plan(&["a:2"]);
    let began = silent_dials_after_a_loss(&mut short, 1_000, 90_000);
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] >= 3_000 + 740), "{began:?}");
    let mut plan = plan(&["a:2"]);
    dials_until(&mut plan, 200);
    plan.linked(PEER, PEER, &[address(2)], at(200));
    plan.unlinked(PEER, false, at(10_000));
    assert_eq!(dialled_at(&mut plan, 10_200), [address(2)]);
    plan.dialled(address(2), None, Err(LinkFailure::Secret), at(10_200));
    assert_eq!(dialled_at(&mut plan, 10_900), []);
    assert_eq!(dialled_at(&mut plan, 11_500), [address(2)]);
}

#[test]
fn a_refused_peer_is_dialled_late() {
    let mut plan = plan(&["a:2"]);
    dials_until(&mut plan, 200);
    plan.linked(PEER, PEER, &[address(2)], at(200));
    plan.unlinked(PEER, true, at(10_000));
    assert_eq!(dialled_at(&mut plan, 13_000), []);
    assert_eq!(dialled_at(&mut plan, 16_500), [address(2)]);
}

#[test]
fn own_and_unusable_addresses_are_never_targets() {
    let mut plan = plan(&["a:1"]);
    plan.due(at(0));
    plan.resolved(0, &[address(1), address(0), SocketAddr::from(([0, 0, 0, 0], 5))], at(0));
    plan.learned(ME, address(9), at(0));
    assert_eq!(dialled_at(&mut plan, 60_000), []);
}

#[test]
fn an_address_that_proves_to_be_ones_own_rests() {
    let mut plan = plan(&["a:2"]);
    plan.due(at(0));
    plan.resolved(0, &[address(2)], at(0));
    assert_eq!(dialled_at(&mut plan, 100), [address(2)]);
    assert!(plan.dialled(address(2), Some(ME), Err(LinkFailure::OwnAddress), at(100)));
    assert_eq!(dialled_at(&mut plan, 500_000), []);
    assert_eq!(dialled_at(&mut plan, 700_000), [address(2)]);
}

#[test]
fn a_name_that_moves_takes_its_target_along() {
    let mut plan = plan(&["a:2"]);
    plan.due(at(0));
    plan.resolved(0, &[address(2), address(3)], at(0));
    plan.resolved(0, &[address(3), address(4)], at(0));
    assert_eq!(dialled_at(&mut plan, 1_000), [address(3), address(4)]);
    // A resolver that fails for a while takes nothing away.
    plan.resolved(0, &[], at(1_000));
    assert_eq!(plan.targets.len(), 2);
}

#[test]
fn a_member_is_dialled_until_it_has_been_gone_for_the_horizon() {
    let mut plan = plan(&[]);
    plan.learned(PEER, address(5), at(0));
    assert_eq!(dialled_at(&mut plan, 100), [address(5)]);
    plan.dialled(address(5), None, Err(LinkFailure::TimedOut), at(100));
    plan.gone(PEER, at(200));
    assert_eq!(dialled_at(&mut plan, 800_000), [address(5)]);
    plan.dialled(address(5), None, Err(LinkFailure::TimedOut), at(800_000));
    assert_eq!(plan.due(at(1_000_000)), Due::default());
    assert!(plan.targets.is_empty());
}

#[test]
fn targets_and_dials_under_way_are_bounded() {
    let mut plan = plan(&["a:2"]);
    let many: Vec<SocketAddr> = (2..5_000).map(address).collect();
    plan.due(at(0));
    plan.resolved(0, &many, at(0));
    assert_eq!(plan.targets.len(), TARGETS_MAX);
    assert_eq!(dialled_at(&mut plan, 1_000).len(), DIALS_MAX);
    assert_eq!(dialled_at(&mut plan, 2_000), []);
}

#[test]
fn the_smaller_life_keeps_its_dial() {
    let mut plan = plan(&[]);
    plan.linked(PEER, PEER, &[], at(0));
    assert!(!plan.has_better_than_own_dial(PEER));
    plan.linked(PEER, ME, &[], at(0));
    assert!(plan.has_better_than_own_dial(PEER));
    plan.linked(LifeId(3), LifeId(3), &[], at(0));
    assert!(plan.has_better_than_own_dial(LifeId(3)));
}
