//! Routing compared in virtual time: what Covey must come near, what it must beat, and that the suite keeps its marks.

use covey_sim::eval::{Arm, Ask, Figures, FleetConfig, Harm, Setting, Shape, Trace, Trouble, play, sessions};

const FLEET: FleetConfig =
    FleetConfig { workers: 12, cache_tokens: 120_000, prefill_tokens_per_s: 10_000, block_tokens: 64 };

fn played(arm: Arm, trace: &Trace, gateways: usize) -> Figures {
    play(arm, trace, FLEET, &Setting { seed: 7, gateways, trouble: None })
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
    let apart = played(Arm::CoveyIsolated, &trace, 8);
    assert!(apart.followup_cached_share < exact.followup_cached_share - 0.1, "the mesh is worth something: {apart:?}");
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
    };
    for arm in [Arm::Covey, Arm::CoveyEvents] {
        let figures = play(arm, &trace, FLEET, &setting);
        assert_eq!(figures.mesh.expect("it is a mesh").diverged_holders, 0, "{arm:?}");
        assert_eq!(figures.degraded, 0, "a gateway that is cut off routes by what it has");
    }
}
