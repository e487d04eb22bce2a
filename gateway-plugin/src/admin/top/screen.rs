//! What `covey top` knows and what its user chose: frames of the last minutes, the selection, whether it stands still.
//!
//! Not here: drawing it (`view`), where frames come from (`stream`).

use std::collections::VecDeque;
use std::time::Duration;

use super::clean::clean;
use crate::frame::{GatewayView, MeshFrame, Sent, TrafficView};

/// How far back the ribbon goes, milliseconds.
pub(super) const RIBBON_MS: u64 = 300_000;
/// Frames kept: one a second and some for what happens in between.
const FRAMES_MAX: usize = 1_200;
/// Rates and quantiles are over this long, milliseconds.
const WINDOW_MS: u64 = 30_000;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Left,
    Right,
    Pause,
    Help,
    Quit,
}

/// Whether frames come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Stream {
    /// None came yet.
    #[default]
    Waiting,
    /// They do.
    Open,
    /// They do not any more, and why.
    Broken(String),
}

/// Everything that is drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct Screen {
    pub(super) admin: String,
    pub(super) stream: Stream,
    /// Since the last frame came.
    pub(super) quiet: Option<Duration>,
    frames: VecDeque<MeshFrame>,
    /// Frames that came so far, those not kept any more included.
    came: u64,
    /// How many had come when it was told to stand still, if it does.
    paused: Option<u64>,
    pub(super) gateway: usize,
    pub(super) worker: usize,
    pub(super) help: bool,
}

/// Bytes a second by class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) push: f64,
    pub(super) control: f64,
    pub(super) repair: f64,
}

impl Screen {
    pub(super) fn new(admin: &str) -> Self {
        Self { admin: admin.to_owned(), ..Self::default() }
    }

    /// Takes the next frame.
    pub(super) fn push(&mut self, mut frame: MeshFrame) {
        clean(&mut frame);
        self.frames.push_back(frame);
        self.came += 1;
        if self.frames.len() > FRAMES_MAX {
            self.frames.pop_front();
        }
        self.stream = Stream::Open;
        self.quiet = Some(Duration::ZERO);
        self.select();
    }

    /// Does what a key says; `false` for the one that ends it.
    pub(super) fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Up => self.gateway = self.gateway.saturating_sub(1),
            Key::Down => self.gateway += 1,
            Key::Left => self.worker = self.worker.saturating_sub(1),
            Key::Right => self.worker += 1,
            Key::Pause if self.is_paused() => self.paused = None,
            Key::Pause => self.paused = self.latest().map(|_| self.came),
            Key::Help => self.help = !self.help,
            Key::Quit => return false,
        }
        self.select();
        true
    }

    /// Keeps the selection within what there is.
    fn select(&mut self) {
        let (gateways, workers) = self.latest().map_or((0, 0), |frame| (frame.gateways.len(), frame.workers.len()));
        self.gateway = self.gateway.min(gateways.saturating_sub(1));
        self.worker = self.worker.min(workers.saturating_sub(1));
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Frames up to the moment shown, oldest first.
    pub(super) fn shown(&self) -> impl DoubleEndedIterator<Item = &MeshFrame> {
        let since = self.paused.map_or(0, |at| self.came - at);
        let count = self.frames.len().saturating_sub(usize::try_from(since).unwrap_or(usize::MAX));
        self.frames.range(..count)
    }

    /// The frame shown.
    pub(super) fn latest(&self) -> Option<&MeshFrame> {
        self.shown().next_back()
    }

    /// What stands in one column of the ribbon for a gateway: the state group furthest from the largest that it was in.
    pub(super) fn ribbon(&self, name: &str, columns: usize) -> Vec<Option<Seen>> {
        let mut cells = vec![None; columns];
        let Some(now) = self.latest().map(|frame| frame.t_ms) else { return cells };
        let column_ms = (RIBBON_MS / columns.max(1) as u64).max(1);
        // What is dated after the present is from before the clock stepped back: nobody can tell how long ago that was.
        for frame in self.shown().filter(|frame| frame.t_ms <= now) {
            let column = (now - frame.t_ms) / column_ms;
            let Some(column) = columns.checked_sub(1 + usize::try_from(column).unwrap_or(usize::MAX)) else { continue };
            let Some(gateway) = frame.gateways.iter().find(|gateway| gateway.name == name) else { continue };
            let seen = match gateway.group {
                _ if gateway.left => Seen::Left,
                Some(group) => Seen::Group(group),
                None => Seen::Unknown,
            };
            cells[column] = cells[column].max(Some(seen));
        }
        cells
    }

    /// The frame that rates are measured against: the oldest of the window since the clock last stepped back.
    fn base(&self) -> Option<&MeshFrame> {
        let now = self.latest()?.t_ms;
        let mut next = now;
        let run = self.shown().rev().take_while(|frame| {
            let is_before = frame.t_ms <= next && frame.t_ms.saturating_add(WINDOW_MS) >= now;
            next = frame.t_ms;
            is_before
        });
        run.last()
    }

    /// Bytes a second that all gateways sent, by class; `None` before there is a span to measure.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (from, to) = (self.base()?, self.latest()?);
        let seconds = to.t_ms.saturating_sub(from.t_ms) as f64 / 1e3;
        if seconds <= 0.0 {
            return None;
        }
        let grown = |of: fn(&TrafficView) -> Sent| {
            let both =
                pairs(from, to).filter_map(|(from, to)| Some((of(&from.traffic?).bytes, of(&to.traffic?).bytes)));
            sum(both.map(|(from, to)| to.saturating_sub(from))) as f64 / seconds
        };
        Some(Rates { push: grown(|t| t.push), control: grown(|t| t.control), repair: grown(|t| t.repair) })
    }

    /// Propagation of the last half minute: the bounds within which half and 99 % of the ops were applied.
    pub(super) fn propagation(&self) -> Option<(u64, Bound, Bound)> {
        let (from, to) = (self.base()?, self.latest()?);
        let counts = applied(from, to);
        let all = sum(counts.iter().copied());
        let (half, most) = (quantile(&counts, 0.5)?, quantile(&counts, 0.99)?);
        let bound = |bucket: usize| {
            to.propagation_bounds_ms
                .get(bucket)
                .map_or(Bound::Over(to.propagation_bounds_ms.last().copied().unwrap_or(0)), |ms| Bound::Within(*ms))
        };
        Some((all, bound(half), bound(most)))
    }

    /// The p99 bucket of each step between frames, the latest last: `columns` of them at most, 0 where nothing came.
    pub(super) fn propagation_line(&self, columns: usize) -> Vec<u64> {
        let frames: Vec<&MeshFrame> = self.shown().rev().take(columns + 1).collect();
        let steps = frames.windows(2).rev();
        steps.map(|pair| quantile(&applied(pair[1], pair[0]), 0.99).map_or(0, |bucket| bucket as u64 + 1)).collect()
    }

    /// The latest events, newest first.
    pub(super) fn events(&self) -> impl Iterator<Item = &crate::frame::EventView> {
        self.shown().rev().flat_map(|frame| frame.events.iter().rev())
    }
}

/// What a gateway was, ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    /// It had left.
    Left,
    /// It was in this state group.
    Group(u32),
    /// Nobody knew.
    Unknown,
}

/// An upper bound of a bucket, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Within(u64),
    Over(u64),
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Within(ms) => write!(f, "<={ms} ms"),
            Self::Over(ms) => write!(f, ">{ms} ms"),
        }
    }
}

/// The same lives in two frames: counters of another life are not compared.
fn pairs<'a>(from: &'a MeshFrame, to: &'a MeshFrame) -> impl Iterator<Item = (&'a GatewayView, &'a GatewayView)> {
    to.gateways.iter().filter_map(|to| Some((from.gateways.iter().find(|from| from.life == to.life)?, to)))
}

/// Ops applied between two frames over all gateways, by age.
fn applied(from: &MeshFrame, to: &MeshFrame) -> Vec<u64> {
    let mut counts = vec![0_u64; to.propagation_bounds_ms.len() + 1];
    for (from, to) in pairs(from, to) {
        let (Some(before), Some(after)) = (&from.propagation, &to.propagation) else { continue };
        for ((count, before), after) in counts.iter_mut().zip(before).zip(after) {
            *count = count.saturating_add(after.saturating_sub(*before));
        }
    }
    counts
}

/// What others tell may be any number.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn quantile(counts: &[u64], share: f64) -> Option<usize> {
    let all = sum(counts.iter().copied());
    if all == 0 {
        return None;
    }
    let wanted = ((all as f64 * share).ceil() as u64).max(1);
    let mut seen = 0_u64;
    counts.iter().position(|count| {
        seen = seen.saturating_add(*count);
        seen >= wanted
    })
}
