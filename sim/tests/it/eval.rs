//! Routing compared in virtual time: what Covey must come near, what it must beat, and that the suite keeps its marks.

use covey_sim::eval::{Arm, Ask, Figures, FleetConfig, Harm, Setting, Shape, Trace, Trouble, play, sessions};

const FLEET: FleetConfig =
    FleetConfig { workers: 12, cache_tokens: 120_000, prefill_tokens_per_s: 10_000, block_tokens: 64 };

fn played(arm: Arm, trace: &Trace, gateways: usize) -> Figures {
    play(arm, trace, FLEET, &Setting { seed: 7, gateways, ..Setting::default() })
}

#[test]
fn eight_gateways_route_nearly_as_well_as_one_that_knows_everything() {
    let trace = sessions(&Shape::AGENTIC, 20.0, 30.0, 64, 7);
    let exact = played(Arm::ExactP2c, &trace, 8);
    for arm in [Arm::Covey, Arm::CoveyEvents] {
        let covey = played(arm, &trace, 8);
        assert!(covey.hit >= 0.985 * exact.hit, "{arm:?}: {} and {}", covey.hit, exact.hit);
        assert!(covey.ttft_mean_s <= 1.15 * exact.ttft_mean_s, "{arm:?}: {covey:?}");
        let mesh = covey.mesh.clone().expect("it is a mesh");
        assert_eq!((covey.degraded, mesh.diverged_holders), (0, 0), "{arm:?}");
        assert!(mesh.propagation_p99_ms <= 10 && mesh.bytes_per_gateway_per_s > 0.0, "{mesh:?}");
        let alone = played(arm, &trace, 1);
        assert!((covey.followup_cached_share - alone.followup_cached_share).abs() < 0.01, "{arm:?}: not flat");
    }
    let own = played(Arm::PerGateway, &trace, 8);
    assert!(own.followup_cached_share < exact.followup_cached_share - 0.1, "the mesh is worth something: {own:?}");
    assert_eq!(played(Arm::Covey, &trace, 8), played(Arm::Covey, &trace, 8), "the seed decides everything");
}

/// Mooncake's conversations: block 0 is in every request, and whoever follows the longest match alone sends all to one worker.
#[test]
fn a_block_that_everybody_has_attracts_nobody() {
    let mut trace = Trace { name: "hot".into(), block_tokens: 64, asks: Vec::new() };
    for nth in 0..2_000_u64 {
        let own = (1..20).map(|block| ((nth + 1) << 20) | block);
        trace.asks.push(Ask {
            at_us: nth * 15_000,
            session: nth,
            blocks: std::iter::once(0).chain(own).collect(),
            input_tokens: 20 * 64,
            ..Ask::default()
        });
    }
    let covey = played(Arm::Covey, &trace, 8);
    assert!(covey.max_over_mean_work < 1.15, "{covey:?}");
    assert!(covey.ttft_mean_s <= 1.25 * played(Arm::ExactP2c, &trace, 8).ttft_mean_s, "{covey:?}");
}

#[test]
fn a_gateway_that_was_cut_off_ends_equal_to_the_others() {
    let trace = sessions(&Shape::AGENTIC, 20.0, 40.0, 64, 3);
    let setting = Setting {
        seed: 3,
        gateways: 4,
        trouble: Some(Trouble { what: Harm::Cut, from_us: 10_000_000, to_us: 25_000_000 }),
        ..Setting::default()
    };
    for arm in [Arm::Covey, Arm::CoveyEvents] {
        let figures = play(arm, &trace, FLEET, &setting);
        assert_eq!(figures.mesh.expect("it is a mesh").diverged_holders, 0, "{arm:?}");
        assert_eq!(figures.degraded, 0, "a gateway that is cut off routes by what it has");
    }
}

/// Sessions that each gateway sees an eighth of, on workers that are busy: knowing nothing of the others must not cost more than
/// never having had a mesh.
#[test]
fn gateways_that_are_all_cut_off_route_no_worse_than_gateways_that_know_only_what_they_sent() {
    let trace = sessions(&Shape::AGENTIC, 22.0, 60.0, 64, 5);
    let alone = played(Arm::PerGateway, &trace, 8);
    let apart = played(Arm::CoveyIsolated, &trace, 8);
    assert!(apart.followup_cached_share > alone.followup_cached_share + 0.05, "{apart:?} and {alone:?}");
    assert!(apart.ttft_mean_s <= alone.ttft_mean_s, "{apart:?} and {alone:?}, which knows every queue exactly");
}

#[test]
fn a_gateway_that_was_replaced_routes_like_the_others_from_its_first_requests() {
    let trace = sessions(&Shape::AGENTIC, 20.0, 40.0, 64, 3);
    let trouble = Trouble { what: Harm::Cold, from_us: 15_000_000, to_us: 35_000_000 };
    let setting = Setting { seed: 3, gateways: 4, trouble: Some(trouble), ..Setting::default() };
    for arm in [Arm::Covey, Arm::CoveyEvents] {
        let figures = play(arm, &trace, FLEET, &setting);
        let troubled = figures.troubled.expect("there was trouble");
        assert!(troubled.there > troubled.elsewhere - 0.03, "{arm:?}: {troubled:?}");
        assert!(troubled.there_at_first.is_some_and(|share| share > troubled.elsewhere - 0.1), "{arm:?}: {troubled:?}");
        assert_eq!((figures.degraded, figures.mesh.expect("it is a mesh").diverged_holders), (0, 0), "{arm:?}");
        assert_eq!(figures.requests, trace.asks.len());
    }
    let own = play(Arm::PerGateway, &trace, FLEET, &setting).troubled.expect("there was trouble");
    assert!(own.there_at_first.is_some_and(|share| share < own.elsewhere - 0.1), "on its own it begins anew: {own:?}");
}

#[test]
fn the_published_suite_keeps_its_marks_in_its_quick_form() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join("suite.json");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_covey-sim"));
    let output =
        command.args(["eval", "--suite", "published", "--quick", "--json"]).arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("missed:"), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file).expect("it is written")).expect("JSON");
    let legs = json["legs"].as_array().expect("legs");
    let share = |arm: &str, gateways: u64| {
        let leg = legs.iter().find(|leg| leg["arm"] == arm && leg["gateways"] == gateways && leg["trace"] == "agentic");
        leg.and_then(|leg| leg["followup_cached_share"].as_f64()).unwrap_or_else(|| panic!("no {arm} at {gateways}"))
    };
    assert!((share("covey", 8) - share("covey", 1)).abs() <= 0.005 && share("covey", 8) >= share("shared-tier", 8));
    assert!(share("per-gateway", 8) < share("covey", 8) - 0.2, "the comparison would show a mesh that does not work");
    let troubled = ["agentic+cut", "agentic+cold"].map(|name| legs.iter().filter(|leg| leg["trace"] == name).count());
    assert_eq!(troubled, [2, 4], "{said}");
}
