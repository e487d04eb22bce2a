//! A switch in user space: every datagram between two gateways of the mesh goes through it, and it can cut one of them
//! off, both ways.
//!
//! Each gateway has a *face* here, which is the address that it advertises and that the others have as a seed. What a
//! gateway sends to another's face leaves by its own face towards that other's real address. So each sees the others
//! only at their faces, whoever dialled, and answers find their way without any table but the list of gateways; which
//! pair a datagram belongs to is always known, because real addresses never reach the other side.
//!
//! Not here: when to cut (`chaos`). Datagrams of strangers are dropped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Nobody is cut off.
const NOBODY: usize = usize::MAX;
/// A whole UDP datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Pause after an error, which may be one that stays.
const AFTER_ERROR: Duration = Duration::from_millis(1);

/// A running switch; it carries until it is dropped.
#[derive(Debug)]
pub(super) struct Switch {
    ports: Arc<Ports>,
    faces: Vec<SocketAddr>,
    // Aborts its tasks when dropped.
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Ports {
    /// Where each gateway really is.
    homes: Vec<SocketAddr>,
    sockets: Vec<UdpSocket>,
    cut: AtomicUsize,
    carried: AtomicU64,
    dropped: AtomicU64,
}

impl Switch {
    /// A switch for gateways at these addresses. Must be called on a runtime.
    ///
    /// # Errors
    /// When there are no free ports.
    pub(super) async fn start(homes: Vec<SocketAddr>) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for _ in &homes {
            sockets.push(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        }
        let faces = sockets.iter().map(UdpSocket::local_addr).collect::<io::Result<_>>()?;
        let (carried, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        let ports = Arc::new(Ports { homes, sockets, cut: AtomicUsize::new(NOBODY), carried, dropped });
        let mut tasks = JoinSet::new();
        for to in 0..ports.homes.len() {
            tasks.spawn(Arc::clone(&ports).carry(to));
        }
        Ok(Self { ports, faces, _tasks: tasks })
    }

    /// Where the others find a gateway.
    pub(super) fn face(&self, gateway: usize) -> SocketAddr {
        self.faces[gateway]
    }

    /// From now on nothing passes from or to this gateway.
    pub(super) fn cut(&self, gateway: usize) {
        self.ports.cut.store(gateway, Ordering::SeqCst);
    }

    /// From now on everything passes.
    pub(super) fn heal(&self) {
        self.ports.cut.store(NOBODY, Ordering::SeqCst);
    }

    /// Datagrams carried, and datagrams that a cut took.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.ports.carried.load(Ordering::Relaxed), self.ports.dropped.load(Ordering::Relaxed))
    }
}

impl Ports {
    /// Carries what is sent to a gateway's face, for ever.
    async fn carry(self: Arc<Self>, to: usize) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let Ok((bytes, source)) = self.sockets[to].recv_from(&mut buffer).await else {
                sleep(AFTER_ERROR).await;
                continue;
            };
            let Some(from) = self.homes.iter().position(|home| *home == source) else { continue };
            let cut = self.cut.load(Ordering::SeqCst);
            if cut == from || cut == to {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            // A gateway that is not there is a lost datagram, as on any network.
            if self.sockets[from].send_to(&buffer[..bytes], self.homes[to]).await.is_ok() {
                self.carried.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    async fn heard(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 64];
        let (bytes, from) = timeout(SOON, socket.recv_from(&mut buffer)).await.expect("in time").expect("received");
        (buffer[..bytes].to_vec(), from)
    }

    #[tokio::test]
    async fn peers_see_faces_answers_find_back_and_a_cut_takes_both_ways() {
        let mut homes = Vec::new();
        for _ in 0..3 {
            homes.push(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port"));
        }
        let addresses = homes.iter().map(|home| home.local_addr().expect("bound")).collect();
        let switch = Switch::start(addresses).await.expect("free ports");
        homes[0].send_to(b"there", switch.face(1)).await.expect("sent");
        assert_eq!(heard(&homes[1]).await, (b"there".to_vec(), switch.face(0)));
        homes[1].send_to(b"back", switch.face(0)).await.expect("sent");
        assert_eq!(heard(&homes[0]).await, (b"back".to_vec(), switch.face(1)));
        switch.cut(1);
        homes[0].send_to(b"lost", switch.face(1)).await.expect("sent");
        homes[1].send_to(b"lost", switch.face(2)).await.expect("sent");
        timeout(SOON, async {
            while switch.counts() != (2, 2) {
                sleep(AFTER_ERROR).await;
            }
        })
        .await
        .expect("both ways are cut");
        homes[0].send_to(b"others", switch.face(2)).await.expect("sent");
        assert_eq!(heard(&homes[2]).await, (b"others".to_vec(), switch.face(0)));
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        stranger.send_to(b"strange", switch.face(1)).await.expect("sent");
        switch.heal();
        homes[2].send_to(b"healed", switch.face(1)).await.expect("sent");
        assert_eq!(heard(&homes[1]).await, (b"healed".to_vec(), switch.face(2)));
    }
}
