//! The legs' plans: eight gateways, 120 workers, links of 50 ms, conversations at 500 placements a second.
//!
//! Connections come and go as under the real driver: a silent one is found dead after 8 s, a lost peer is dialled every
//! half second, a handshake takes a round trip and a half.
//!
//! Not here: plans drawn from seeds (`plan`).

use covey_mesh::limits::Knobs;

use crate::plan::{Broken, Cut, DriverPlan, Event, Fault, NetworkPlan, Plan, Wrong};

/// One leg.
#[derive(Clone, Copy, Debug)]
pub struct Leg {
    /// Its name.
    pub name: &'static str,
    /// What happens.
    pub what: &'static str,
    /// Its plan.
    pub plan: fn() -> Plan,
}

/// The legs at full size.
pub const LEGS: &[Leg] = &[
    Leg { name: "partition", what: "half of the gateways cut off for 20 s", plan: || partition(FULL, 20_000) },
    Leg { name: "rolling-restart", what: "every gateway restarted, one after the other", plan: || rolling(FULL) },
    Leg { name: "cold-gateway", what: "a gateway joins under load", plan: || cold(FULL) },
    Leg { name: "killed-gateway", what: "a gateway dies under load and stays dead", plan: || killed(FULL) },
    Leg { name: "workers-out-and-in", what: "20 of 120 workers removed and back", plan: || workers(FULL) },
    Leg {
        name: "long-partition",
        what: "half of the gateways cut off for 5 minutes",
        plan: || partition(FULL, 300_000),
    },
];

/// The same at a twentieth of the load, for quick looks.
pub const SMALL: &[Leg] = &[
    Leg { name: "small-partition", what: "half of the gateways cut off for 20 s", plan: || partition(QUICK, 20_000) },
    Leg { name: "small-rolling-restart", what: "every gateway restarted", plan: || rolling(QUICK) },
    Leg { name: "small-cold-gateway", what: "a gateway joins under load", plan: || cold(QUICK) },
    Leg { name: "small-killed-gateway", what: "a gateway dies under load", plan: || killed(QUICK) },
    Leg { name: "small-workers-out-and-in", what: "20 of 120 workers removed and back", plan: || workers(QUICK) },
    Leg {
        name: "small-long-partition",
        what: "half cut off for longer than logs reach",
        plan: || {
            let mut plan = partition(QUICK, 60_000);
            plan.knobs.log_age_ms = 20_000;
            plan
        },
    },
];

/// How much load a leg carries.
#[derive(Clone, Copy)]
struct Size {
    ops_per_s: u64,
    sessions: u64,
}

const FULL: Size = Size { ops_per_s: 500, sessions: 1_200 };
const QUICK: Size = Size { ops_per_s: 25, sessions: 60 };

/// Load before the first fault, in milliseconds: workers are found and conversations under way.
const WARM_MS: u64 = 20_000;

fn base(size: Size, faults_ms: u64, events: Vec<Event>) -> Plan {
    Plan {
        seed: 0,
        nodes: 8,
        workers: 120,
        capacity_tokens: 100_000,
        sessions: size.sessions,
        depth_max: 400,
        ops_per_s: size.ops_per_s,
        faults_ms,
        quiet_ms: 0,
        hash_bits: 64,
        knobs: Knobs::default(),
        idle_ms: 3_600_000,
        starts_ms: Vec::new(),
        offsets_ms: Vec::new(),
        drifts_ppm: Vec::new(),
        network: NetworkPlan { delay_ms: 50, ..NetworkPlan::default() },
        slow: Vec::new(),
        member_late_ms: 0,
        probe_late_ms: 0,
        broken: Vec::new(),
        events,
        driver: DriverPlan {
            redial_ms: (500, 500),
            dead_ms: (8_000, 8_000),
            crash_ms: (8_000, 8_000),
            handshake_delays: 3,
            in_order: true,
        },
        feeds: None,
        turn_blocks: 16,
        end_us: None,
    }
}

fn event(at_ms: u64, fault: Fault) -> Event {
    Event { at_ms, fault }
}

fn partition(size: Size, for_ms: u64) -> Plan {
    let cut = Fault::Cut { cut: Cut::Split { side: 0b1111 }, for_ms };
    base(size, WARM_MS + for_ms, vec![event(WARM_MS, cut)])
}

fn rolling(size: Size) -> Plan {
    let (gap_ms, down_ms) = (6_000, 2_000);
    let roll = Fault::Roll { gap_ms, down_ms, leave: true };
    base(size, WARM_MS + 7 * gap_ms + down_ms, vec![event(WARM_MS, roll)])
}

fn cold(size: Size) -> Plan {
    let mut plan = base(size, WARM_MS, Vec::new());
    plan.starts_ms = vec![0, 40, 80, 120, 160, 200, 240, WARM_MS];
    plan
}

fn killed(size: Size) -> Plan {
    let mut plan = base(size, WARM_MS, Vec::new());
    plan.broken = vec![Broken { node: 7, how: Wrong::Dead }];
    plan
}

fn workers(size: Size) -> Plan {
    let for_ms = 10_000;
    let out = (0..20).map(|worker| event(WARM_MS, Fault::Remove { worker, for_ms }));
    base(size, WARM_MS + for_ms, out.collect())
}
