//! After the faults: all but a minority is mended, the rest must converge in time, and stay converged and quiet.
//!
//! Not here: what converged means (`checks`), in what time (`bound`).

use covey_mesh::input::{Input, Member, MonoTime};
use covey_mesh::limits::{EXCHANGE_MS, SUMMARY_MS, SUMMARY_WORKERS};

use super::event::Event;
use super::{World, bound};
use crate::marks;
use crate::plan::{Cut, Wrong};

/// A converged cluster may be unequal for this long while something real happens, an expiry or a reborn slow node's
/// op, in milliseconds.
const RIPPLE_MS: u64 = 1_500;
/// Ops of a clock that ran ahead come due within this of converging (drawn clocks step by a minute), in milliseconds.
const SETTLED_MS: u64 = 180_000;
/// From converging to the watch over the heartbeat, in milliseconds: what was asked before is answered by then.
const SETTLE_MS: u64 = 1_000;
/// The watch over the heartbeat begins anew at most this often.
pub(super) const WATCHES_MAX: u32 = 4;
/// Frames that a node sends a healthy peer in one exchange interval at the most, in hundredths: exchanges are jittered
/// by an eighth either way.
const HEARTBEAT_CENTIFRAMES: u64 = 130;
/// Bytes of an exchange in which nothing changed, at the most.
const HEARTBEAT_BYTES: u64 = 420;
/// Summaries a node sends a healthy peer in a second at the most, in hundredths: they are jittered, and looked at with the
/// housekeeping.
const SUMMARIES_PER_100_S: u64 = 120;
/// Bytes of a summary at the most, of each gateway it names, and of each worker.
const SUMMARY_BYTES: [u64; 3] = [420, 48, 72];

/// Frames to a peer beyond that, where events are read, and bytes of a feed in a summary.
const FEED_FRAMES: u64 = 5;
const FEED_BYTES: u64 = 72;

/// Where the watch over the converged cluster stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    since_us: u64,
    equal_us: u64,
    /// What a healthy node's vector was then.
    vector: u64,
}

impl World {
    /// Whether the node is one of those that must converge.
    pub(super) fn is_healthy(&self, node: usize) -> bool {
        self.plan.wrong(node).is_none()
    }

    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.outcome.converge_sent = (self.outcome.frames, self.outcome.bytes);
        let paused: Vec<(usize, usize)> =
            self.pairs().filter(|(from, to)| self.network.is_paused(*from, *to)).collect();
        self.network.calm();
        for worker in 0..self.engines.len() {
            self.engines[worker].flaps = false;
            self.engines[worker].removed = false;
        }
        for slot in 0..self.slots.len() {
            self.mend(slot);
        }
        for (node, to) in paused {
            self.writable(node, to);
        }
        for slot in 0..self.slots.len() {
            for worker in 0..self.engines.len() {
                self.probe_one(slot, worker);
            }
        }
        self.tell_the_truth();
        self.break_for_good();
        self.outcome.bound_ms += self.walk_ms();
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let nodes = self.slots.len();
        (0..nodes).flat_map(move |from| (0..nodes).filter(move |to| *to != from).map(move |to| (from, to)))
    }

    fn mend(&mut self, slot: usize) {
        let left_ms = match self.plan.wrong(slot) {
            Some(Wrong::Clock { ms }) => Some(ms),
            Some(_) | None => None,
        };
        let state = &mut self.slots[slot];
        state.clock.mend(self.now_us, left_ms);
        state.newer = false;
        state.snapshot = None;
        if state.name != state.home {
            self.stop(slot);
            self.slots[slot].name = self.slots[slot].home.clone();
        }
        self.wake_up(slot);
        self.start(slot);
        self.handle(slot, Input::Elapsed);
    }

    fn tell_the_truth(&mut self) {
        for (node, other) in self.pairs() {
            if let Some(life) = self.who[other] {
                self.say(node, Member::Up(life), 100_000, 600_000);
            }
            if let Some(life) = self.slots[other].ended {
                self.miss(node, life);
            }
        }
    }

    fn break_for_good(&mut self) {
        for nth in 0..self.plan.broken.len() {
            let broken = self.plan.broken[nth];
            let node = broken.node;
            match broken.how {
                Wrong::Dead => {
                    self.mark(marks::LEFT_DEAD);
                    self.stop(node);
                }
                Wrong::Isolated => self.cut_for_good(Cut::Isolate { node }),
                Wrong::Deaf => self.cut_for_good(Cut::Deaf { node }),
                Wrong::Mute => self.cut_for_good(Cut::Mute { node }),
                Wrong::Clock { .. } => self.mark(marks::LEFT_CLOCK),
                Wrong::Slow { .. } => {
                    self.mark(marks::LEFT_SLOW);
                    self.stall(nth);
                }
            }
        }
    }

    fn cut_for_good(&mut self, cut: Cut) {
        let _ = self.network.cut(cut);
        self.mark(marks::LEFT_CUT);
        self.doubt_links();
    }

    /// A node that stays slow for good.
    pub(super) fn stall(&mut self, broken: usize) {
        let crate::plan::Broken { node, how: Wrong::Slow { every_ms, for_ms } } = self.plan.broken[broken] else {
            return;
        };
        self.pause(node, for_ms, false);
        self.after(every_ms * 1_000, Event::Stall { broken });
    }

    /// What walking the whole state costs at this plan's slice size: every slice is a round trip.
    fn walk_ms(&self) -> u64 {
        let rows = self.slots.iter().filter_map(|slot| slot.node.as_ref()).map(|node| {
            let replica = node.replica();
            let segments: usize = replica.holders().map(|(_, _, placed)| placed.segments(None).count()).sum();
            let rows = segments * 48 + (replica.records().count() + replica.lives().len()) * 64;
            rows as u64 + 8 * replica.chains().blocks()
        });
        let (knobs, round_trip_ms) = (&self.plan.knobs, self.network.calm_round_trip_ms());
        bound::walk(rows.max().unwrap_or(0), self.plan.workers as u64, knobs, round_trip_ms)
    }

    /// Looks whether the cluster has converged, whether it stayed so, and whether it is over.
    pub(super) fn check_calm(&mut self) {
        let unequal = self.unequal();
        let Some(quiet) = self.quiet else {
            if unequal.is_empty() {
                self.converged();
            } else if self.now_us > (self.plan.faults_ms + self.outcome.bound_ms) * 1_000 {
                self.violation(
                    "I10",
                    format!("not converged {} ms after the faults: {unequal}", self.outcome.bound_ms),
                );
            }
            return;
        };
        let converged_ms = self.plan.faults_ms + self.outcome.converged_ms.unwrap_or(0);
        if self.now_us / 1_000 > converged_ms + SETTLED_MS {
            return self.violation("I10", format!("never settled after converging: {unequal}"));
        }
        if unequal.is_empty() || self.comes_due() {
            self.quiet = Some(Quiet { equal_us: self.now_us, ..quiet });
        } else if self.now_us - quiet.equal_us > self.ripple_ms() * 1_000 {
            return self.violation("I10", format!("no longer converged: {unequal}"));
        }
        let quiet_us = self.now_us - quiet.since_us;
        let watched = self.measuring && quiet_us >= self.plan.quiet_ms * 1_000;
        if unequal.is_empty() && (watched || (!self.measuring && quiet_us >= SETTLE_MS * 1_000)) {
            self.watch_on(quiet, watched);
        }
    }

    /// How long what is still told may take to reach everybody. What a member says that was left broken may have to be
    /// repaired, from that member first.
    fn ripple_ms(&self) -> u64 {
        if self.plan.broken.is_empty() { RIPPLE_MS } else { self.outcome.bound_ms.max(RIPPLE_MS) }
    }

    /// The next part of the watch, or its end. When something happened that had to be told, it begins anew.
    fn watch_on(&mut self, quiet: Quiet, over: bool) {
        let disturbed = self.vector() != quiet.vector || self.comes_due();
        if disturbed && self.watches_left > 0 {
            self.watches_left -= 1;
            self.measuring = false;
            self.quiet = Some(self.quiet_from_now());
        } else if over {
            if disturbed {
                self.mark(marks::NEVER_QUIET);
            } else {
                self.check_floor(quiet);
            }
            self.check_states(true);
            self.over = true;
        } else if !self.measuring {
            self.measuring = true;
            self.quiet = Some(self.quiet_from_now());
        }
    }

    /// Whether a healthy node holds ops of a clock that ran ahead: as they come due, replicas differ for a moment.
    fn comes_due(&self) -> bool {
        let slots = self.slots.iter().enumerate().filter(|(nth, _)| self.is_healthy(*nth));
        let nodes = slots.filter_map(|(_, slot)| slot.node.as_ref());
        nodes.into_iter().any(|node| node.waits_for_clock() || node.status(MonoTime::default()).ops_held > 0)
    }

    /// A healthy node's vector: while it stays the same, nothing is told to anybody.
    fn vector(&self) -> u64 {
        let healthy = self.slots.iter().enumerate().filter(|(nth, _)| self.is_healthy(*nth));
        healthy.filter_map(|(_, slot)| slot.node.as_ref()).map(|node| node.vector().hash()).next().unwrap_or(0)
    }

    fn quiet_from_now(&mut self) -> Quiet {
        for slot in &mut self.slots {
            slot.quiet_sent = (0, 0);
        }
        Quiet { since_us: self.now_us, equal_us: self.now_us, vector: self.vector() }
    }

    fn converged(&mut self) {
        self.check_states(true);
        self.outcome.converged_ms = Some(self.now_us / 1_000 - self.plan.faults_ms);
        let (frames, bytes) = self.outcome.converge_sent;
        self.outcome.converge_sent = (self.outcome.frames - frames, self.outcome.bytes - bytes);
        self.quiet = Some(self.quiet_from_now());
        self.over = self.plan.quiet_ms == 0;
    }

    pub(super) fn count_quiet(&mut self, from: usize, to: usize, bytes: usize) {
        if self.measuring && self.is_healthy(to) {
            let (frames, all) = &mut self.slots[from].quiet_sent;
            *frames += 1;
            *all += bytes as u64;
        }
    }

    /// A converged cluster in which nothing happens sends its heartbeat and nothing else: no storm, no livelock.
    fn check_floor(&mut self, quiet: Quiet) {
        let ms = (self.now_us - quiet.since_us) / 1_000;
        let peers = (0..self.slots.len()).filter(|node| self.is_healthy(*node)).count() as u64 - 1;
        let exchanges_max = peers * (ms * HEARTBEAT_CENTIFRAMES / 100 / EXCHANGE_MS + 2);
        // Where events are read, a feed whose state changes is told of at once, and a feed that changes hands is asked for.
        let feeds = if self.kv_streams.is_some() { self.engines.len() as u64 } else { 0 };
        let disturbed = if feeds > 0 { FEED_FRAMES } else { 0 };
        let summaries_max = peers * (ms * SUMMARIES_PER_100_S / 100 / SUMMARY_MS + 1 + disturbed);
        let frames_max = exchanges_max + summaries_max;
        let [whole, gateway, worker] = SUMMARY_BYTES;
        let workers = self.engines.len().min(SUMMARY_WORKERS) as u64;
        let summary_bytes = whole + gateway * self.slots.len() as u64 + worker * workers + FEED_BYTES * feeds;
        let bytes_max = exchanges_max * HEARTBEAT_BYTES + summaries_max * summary_bytes;
        for nth in 0..self.slots.len() {
            if !self.is_healthy(nth) {
                continue;
            }
            let (frames, bytes) = self.slots[nth].quiet_sent;
            if frames > frames_max || bytes > bytes_max {
                let what = format!(
                    "{} sent {frames} frames of {bytes} bytes in {ms} quiet ms to {peers} peers: the floor is {frames_max} \
                     frames of {bytes_max} bytes",
                    self.slots[nth].name,
                );
                self.violation("idle floor", what);
            }
        }
    }
}
