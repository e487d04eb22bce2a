//! TLS for the mesh: version 1.3 only, both sides show a certificate of the mesh's own authority, no resumption, no
//! early data. The cryptography provider is named, never the process default.
//!
//! Two application protocols are offered. The first names wire version and hash key, and only it carries frames. The
//! second lets two members that differ there finish the handshake and tell each other what differs: a plain refusal
//! would look the same as a wrong secret.
//! Not here: QUIC settings (`transport`), who a peer is (`identity`).

use std::sync::Arc;
use std::time::Duration;

use covey_crdt::keyspace::HashKeyId;
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::pki_types::UnixTime;
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::ground::Ground;
use super::identity::{Identity, Leaf, MeshCa};

/// The version of how a link is used: streams, framing, hello, membership tunnel. Messages have a version of their own.
const LINK_VERSION: u32 = 1;
/// What two members speak who can only say that they differ.
const DIFFERS: &[u8] = b"covey/differs";

/// The protocol name that carries frames: wire version and hash-key id.
pub(super) fn protocol(key_id: HashKeyId) -> String {
    format!("covey/{LINK_VERSION}/{:016x}", key_id.0)
}

/// Certificates are judged by the clock that the driver reads, not by one of the library's own.
#[derive(Debug)]
struct Wall(Arc<dyn Ground>);

impl TimeProvider for Wall {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.0.wall().0)))
    }
}

/// The two halves for one certificate.
pub(super) struct Tls {
    pub(super) server: Arc<QuicServerConfig>,
    pub(super) client: Arc<QuicClientConfig>,
}

impl Tls {
    /// Builds both halves. The error text is for a log line: it means a bug or an unusable library.
    pub(super) fn new(ca: &MeshCa, leaf: Leaf, protocol: &str, ground: &Arc<dyn Ground>) -> Result<Self, String> {
        let wall = Arc::new(Wall(Arc::clone(ground)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(ca.certificate()).map_err(|e| e.to_string())?;
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|e| e.to_string())?;
        let versions = &[&rustls::version::TLS13];
        let mut server =
            ServerConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&wall) as Arc<dyn TimeProvider>)
                .with_protocol_versions(versions)
                .map_err(|e| e.to_string())?
                .with_client_cert_verifier(verifier)
                .with_single_cert(leaf.chain.clone(), leaf.key.clone_key())
                .map_err(|e| e.to_string())?;
        let mut client = ClientConfig::builder_with_details(provider, wall)
            .with_protocol_versions(versions)
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_client_auth_cert(leaf.chain, leaf.key)
            .map_err(|e| e.to_string())?;
        server.send_tls13_tickets = 0;
        client.resumption = Resumption::disabled();
        let protocols = vec![protocol.as_bytes().to_vec(), DIFFERS.to_vec()];
        server.alpn_protocols.clone_from(&protocols);
        client.alpn_protocols = protocols;
        Ok(Self {
            server: Arc::new(QuicServerConfig::try_from(server).map_err(|e| e.to_string())?),
            client: Arc::new(QuicClientConfig::try_from(client).map_err(|e| e.to_string())?),
        })
    }
}

/// Who is on the other side of a finished handshake; `None` when its certificate names no gateway.
pub(super) fn peer_identity(connection: &quinn::Connection) -> Option<Identity> {
    let chain = connection.peer_identity()?;
    let chain = chain.downcast_ref::<Vec<rustls::pki_types::CertificateDer<'static>>>()?;
    Identity::from_certificate(chain.first()?)
}

/// Whether both sides speak `protocol`; otherwise they differ in wire version or hash key.
pub(super) fn speaks(connection: &quinn::Connection, protocol: &str) -> bool {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    data.and_then(|data| data.protocol).is_some_and(|spoken| spoken == protocol.as_bytes())
}
