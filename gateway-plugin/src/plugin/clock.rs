//! What tells a plugin the time: how long ago things happened, never what time of day it is.
//!
//! Not here: what depends on it (`load`).

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A monotonic clock in microseconds since some moment.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// A clock of the caller's: a simulator's time.
    pub fn new(now_us: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_us))
    }

    /// Microseconds now.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        (self.0)()
    }
}

impl Default for Clock {
    /// The process's monotonic clock.
    fn default() -> Self {
        let start = Instant::now();
        Self::new(move || u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now_us()).finish()
    }
}
