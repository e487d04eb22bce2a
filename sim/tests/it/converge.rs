//! I10 fires where a cluster cannot converge: a world made so that nobody dials again in time.

use covey_sim::plan::{Cut, DriverPlan, Event, Fault, Plan};
use covey_sim::world::run;

fn plan(redial_ms: (u64, u64)) -> Plan {
    let cut = Fault::Cut { cut: Cut::Split { side: 1 }, for_ms: 5_000 };
    let text = serde_json::json!({
        "seed": 1, "nodes": 3, "workers": 2, "capacity_tokens": 64_000, "sessions": 3, "depth_max": 8, "ops_per_s": 20,
        "faults_ms": 8_000, "hash_bits": 64, "idle_ms": 3_600_000,
        "network": { "delay_ms": 1 },
    });
    let plan: Plan = serde_json::from_value(text).unwrap();
    let driver = DriverPlan { redial_ms, dead_ms: (1_000, 1_000), ..DriverPlan::default() };
    Plan { events: vec![Event { at_ms: 3_000, fault: cut }], driver, ..plan }
}

#[test]
fn a_cluster_that_does_not_converge_in_time_breaks_i10() {
    let sound = run(&plan((700, 1_300)));
    assert!(sound.violations.is_empty() && sound.converged_ms.is_some(), "{:?}", sound.violations);
    let apart = run(&plan((60_000, 60_000)));
    let first = apart.violations.first().expect("the two sides never meet again");
    assert!(first.invariant == "I10" && first.what.contains("differ"), "{first:?}");
}
