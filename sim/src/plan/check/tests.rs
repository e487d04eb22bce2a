//! Every way a plan can be wrong is refused with the place and what to do; every drawn plan is good and survives JSON.

use super::super::{Broken, Burst, Event, Slow, Window};
use super::*;

fn plan() -> Plan {
    Plan {
        nodes: 5,
        workers: 3,
        faults_ms: 8_000,
        starts_ms: Vec::new(),
        offsets_ms: Vec::new(),
        drifts_ppm: Vec::new(),
        slow: Vec::new(),
        broken: Vec::new(),
        events: Vec::new(),
        network: super::super::NetworkPlan::default(),
        ..Plan::from_seed(1)
    }
}

fn refused(change: impl FnOnce(&mut Plan)) -> String {
    let mut plan = plan();
    assert_eq!(plan.check(), Ok(()));
    change(&mut plan);
    plan.check().expect_err("a bad plan").to_string()
}

fn event(fault: Fault) -> impl FnOnce(&mut Plan) {
    move |plan| {
        plan.events = vec![Event { at_ms: 1, fault: Fault::Heal }; 3];
        plan.events.push(Event { at_ms: 2, fault });
    }
}

#[test]
fn a_node_that_does_not_exist_is_named_with_its_place() {
    let said = refused(event(Fault::Step { node: 9, ms: 1 }));
    assert!(said.ends_with("events[3].fault.step.node is 9, but there are 5 nodes (0 to 4)"), "{said}");
    let said = refused(event(Fault::Flap { cut: Cut::OneWay { from: 0, to: 5 }, on_ms: 1, off_ms: 1, for_ms: 9 }));
    assert!(said.contains("events[3].fault.flap.cut.one-way.to is 5"), "{said}");
    let said = refused(event(Fault::Reset { node: 4, worker: 3 }));
    assert!(said.contains("events[3].fault.reset.worker is 3, but there are 3 workers (0 to 2)"), "{said}");
    let said = refused(event(Fault::Cut { cut: Cut::Split { side: 1 << 5 }, for_ms: 1 }));
    assert!(said.contains("events[3].fault.cut.cut.split.side has bits above"), "{said}");
}

#[test]
fn the_place_of_every_fault_is_a_path_that_the_plan_has() {
    let cut = Cut::Pair { one: 7, other: 7 };
    let faults = [
        Fault::Cut { cut, for_ms: 1 },
        Fault::Crash { node: 7 },
        Fault::Restart { node: 7 },
        Fault::Leave { node: 7 },
        Fault::Pause { node: 7, for_ms: 1, drops: true },
        Fault::Reuse { node: 7 },
        Fault::Rollback { node: 7, after_ms: 1 },
        Fault::Namesake { node: 7, of: 0 },
        Fault::Twin { node: 7, of: 0 },
        Fault::Newer { node: 7, for_ms: 1 },
        Fault::Freeze { node: 7, for_ms: 1, catches_up: true },
        Fault::Suspect { node: 7, of: 0, for_ms: 1 },
        Fault::MemberFlap { node: 7, every_ms: 1, for_ms: 1 },
        Fault::Ghost { node: 7 },
        Fault::WorkerRestart { worker: 7 },
        Fault::WorkerOldToken { worker: 7, life: 0 },
        Fault::Unsubscribe { node: 0, worker: 7 },
        Fault::Raise { node: 0, worker: 7 },
        Fault::WorkerFlap { worker: 7, for_ms: 1 },
        Fault::Remove { worker: 7, for_ms: 1 },
        Fault::Capacity { worker: 7, tokens: 1 },
    ];
    for fault in faults {
        let said = refused(event(fault));
        let place = said.split("events[3].").nth(1).and_then(|rest| rest.split(' ').next()).expect("a place");
        let json = serde_json::to_value(Event { at_ms: 0, fault }).expect("plain fields");
        let found = place.split('.').try_fold(&json, |value, field| value.get(field));
        assert_eq!(found, Some(&serde_json::json!(7)), "{said}");
    }
}

#[test]
fn impossible_sizes_are_refused_with_what_to_do() {
    assert!(refused(|plan| plan.nodes = 1).contains("nodes is 1: give it 2 to 64"));
    assert!(refused(|plan| plan.nodes = 65).contains("nodes is 65: give it 2 to 64"));
    assert!(refused(|plan| plan.workers = 129).contains("workers is 129: give it 1 to 128"));
    assert!(refused(|plan| plan.ops_per_s = 0).contains("ops_per_s is 0"));
    assert!(refused(|plan| plan.hash_bits = 65).contains("hash_bits is 65: give it 1 to 64"));
    assert!(refused(|plan| plan.offsets_ms = vec![0; 4]).contains("offsets_ms has 4 entries, but there are 5 nodes"));
    assert!(refused(|plan| plan.starts_ms = vec![9_000; 5]).contains("starts_ms[0] is 9000, after faults_ms = 8000"));
    assert!(refused(|plan| plan.network.loss = 1.5).contains("network.loss is 1.5: a share is 0 to 1"));
    let burst = Burst { enter: 0.1, leave: f64::NAN, loss: 0.1 };
    assert!(refused(|plan| plan.network.burst = Some(burst)).contains("network.burst.leave is NaN"));
    let window = Window { nodes: vec![0, 5], bytes: 1, bytes_per_s: 1 };
    assert!(refused(|plan| plan.network.window = Some(window)).contains("network.window.nodes[1] is 5"));
    let slow = Slow { node: 0, every_ms: 10, for_ms: 10 };
    assert!(refused(|plan| plan.slow = vec![slow]).contains("slow[0].every_ms is 10: give it 11 to"));
}

#[test]
fn a_late_event_and_a_broken_majority_are_refused() {
    let late = Event { at_ms: 8_001, fault: Fault::Heal };
    assert!(refused(|plan| plan.events = vec![late]).contains("events[0].at_ms is 8001, but faults end at faults_ms"));
    let broken = |node| Broken { node, how: Wrong::Dead };
    let many = vec![broken(0), broken(1), broken(2)];
    assert!(refused(|plan| plan.broken = many).contains("broken names 3 of 5 nodes: only a minority"));
    assert!(refused(|plan| plan.broken = vec![broken(1), broken(1)]).contains("broken[1].node is 1, which is named"));
    let slight = Broken { node: 0, how: Wrong::Clock { ms: -300 } };
    assert!(refused(|plan| plan.broken = vec![slight]).contains("broken[0].how.clock.ms is -300"));
}

#[test]
fn every_drawn_plan_is_good_and_survives_being_printed() {
    for seed in 0..500 {
        let plan = Plan::from_seed(seed);
        assert_eq!(plan.check(), Ok(()), "seed {seed}");
        let text = serde_json::to_string(&plan).expect("plain fields");
        assert_eq!(serde_json::from_str::<Plan>(&text).ok(), Some(plan), "seed {seed}");
    }
}

#[test]
fn a_field_nobody_knows_is_refused() {
    let mut json = serde_json::to_value(plan()).expect("plain fields");
    json["networks"] = serde_json::json!({});
    let said = serde_json::from_value::<Plan>(json).expect_err("an unknown field").to_string();
    assert!(said.contains("networks"), "{said}");
}
