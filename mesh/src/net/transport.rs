//! QUIC: the socket, the endpoint, every bound of a connection, and what the reasons for its end mean.
//!
//! Not here: TLS (`tls`), what goes over a connection (`peer`, `framing`). Upholds I9: windows, streams, buffers and
//! handshakes under way are bounded here.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use covey_crdt::id::GatewayName;
use quinn::congestion::CubicConfig;
use quinn::{AsyncUdpSocket, ConnectionError, Endpoint, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;
use socket2::{Domain, Protocol, Socket, Type};
use tracing::info;

use super::ground::{Ground, random};
use super::metrics::LinkFailure;
use super::secret::derive;
use super::tls::Tls;

/// How long a handshake, and then the first hello, may take.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Incoming handshakes under way at once; further ones are ignored and come again.
pub(super) const HANDSHAKES_MAX: usize = 64;
/// Past this many, a stranger must first show that it receives at its address.
pub(super) const HANDSHAKES_UNPROVEN_MAX: usize = 16;

/// A link is lost when nothing came for this long. QUIC's probes on a silent path come at doubling intervals, so a path
/// that heals after a time T is noticed at 2 T, or by a redial after this time, whichever is first: at most half of it
/// later. Replicas have to agree within two seconds of a partition's end.
const IDLE: Duration = Duration::from_secs(3);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
const INITIAL_RTT: Duration = Duration::from_millis(10);
/// One stream per class, and one spare so that a second of a class is seen and refused rather than waited for.
const UNI_STREAMS: u32 = 4;
/// The membership tunnel.
const BI_STREAMS: u32 = 1;
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const RECEIVE_WINDOW_BYTES: u32 = 3 << 20;
/// Bytes of one connection that may be sent and unacknowledged; small, so that queues stay where priorities apply.
const SEND_WINDOW_BYTES: u64 = 1 << 20;
/// Where the congestion window starts: a second of a busy gateway's pushes. While it is full, quinn sends neither fresh
/// data nor acknowledgements, only probes at doubling intervals, so that two gateways that push to each other through a
/// short cut would both be silent for as long again as the cut took. With room they notice at the next exchange.
const INITIAL_WINDOW_BYTES: u64 = 256 << 10;
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
const INCOMING_MAX: usize = 256;
const INCOMING_BUFFER_BYTES: u64 = 64 << 10;
const INCOMING_BUFFERS_BYTES: u64 = 4 << 20;

/// Why a connection was closed on purpose. The numbers are wire values and never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseCode {
    /// The gateway is going away.
    Leaving = 1,
    /// Another connection of the same two lives is kept.
    Duplicate = 2,
    /// Both ends are the same gateway.
    OwnAddress = 3,
    /// Hash key or wire version differ; the reason holds the closer's protocol name.
    Mismatch = 4,
    /// The other side broke the framing, the hello or the stream rules.
    Protocol = 5,
    /// The node refused the peer; it says why in a frame of its own.
    Refused = 6,
    /// The mesh thread restarts under a new life.
    Restarting = 7,
}

impl CloseCode {
    pub(super) fn code(self) -> VarInt {
        VarInt::from_u32(self as u32)
    }
}

/// Binds the socket. It outlives lives: each endpoint works on a clone, so that the port is never given up.
pub(super) fn bind(listen: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(listen), Type::DGRAM, Some(Protocol::UDP))?;
    if listen.is_ipv6() {
        socket.set_only_v6(!listen.ip().is_unspecified())?;
    }
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_nonblocking(true)?;
    socket.bind(&listen.into())?;
    let got = socket.recv_buffer_size()?;
    if got < SOCKET_BUFFER_BYTES {
        info!(bytes = got, wanted = SOCKET_BUFFER_BYTES, "small UDP receive buffer; raise net.core.rmem_max");
    }
    Ok(socket.into())
}

/// An endpoint on one of the port's sockets. Must be called on the mesh runtime.
///
/// Connection ids and reset tokens come from the secret and the gateway's name: packets for a life that is over are
/// answered with a reset that the peer believes, so it learns of a restart at once instead of after [`IDLE`].
pub(super) fn endpoint(
    socket: Arc<dyn AsyncUdpSocket>,
    ground: &dyn Ground,
    secret: &[u8],
    name: &GatewayName,
    tls: &Tls,
) -> io::Result<Endpoint> {
    let key = derive(secret, b"covey/reset/v1", &[name.as_str().as_bytes()]);
    let mut config = EndpointConfig::new(Arc::new(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key)));
    let ids = derive(secret, b"covey/connection-id/v1", &[name.as_str().as_bytes()]);
    let ids = u64::from_le_bytes(ids[..8].try_into().expect("8 of 32 bytes"));
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
    config.rng_seed(Some(random(ground)));
    let server = Some(server_config(tls));
    Endpoint::new_with_abstract_socket(config, server, socket, ground.quic())
}

/// What incoming connections get.
pub(super) fn server_config(tls: &Tls) -> ServerConfig {
    let mut server = ServerConfig::with_crypto(Arc::clone(&tls.server) as Arc<dyn quinn::crypto::ServerConfig>);
    server
        .transport_config(Arc::new(transport_config()))
        .migration(false)
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(INCOMING_BUFFER_BYTES)
        .incoming_buffer_size_total(INCOMING_BUFFERS_BYTES);
    server
}

/// What outgoing connections get.
pub(super) fn client_config(tls: &Tls) -> quinn::ClientConfig {
    let mut client = quinn::ClientConfig::new(Arc::clone(&tls.client) as Arc<dyn quinn::crypto::ClientConfig>);
    client.transport_config(Arc::new(transport_config()));
    client
}

fn transport_config() -> TransportConfig {
    let mut congestion = CubicConfig::default();
    congestion.initial_window(INITIAL_WINDOW_BYTES);
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(IDLE.try_into().expect("seconds fit")))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .initial_rtt(INITIAL_RTT)
        .congestion_controller_factory(Arc::new(congestion))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS))
        .max_concurrent_bidi_streams(VarInt::from_u32(BI_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .datagram_receive_buffer_size(None);
    config
}

/// An address as the socket can send to it: an IPv6 socket reaches IPv4 through mapped addresses.
pub(super) fn reachable(address: SocketAddr, from: SocketAddr) -> SocketAddr {
    match (address.ip(), from.ip()) {
        (IpAddr::V4(v4), IpAddr::V6(_)) => SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}

/// An address as people write it.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// What the end of a connection means.
pub(super) fn failure(error: &ConnectionError) -> LinkFailure {
    match error {
        ConnectionError::TransportError(error) => tls_failure(error.code.into()),
        ConnectionError::ConnectionClosed(close) => tls_failure(close.error_code.into()),
        ConnectionError::ApplicationClosed(close) => match close.error_code.into_inner() {
            2 => LinkFailure::Duplicate,
            3 => LinkFailure::OwnAddress,
            4 => LinkFailure::Mismatch,
            5 => LinkFailure::Protocol,
            _ => LinkFailure::Closed,
        },
        ConnectionError::TimedOut => LinkFailure::TimedOut,
        ConnectionError::VersionMismatch => LinkFailure::Mismatch,
        ConnectionError::Reset | ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => LinkFailure::Closed,
    }
}

/// QUIC carries a TLS alert as 0x100 + its number.
fn tls_failure(code: u64) -> LinkFailure {
    match code {
        // bad, unsupported, revoked or unknown certificate; unknown authority; bad signature; none shown
        0x12a | 0x12b | 0x12c | 0x12e | 0x130 | 0x133 | 0x174 => LinkFailure::Secret,
        // expired or not valid yet
        0x12d => LinkFailure::Clock,
        // no common application protocol: not a covey gateway
        0x178 => LinkFailure::Mismatch,
        0x00..=0x01 => LinkFailure::Closed,
        // refused: it takes no connections, or none now
        0x02 => LinkFailure::Closed,
        _ => LinkFailure::Protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dual_stack_socket_reaches_both_families() {
        let v4: SocketAddr = "10.0.0.1:5".parse().expect("an address");
        let v6: SocketAddr = "[::]:7".parse().expect("an address");
        assert_eq!(reachable(v4, v6).to_string(), "[::ffff:10.0.0.1]:5");
        assert_eq!(canonical(reachable(v4, v6)), v4);
        assert_eq!(reachable(v4, v4), v4);
        assert_eq!(reachable(v6, v4), v6);
    }

    #[test]
    fn alerts_are_told_apart() {
        assert_eq!(tls_failure(0x133), LinkFailure::Secret);
        assert_eq!(tls_failure(0x130), LinkFailure::Secret);
        assert_eq!(tls_failure(0x12d), LinkFailure::Clock);
        assert_eq!(tls_failure(0x178), LinkFailure::Mismatch);
        assert_eq!(tls_failure(0x0a), LinkFailure::Protocol);
    }
}
