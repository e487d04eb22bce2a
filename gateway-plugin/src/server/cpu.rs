//! CPU time of the calling thread: what a lookup costs, whoever else wanted the core.
//!
//! The one reader of this clock in the gateway.

use rustix::time::{ClockId, clock_gettime};

/// A moment of the calling thread's CPU clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuTime {
    ns: u64,
}

impl CpuTime {
    /// Now, by the calling thread's clock.
    pub(super) fn now() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Self { ns: (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64) }
    }

    /// Whole microseconds since then, rounded up. Only meaningful on the same thread, without an await in between.
    pub(super) fn elapsed_us(self) -> u64 {
        Self::now().ns.saturating_sub(self.ns).div_ceil(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time_and_waiting_takes_none() {
        let start = CpuTime::now();
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        assert!(start.elapsed_us() < 40_000, "waiting is not work");
        let start = CpuTime::now();
        let mut x = 1u64;
        while start.elapsed_us() < 200 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(start.elapsed_us() >= 200);
    }
}
