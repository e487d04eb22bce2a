//! What the driver counts, and the plain snapshot of it that hosts turn into metrics.
//!
//! Not here: metric names (the host has them in one place), what the node observes about itself (`note`, `status`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use crate::output::Class;

/// One number per class of frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClass {
    /// Fresh ops and load registers.
    pub push: u64,
    /// Vectors, pulls and their answers.
    pub control: u64,
    /// Whole-state pieces.
    pub repair: u64,
}

impl ByClass {
    /// The number of one class.
    #[must_use]
    pub const fn get(&self, class: Class) -> u64 {
        match class {
            Class::Push => self.push,
            Class::Control => self.control,
            Class::Repair => self.repair,
        }
    }
}

/// Why a connection attempt came to nothing; also why an incoming one was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkFailure {
    /// The name does not resolve.
    Resolve,
    /// The address cannot be sent to from the listening socket.
    Unreachable,
    /// Nobody answered in time.
    TimedOut,
    /// The other side does not share the mesh's secret.
    Secret,
    /// A certificate is outside its dates: a clock is wrong.
    Clock,
    /// The other side uses another hash key or wire version.
    Mismatch,
    /// The address is this gateway's own.
    OwnAddress,
    /// A better connection to the same life exists.
    Duplicate,
    /// The other side closed for another reason (leaving, refused, restarting).
    Closed,
    /// The other side broke the protocol.
    Protocol,
}

impl LinkFailure {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Resolve,
        Self::Unreachable,
        Self::TimedOut,
        Self::Secret,
        Self::Clock,
        Self::Mismatch,
        Self::OwnAddress,
        Self::Duplicate,
        Self::Closed,
        Self::Protocol,
    ];

    /// The word for it in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Secret => "secret",
            Self::Clock => "clock",
            Self::Mismatch => "mismatch",
            Self::OwnAddress => "own_address",
            Self::Duplicate => "duplicate",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
        }
    }
}

/// What a histogram says, in the unit of the field that holds it. All zero before the first value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Values recorded.
    pub count: u64,
    /// Half of them are at most this.
    pub p50: u64,
    /// 99 % of them are at most this.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// One connection with a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSnapshot {
    /// The peer's name, from its certificate.
    pub name: String,
    /// Its life, 32 hex digits.
    pub life: String,
    /// The UDP address it is reached at.
    pub address: std::net::SocketAddr,
    /// Smoothed round trip of the connection, microseconds.
    pub rtt_us: u64,
    /// Packets lost since the connection began.
    pub packets_lost: u64,
    /// Congestion window, bytes.
    pub congestion_window_bytes: u64,
    /// Bytes waiting in its send queues.
    pub queued_bytes: u64,
    /// How long it has been up, milliseconds.
    pub up_ms: u64,
}

/// Everything the driver counted since [`start`](super::start), over all lives, and the links of this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetSnapshot {
    /// Frames written to streams.
    pub frames_out: ByClass,
    /// Their bytes, length prefixes excluded.
    pub bytes_out: ByClass,
    /// Frames read from streams.
    pub frames_in: ByClass,
    /// Their bytes.
    pub bytes_in: ByClass,
    /// Frames the node sent that found a full queue or no link.
    pub frames_dropped: ByClass,
    /// Connections closed because a frame broke the framing.
    pub frames_malformed: u64,
    /// What [`Mesh::submit`](super::Mesh::submit) refused because the queue was full.
    pub commands_dropped: u64,
    /// Connection attempts started.
    pub dials: u64,
    /// Attempts that came to nothing, by reason; every reason is listed.
    pub dials_failed: Vec<(LinkFailure, u64)>,
    /// Incoming handshakes that came to nothing, by reason; every reason is listed.
    pub handshakes_refused: Vec<(LinkFailure, u64)>,
    /// Incoming handshakes ignored because too many were under way.
    pub handshakes_ignored: u64,
    /// Lives restarted because the mesh thread panicked.
    pub restarts_panicked: u64,
    /// Lives restarted because the mesh thread stalled.
    pub restarts_stalled: u64,
    /// Lives restarted because the node asked for it.
    pub restarts_reborn: u64,
    /// Lives restarted because the network could not be set up.
    pub restarts_failed: u64,
    /// Times the membership service was started anew within a life.
    pub membership_restarts: u64,
    /// Membership messages carried to peers.
    pub membership_messages_out: u64,
    /// Their bytes.
    pub membership_bytes_out: u64,
    /// Membership messages taken from peers.
    pub membership_messages_in: u64,
    /// Membership messages refused before they reached the membership service.
    pub membership_refused: u64,
    /// Other gateways the membership service believes alive.
    pub members_live: u64,
    /// From a peer's stamp to the op being applied here, milliseconds.
    pub propagation_ms: Quantiles,
    /// Round trips of the connections, sampled four times a second, microseconds.
    pub quic_rtt_us: Quantiles,
    /// The links of this moment.
    pub links: Vec<LinkSnapshot>,
}

/// A count that any thread may raise.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One count per class.
#[derive(Debug, Default)]
pub(super) struct ClassCounter([Counter; 3]);

impl ClassCounter {
    pub(super) fn add(&self, class: Class, n: u64) {
        self.0[class as usize].add(n);
    }

    fn read(&self) -> ByClass {
        let [push, control, repair] = [0, 1, 2].map(|i| self.0[i].read());
        ByClass { push, control, repair }
    }
}

/// One count per reason.
#[derive(Debug, Default)]
pub(super) struct FailureCounter([Counter; LinkFailure::ALL.len()]);

impl FailureCounter {
    pub(super) fn add(&self, why: LinkFailure) {
        self.0[why as usize].add(1);
    }

    fn read(&self) -> Vec<(LinkFailure, u64)> {
        LinkFailure::ALL.iter().map(|why| (*why, self.0[*why as usize].read())).collect()
    }
}

/// A histogram with three significant digits. Locked only for a recording or a reading, never across anything else.
#[derive(Debug)]
pub(super) struct Recorder(Mutex<Histogram<u64>>);

impl Default for Recorder {
    fn default() -> Self {
        Self(Mutex::new(Histogram::new(3).expect("three significant digits are allowed")))
    }
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, value: u64) {
        self.lock().saturating_record(value);
    }

    fn read(&self) -> Quantiles {
        let histogram = self.lock();
        if histogram.is_empty() {
            return Quantiles::default();
        }
        Quantiles {
            count: histogram.len(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        }
    }
}

/// The driver's counters, shared by all lives.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) frames_out: ClassCounter,
    pub(super) bytes_out: ClassCounter,
    pub(super) frames_in: ClassCounter,
    pub(super) bytes_in: ClassCounter,
    pub(super) frames_dropped: ClassCounter,
    pub(super) frames_malformed: Counter,
    pub(super) commands_dropped: Counter,
    pub(super) dials: Counter,
    pub(super) dials_failed: FailureCounter,
    pub(super) handshakes_refused: FailureCounter,
    pub(super) handshakes_ignored: Counter,
    pub(super) restarts_panicked: Counter,
    pub(super) restarts_stalled: Counter,
    pub(super) restarts_reborn: Counter,
    pub(super) restarts_failed: Counter,
    pub(super) membership_restarts: Counter,
    pub(super) membership_messages_out: Counter,
    pub(super) membership_bytes_out: Counter,
    pub(super) membership_messages_in: Counter,
    pub(super) membership_refused: Counter,
    pub(super) members_live: Counter,
    pub(super) propagation_ms: Recorder,
    pub(super) quic_rtt_us: Recorder,
}

impl Counters {
    pub(super) fn snapshot(&self, links: Vec<LinkSnapshot>) -> NetSnapshot {
        NetSnapshot {
            frames_out: self.frames_out.read(),
            bytes_out: self.bytes_out.read(),
            frames_in: self.frames_in.read(),
            bytes_in: self.bytes_in.read(),
            frames_dropped: self.frames_dropped.read(),
            frames_malformed: self.frames_malformed.read(),
            commands_dropped: self.commands_dropped.read(),
            dials: self.dials.read(),
            dials_failed: self.dials_failed.read(),
            handshakes_refused: self.handshakes_refused.read(),
            handshakes_ignored: self.handshakes_ignored.read(),
            restarts_panicked: self.restarts_panicked.read(),
            restarts_stalled: self.restarts_stalled.read(),
            restarts_reborn: self.restarts_reborn.read(),
            restarts_failed: self.restarts_failed.read(),
            membership_restarts: self.membership_restarts.read(),
            membership_messages_out: self.membership_messages_out.read(),
            membership_bytes_out: self.membership_bytes_out.read(),
            membership_messages_in: self.membership_messages_in.read(),
            membership_refused: self.membership_refused.read(),
            members_live: self.members_live.read(),
            propagation_ms: self.propagation_ms.read(),
            quic_rtt_us: self.quic_rtt_us.read(),
            links,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_and_reason_has_a_slot_of_its_own() {
        let counters = Counters::default();
        for (i, class) in Class::ALL.into_iter().enumerate() {
            counters.frames_in.add(class, i as u64 + 1);
        }
        for (i, why) in LinkFailure::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, i, "ALL is in declaration order");
            counters.dials_failed.add(why);
        }
        let snapshot = counters.snapshot(Vec::new());
        assert_eq!(snapshot.frames_in, ByClass { push: 1, control: 2, repair: 3 });
        assert_eq!(snapshot.frames_in.get(Class::Repair), 3);
        assert!(snapshot.dials_failed.iter().all(|(_, n)| *n == 1));
    }

    #[test]
    fn quantiles_of_nothing_are_zero_and_of_a_hundred_values_are_right() {
        let recorder = Recorder::default();
        assert_eq!(recorder.read(), Quantiles::default());
        for value in 1..=100 {
            recorder.record(value);
        }
        assert_eq!(recorder.read(), Quantiles { count: 100, p50: 50, p99: 99, max: 100 });
    }
}
