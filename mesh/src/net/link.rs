//! One connection with a peer, as the loop holds it: who, where, and the queues of what is to be sent.
//!
//! Not here: the tasks that read and write it (`peer`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use covey_crdt::id::LifeId;
use quinn::Connection;
use tokio::task::AbortHandle;

use super::context::{Context, LinkId};
use super::identity::Identity;
use super::metrics::LinkSnapshot;
use super::queue::{Pushed, SendQueue};
use super::transport::{CloseCode, HANDSHAKE_TIMEOUT, canonical};
use crate::input::MonoTime;
use crate::output::Class;

/// Two connections that came up further apart than this were not dialled at the same time: a dialler waits
/// [`HANDSHAKE_TIMEOUT`] for the other's hello, and sends its own only when it has no better link.
const SETTLED_MS: u64 = 4_000;
const _: () = assert!(SETTLED_MS > HANDSHAKE_TIMEOUT.as_millis() as u64);
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
const FLUSH_LOOK_EVERY: Duration = Duration::from_millis(5);

/// The send queues of one connection.
#[derive(Debug)]
pub(super) struct Queues([SendQueue; 3]);

impl Queues {
    pub(super) fn new() -> Self {
        Self(Class::ALL.map(SendQueue::new))
    }

    pub(super) fn of(&self, class: Class) -> &SendQueue {
        &self.0[class as usize]
    }

    /// No frame is taken any more.
    pub(super) fn close(&self) {
        for queue in &self.0 {
            queue.close();
        }
    }

    /// Whether they were closed and the peer has everything.
    pub(super) fn are_drained(&self) -> bool {
        self.0.iter().all(SendQueue::is_drained)
    }
}

/// One connection with a peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) peer: Identity,
    /// Which of the two dialled.
    pub(super) dialer: LifeId,
    /// That side's number for the connection.
    pub(super) dial: u64,
    /// Where the peer says it can be dialled.
    pub(super) advertised: SocketAddr,
    pub(super) connection: Connection,
    pub(super) queues: Arc<Queues>,
    pub(super) since: MonoTime,
    /// The task that serves the connection.
    pub(super) task: AbortHandle,
}

impl Link {
    /// Of two connections of the same two lives, both sides keep the same one: the one whose dialler has the smaller
    /// life; of two by the same dialler, the newer. But a peer that dials long after a link came up has lost that link,
    /// or it would not have gone on: what this side still holds is a half-open one, whoever dialled it.
    pub(super) fn beats(&self, other: &Self) -> bool {
        beats(self.peer.life, self.claim(), other.claim())
    }

    const fn claim(&self) -> Claim {
        Claim { dialer: self.dialer, dial: self.dial, since: self.since }
    }

    pub(super) fn send(&self, class: Class, frame: Bytes) -> Pushed {
        self.queues.of(class).push(frame)
    }

    /// Closes the connection; its task ends and says so, but the loop does not wait for that.
    pub(super) fn close(&self, code: CloseCode, reason: &[u8]) {
        self.connection.close(code.code(), reason);
        self.task.abort();
    }

    /// Closes the connection once the peer has what is queued, or after a short while.
    pub(super) fn close_after_flush(self, context: &Context, code: CloseCode) {
        self.queues.close();
        context.spawn(async move {
            let flushed = async {
                while !self.queues.are_drained() && !self.is_over() {
                    tokio::time::sleep(FLUSH_LOOK_EVERY).await;
                }
            };
            let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
            self.close(code, b"");
        });
    }

    /// Whether nothing will come of the connection any more.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished() || self.connection.close_reason().is_some()
    }

    pub(super) fn remote(&self) -> SocketAddr {
        canonical(self.connection.remote_address())
    }

    pub(super) fn snapshot(&self, now: MonoTime) -> LinkSnapshot {
        let path = self.connection.stats().path;
        LinkSnapshot {
            name: self.peer.name.to_string(),
            life: self.peer.life.to_string(),
            address: self.remote(),
            rtt_us: u64::try_from(path.rtt.as_micros()).unwrap_or(u64::MAX),
            packets_lost: path.lost_packets,
            congestion_window_bytes: path.cwnd,
            queued_bytes: Class::ALL.iter().map(|class| self.queues.of(*class).bytes() as u64).sum(),
            up_ms: now.since_ms(self.since),
        }
    }
}

/// What decides between two connections of the same two lives.
#[derive(Clone, Copy)]
struct Claim {
    dialer: LifeId,
    dial: u64,
    since: MonoTime,
}

/// Whether the newer of two connections with `peer` is kept.
fn beats(peer: LifeId, newer: Claim, older: Claim) -> bool {
    if newer.dialer == peer && newer.since.since_ms(older.since) >= SETTLED_MS {
        return true;
    }
    if newer.dialer == older.dialer { newer.dial > older.dial } else { newer.dialer < older.dialer }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: LifeId = LifeId(1);
    const LARGE: LifeId = LifeId(2);

    const fn claim(dialer: LifeId, dial: u64, since_ms: u64) -> Claim {
        Claim { dialer, dial, since: MonoTime::from_ms(since_ms) }
    }

    #[test]
    fn of_two_dialled_at_the_same_time_both_sides_keep_the_smaller_lifes() {
        for peer in [SMALL, LARGE] {
            assert!(beats(peer, claim(SMALL, 1, 3_000), claim(LARGE, 1, 0)));
            assert!(!beats(peer, claim(LARGE, 1, 3_000), claim(SMALL, 1, 0)));
            assert!(beats(peer, claim(LARGE, 2, 3_000), claim(LARGE, 1, 0)));
            assert!(!beats(peer, claim(LARGE, 1, 3_000), claim(LARGE, 2, 0)));
        }
    }

    #[test]
    fn a_peer_that_dials_long_after_replaces_the_half_open_link_whoever_dialled_that() {
        assert!(beats(LARGE, claim(LARGE, 1, SETTLED_MS), claim(SMALL, 1, 0)));
        // One's own dial says nothing of what the peer has lost.
        assert!(!beats(SMALL, claim(LARGE, 1, SETTLED_MS), claim(SMALL, 1, 0)));
    }
}
