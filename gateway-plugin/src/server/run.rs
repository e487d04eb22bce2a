//! Starting a gateway, and stopping it without losing a request.
//!
//! Not here: what it does in between.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use covey_mesh::net::{MeshConfig, StartError};
use covey_mesh::node::NodeConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::{info, warn};

use super::gateway::Gateway;
use super::test_hooks::TestHooks;
use super::{health, ingest, note_log, routes, upstream, watch_mesh};
use crate::admin;
use crate::cli::Config;
use crate::dashboard::Reel;
use crate::plugin::{Plugin, PluginConfig};

/// How long saying goodbye to the mesh may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a gateway could not be started. Nothing runs.
#[derive(Debug)]
pub enum RunError {
    /// An address cannot be bound.
    Listen {
        /// The flag, without dashes.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The mesh member could not be started.
    Mesh(StartError),
    /// The HTTP client could not be made. Fault: the system's TLS set-up.
    Client(reqwest::Error),
    /// No signal handler or runtime could be made.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { flag, address, error } if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "--{flag}: {address} is in use: stop what listens there, or choose another port")
            }
            Self::Listen { flag, address, error } => write!(f, "--{flag}: cannot listen on {address}: {error}"),
            Self::Mesh(error @ StartError::Listen { .. }) => write!(f, "--mesh-listen: {error}"),
            Self::Mesh(error @ StartError::AdvertiseWildcard { .. }) => write!(f, "--mesh-advertise: {error}"),
            Self::Mesh(error) => write!(f, "cannot start the mesh: {error}"),
            Self::Client(error) => write!(f, "cannot make the HTTP client: {error}"),
            Self::System(error) => write!(f, "the system refused: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

/// A gateway that is running.
pub struct Running {
    gateway: Arc<Gateway>,
    reel: Arc<Reel>,
    listen: SocketAddr,
    admin_listen: SocketAddr,
    stop: watch::Sender<bool>,
    stop_admin: watch::Sender<bool>,
    clients: JoinHandle<io::Result<()>>,
    admin: JoinHandle<io::Result<()>>,
    watchers: JoinSet<()>,
}

/// Starts a gateway on the current runtime.
///
/// # Errors
/// [`RunError`] when an address is taken or the mesh cannot be started.
pub async fn start(config: Config) -> Result<Running, RunError> {
    let clients = bind("listen", config.listen).await?;
    let admin_listener = bind("admin-listen", config.admin_listen).await?;
    let client = upstream::client(&config.timeouts).map_err(RunError::Client)?;
    let seed = xxhash_rust::xxh3::xxh3_64(format!("{}{}", config.mesh.name, std::process::id()).as_bytes());
    let plugin = Arc::new(Plugin::new(&PluginConfig { policy: config.policy, seed, ..PluginConfig::default() }));
    let hooks = config.test_hooks.then(TestHooks::default);
    if hooks.is_some() {
        warn!("--test-hooks: the admin port can break the mesh thread");
    }
    let (ears, hearing) = ingest::Ears::new(&config.events);
    if !config.events.is_empty() {
        plugin.ingest_with(ears);
    }
    let mesh = covey_mesh::net::start(mesh_config(&config, &plugin, hooks.as_ref())).map_err(RunError::Mesh)?;
    plugin.connect(mesh.clone());
    for worker in &config.workers {
        plugin.worker_seen(&worker.id);
    }
    let listen = clients.local_addr().map_err(RunError::System)?;
    let admin_listen = admin_listener.local_addr().map_err(RunError::System)?;
    for (model, tokenizer) in &config.tokens.tokenizers {
        for warning in tokenizer.warnings() {
            warn!(%model, "--tokenizer: {warning}");
        }
    }
    let gateway = Arc::new(Gateway::new(config, plugin, mesh, client));
    let mut watchers = JoinSet::new();
    for address in gateway.workers().addresses() {
        watchers.spawn(health::watch(Arc::clone(&gateway), address.to_vec()));
        watchers.spawn(health::watch_cache(Arc::clone(&gateway), address.to_vec()));
    }
    if !gateway.config().events.is_empty() {
        watchers.spawn(ingest::run(Arc::clone(&gateway), hearing));
    }
    let reel = Arc::new(Reel::default());
    watchers.spawn(watch_mesh::film(Arc::clone(&gateway), Arc::clone(&reel)));
    let (stop, stop_admin) = (watch::Sender::new(false), watch::Sender::new(false));
    let clients = serve(clients, routes::router(Arc::clone(&gateway)), &stop);
    let admin = serve(admin_listener, admin::router(Arc::clone(&gateway), &reel, hooks), &stop_admin);
    Ok(Running { gateway, reel, listen, admin_listen, stop, stop_admin, clients, admin, watchers })
}

fn mesh_config(config: &Config, plugin: &Arc<Plugin>, hooks: Option<&TestHooks>) -> MeshConfig {
    let net = config.mesh.net.clone();
    let node = NodeConfig {
        name: config.mesh.name.clone(),
        cluster: config.mesh.cluster.clone(),
        key_id: config.mesh.hash_key.id(),
        block_bytes: config.block_bytes,
        placement_idle_ms: u64::try_from(config.placement_idle.as_millis()).unwrap_or(u64::MAX),
        expect_peers: net.as_ref().is_some_and(|net| !net.seeds.is_empty()),
    };
    let make_host = note_log::logging(plugin.make_host());
    let make_host = hooks.map_or_else(|| Arc::clone(&make_host), |hooks| hooks.breaking(Arc::clone(&make_host)));
    MeshConfig::new(node, net, make_host)
}

async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|error| RunError::Listen { flag, address, error })
}

fn serve(listener: TcpListener, router: Router, stop: &watch::Sender<bool>) -> JoinHandle<io::Result<()>> {
    let mut stopped = stop.subscribe();
    let listener = listener.tap_io(|stream| {
        // Without it a streamed answer's pieces wait for acknowledgements; failing to set it only costs latency.
        let _ = stream.set_nodelay(true);
    });
    tokio::spawn(async move {
        let until = async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        axum::serve(listener, router).with_graceful_shutdown(until).await
    })
}

impl Running {
    /// The gateway.
    #[must_use]
    pub const fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Where clients connect.
    #[must_use]
    pub const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where operators connect.
    #[must_use]
    pub const fn admin_listen(&self) -> SocketAddr {
        self.admin_listen
    }

    /// One line that says what runs where.
    #[must_use]
    pub fn banner(&self) -> String {
        let config = self.gateway.config();
        let mesh = match self.gateway.mesh().bound_address() {
            None => "mesh off".to_owned(),
            Some(bound) => {
                let told = self.gateway.mesh().advertised_address().unwrap_or(bound);
                format!("mesh {} as {} on udp {bound} (peers dial {told})", config.mesh.cluster, config.mesh.name)
            }
        };
        let models: Vec<_> = config.models.iter().map(|model| model.as_str()).collect();
        format!(
            "covey gateway: clients http://{}, admin http://{}, {mesh}, policy {}, {} workers, models {}",
            self.listen,
            self.admin_listen,
            config.policy,
            config.workers.len(),
            models.join(" ")
        )
    }

    /// Stops: no new connections, requests under way are finished within the drain time, the mesh is told goodbye.
    /// `true` when no request had to be cut off.
    pub async fn stop(mut self) -> bool {
        self.gateway.drain();
        self.stop.send_replace(true);
        let drained = timeout(self.gateway.config().timeouts.drain, &mut self.clients).await.is_ok();
        if !drained {
            let left = self.gateway.counters().in_flight();
            warn!(requests = left, "the drain time is over: cutting off what is left");
            self.clients.abort();
            let _ = (&mut self.clients).await;
        }
        self.watchers.shutdown().await;
        let mesh = self.gateway.mesh().clone();
        if !tokio::task::spawn_blocking(move || mesh.leave(LEAVE_TIMEOUT)).await.unwrap_or(false) {
            warn!("saying goodbye to the mesh took too long");
        }
        self.reel.close();
        self.stop_admin.send_replace(true);
        if timeout(Duration::from_secs(1), &mut self.admin).await.is_err() {
            self.admin.abort();
        }
        drained
    }
}

/// Runs a gateway until SIGTERM or SIGINT, then stops it. `started` is called with the banner.
///
/// # Errors
/// [`RunError`] when it could not be started.
pub async fn run(config: Config, started: impl FnOnce(&str)) -> Result<(), RunError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::System)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::System)?;
    let running = start(config).await?;
    started(&running.banner());
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    info!(signal = name, requests = running.gateway().counters().in_flight(), "stopping: finishing requests under way");
    tokio::select! {
        drained = running.stop() => info!(drained, "stopped"),
        _ = terminate.recv() => warn!("stopping at once: a second signal"),
        _ = interrupt.recv() => warn!("stopping at once: a second signal"),
    }
    Ok(())
}
