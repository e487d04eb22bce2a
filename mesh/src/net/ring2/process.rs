//! One simulated gateway process: the real driver as a task, and a supervisor that does what the watchdog does with
//! threads: a life that ends is followed by the next, one that stalls is superseded.
//!
//! Not here: the watchdog itself (it starts threads; the integration tests have it), when a process is harmed (`script`).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument, info_span};

use super::dice::Dice;
use super::ground::{Directory, Hearsay, VirtualGround};
use super::network::Network;
use super::socket::Gates;
use crate::input::Load;
use crate::net::driver::{self, Exit, Setup};
use crate::net::ground::{Ground, random_life};
use crate::net::mesh::{Ending, LifeState, Mesh, Shared};
use crate::net::start::base;
use crate::net::{Host, MeshConfig, NetConfig, derive_hash_key};
use crate::node::NodeConfig;
use crate::note::{Drop, Note};
use crate::output::FeedOrder;

pub(super) const SECRET: [u8; 32] = [42; 32];
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A life that did not last this long is not followed at once.
const BACKOFF: Duration = Duration::from_millis(50);

/// What everybody in one world shares.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) network: Network,
    pub(super) directory: Directory,
    pub(super) start: Instant,
    pub(super) droppers: Droppers,
}

/// How a process is started.
#[derive(Clone)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) seeds: Vec<SocketAddr>,
    pub(super) secret: [u8; 32],
    pub(super) wall_offset_ms: i64,
    pub(super) hearsay: Hearsay,
    /// Which start of this gateway it is: another one has other chance.
    pub(super) nth: u64,
}

/// A running process.
pub(super) struct Process {
    pub(super) wish: Wish,
    pub(super) mesh: Mesh,
    pub(super) ground: Arc<VirtualGround>,
    pub(super) shared: Arc<Shared>,
    /// Every life's end, in order.
    pub(super) exits: Arc<Mutex<Vec<Exit>>>,
    scene: Scene,
    supervisor: JoinHandle<()>,
}

/// One life's loop. When dropped, everything of it ends as it stands, as it does when a thread drops its runtime.
struct Owned(JoinHandle<Exit>, Gates);

impl std::ops::Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
        self.1.quic.end();
    }
}

/// The lives whose node dropped something that it was handed, as it may: for a worker it has not heard of, say.
pub(super) type Droppers = Arc<Mutex<BTreeSet<LifeId>>>;

struct Listener {
    life: LifeId,
    droppers: Droppers,
}

impl Host for Listener {
    fn changed(&mut self, _: Change) {}
    fn load(&mut self, _: LifeId, _: &WorkerId, _: Option<Load>) {}
    fn note(&mut self, note: &Note) {
        // A probe that comes a second time is no loss.
        if matches!(note, Note::Dropped { why } if *why != Drop::Incarnation) {
            self.droppers.lock().expect("no panic inside").insert(self.life);
        }
    }
    fn feed(&mut self, _: FeedOrder) {}
    fn publish(&mut self) -> Option<Duration> {
        None
    }
    fn sample_load(&mut self, _: &mut Vec<(WorkerId, Load)>) {}
}

impl Process {
    /// Starts a process in the scene. Its port must be free.
    pub(super) fn start(scene: &Scene, wish: Wish) -> Self {
        let ground = Arc::new(ground(scene, &wish));
        let setup = parts(scene, &wish, &ground);
        let base = setup.base.as_ref().expect("the mesh is on");
        let mesh = Mesh::new(Arc::clone(&setup.shared), Some(base.bound), Some(base.advertised));
        let (shared, exits) = (Arc::clone(&setup.shared), Arc::new(Mutex::new(Vec::new())));
        scene.directory.enter(wish.address, Arc::clone(&shared));
        let supervisor = Supervisor { setup, ground: Arc::clone(&ground), exits: Arc::clone(&exits) };
        let supervisor = spawn_local(supervisor.run());
        Self { wish, mesh, ground, shared, exits, scene: scene.clone(), supervisor }
    }

    /// What a process is made of, without the loop.
    pub(super) fn parts(scene: &Scene, wish: Wish) -> Setup {
        let ground = Arc::new(ground(scene, &wish));
        parts(scene, &wish, &ground)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.wish.address
    }

    /// The process is gone, without a word.
    pub(super) fn crash(self) -> Wish {
        self.scene.network.unplug(self.wish.address);
        self.scene.directory.strike(self.wish.address);
        self.supervisor.abort();
        self.wish
    }

    /// It says goodbye and ends.
    pub(super) async fn leave(self) -> Wish {
        self.scene.directory.strike(self.wish.address);
        self.shared.end(Ending::Leave);
        timeout(Duration::from_secs(3), self.supervisor).await.expect("a goodbye is bounded").expect("no panic inside");
        self.scene.network.unplug(self.wish.address);
        self.wish
    }

    /// Its loop stands still, and with `whole` QUIC, too, until the gates are opened.
    pub(super) fn stall(&self, whole: bool) -> Gates {
        let gates = self.ground.gates();
        gates.turns.shut();
        if whole {
            gates.quic.shut();
        }
        gates
    }

    /// Names of the peers with a link, sorted, and how long each has been up, in milliseconds.
    pub(super) fn linked(&self) -> Vec<(String, u64)> {
        let mut linked: Vec<_> = self.mesh.metrics().links.into_iter().map(|link| (link.name, link.up_ms)).collect();
        linked.sort();
        linked
    }
}

fn ground(scene: &Scene, wish: &Wish) -> VirtualGround {
    VirtualGround {
        network: scene.network.clone(),
        directory: scene.directory.clone(),
        address: wish.address,
        wall_offset_ms: wish.wall_offset_ms,
        hearsay: Arc::new(Mutex::new(wish.hearsay)),
        gates: Mutex::default(),
        start: scene.start,
        dice: Mutex::new(Dice::new(scene.seed, &format!("{} {}", wish.name, wish.nth))),
    }
}

fn parts(scene: &Scene, wish: &Wish, ground: &Arc<VirtualGround>) -> Setup {
    let config = config(wish, &scene.droppers);
    let ground: Arc<dyn Ground> = Arc::clone(ground) as Arc<dyn Ground>;
    let base = base(&*ground, config.net.as_ref().expect("the mesh is on")).expect("the port is free");
    let first = LifeState::new(random_life(&*ground), config.node.name.as_str(), ground.mono());
    let shared = Arc::new(Shared::new(ground, Arc::new(first)));
    let state = shared.current.load_full();
    Setup { config: Arc::new(config), base: Some(Arc::new(base)), shared, state }
}

fn config(wish: &Wish, droppers: &Droppers) -> MeshConfig {
    let droppers = Arc::clone(droppers);
    let make_host = move |life| Box::new(Listener { life, droppers: Arc::clone(&droppers) }) as Box<dyn Host>;
    let node = NodeConfig {
        name: GatewayName::new(&wish.name).expect("a name"),
        cluster: "ring2".into(),
        key_id: derive_hash_key(&wish.secret).id(),
        block_bytes: 256,
        placement_idle_ms: 3_600_000,
        expect_peers: !wish.seeds.is_empty(),
    };
    let net = NetConfig {
        listen: wish.address,
        advertise: None,
        seeds: wish.seeds.iter().map(ToString::to_string).collect(),
        secret: Arc::from(wish.secret),
    };
    MeshConfig::new(node, Some(net), Arc::new(make_host))
}

struct Supervisor {
    setup: Setup,
    ground: Arc<VirtualGround>,
    exits: Arc<Mutex<Vec<Exit>>>,
}

impl Supervisor {
    async fn run(mut self) {
        let mut stuck: Vec<Owned> = Vec::new();
        loop {
            let (setup, gates) = (self.life(), self.ground.renew_gates());
            let span = info_span!("gateway", name = %setup.config.node.name);
            let task = spawn_local(gates.turns.guard(async move { driver::run(&setup).instrument(span).await }));
            let mut life = Owned(task, gates);
            let exit = self.watch(&mut life).await;
            self.setup.state.supersede();
            let reborn = match exit {
                Some(Exit::Ended) => return self.note(Exit::Ended),
                Some(exit) => {
                    let reborn = matches!(exit, Exit::Reborn(_));
                    self.note(exit);
                    reborn
                }
                None => {
                    self.setup.shared.counters.restarts_stalled.add(1);
                    stuck.push(life);
                    false
                }
            };
            stuck.retain(|life| !life.0.is_finished());
            if !reborn {
                sleep(BACKOFF).await;
            }
            let ground = &*self.setup.shared.ground;
            let next = LifeState::new(random_life(ground), self.setup.config.node.name.as_str(), ground.mono());
            self.setup.state = Arc::new(next);
            self.setup.shared.current.store(Arc::clone(&self.setup.state));
        }
    }

    fn note(&self, exit: Exit) {
        self.exits.lock().expect("no panic inside").push(exit);
    }

    fn life(&self) -> Setup {
        Setup {
            config: Arc::clone(&self.setup.config),
            base: self.setup.base.clone(),
            shared: Arc::clone(&self.setup.shared),
            state: Arc::clone(&self.setup.state),
        }
    }

    /// How the life ended; `None` when it stalled.
    async fn watch(&self, life: &mut Owned) -> Option<Exit> {
        loop {
            if let Ok(ended) = timeout(LOOK_EVERY, &mut life.0).await {
                return Some(ended.expect("the driver does not panic"));
            }
            let now = self.setup.shared.ground.mono();
            if self.setup.state.silent_for(now) >= self.setup.config.stall_after {
                return None;
            }
        }
    }
}
