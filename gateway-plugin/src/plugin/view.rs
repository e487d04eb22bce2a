//! Whether the index can be trusted at this moment: set by whoever feeds it, read by request threads.
//!
//! Not here: what routing does about it (`plugin`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use covey_mesh::note::ClockState;

/// A view older than this is not routed on.
pub const VIEW_AGE_MAX: Duration = Duration::from_secs(1);

/// The state of the gateway's view. A new one is not to be trusted yet.
#[derive(Debug, Default)]
pub struct View {
    clean_once: AtomicBool,
    clock: AtomicU8,
    /// As the bits of an `f64`.
    unheard: AtomicU64,
}

impl View {
    /// A life starts: its replica is empty, so nothing is known until it is clean.
    pub fn started(&self) {
        self.clean_once.store(false, Ordering::Release);
        self.set_clock(ClockState::Good);
    }

    /// The replica is clean, for the first time in this life or again.
    pub fn cleaned(&self) {
        self.clean_once.store(true, Ordering::Release);
    }

    /// The gateway's clock stands like this against its peers'.
    pub fn set_clock(&self, state: ClockState) {
        let byte = match state {
            ClockState::Good => 0,
            ClockState::Ahead => 1,
            ClockState::Behind => 2,
        };
        self.clock.store(byte, Ordering::Release);
    }

    /// Such a share of the other gateways is not heard at present.
    pub fn set_unheard(&self, share: f64) {
        self.unheard.store(share.clamp(0.0, 1.0).to_bits(), Ordering::Relaxed);
    }

    /// The share of the other gateways that is not heard at present.
    #[must_use]
    pub fn unheard(&self) -> f64 {
        f64::from_bits(self.unheard.load(Ordering::Relaxed))
    }

    /// Whether the replica has been clean since its life began.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.clean_once.load(Ordering::Acquire)
    }

    /// Whether the gateway's clock is off, either way.
    #[must_use]
    pub fn is_clock_off(&self) -> bool {
        self.clock.load(Ordering::Acquire) != 0
    }
}
