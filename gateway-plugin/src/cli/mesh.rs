//! The mesh's part of the configuration.
//!
//! Not here: binding and dialling (`covey-mesh`).

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use covey_crdt::hash::HashKey;
use covey_crdt::id::GatewayName;
use covey_mesh::net::{NetConfig, derive_hash_key, load_secret};

use super::args::{MeshArgs, Switch};
use super::error::ConfigError;
use super::worker::is_localhost;

/// How the gateway stands to other gateways.
#[derive(Clone, Debug)]
pub struct MeshSettings {
    /// The gateway's name; `alone` when the mesh is off and no name is given.
    pub name: GatewayName,
    /// The cluster's name.
    pub cluster: String,
    /// The key of block hashes.
    pub hash_key: HashKey,
    /// How peers are reached; `None` when the mesh is off.
    pub net: Option<NetConfig>,
    /// Whether a peer may be on another host.
    pub remote_peers: bool,
}

impl MeshSettings {
    /// Checks the flags and reads the files they name.
    ///
    /// # Errors
    /// [`ConfigError`] when a flag is missing or wrong, or a file is no good.
    pub fn parse(args: &MeshArgs) -> Result<Self, ConfigError> {
        if args.mesh == Switch::Off {
            let name = name("mesh-name", args.mesh_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("alone"))?;
            let cluster = args.mesh_cluster.clone();
            return Ok(Self { name, cluster, hash_key: HashKey::ZERO, net: None, remote_peers: false });
        }
        let missing = |flag, why| ConfigError::MeshNeeds { flag, why };
        let given = args.mesh_name.as_deref().filter(|name| !name.is_empty());
        let name =
            name("mesh-name", given.ok_or(missing("mesh-name", "a name for this gateway, unique in the mesh"))?)?;
        // A cluster is a name too: it stands in logs and refusals.
        GatewayName::new(&args.mesh_cluster).map_err(|why| ConfigError::Name {
            flag: "mesh-cluster",
            given: args.mesh_cluster.clone(),
            why,
        })?;
        let path = args.mesh_secret_file.as_deref().filter(|path| !path.as_os_str().is_empty());
        let path =
            path.ok_or(missing("mesh-secret-file", "a file with the secret that all gateways of the mesh share"))?;
        let secret: Arc<[u8]> = load_secret(path).map_err(ConfigError::Secret)?;
        let hash_key = match args.mesh_hash_key_file.as_deref().filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => read_hash_key(path)?,
            None => derive_hash_key(&secret),
        };
        let seeds = seeds(&args.mesh_seeds)?;
        let advertised = advertised(args)?;
        let remote_peers = !advertised.ip().is_loopback() || seeds.iter().any(|seed| is_remote(seed));
        let net = NetConfig { listen: args.mesh_listen, advertise: args.mesh_advertise, seeds, secret };
        Ok(Self { name, cluster: args.mesh_cluster.clone(), hash_key, net: Some(net), remote_peers })
    }
}

fn name(flag: &'static str, given: &str) -> Result<GatewayName, ConfigError> {
    GatewayName::new(given).map_err(|why| ConfigError::Name { flag, given: given.to_owned(), why })
}

fn advertised(args: &MeshArgs) -> Result<SocketAddr, ConfigError> {
    let (address, given) = args.mesh_advertise.map_or((args.mesh_listen, false), |address| (address, true));
    if address.ip().is_unspecified() || (given && address.port() == 0 && args.mesh_listen.port() != 0) {
        return Err(ConfigError::Advertise { address, given });
    }
    Ok(address)
}

fn seeds(given: &[String]) -> Result<Vec<String>, ConfigError> {
    let seeds: Vec<String> = given.iter().map(|seed| seed.trim().to_owned()).filter(|seed| !seed.is_empty()).collect();
    match seeds.iter().find(|seed| split_seed(seed).is_none()) {
        Some(seed) => Err(ConfigError::Seed { given: seed.clone() }),
        None => Ok(seeds),
    }
}

/// Host and port of a seed.
fn split_seed(seed: &str) -> Option<(&str, u16)> {
    let (host, port) = seed.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let sound = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '/', '[', ']', '@', ' ']),
    };
    sound.then_some((bare.unwrap_or(host), port))
}

fn is_remote(seed: &str) -> bool {
    split_seed(seed).is_some_and(|(host, _)| match host.parse::<IpAddr>() {
        Ok(ip) => !ip.is_loopback(),
        Err(_) => !is_localhost(host),
    })
}

fn read_hash_key(path: &Path) -> Result<HashKey, ConfigError> {
    let fault = |error| ConfigError::HashKey { path: path.to_owned(), error };
    let bytes = std::fs::read(path).map_err(|error| fault(Some(error)))?;
    let key = <[u8; 32]>::try_from(bytes.as_slice()).ok().or_else(|| from_hex(bytes.trim_ascii()));
    key.map(HashKey::new).filter(|key| *key != HashKey::ZERO).ok_or_else(|| fault(None))
}

fn from_hex(digits: &[u8]) -> Option<[u8; 32]> {
    if digits.len() != 64 {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}
