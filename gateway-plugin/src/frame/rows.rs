//! Gateways as rows of a frame: from the summaries they gossip, and from what the viewer itself last heard.
//!
//! Not here: groups, verdict, workers.

use std::collections::BTreeMap;

use covey_mesh::status::{PeerStatus, Status};
use covey_mesh::summary::{PeerSeen, Sight, Tally, View};

use super::{Cell, EffectView, GatewayView, RepairView, ReplicaView, Sent, TrafficView};

/// A name in the order people expect: `gw-2` before `gw-10`.
pub(super) fn natural(name: &str) -> (String, u64, String) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(15);
    let (head, tail) = name.split_at(name.len() - digits);
    (head.to_owned(), tail.parse().unwrap_or(0), name.to_owned())
}

/// Every gateway that anybody knows, in the order of their names; `gone` are some that run no more.
pub(super) fn rows(view: &View, viewer: Option<&Status>, gone: &[(String, String)]) -> Vec<GatewayView> {
    let mut rows = Rows::new();
    for (name, life) in gone {
        row(&mut rows, name).life.clone_from(life);
    }
    // A gateway that the viewer does not count any more is not brought back by what it said before.
    let counts = |sight: &&Sight| {
        let name = sight.name.as_str();
        viewer.is_none_or(|status| status.name == name || status.peers.iter().any(|peer| peer.name == name))
    };
    for sight in view.sights.iter().filter(counts) {
        told(row(&mut rows, sight.name.as_str()), sight);
    }
    if let Some(status) = viewer {
        for peer in &status.peers {
            heard(row(&mut rows, &peer.name), peer);
        }
        own(row(&mut rows, &status.name), status);
    }
    rows.into_values().collect()
}

type Rows = BTreeMap<(String, u64, String), GatewayView>;

fn row<'a>(rows: &'a mut Rows, name: &str) -> &'a mut GatewayView {
    rows.entry(natural(name)).or_insert_with(|| GatewayView { name: name.to_owned(), ..GatewayView::default() })
}

/// What a gateway said of itself.
fn told(row: &mut GatewayView, sight: &Sight) {
    let summary = &sight.summary;
    row.life = sight.life.to_string();
    row.age_ms = Some(sight.age_ms);
    row.phase = Some(summary.phase);
    row.digest.clone_from(&summary.digest);
    row.vector = Some(format!("{:016x}", summary.vector));
    row.clock = Some(summary.clock.name().to_owned());
    row.clock_ahead_ms = summary.clock_ahead_ms;
    row.replica = Some(summary.replica);
    row.traffic = Some(traffic(&summary.tally));
    row.repair = Some(repair(&summary.tally));
    row.propagation = Some(summary.tally.delays.to_vec());
    row.effect = summary.effect.as_ref().map(|effect| EffectView {
        measured: effect.measured,
        prompt_tokens: effect.prompt_tokens,
        predicted_tokens: effect.predicted_tokens,
        cached_tokens: effect.cached_tokens,
        in_flight: effect.in_flight,
        outcomes: effect.outcomes.iter().cloned().collect(),
    });
}

/// What the viewer heard in a peer's last exchange: fresher than a summary, and digest and vector are of one moment.
fn heard(row: &mut GatewayView, peer: &PeerStatus) {
    if row.life != peer.life {
        // Another life of the name: what the older one said is no word about this one.
        *row = GatewayView { name: peer.name.clone(), life: peer.life.clone(), ..GatewayView::default() };
    }
    row.left = peer.left;
    if peer.heard_ms.is_some() {
        row.phase = peer.phase;
        row.digest.clone_from(&peer.digest);
        row.vector.clone_from(&peer.vector);
    }
}

fn own(row: &mut GatewayView, status: &Status) {
    if row.life != status.life {
        *row = GatewayView { name: status.name.clone(), life: status.life.clone(), ..GatewayView::default() };
    }
    row.me = true;
    row.age_ms = Some(0);
    row.phase = Some(status.phase);
    row.digest.clone_from(&status.digest);
    row.vector = Some(status.vector.clone());
    row.clock = Some(status.clock.clone());
    row.clock_ahead_ms = status.clock_ahead_ms;
    row.replica = Some(ReplicaView {
        ops_applied: status.ops_applied,
        ops_held: status.ops_held,
        lives: status.lives,
        closing: status.closing,
        retired: status.retired,
        workers: status.workers,
        holders: status.holders,
        blocks: status.blocks,
        log_bytes: status.log_bytes,
        repairing: status.repairing,
    });
}

/// Fills in what each gateway sees of every other one.
pub(super) fn see(rows: &mut [GatewayView], view: &View, viewer: Option<&Status>) {
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let index = |name: &str| names.iter().position(|known| known == name);
    let count = rows.len();
    for sight in &view.sights {
        let Some(row) = index(sight.name.as_str()).map(|nth| &mut rows[nth]) else { continue };
        // What an older life saw is not what this one sees.
        if row.life == sight.life.to_string() {
            row.sees = vec![None; count];
            for peer in &sight.summary.peers {
                if let Some(nth) = index(&peer.name) {
                    row.sees[nth] = Some(cell(peer));
                }
            }
        }
    }
    if let Some(status) = viewer
        && let Some(me) = index(&status.name)
    {
        rows[me].sees = vec![None; count];
        for peer in &status.peers {
            if let Some(nth) = index(&peer.name) {
                rows[me].sees[nth] = Some(cell(&peer.clone().into()));
            }
        }
    }
    for row in rows {
        row.sees.resize(count, None);
    }
}

pub(super) fn cell(peer: &PeerSeen) -> Cell {
    Cell {
        linked: peer.linked,
        heard_ms: peer.heard_ms,
        lag_ops: peer.lag_ops,
        lag_ms: peer.lag_ms,
        rtt_us: peer.rtt_us,
        offset_ms: peer.offset_ms,
    }
}

fn traffic(tally: &Tally) -> TrafficView {
    let [push, control, repair] =
        [0, 1, 2].map(|class| Sent { frames: tally.frames[class], bytes: tally.bytes[class] });
    TrafficView { push, control, repair }
}

fn repair(tally: &Tally) -> RepairView {
    RepairView {
        applied_ops: tally.applied(),
        duplicate_ops: tally.duplicate_ops,
        pulled_logs: tally.pulled_logs,
        started: tally.repairs_started,
        done: tally.repairs_done,
        aborted: tally.repairs_aborted,
        refused: tally.repairs_refused,
        segments: tally.segments,
        segments_new: tally.segments_new,
        mismatches: tally.mismatches,
    }
}
