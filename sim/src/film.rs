//! A run as a film: the frames that the dashboard shows, a fixed time apart, as the all-knowing observer sees the cluster
//! or as one gateway does.
//!
//! Not here: what is in a frame (`covey_gateway_plugin::frame`), serving it (`serve`). Filming changes nothing in a run.

use std::collections::BTreeMap;

use covey_gateway_plugin::frame::{FaultView, FrameMaker, MeshFrame, Scene, Source, Viewer};
use covey_mesh::summary::Sight;

use crate::plan::Plan;
use crate::trace::node_name;
use crate::world::{Outcome, Shot, Watch, World};

/// Frames of one film at most; a longer run is filmed as far as that.
pub const FRAMES_MAX: usize = 20_000;

/// Makes frames of shots.
pub struct Filmer {
    seed: u64,
    viewer: Option<usize>,
    maker: FrameMaker,
    /// Since when each fault lasts.
    faults: Vec<FaultView>,
    /// What everybody said last while it ran, and when, in milliseconds.
    said: BTreeMap<String, (u64, Sight)>,
}

impl Filmer {
    /// Films a run of `seed` as `viewer` sees it, or the observer for `None`.
    #[must_use]
    pub fn new(seed: u64, viewer: Option<usize>) -> Self {
        Self { seed, viewer, maker: FrameMaker::default(), faults: Vec::new(), said: BTreeMap::new() }
    }

    /// The next frame.
    pub fn frame(&mut self, mut shot: Shot) -> MeshFrame {
        self.stand_still(&mut shot);
        let since = |fault: FaultView| {
            let known = self.faults.iter().find(|known| (&known.kind, &known.text) == (&fault.kind, &fault.text));
            FaultView { since_ms: known.map_or(shot.t_ms, |known| known.since_ms), ..fault }
        };
        let faults: Vec<FaultView> = std::mem::take(&mut shot.faults).into_iter().map(since).collect();
        self.faults.clone_from(&faults);
        let source = Source {
            kind: "simulated".to_owned(),
            viewer: self.viewer.map(node_name),
            cluster: "sim".to_owned(),
            package_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: Some(self.seed),
        };
        self.maker.frame(Scene {
            t_ms: shot.t_ms,
            source,
            viewer: shot.status.as_ref().map(|status| Viewer { status, silent_ms: 0 }),
            view: &shot.view,
            gone: &shot.gone,
            workers: &BTreeMap::new(),
            events: Vec::new(),
            faults,
        })
    }

    /// A node that stands still says nothing: what it said before grows old.
    fn stand_still(&mut self, shot: &mut Shot) {
        for sight in &mut shot.view.sights {
            let name = sight.name.to_string();
            if !shot.still.contains(&name) {
                self.said.insert(name, (shot.t_ms, sight.clone()));
            } else if let Some((at, said)) = self.said.get(&name).filter(|(_, said)| said.life == sight.life) {
                *sight = Sight { age_ms: shot.t_ms - at, ..said.clone() };
            }
        }
    }
}

/// Runs a plan and films it, a frame every `every_ms` of virtual time. Frames go to `take` as they are made; it says
/// whether to go on.
///
/// # Panics
/// When the core panics, as every run does.
pub fn film(
    plan: &Plan,
    every_ms: u64,
    viewer: Option<usize>,
    until_us: Option<u64>,
    mut take: impl FnMut(MeshFrame) -> bool,
) -> Outcome {
    let mut world = World::new(plan.clone(), Watch { until_us, ..Watch::default() });
    let mut filmer = Filmer::new(plan.seed, viewer);
    let (mut due_us, mut taken) = (0, 0);
    let mut wants_more = true;
    while world.step() {
        if world.now_us() < due_us || !wants_more || taken >= FRAMES_MAX {
            continue;
        }
        due_us = world.now_us() - world.now_us() % (every_ms * 1_000) + every_ms * 1_000;
        if let Some(shot) = world.shot(viewer) {
            taken += 1;
            wants_more = take(filmer.frame(shot));
        }
    }
    if let Some(shot) = world.shot(viewer).filter(|_| wants_more) {
        take(filmer.frame(shot));
    }
    world.finish().0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use covey_mesh::limits::Knobs;

    use crate::plan::{Cut, DriverPlan, Event, Fault, NetworkPlan};

    /// Three quiet nodes, of which one is cut off for four seconds.
    fn cut_off() -> Plan {
        let cut = Event { at_ms: 4_000, fault: Fault::Cut { cut: Cut::Isolate { node: 2 }, for_ms: 4_000 } };
        let plan = Plan {
            nodes: 3,
            workers: 2,
            faults_ms: 9_000,
            knobs: Knobs::default(),
            idle_ms: 3_600_000,
            starts_ms: Vec::new(),
            offsets_ms: Vec::new(),
            drifts_ppm: Vec::new(),
            network: NetworkPlan::default(),
            slow: Vec::new(),
            member_late_ms: 0,
            probe_late_ms: 0,
            broken: Vec::new(),
            events: vec![cut],
            driver: DriverPlan::default(),
            ..Plan::from_seed(0)
        };
        plan.check().expect("a sound plan");
        plan
    }

    fn filmed(plan: &Plan, viewer: Option<usize>) -> Vec<MeshFrame> {
        let mut frames = Vec::new();
        let outcome = film(plan, 250, viewer, None, |frame| {
            frames.push(frame);
            true
        });
        assert_eq!(outcome.violations, []);
        frames
    }

    #[test]
    fn a_partition_shows_within_two_seconds_and_its_end_too_whoever_looks() {
        for viewer in [None, Some(0), Some(2)] {
            let frames = filmed(&cut_off(), viewer);
            let word = |ms: u64| {
                let after = frames.iter().find(|frame| frame.t_ms >= ms).expect("filmed to the end");
                (after.verdict.word.as_str(), after)
            };
            let (before, _) = word(3_900);
            assert!(matches!(before, "converged"), "{viewer:?}: {before}");
            let (during, frame) = word(6_000);
            assert!(matches!(during, "partitioned" | "unknown" | "degraded"), "{viewer:?}: {during}");
            assert!(
                frame.faults.iter().any(|fault| fault.kind == "partition" && fault.since_ms.abs_diff(4_000) <= 250)
            );
            let (after, frame) = word(10_000);
            assert!(matches!(after, "converged" | "converging"), "{viewer:?}: {after}");
            assert!(frame.faults.iter().all(|fault| fault.kind != "partition"));
            let last = frames.last().expect("frames");
            assert_eq!(last.verdict.word, "converged", "{viewer:?}");
            let kinds: BTreeSet<&str> =
                frames.iter().flat_map(|frame| &frame.events).map(|event| event.kind.as_str()).collect();
            assert!(["fault", "link", "verdict"].iter().all(|kind| kinds.contains(kind)), "{viewer:?}: {kinds:?}");
        }
    }

    #[test]
    fn filming_changes_nothing_and_equal_seeds_make_equal_films() {
        for seed in [3, 11] {
            let plan = Plan::from_seed(seed);
            let run = crate::world::run(&plan);
            let lines = || {
                let mut lines = Vec::new();
                let outcome = film(&plan, 500, None, None, |frame| {
                    lines.push(serde_json::to_string(&frame).expect("plain data"));
                    true
                });
                (outcome.trace, lines)
            };
            let (one, other) = (lines(), lines());
            assert_eq!((one.0, &one), (run.trace, &other), "seed {seed}");
            assert!(one.1.len() > 10);
        }
    }

    #[test]
    fn what_stands_still_grows_old_and_what_stopped_is_gone() {
        let mut plan = cut_off();
        plan.events = vec![
            Event { at_ms: 4_000, fault: Fault::Pause { node: 1, for_ms: 2_000, drops: true } },
            Event { at_ms: 7_000, fault: Fault::Crash { node: 2 } },
        ];
        let frames = filmed(&plan, None);
        let at = |ms: u64| frames.iter().find(|frame| frame.t_ms >= ms).expect("filmed");
        let paused = &at(5_500).gateways[1];
        assert!(paused.age_ms.is_some_and(|ms| ms > 1_000), "{paused:?}");
        assert_eq!(at(3_000).gateways[1].age_ms, Some(0));
        let crashed = at(7_600);
        assert!(crashed.gateways[2].age_ms.is_none() && crashed.verdict.word == "degraded", "{:?}", crashed.verdict);
        assert!(crashed.faults.iter().any(|fault| fault.kind == "down"));
    }
}
