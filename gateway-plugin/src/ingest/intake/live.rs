//! What can be said of the state at a time, and when something is due.
//!
//! Not here: what is done about it (`fill`).

use covey_mesh::input::MonoTime;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::machine::Intake;
use super::{IntakeState, Output, Phase};

/// Silence after which the engine is asked whether anything was lost at the end, in milliseconds; up to half more, so that
/// gateways do not ask together.
const QUIET_MS: u64 = 2_000;
/// How long until a suspicion is followed up.
const SUSPECT_MS: u64 = 250;
/// At most so often.
const CHECK_MS_MIN: u64 = 4_000;
/// A connection that is gone for longer leaves the state stale.
const LOST_MS_MAX: u64 = 1_000;
/// So does an engine that proved nothing for longer.
const UNPROVEN_MS_MAX: u64 = 10_000;
/// A difference of clocks above this is no lag.
const LAG_MS_MAX: f64 = 60_000.0;

impl Intake {
    fn jitter(&self, of_ms: u64) -> u64 {
        let seed = (self.config.life.0 as u64) ^ self.asks;
        xxh3_64_with_seed(self.config.worker.name().as_bytes(), seed) % of_ms
    }

    /// Something was heard: the next check is after a quiet spell from now.
    pub(super) fn quiet_from(&mut self, now: MonoTime) {
        if !self.is_suspect {
            self.check_at = self.check_at.max(now.plus_ms(QUIET_MS + self.jitter(QUIET_MS / 2)));
        }
    }

    /// Something was heard that cannot be judged: the next check is soon.
    pub(super) fn suspect(&mut self, now: MonoTime) {
        if !self.is_suspect {
            self.is_suspect = true;
            self.check_at = self.check_at.min(now.plus_ms(SUSPECT_MS));
        }
    }

    /// A replay was asked for: it is a check as well.
    pub(super) fn asked_at(&mut self, now: MonoTime) {
        self.is_suspect = false;
        self.check_at = now.plus_ms(CHECK_MS_MIN + self.jitter(QUIET_MS / 2));
    }

    fn stale_at(&self) -> MonoTime {
        match (self.is_connected, self.lost_at) {
            (false, lost_at) => lost_at.map_or(MonoTime::default(), |at| at.plus_ms(LOST_MS_MAX)),
            (true, _) if self.has_replay() => self.proven_at.plus_ms(UNPROVEN_MS_MAX),
            (true, _) => MonoTime { us: u64::MAX },
        }
    }

    fn phase(&self, now: MonoTime) -> Phase {
        if self.stale_at() <= now {
            return Phase::Stale;
        }
        if !self.is_open {
            return Phase::Bootstrapping;
        }
        let whole = if self.cache.is_whole() { Phase::Exact } else { Phase::Bootstrapping };
        self.phase_of_gaps().unwrap_or(whole)
    }

    pub(super) fn tell_state(&mut self, now: MonoTime) {
        let phase = self.phase(now);
        if phase != self.state.phase {
            self.state = IntakeState { phase, since: now };
            self.outputs.push_back(Output::State(self.state));
        }
    }

    /// When [`super::Input::Elapsed`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonoTime> {
        let asking = self.asking.as_ref().map(|asking| asking.deadline);
        let waiting = self.waiting.as_ref().map(|waiting| waiting.deadline);
        let is_idle = self.asking.is_none() && self.waiting.is_none();
        let checks = is_idle && self.has_engine() && self.has_replay();
        let stale_at = Some(self.stale_at()).filter(|at| self.state.phase != Phase::Stale && at.us < u64::MAX);
        [asking, waiting, checks.then_some(self.check_at), stale_at].into_iter().flatten().min()
    }

    /// How long ago the engine last proved that it lives, in milliseconds.
    #[must_use]
    pub const fn proven_ms(&self, now: MonoTime) -> u64 {
        now.since_ms(self.proven_at)
    }

    /// How much later than it was made the last batch came, by the two hosts' clocks, in milliseconds; `None` when the clocks
    /// differ too much for that to mean anything. `wall_ms` is the gateway's wall clock now.
    #[must_use]
    pub fn lag_ms(&self, now: MonoTime, wall_ms: u64) -> Option<u64> {
        let (ts, heard_at) = self.batch_ts?;
        let heard_ms = wall_ms.checked_sub(now.since_ms(heard_at))? as f64;
        let lag = heard_ms - ts * 1_000.0;
        (0.0..LAG_MS_MAX).contains(&lag).then_some(lag as u64)
    }
}
