//! The cluster as a frame needs it: everybody's own words, or one gateway's knowledge, and the faults of this moment.
//!
//! Not here: making frames of it (`film`). Looking changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_gateway_plugin::frame::FaultView;
use covey_mesh::status::Status;
use covey_mesh::summary::{Sight, View};

use super::World;
use super::clock::EPOCH_MS;
use crate::plan::Cut;
use crate::trace::node_name;

/// A clock that is this far off is a fault, in milliseconds: what the mesh tolerates.
const OFF_MS: u64 = 250;

/// What is to be seen at a moment.
#[derive(Clone, Debug, Default)]
pub struct Shot {
    /// Virtual milliseconds since the start.
    pub t_ms: u64,
    /// The viewer's status and knowledge; of the observer everybody's own words.
    pub view: View,
    /// The viewer's status.
    pub status: Option<Status>,
    /// Names and last lives of nodes that do not run.
    pub gone: Vec<(String, String)>,
    /// Nodes that stand still: what they would say is not heard.
    pub still: Vec<String>,
    /// Faults that last, begun at an unknown time.
    pub faults: Vec<FaultView>,
}

impl World {
    /// What `viewer` knows, or all there is for `None`; nothing while the viewer does not run.
    #[must_use]
    pub fn shot(&self, viewer: Option<usize>) -> Option<Shot> {
        let mut shot = Shot { t_ms: self.now_us / 1_000, faults: self.faults_now(), ..Shot::default() };
        if let Some(slot) = viewer {
            let node = self.slots[slot].node.as_ref().filter(|_| self.slots[slot].pause.is_none())?;
            shot.status = Some(node.status(self.mono(slot)));
            shot.view = node.view(self.mono(slot));
        } else {
            for (slot, state) in self.slots.iter().enumerate() {
                let Some(node) = &state.node else {
                    if let Some(life) = state.ended {
                        shot.gone.push((state.name.to_string(), life.to_string()));
                    }
                    continue;
                };
                let mut view = node.view(self.mono(slot));
                if view.sights.is_empty() {
                    continue;
                }
                shot.view.sights.push(view.sights.swap_remove(0));
                shot.view.loads.append(&mut view.loads);
                shot.view.capacities.append(&mut view.capacities);
                if state.pause.is_some() {
                    shot.still.push(state.name.to_string());
                }
            }
        }
        shot.view.sights.iter_mut().for_each(since_start);
        Some(shot)
    }

    fn faults_now(&self) -> Vec<FaultView> {
        let fault = |kind: &str, gateways: Vec<String>, text: String| FaultView {
            kind: kind.to_owned(),
            gateways,
            text,
            since_ms: 0,
        };
        let mut faults: Vec<FaultView> = self
            .network
            .cuts()
            .map(|cut| {
                let (gateways, text) = self.describe_cut(cut);
                fault("partition", gateways, text)
            })
            .collect();
        for (slot, state) in self.slots.iter().enumerate() {
            let name = state.name.to_string();
            let off_ms = self.wall(slot).0.abs_diff(EPOCH_MS + self.now_us / 1_000);
            let far =
                || if off_ms >= 60_000 { format!("{} min", off_ms / 60_000) } else { "less than a minute".to_owned() };
            if state.node.is_none() && state.lives > 0 {
                faults.push(fault("down", vec![name.clone()], format!("{name} does not run")));
            }
            if state.pause.is_some() {
                faults.push(fault("pause", vec![name.clone()], format!("{name} stands still")));
            }
            if off_ms > OFF_MS {
                faults.push(fault("clock", vec![name.clone()], format!("the clock of {name} is off by {}", far())));
            }
            if state.newer {
                faults.push(fault("version", vec![name.clone()], format!("{name} speaks a newer wire version")));
            }
        }
        faults
    }

    fn describe_cut(&self, cut: Cut) -> (Vec<String>, String) {
        let all = || 0..self.slots.len();
        match cut {
            Cut::Split { side } => {
                let (one, other): (Vec<usize>, Vec<usize>) = all().partition(|node| side >> node & 1 == 1);
                let smaller = if one.len() <= other.len() { one } else { other };
                let names: Vec<String> = smaller.into_iter().map(node_name).collect();
                let text = format!("{} cut off from the others", names.join(", "));
                (names, text)
            }
            Cut::Isolate { node } => (vec![node_name(node)], format!("{} cut off from everybody", node_name(node))),
            Cut::OneWay { from, to } => (
                vec![node_name(from), node_name(to)],
                format!("nothing from {} reaches {}", node_name(from), node_name(to)),
            ),
            Cut::Pair { one, other } => {
                let text = format!("{} and {} cut off from each other", node_name(one), node_name(other));
                (vec![node_name(one), node_name(other)], text)
            }
            Cut::Deaf { node } => (vec![node_name(node)], format!("nothing reaches {}", node_name(node))),
            Cut::Mute { node } => (vec![node_name(node)], format!("nothing from {} gets through", node_name(node))),
        }
    }
}

/// Wall clock times as the frame's: since the start.
fn since_start(sight: &mut Sight) {
    let rows = std::mem::take(&mut sight.workers);
    let relative = |ms: Option<u64>| ms.map(|ms| ms.saturating_sub(EPOCH_MS));
    sight.workers = rows
        .into_iter()
        .map(|(worker, mut dated)| {
            let row = Arc::make_mut(&mut dated.of);
            (row.floor_ms, row.newest_ms) = (relative(row.floor_ms), relative(row.newest_ms));
            (worker, dated)
        })
        .collect::<BTreeMap<_, _>>();
}
