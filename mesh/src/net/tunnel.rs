//! Carrying the membership service's datagrams inside authenticated connections. chitchat has no way to hand out its
//! messages as bytes except a UDP socket, so it gets one on loopback, and every connection has a proxy socket that only
//! exchanges datagrams with it.
//!
//! Not here: the membership service (`membership`), what messages are let through (`scan`). A peer's logical address is
//! the one it advertises; which peer a connection belongs to comes from its certificate, never from a UDP source.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chitchat::ChitchatEnvelope;
use chitchat::transport::{RecvOutcome, SendOutcome, Socket, Transport, UdpSocket as ServiceSocket};
use quinn::{Connection, RecvStream, SendStream};
use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::context::Context;
use super::framing::{FrameError, prefix, read_bounded};
use super::scan::{MESSAGE_BYTES_MAX, scan};

/// A free port on loopback: nobody else's messages get in.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[derive(Debug, Default)]
struct Routes {
    proxies: BTreeMap<SocketAddr, SocketAddr>,
    peers: BTreeMap<SocketAddr, SocketAddr>,
}

/// Which proxy socket stands for which peer, and where the membership service listens.
#[derive(Clone, Debug)]
pub(super) struct Tunnel {
    routes: Arc<Mutex<Routes>>,
    service: Arc<watch::Sender<Option<SocketAddr>>>,
}

impl Default for Tunnel {
    fn default() -> Self {
        Self { routes: Arc::default(), service: Arc::new(watch::Sender::new(None)) }
    }
}

impl Tunnel {
    fn lock(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peers that can be reached now.
    pub(super) fn peers(&self) -> Vec<SocketAddr> {
        self.lock().proxies.keys().copied().collect()
    }

    fn route(&self, peer: SocketAddr, proxy: SocketAddr) -> Route {
        let mut routes = self.lock();
        routes.proxies.insert(peer, proxy);
        routes.peers.insert(proxy, peer);
        Route { tunnel: self.clone(), peer, proxy }
    }
}

/// Takes its entries away when the connection ends, unless a newer connection has replaced them.
struct Route {
    tunnel: Tunnel,
    peer: SocketAddr,
    proxy: SocketAddr,
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut routes = self.tunnel.lock();
        routes.peers.remove(&self.proxy);
        if routes.proxies.get(&self.peer) == Some(&self.proxy) {
            routes.proxies.remove(&self.peer);
        }
    }
}

#[async_trait]
impl Transport for Tunnel {
    async fn open(&self, _: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let socket = ServiceSocket::open(LOOPBACK).await?;
        self.service.send_replace(Some(socket.local_addr()?));
        Ok(Box::new(Translated { socket, tunnel: self.clone() }))
    }
}

/// The membership service's socket: it thinks in peers' addresses, the socket in proxies'.
struct Translated {
    socket: ServiceSocket,
    tunnel: Tunnel,
}

#[async_trait]
impl Socket for Translated {
    fn local_addr(&self) -> anyhow::Result<SocketAddr> {
        self.socket.local_addr()
    }

    async fn send(&mut self, to: SocketAddr, envelope: ChitchatEnvelope) -> anyhow::Result<SendOutcome> {
        let proxy = self.tunnel.lock().proxies.get(&to).copied();
        let Some(proxy) = proxy else { return Ok(SendOutcome { num_bytes_sent: 0 }) };
        // A proxy that has just gone is a lost datagram, not a broken transport.
        Ok(self.socket.send(proxy, envelope).await.unwrap_or(SendOutcome { num_bytes_sent: 0 }))
    }

    async fn recv(&mut self) -> anyhow::Result<RecvOutcome> {
        loop {
            let outcome = self.socket.recv().await?;
            let peer = self.tunnel.lock().peers.get(&outcome.from_addr).copied();
            if let Some(peer) = peer {
                return Ok(RecvOutcome { from_addr: peer, ..outcome });
            }
        }
    }
}

/// Copies membership messages between one connection's stream and the service, until either ends. The dialler opens the
/// stream and sends an empty message, so that the other side sees it.
pub(super) async fn pump(
    context: &Context,
    connection: &Connection,
    dialled: bool,
    peer: SocketAddr,
) -> Result<(), FrameError> {
    let (mut send, mut recv) = if dialled { connection.open_bi().await? } else { connection.accept_bi().await? };
    if dialled {
        send.write_all(&0u32.to_le_bytes()).await?;
    }
    let lost = |_: std::io::Error| FrameError::Ended;
    let proxy = UdpSocket::bind(LOOPBACK).await.map_err(lost)?;
    let mut service = context.tunnel.service.subscribe();
    let at = service.wait_for(Option::is_some).await.map_err(|_| FrameError::Ended)?.expect("waited for it");
    // Connected, the kernel drops what other local processes send here.
    proxy.connect(at).await.map_err(lost)?;
    let _route = context.tunnel.route(peer, proxy.local_addr().map_err(lost)?);
    tokio::select! {
        result = outward(context, &proxy, &mut service, &mut send) => result,
        result = inward(context, &proxy, &mut recv) => result,
    }
}

async fn outward(
    context: &Context,
    proxy: &UdpSocket,
    service: &mut watch::Receiver<Option<SocketAddr>>,
    send: &mut SendStream,
) -> Result<(), FrameError> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX as usize];
    loop {
        tokio::select! {
            received = proxy.recv(&mut buffer) => {
                // An error here is the service's socket having gone for a moment; the next datagram tells.
                let Ok(bytes) = received else { tokio::task::yield_now().await; continue };
                let message = &buffer[..bytes];
                send.write_all(&prefix(message)).await?;
                send.write_all(message).await?;
                context.counters().membership_messages_out.add(1);
                context.counters().membership_bytes_out.add(bytes as u64);
            }
            changed = service.changed() => {
                changed.map_err(|_| FrameError::Ended)?;
                let at = *service.borrow_and_update();
                if let Some(at) = at {
                    let _ = proxy.connect(at).await;
                }
            }
        }
    }
}

async fn inward(context: &Context, proxy: &UdpSocket, recv: &mut RecvStream) -> Result<(), FrameError> {
    loop {
        let message = read_bounded(recv, MESSAGE_BYTES_MAX).await?;
        if message.is_empty() {
            continue;
        }
        if scan(&message).is_err() {
            context.counters().membership_refused.add(1);
            continue;
        }
        context.counters().membership_messages_in.add(1);
        // Loopback may be full or the service between two lives: a lost datagram, which gossip copes with.
        let _ = proxy.send(&message).await;
    }
}
