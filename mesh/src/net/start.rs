//! Starting a mesh member: every check that an operator can fail, before any thread runs.
//!
//! Not here: what runs then (`watchdog`, `driver`).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::ground::{Ground, System, random_life};
use super::identity::MeshCa;
use super::mesh::{LifeState, Mesh, Shared};
use super::network::Base;
use super::secret::SECRET_BYTES_MIN;
use super::transport::canonical;
use super::watchdog::Watchdog;
use super::{MeshConfig, NetConfig};

/// Why a mesh member could not be started. Nothing runs.
#[derive(Debug)]
pub enum StartError {
    /// The secret is shorter than [`SECRET_BYTES_MIN`]. Fault: configuration.
    SecretTooShort {
        /// Bytes it has.
        bytes: usize,
    },
    /// The address the peers would be told is a wildcard. Fault: configuration.
    AdvertiseWildcard {
        /// The address.
        address: SocketAddr,
        /// Whether it was given, or taken from the listening address.
        given: bool,
    },
    /// A seed is not `host:port`. Fault: configuration.
    Seed {
        /// The seed.
        seed: String,
    },
    /// The listening address cannot be bound.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The mesh identity could not be made from the secret. Fault: ours.
    Identity {
        /// What failed.
        error: String,
    },
    /// No thread could be started.
    Thread {
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecretTooShort { bytes } => write!(
                f,
                "the mesh secret has {bytes} bytes, it needs at least {SECRET_BYTES_MIN} random ones; \
                 make one with: (umask 077; head -c 32 /dev/urandom | base64 > FILE)"
            ),
            Self::AdvertiseWildcard { address, given: true } => write!(
                f,
                "cannot advertise {address}: peers cannot dial a wildcard; advertise an address of this host that they reach"
            ),
            Self::AdvertiseWildcard { address, given: false } => write!(
                f,
                "listening on {address} does not say how peers reach this gateway; \
                 either listen on one address of this host or give the address to advertise"
            ),
            Self::Seed { seed } => {
                write!(f, "seed {seed:?} is not HOST:PORT (a name or an address, [..] around IPv6 addresses)")
            }
            Self::Listen { address, error } if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "UDP address {address} is in use: is another gateway running on this host?")
            }
            Self::Listen { address, error } => write!(f, "cannot listen on UDP address {address}: {error}"),
            Self::Identity { error } => write!(f, "cannot make the mesh identity: {error}"),
            Self::Thread { error } => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Starts a mesh member and returns at once; it finds its peers on its own threads.
///
/// # Errors
/// [`StartError`] when the configuration cannot work or the port is taken.
pub fn start(config: MeshConfig) -> Result<Mesh, StartError> {
    let ground: Arc<dyn Ground> = Arc::new(System::new());
    let base = config.net.as_ref().map(|net| base(&*ground, net)).transpose()?.map(Arc::new);
    let first = LifeState::new(random_life(&*ground), config.node.name.as_str(), ground.mono());
    let shared = Arc::new(Shared::new(ground, Arc::new(first)));
    let (bound, advertised) = base.as_ref().map(|base| (base.bound, base.advertised)).unzip();
    let watchdog = Watchdog { config: Arc::new(config), base, shared: Arc::clone(&shared) };
    watchdog.start().map_err(|error| StartError::Thread { error })?;
    Ok(Mesh::new(shared, bound, advertised))
}

/// Checks the configuration, takes the port and derives the mesh's authority.
pub(super) fn base(ground: &dyn Ground, net: &NetConfig) -> Result<Base, StartError> {
    check(net)?;
    let ca = MeshCa::derive(&net.secret).map_err(|error| StartError::Identity { error: error.to_string() })?;
    let refused = |error| StartError::Listen { address: net.listen, error };
    let port = ground.bind(net.listen).map_err(refused)?;
    let bound = port.address().map_err(refused)?;
    let mut advertised = net.advertise.unwrap_or(bound);
    if advertised.port() == 0 {
        advertised.set_port(bound.port());
    }
    Ok(Base { config: net.clone(), port, ca, bound: canonical(bound), advertised: canonical(advertised) })
}

fn check(net: &NetConfig) -> Result<(), StartError> {
    if net.secret.len() < SECRET_BYTES_MIN {
        return Err(StartError::SecretTooShort { bytes: net.secret.len() });
    }
    let (address, given) = net.advertise.map_or((net.listen, false), |address| (address, true));
    if address.ip().is_unspecified() {
        return Err(StartError::AdvertiseWildcard { address, given });
    }
    match net.seeds.iter().find(|seed| !is_host_port(seed)) {
        Some(seed) => Err(StartError::Seed { seed: seed.clone() }),
        None => Ok(()),
    }
}

/// Whether a text can be dialled: an address with a port, or a name with one.
fn is_host_port(seed: &str) -> bool {
    if seed.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0) {
        return true;
    }
    seed.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains([':', '/', '[', ']', ' ']) && port.parse::<u16>().is_ok_and(|port| port != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_names_or_addresses_with_a_port() {
        for good in ["10.0.0.1:7946", "[::1]:7946", "covey.ns.svc:7946", "localhost:1"] {
            assert!(is_host_port(good), "{good}");
        }
        for bad in ["", "host", "host:", ":1", "host:0", "::1", "http://h:1", "h:70000", "10.0.0.1", "[::1]"] {
            assert!(!is_host_port(bad), "{bad}");
        }
    }
}
