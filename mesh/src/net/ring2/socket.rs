//! What QUIC sees of the in-memory network, and the gate that stalls a process.
//!
//! Not here: delay and loss (`network`).

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

use super::network::{Network, Plug};
use super::now;
use crate::net::ground::{Port, Task};

/// A port of the network. Sockets of several lives may be open on it; whoever reads first gets a datagram, as it is
/// with clones of one file descriptor.
#[derive(Clone, Debug)]
pub(super) struct VirtualPort {
    pub(super) network: Network,
    pub(super) address: SocketAddr,
    pub(super) plug: Plug,
}

impl Port for VirtualPort {
    fn address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn open(&self) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(self.clone()))
    }
}

/// Sending never has to wait: the network drops what it cannot carry.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncUdpSocket for VirtualPort {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for bytes in transmit.contents.chunks(size) {
            let ecn = transmit.ecn.map(|ecn| ecn as u8);
            self.network.send((self.address, self.plug), transmit.destination, bytes, ecn, now());
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let (mut count, max) = (0, bufs.len().min(meta.len()));
        let some = self.network.receive((self.address, self.plug), cx.waker(), |datagram| {
            let len = datagram.bytes.len().min(bufs[count].len());
            bufs[count][..len].copy_from_slice(&datagram.bytes[..len]);
            let ecn = datagram.ecn.and_then(EcnCodepoint::from_bits);
            meta[count] = RecvMeta { addr: datagram.from, len, stride: len, ecn, dst_ip: None };
            count += 1;
            count < max
        });
        if some { Poll::Ready(Ok(count)) } else { Poll::Pending }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

#[derive(Debug, Default)]
struct GateState {
    shut: bool,
    ended: bool,
    waiting: Vec<Waker>,
}

/// What passes through stands still while the gate is shut.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<Mutex<GateState>>);

impl Gate {
    pub(super) fn shut(&self) {
        self.0.lock().expect("no panic inside").shut = true;
    }

    pub(super) fn open(&self) {
        let mut state = self.0.lock().expect("no panic inside");
        state.shut = false;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    async fn ended(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.lock().expect("no panic inside");
            if state.ended {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// What is behind it is dropped as it stands.
    pub(super) fn end(&self) {
        let mut state = self.0.lock().expect("no panic inside");
        state.ended = true;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// `inner`, which stands still while the gate is shut.
    pub(super) fn guard<F: Future>(&self, inner: F) -> Guarded<F> {
        Guarded { gate: self.clone(), inner: Box::pin(inner) }
    }
}

/// A future behind a gate.
pub(super) struct Guarded<F> {
    gate: Gate,
    inner: Pin<Box<F>>,
}

impl<F> fmt::Debug for Guarded<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut state = self.gate.0.lock().expect("no panic inside");
        if state.shut {
            state.waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.inner.as_mut().poll(cx)
    }
}

/// The gates of one life: its loop, and QUIC's tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Gates {
    pub(super) turns: Gate,
    pub(super) quic: Gate,
}

/// QUIC's timers and tasks in paused time; its tasks stand still while the process is stalled.
#[derive(Debug)]
pub(super) struct VirtualRuntime(pub(super) Gate);

impl Runtime for VirtualRuntime {
    fn new_timer(&self, at: std::time::Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }

    fn spawn(&self, future: Task<()>) {
        let guarded = self.0.guard(future);
        let ended = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = ended.ended() => {}
                () = guarded => {}
            }
        });
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn now(&self) -> std::time::Instant {
        now().into_std()
    }
}
