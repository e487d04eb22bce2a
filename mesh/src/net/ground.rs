//! What a driver stands on: clocks, randomness, the UDP port, QUIC's timers and tasks, names, the membership service.
//! In production it is the operating system and chitchat ([`System`]); the second ring puts a seeded network in paused
//! time there instead, and runs everything else of the driver as it is.
//!
//! Not here: any decision. What a driver does with what it is told is the driver's, on every ground.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;

use covey_crdt::id::LifeId;
use covey_crdt::stamp::WallMs;
use quinn::{AsyncUdpSocket, Connection, Runtime, TokioRuntime};
use tokio::sync::mpsc;

use super::clock::{self, Clock};
use super::context::Context;
use super::framing::FrameError;
use super::{membership, transport, tunnel};
use crate::input::{Member, MonoTime};

/// Something under way.
pub(super) type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What all lives of one mesh member stand on.
pub(super) trait Ground: fmt::Debug + Send + Sync {
    /// Monotonic time since the ground was made.
    fn mono(&self) -> MonoTime;
    /// What the host's wall clock reads.
    fn wall(&self) -> WallMs;
    /// The runtime's name for a moment.
    fn instant(&self, at: MonoTime) -> tokio::time::Instant;
    /// Fills `bytes` with what nobody can guess (production) or a seed repeats (the second ring).
    fn fill(&self, bytes: &mut [u8]);
    /// Takes a UDP port for as long as the result lives.
    fn bind(&self, listen: SocketAddr) -> io::Result<Box<dyn Port>>;
    /// Where QUIC gets its timers and tasks from.
    fn quic(&self) -> Arc<dyn Runtime>;
    /// What a seed stands for.
    fn resolve(&self, seed: String) -> Task<io::Result<Vec<SocketAddr>>>;
    /// Says who is a live member, and where it can be dialled, for as long as anybody listens.
    fn membership(&self, context: Arc<Context>, cluster: String, out: mpsc::Sender<Member>) -> Task<()>;
    /// Serves the membership service's stream of one connection until it ends. `peer`: where the peer can be dialled.
    fn tunnel(
        &self,
        context: Arc<Context>,
        connection: Connection,
        dialled: bool,
        peer: SocketAddr,
    ) -> Task<Result<(), FrameError>>;
}

/// Bytes that nobody had before.
pub(super) fn random<const N: usize>(ground: &dyn Ground) -> [u8; N] {
    let mut bytes = [0; N];
    ground.fill(&mut bytes);
    bytes
}

/// A life that nobody had before.
pub(super) fn random_life(ground: &dyn Ground) -> LifeId {
    LifeId(u128::from_le_bytes(random(ground)))
}

/// A seed for jitter.
pub(super) fn random_seed(ground: &dyn Ground) -> u64 {
    u64::from_le_bytes(random(ground))
}

/// A UDP port that outlives lives: each life's endpoint gets a socket on it, so that the port is never given up.
pub(super) trait Port: fmt::Debug + Send + Sync {
    /// The address it was given.
    fn address(&self) -> io::Result<SocketAddr>;
    /// One more socket on it. Must be called on the mesh runtime.
    fn open(&self) -> io::Result<Arc<dyn AsyncUdpSocket>>;
}

impl Port for UdpSocket {
    fn address(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn open(&self) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(self.try_clone()?)
    }
}

/// The operating system, tokio, and chitchat.
#[derive(Debug)]
pub(super) struct System {
    clock: Clock,
}

impl System {
    /// The system, its monotonic clock starting now.
    pub(super) fn new() -> Self {
        Self { clock: Clock::start() }
    }
}

impl Ground for System {
    fn mono(&self) -> MonoTime {
        self.clock.mono()
    }

    fn wall(&self) -> WallMs {
        self.clock.wall()
    }

    fn instant(&self, at: MonoTime) -> tokio::time::Instant {
        self.clock.instant(at)
    }

    fn fill(&self, bytes: &mut [u8]) {
        clock::fill_random(bytes);
    }

    fn bind(&self, listen: SocketAddr) -> io::Result<Box<dyn Port>> {
        Ok(Box::new(transport::bind(listen)?))
    }

    fn quic(&self) -> Arc<dyn Runtime> {
        Arc::new(TokioRuntime)
    }

    fn resolve(&self, seed: String) -> Task<io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host(seed).await?.collect()) })
    }

    fn membership(&self, context: Arc<Context>, cluster: String, out: mpsc::Sender<Member>) -> Task<()> {
        Box::pin(membership::run(context, cluster, out))
    }

    fn tunnel(
        &self,
        context: Arc<Context>,
        connection: Connection,
        dialled: bool,
        peer: SocketAddr,
    ) -> Task<Result<(), FrameError>> {
        Box::pin(async move { tunnel::pump(&context, &connection, dialled, peer).await })
    }
}
