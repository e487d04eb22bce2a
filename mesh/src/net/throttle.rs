//! One log line per subject per minute, so that a peer that keeps failing cannot fill the log.
//!
//! Not here: counting (every failure is counted in `metrics`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use super::metrics::LinkFailure;
use crate::input::MonoTime;

const EVERY_MS: u64 = 60_000;
/// Subjects remembered; past this all are forgotten, which costs a few repeated lines.
const SUBJECTS_MAX: usize = 1_024;

/// Remembers when a subject was last logged.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<BTreeMap<(SocketAddr, LinkFailure), MonoTime>>);

impl Throttle {
    /// Whether to log about the subject now.
    pub(super) fn allows(&self, address: SocketAddr, why: LinkFailure, now: MonoTime) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.get(&(address, why)).is_some_and(|last| now.since_ms(*last) < EVERY_MS) {
            return false;
        }
        if logged.len() >= SUBJECTS_MAX {
            logged.clear();
        }
        logged.insert((address, why), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_per_address_and_reason() {
        let throttle = Throttle::default();
        let address = "10.0.0.1:1".parse().expect("an address");
        assert!(throttle.allows(address, LinkFailure::Secret, MonoTime::from_ms(5)));
        assert!(!throttle.allows(address, LinkFailure::Secret, MonoTime::from_ms(59_999)));
        assert!(throttle.allows(address, LinkFailure::Clock, MonoTime::from_ms(59_999)));
        assert!(throttle.allows(address, LinkFailure::Secret, MonoTime::from_ms(60_005)));
    }
}
