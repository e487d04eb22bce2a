//! Makes frames, one after the other, and remembers what only a series can tell: since when the verdict stands, when all
//! were last equal, how fast the lag shrinks, what happened.
//!
//! Not here: clocks and timers; the caller says what time it is.

use std::collections::{BTreeMap, VecDeque};

use covey_crdt::id::WorkerId;
use covey_mesh::status::Status;
use covey_mesh::summary::{DELAY_BOUNDS_MS, View};

use super::groups::{self, Pair};
use super::judge::{self, SUMMARY_MS_MAX};
use super::verdict::{HEARD_MS_MAX, Verdict, verdict};
use super::workers::WorkerFacts;
use super::{
    Cell, EventView, FaultView, GatewayView, MeshFrame, SCHEMA, Source, VERSION, VerdictView, news, rows, workers,
};

/// The lag is compared with what it was this long ago, to tell how fast it shrinks, milliseconds.
const TREND_MS: u64 = 2_000;

/// The gateway whose view it is.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    /// Its view of itself and its peers.
    pub status: &'a Status,
    /// How old that is, milliseconds.
    pub silent_ms: u64,
}

/// What a frame is made from.
#[derive(Debug)]
pub struct Scene<'a> {
    /// When, in the clock that frames are dated by.
    pub t_ms: u64,
    /// Who says so.
    pub source: Source,
    /// Whose view it is; `None` for the observer.
    pub viewer: Option<Viewer<'a>>,
    /// The viewer's knowledge, or everybody's own words.
    pub view: &'a View,
    /// Names and lives of gateways that do not run (observer only).
    pub gone: &'a [(String, String)],
    /// What the viewer itself knows of workers.
    pub workers: &'a BTreeMap<WorkerId, WorkerFacts>,
    /// What happened since the last frame, besides what shows in the frames.
    pub events: Vec<EventView>,
    /// Faults that last now.
    pub faults: Vec<FaultView>,
}

/// Makes a source's frames.
#[derive(Debug, Default)]
pub struct FrameMaker {
    last: Option<MeshFrame>,
    since_ms: u64,
    converged_ms: Option<u64>,
    /// Pairs of others that lost each other, and since when.
    lost: BTreeMap<(String, String), u64>,
    /// Worst lag in ops, by time.
    trend: VecDeque<(u64, u64)>,
}

impl FrameMaker {
    /// The next frame.
    pub fn frame(&mut self, scene: Scene<'_>) -> MeshFrame {
        let status = scene.viewer.map(|viewer| viewer.status);
        let mut gateways = rows::rows(scene.view, status, scene.gone);
        rows::see(&mut gateways, scene.view, status);
        let fresh: Vec<bool> = gateways.iter().map(|row| is_fresh(row, scene.viewer.as_ref())).collect();
        let known = gateways.clone();
        let compare = |one: usize, other: usize| compare(&known, one, other, status);
        let diverged = groups::number(&mut gateways, &fresh, compare);
        let (word, why) = match scene.viewer {
            Some(viewer) => {
                let own = verdict(viewer.status, viewer.silent_ms);
                let mut lost = std::mem::take(&mut self.lost);
                judge::add_others(own, &gateways, |one, other| {
                    let since = *lost.entry((one.to_owned(), other.to_owned())).or_insert(scene.t_ms);
                    self.lost.insert((one.to_owned(), other.to_owned()), since);
                    scene.t_ms.saturating_sub(since)
                })
            }
            None => judge::observe(&gateways, diverged),
        };
        let silent_ms = scene.viewer.map_or(0, |viewer| viewer.silent_ms);
        let workers = workers::rows(scene.view, &gateways, scene.workers, silent_ms);
        let verdict = self.verdict(&scene, word, why, &gateways, &fresh);
        let mut frame = MeshFrame {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            seq: self.last.as_ref().map_or(1, |last| last.seq + 1),
            t_ms: scene.t_ms,
            source: scene.source,
            verdict,
            gateways,
            workers: workers.shown,
            workers_hidden: workers.hidden,
            feeds: workers.feeds,
            events: scene.events,
            faults: scene.faults,
            propagation_bounds_ms: DELAY_BOUNDS_MS.to_vec(),
        };
        if let Some(last) = &self.last {
            let news = news::between(last, &frame);
            frame.events.extend(news);
        }
        self.last = Some(frame.clone());
        frame
    }

    fn verdict(
        &mut self,
        scene: &Scene<'_>,
        word: Verdict,
        why: String,
        gateways: &[GatewayView],
        fresh: &[bool],
    ) -> VerdictView {
        let now = scene.t_ms;
        if self.last.as_ref().is_none_or(|last| last.verdict.word != word.name()) {
            self.since_ms = now;
        }
        if word == Verdict::Converged {
            self.converged_ms = Some(now);
        }
        let (worst_lag_ops, worst_lag_ms) = worst(gateways, fresh, scene.viewer.map(|viewer| viewer.status));
        let eta_ms = self.eta(now, worst_lag_ops).filter(|_| word == Verdict::Converging);
        let present = gateways.iter().zip(fresh).filter(|(row, _)| !row.left);
        let seen = present.clone().filter(|(_, fresh)| **fresh).count() as u64;
        VerdictView {
            word: word.name().to_owned(),
            why,
            since_ms: self.since_ms,
            converged_ms: self.converged_ms,
            worst_lag_ops,
            worst_lag_ms,
            eta_ms,
            seen,
            missing: present.count() as u64 - seen,
        }
    }

    /// Milliseconds until the lag is gone, if it goes on shrinking as it does.
    fn eta(&mut self, now: u64, lag: Option<u64>) -> Option<u64> {
        let lag = lag?;
        self.trend.push_back((now, lag));
        while self.trend.get(1).is_some_and(|(at, _)| at + TREND_MS <= now) {
            self.trend.pop_front();
        }
        let (at, before) = *self.trend.front()?;
        let (gained, took) = (before.checked_sub(lag)?, now.checked_sub(at)?);
        (gained > 0 && took > 0).then(|| lag.saturating_mul(took) / gained)
    }
}

/// Whether what is known of a gateway is about now.
fn is_fresh(row: &GatewayView, viewer: Option<&Viewer<'_>>) -> bool {
    let Some(viewer) = viewer else { return row.age_ms.is_some() };
    if row.me {
        return viewer.silent_ms <= SUMMARY_MS_MAX;
    }
    let peer = viewer.status.peers.iter().find(|peer| peer.name == row.name);
    peer.is_some_and(|peer| peer.linked && !peer.left && peer.heard_ms.is_some_and(|ms| ms <= HEARD_MS_MAX))
}

fn compare(rows: &[GatewayView], one: usize, other: usize, status: Option<&Status>) -> Pair {
    // The viewer knows both directions of its own pairs better than the other's last summary does.
    let of_viewer = |from: usize, to: usize| -> Option<Cell> {
        let (own, peer) = if rows[from].me { (true, to) } else { (false, from) };
        let me = rows[from].me || rows[to].me;
        let peer = status.filter(|_| me)?.peers.iter().find(|known| known.name == rows[peer].name)?;
        let lag_ms = if own { peer.lag_ms } else { peer.their_lag_ms };
        Some(Cell { lag_ms, ..rows::cell(&peer.clone().into()) })
    };
    let cell = |from: usize, to: usize| of_viewer(from, to).or(rows[from].sees.get(to).copied().flatten());
    let (there, back) = (cell(one, other), cell(other, one));
    groups::compare(&rows[one], &rows[other], [there.as_ref(), back.as_ref()])
}

/// The most that any fresh gateway lacks of another, in ops, and for how long.
fn worst(rows: &[GatewayView], fresh: &[bool], status: Option<&Status>) -> (Option<u64>, Option<u64>) {
    let told = rows.iter().zip(fresh).filter(|(_, fresh)| **fresh).flat_map(|(row, _)| row.sees.iter().flatten());
    let theirs = status.into_iter().flat_map(|status| &status.peers).filter(|peer| peer.linked && !peer.left);
    let ops = told.clone().map(|cell| cell.lag_ops).chain(theirs.clone().map(|peer| peer.their_lag_ops));
    let ms = told.map(|cell| cell.lag_ms).chain(theirs.map(|peer| peer.their_lag_ms));
    let alone = (rows.len() == 1).then_some(0);
    (ops.flatten().max().or(alone), ms.flatten().max().or(alone))
}

#[cfg(test)]
mod tests;
