//! The membership service, chitchat: who is a live member, and where it can be dialled. Nothing else is asked of it: its
//! messages grow with its keys, and every key goes to everybody.
//!
//! Not here: its messages' way to the peers (`tunnel`), folding generations (`members`). It is started anew, under a
//! higher generation, whenever it ends: a peer can make it panic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chitchat::{
    Chitchat, ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, NodeState, ProtocolVersion,
    spawn_chitchat,
};
use covey_crdt::id::LifeId;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::context::Context;
use super::members::{Entry, MemberChange, Members};
use super::transport::canonical;
use crate::input::{Member, MonoTime};

const GOSSIP_EVERY: Duration = Duration::from_millis(200);
const INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Both graces: longer ones let digests outgrow a message in a churning mesh.
const GRACE: Duration = Duration::from_secs(900);
const SAMPLES: usize = 1_000;
const PHI: f64 = 8.0;
/// How often peers that are linked but unknown to the service are introduced to it.
const INTRODUCE_EVERY: Duration = Duration::from_millis(250);
/// How long a service that was started anew takes nobody away.
const SETTLE_MS: u64 = 3_000;
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Changes waiting for the loop.
pub(super) const MEMBERS_MAX: usize = 256;

const LIFE_KEY: &str = "life";

/// Runs the service for one life, for ever; ends only when the loop is gone.
pub(super) async fn run(context: Arc<Context>, cluster: String, out: mpsc::Sender<Member>) {
    let mut members = Members::default();
    let mut floor = 0;
    let mut first = true;
    loop {
        let generation = context.shared.ground.wall().0.max(floor + 1);
        floor = generation;
        match spawn_chitchat(config(&context, &cluster, generation), keys(&context), &context.tunnel).await {
            Ok(handle) => {
                let settled_at = if first { context.now() } else { context.now().plus_ms(SETTLE_MS) };
                let ended = watch(&context, &handle, &mut members, settled_at, &out).await;
                handle.abort();
                match ended {
                    Ended::LoopGone => return,
                    Ended::Service(error) => warn!(%error, "the membership service ended; starting it anew"),
                    Ended::Outlived(seen) => {
                        info!(generation, seen, "an earlier life's membership is ahead; raising the generation");
                        floor = floor.max(seen);
                    }
                }
            }
            Err(error) => warn!(%error, "the membership service does not start; trying again"),
        }
        first = false;
        context.counters().membership_restarts.add(1);
        tokio::time::sleep(RESTART_AFTER).await;
    }
}

fn config(context: &Context, cluster: &str, generation: u64) -> ChitchatConfig {
    ChitchatConfig {
        chitchat_id: ChitchatId::new(context.me.name.as_str(), generation, context.advertised),
        cluster_id: cluster.to_owned(),
        gossip_interval: GOSSIP_EVERY,
        listen_addr: context.advertised,
        seed_nodes: Vec::new(),
        failure_detector_config: FailureDetectorConfig::new(PHI, SAMPLES, INTERVAL_MAX, GOSSIP_EVERY, GRACE),
        marked_for_deletion_grace_period: GRACE,
        catchup_callback: None,
        extra_liveness_predicate: None,
        protocol_version: ProtocolVersion::V1,
    }
}

fn keys(context: &Context) -> Vec<(String, String)> {
    vec![(LIFE_KEY.to_owned(), context.me.life.to_string())]
}

/// Why watching ended.
enum Ended {
    LoopGone,
    Service(String),
    /// The service knows a generation of this gateway's name at least as high as the present one.
    Outlived(u64),
}

async fn watch(
    context: &Context,
    handle: &ChitchatHandle,
    members: &mut Members,
    settled_at: MonoTime,
    out: &mpsc::Sender<Member>,
) -> Ended {
    let terminated = handle.termination_watcher();
    tokio::pin!(terminated);
    let mut live = handle.with_chitchat(|chitchat| chitchat.live_nodes_watcher()).await;
    let mut introduce = interval(INTRODUCE_EVERY);
    introduce.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            ended = &mut terminated => {
                // Its own text may hold a back-trace; the first line says what happened.
                let text = ended.map_or_else(|error| error.to_string(), |()| "shut down".to_owned());
                return Ended::Service(text.lines().next().unwrap_or_default().to_owned());
            }
            changed = live.changed() => if changed.is_err() {
                return Ended::Service("its watcher is gone".to_owned());
            },
            _ = introduce.tick() => {
                if let Some(seen) = introduce_peers(context, handle).await {
                    return Ended::Outlived(seen);
                }
            }
        }
        let entries: Vec<Entry> =
            live.borrow_and_update().iter().filter_map(|(id, state)| entry(context, id, state)).collect();
        for change in members.update(&entries, context.now() >= settled_at) {
            if tell(context, change, out).await.is_err() {
                return Ended::LoopGone;
            }
        }
        context.counters().members_live.set(members.len() as u64);
    }
}

fn entry(context: &Context, id: &ChitchatId, state: &NodeState) -> Option<Entry> {
    let life = state.get(LIFE_KEY).and_then(|hex| u128::from_str_radix(hex, 16).ok()).map(LifeId);
    let own = *id.node_id == *context.me.name.as_str();
    (!own).then(|| Entry {
        name: Arc::clone(&id.node_id),
        generation: id.generation_id,
        life,
        address: canonical(id.gossip_advertise_addr),
    })
}

/// Passes a change on: to the dialling plan and to the loop. `Err`: the loop is gone.
pub(super) async fn tell(context: &Context, change: MemberChange, out: &mpsc::Sender<Member>) -> Result<(), ()> {
    let now = context.now();
    let member = match change {
        MemberChange::Up(life, address) => {
            context.plan().learned(life, address, now);
            context.replan.notify_one();
            Member::Up(life)
        }
        MemberChange::Down(life) => {
            context.plan().gone(life, now);
            Member::Down(life)
        }
    };
    out.send(member).await.map_err(|_| ())
}

/// Gossips with linked peers that the service does not know yet: it has no seeds of its own. Returns a generation of
/// this gateway's own name that the present one does not exceed, if the service has heard of one that is dead or at
/// this very address: an earlier life whose clock was ahead.
async fn introduce_peers(context: &Context, handle: &ChitchatHandle) -> Option<u64> {
    let peers = context.tunnel.peers();
    let (unknown, outlived) = handle
        .with_chitchat(|chitchat| {
            let known: Vec<SocketAddr> = chitchat.live_nodes().map(|id| canonical(id.gossip_advertise_addr)).collect();
            let unknown: Vec<SocketAddr> = peers.iter().copied().filter(|peer| !known.contains(peer)).collect();
            (unknown, outlived(chitchat))
        })
        .await;
    for peer in unknown {
        // An error is the service ending; its watcher says so.
        let _ = handle.gossip(peer);
    }
    outlived
}

fn outlived(chitchat: &Chitchat) -> Option<u64> {
    let own = chitchat.self_chitchat_id();
    let live: Vec<&ChitchatId> = chitchat.live_nodes().collect();
    chitchat
        .node_states()
        .keys()
        .filter(|id| id.node_id == own.node_id && *id != own && id.generation_id >= own.generation_id)
        .filter(|id| id.gossip_advertise_addr == own.gossip_advertise_addr || !live.contains(id))
        .map(|id| id.generation_id)
        .max()
}
