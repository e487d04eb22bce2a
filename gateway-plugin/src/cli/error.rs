//! What can be wrong with a configuration. Fault: the operator's, always; nothing was started, exit code 2.
//!
//! Every message says what is wrong, where it was said (flag and environment variable), and what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use covey_crdt::id::NameError;
use covey_crdt::limits::BLOCK_UNITS_MAX;
use covey_mesh::net::SecretError;

use super::events::EventsError;
use super::ranks::RanksError;
use super::session::SessionError;
use super::tokens::TokensError;

/// Why a configuration is refused.
#[derive(Debug)]
pub enum ConfigError {
    /// No `--worker`.
    NoWorker,
    /// A `--worker` that is not `[ID=]URL`.
    Worker {
        /// The text.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// Two workers under one id.
    DuplicateWorker {
        /// The id.
        id: String,
    },
    /// Two ids for one URL.
    DuplicateUrl {
        /// The first id.
        first: String,
        /// The second id.
        second: String,
        /// The URL.
        url: String,
    },
    /// A loopback URL would name different workers on different hosts.
    LoopbackWorker {
        /// The URL.
        url: String,
    },
    /// No `--model`.
    NoModel,
    /// A value that must be a name is none.
    Name {
        /// The flag, without dashes.
        flag: &'static str,
        /// The text.
        given: String,
        /// What is wrong with it.
        why: NameError,
    },
    /// A number out of its range.
    Range {
        /// The flag, without dashes.
        flag: &'static str,
        /// The number.
        given: u64,
        /// What it must be.
        must: &'static str,
    },
    /// A flag about token ids.
    Tokens(TokensError),
    /// Where events are.
    Events(EventsError),
    /// What names a session.
    Session(SessionError),
    /// Data-parallel ranks.
    Ranks(RanksError),
    /// `--block-bytes` out of range.
    BlockBytes {
        /// The number.
        given: u32,
    },
    /// `--listen` and `--admin-listen` are one address.
    SameAddress {
        /// The address.
        address: SocketAddr,
    },
    /// `--mesh on` without a flag it needs.
    MeshNeeds {
        /// The flag, without dashes.
        flag: &'static str,
        /// Why it is needed.
        why: &'static str,
    },
    /// Peers would be told an address they cannot dial.
    Advertise {
        /// The address.
        address: SocketAddr,
        /// Whether it was said, or taken from `--mesh-listen`.
        given: bool,
    },
    /// A seed that is not `HOST:PORT`.
    Seed {
        /// The text.
        given: String,
    },
    /// The secret file is no good.
    Secret(SecretError),
    /// The hash key file is no good.
    HashKey {
        /// The file.
        path: PathBuf,
        /// What the system said; `None` when the content is wrong.
        error: Option<io::Error>,
    },
    /// `--test-hooks` where others than this host could reach them.
    TestHooks {
        /// `--admin-listen`.
        address: SocketAddr,
    },
    /// A flag whose feature is not part of this build.
    NotBuilt {
        /// The flag, without dashes.
        flag: &'static str,
        /// The cargo feature.
        feature: &'static str,
    },
    /// `--otlp-endpoint` is no URL that can be sent to.
    Endpoint {
        /// The text.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// `--otlp-sample` is no share.
    Sample {
        /// The number.
        given: f64,
    },
    /// The log filter does not parse.
    LogFilter {
        /// The text.
        given: String,
        /// What is wrong with it.
        why: String,
    },
}

/// How a flag is named to operators: `--block-bytes (COVEY_BLOCK_BYTES)`.
pub(super) fn named(flag: &str) -> String {
    format!("--{flag} (COVEY_{})", flag.to_uppercase().replace('-', "_"))
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorker => {
                write!(
                    f,
                    "{}: no worker is given; name at least one, such as --worker w0=http://10.0.0.7:8000",
                    named("worker")
                )
            }
            Self::Worker { given, why } => write!(f, "{}: {given:?} is not [ID=]URL: {why}", named("worker")),
            Self::DuplicateWorker { id } => {
                write!(f, "{}: two workers are called {id:?}; give each its own id: --worker ID=URL", named("worker"))
            }
            Self::DuplicateUrl { first, second, url } => write!(
                f,
                "{}: {first:?} and {second:?} are both {url}; one engine is one worker: remove one of them",
                named("worker")
            ),
            Self::LoopbackWorker { url } => write!(
                f,
                "{}: {url} means another engine on every host, and the mesh has peers elsewhere; \
                 give the worker an id that is unique in the mesh (--worker ID={url}) or a URL that all hosts share",
                named("worker")
            ),
            Self::NoModel => {
                write!(f, "{}: no model is given; name what the workers serve, such as --model NAME", named("model"))
            }
            Self::Name { flag, given, why } => write!(f, "{}: {given:?} cannot be used: {why}", named(flag)),
            Self::Range { flag, given, must } => {
                write!(f, "{}: {given} cannot be used: it must be {must}", named(flag))
            }
            Self::Tokens(error) => error.fmt(f),
            Self::Events(error) => error.fmt(f),
            Self::Ranks(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
            Self::BlockBytes { given } => write!(
                f,
                "{}: a block cannot have {given} bytes; choose 1 to {BLOCK_UNITS_MAX} (256 is usual), the same on every gateway",
                named("block-bytes")
            ),
            Self::SameAddress { address } => write!(
                f,
                "{} and {} are both {address}; give them different ports",
                named("listen"),
                named("admin-listen")
            ),
            Self::MeshNeeds { flag, why } => write!(f, "--mesh on (COVEY_MESH) needs {}: {why}", named(flag)),
            Self::Advertise { address, given: true } => write!(
                f,
                "{}: peers cannot dial {address}; give the address and port at which they reach this host",
                named("mesh-advertise")
            ),
            Self::Advertise { address, given: false } => write!(
                f,
                "{}: {address} does not say how peers reach this host; add {} with an address and port that they can dial",
                named("mesh-listen"),
                named("mesh-advertise")
            ),
            Self::Seed { given } => {
                write!(f, "{}: {given:?} is not HOST:PORT ([..] around IPv6 addresses)", named("mesh-seeds"))
            }
            Self::Secret(error) => write!(f, "{}: {error}", named("mesh-secret-file")),
            Self::HashKey { path, error: Some(error) } => {
                write!(f, "{}: cannot read {}: {error}", named("mesh-hash-key-file"), path.display())
            }
            Self::HashKey { path, error: None } => write!(
                f,
                "{}: {} must hold 64 hex digits (or 32 raw bytes), not all zero; make one with: openssl rand -hex 32",
                named("mesh-hash-key-file"),
                path.display()
            ),
            Self::TestHooks { address } => write!(
                f,
                "--test-hooks: whoever reaches {address} could break the mesh; leave the flag out, or put {} on loopback",
                named("admin-listen")
            ),
            Self::NotBuilt { flag, feature } => write!(
                f,
                "{}: this covey was built without it; build it with \
                 `cargo build --release -p covey-gateway-plugin --bin covey --features {feature}`, or leave the flag out",
                named(flag)
            ),
            Self::Endpoint { given, why } => write!(
                f,
                "{}: {given:?} cannot be sent to: {why}; give the collector's OTLP/HTTP address, such as http://127.0.0.1:4318",
                named("otlp-endpoint")
            ),
            Self::Sample { given } => {
                write!(f, "{}: {given} is no share; give a number from 0 to 1", named("otlp-sample"))
            }
            Self::LogFilter { given, why } => {
                write!(
                    f,
                    "{}: {given:?} is no filter: {why}; write info, debug or a list such as info,covey_mesh=debug",
                    named("log")
                )
            }
        }
    }
}

impl std::error::Error for ConfigError {}
