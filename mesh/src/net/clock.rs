//! The one file that reads the clock and the operating system's randomness. Everything else is told.
//!
//! Not here: deciding anything by what is read.

#![expect(clippy::disallowed_methods, reason = "the one file of the mesh that reads clocks and draws randomness")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use covey_crdt::stamp::WallMs;
use ring::rand::{SecureRandom, SystemRandom};

use crate::input::MonoTime;

/// Monotonic time since one start, and wall time. All lives of one process share one clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(super) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Time since the start.
    pub(super) fn mono(self) -> MonoTime {
        MonoTime { us: u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX) }
    }

    /// What the host's wall clock reads; 0 before the epoch.
    pub(super) fn wall(self) -> WallMs {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The runtime's name for a moment.
    pub(super) fn instant(self, at: MonoTime) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.start + Duration::from_micros(at.us))
    }
}

/// Fresh random bytes from the operating system.
pub(super) fn fill_random(bytes: &mut [u8]) {
    SystemRandom::new().fill(bytes).expect("the operating system has randomness");
}
