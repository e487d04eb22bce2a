//! The network half of one life: endpoint, context, background tasks, certificate.
//!
//! Not here: the loop (`driver`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use covey_crdt::id::LifeId;
use covey_crdt::stamp::WallMs;
use quinn::Endpoint;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use super::NetConfig;
use super::context::{Context, EVENTS_MAX, Event};
use super::ground::{Ground, Port, random, random_seed};
use super::identity::{Identity, MeshCa, REISSUE_AFTER};
use super::mesh::Shared;
use super::plan::Plan;
use super::tls::{Tls, protocol};
use super::transport::{CloseCode, client_config, endpoint, server_config};
use super::{dial, membership};
use crate::input::{Member, MonoTime};
use crate::node::NodeConfig;

/// A wall clock that moved this far against the monotonic one makes a new certificate due.
const CLOCK_STEP_MS: u64 = 600_000;

/// What all lives of one process have in common: the socket keeps the port, the authority the mesh.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) config: NetConfig,
    pub(super) port: Box<dyn Port>,
    pub(super) ca: MeshCa,
    pub(super) bound: SocketAddr,
    pub(super) advertised: SocketAddr,
}

/// The network half of one life.
pub(super) struct Network {
    pub(super) context: Arc<Context>,
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) members: mpsc::Receiver<Member>,
    base: Arc<Base>,
    endpoint: Endpoint,
    tasks: JoinSet<&'static str>,
    issued_at: (MonoTime, WallMs),
}

impl Network {
    /// Sets it up and starts dialling and accepting. Must be called on the mesh runtime. The error is for a log line.
    pub(super) fn start(
        base: &Arc<Base>,
        shared: &Arc<Shared>,
        node: &NodeConfig,
        life: LifeId,
    ) -> Result<Self, String> {
        let me = Identity { name: node.name.clone(), life };
        let protocol = protocol(node.key_id);
        let issued_at = (shared.ground.mono(), shared.ground.wall());
        let tls = tls(base, &shared.ground, &me, &protocol, issued_at.1)?;
        let endpoint =
            base.port.open().and_then(|socket| endpoint(socket, &*shared.ground, &base.config.secret, &me.name, &tls));
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let (member_sender, members) = mpsc::channel(membership::MEMBERS_MAX);
        let own = [base.bound, base.advertised];
        let plan = Plan::new(life, &own, &base.config.seeds, random_seed(&*shared.ground));
        let context = Context::new(
            me,
            (base.bound, base.advertised),
            protocol,
            Arc::clone(shared),
            event_sender,
            plan,
            client_config(&tls),
        );
        let context = Arc::new(context);
        let mut tasks = JoinSet::new();
        let (dialler, acceptor) = (Arc::clone(&context), Arc::clone(&context));
        let (dialled, accepted) = (endpoint.clone(), endpoint.clone());
        tasks.spawn(async move {
            dial::dial_all(dialler, dialled).await;
            "dialling"
        });
        tasks.spawn(async move {
            dial::accept_all(acceptor, accepted).await;
            "accepting"
        });
        let (member, cluster) = (Arc::clone(&context), node.cluster.clone());
        tasks.spawn(async move {
            member.shared.ground.membership(Arc::clone(&member), cluster, member_sender).await;
            "membership"
        });
        Ok(Self { context, events, members, base: Arc::clone(base), endpoint, tasks, issued_at })
    }

    /// Sees to what is due: a fresh certificate, and whether a background task has ended. The error names it.
    pub(super) fn tick(&mut self, now: MonoTime, wall: WallMs) -> Result<(), String> {
        if let Some(ended) = self.tasks.try_join_next() {
            return Err(match ended {
                Ok(task) => format!("{task} ended"),
                Err(error) => format!("a background task failed: {error}"),
            });
        }
        let (issued_mono, issued_wall) = self.issued_at;
        let elapsed_ms = now.since_ms(issued_mono);
        let stepped_ms = wall.0.abs_diff(issued_wall.0.saturating_add(elapsed_ms));
        if Duration::from_millis(elapsed_ms) >= REISSUE_AFTER || stepped_ms > CLOCK_STEP_MS {
            self.issued_at = (now, wall);
            match tls(&self.base, &self.context.shared.ground, &self.context.me, &self.context.protocol, wall) {
                Ok(tls) => {
                    info!("issued a fresh certificate for new connections");
                    self.endpoint.set_server_config(Some(server_config(&tls)));
                    self.context.client.store(Arc::new(client_config(&tls)));
                }
                Err(error) => warn!(error, "cannot issue a fresh certificate; keeping the old one"),
            }
        }
        Ok(())
    }

    /// Closes every connection and gives the peers a moment to hear of it.
    pub(super) async fn close(mut self, code: CloseCode, wait: Duration) {
        self.tasks.abort_all();
        self.endpoint.close(code.code(), b"");
        let _ = timeout(wait, self.endpoint.wait_idle()).await;
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.context.end_tasks();
    }
}

fn tls(base: &Base, ground: &Arc<dyn Ground>, me: &Identity, protocol: &str, wall: WallMs) -> Result<Tls, String> {
    let leaf = base.ca.issue(me, wall, random(&**ground)).map_err(|error| error.to_string())?;
    Tls::new(&base.ca, leaf, protocol, ground)
}
