//! Starting gateways on loopback and waiting, with a bound, for what they should come to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use covey_crdt::change::Change;
use covey_crdt::hash::HashKey;
use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::net::{Host, Mesh, MeshConfig, NetConfig, derive_hash_key, start};
use covey_mesh::node::NodeConfig;
use covey_mesh::note::Note;
use covey_mesh::output::FeedOrder;

pub(crate) const SECRET: [u8; 32] = [42; 32];

/// What a host saw, and what it is to do wrong.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) lives: Mutex<Vec<LifeId>>,
    pub(crate) changes: Mutex<Vec<Change>>,
    pub(crate) loads: Mutex<Vec<(LifeId, WorkerId, Option<Load>)>>,
    pub(crate) notes: Mutex<Vec<Note>>,
    pub(crate) publishes: AtomicU64,
    pub(crate) load: Mutex<Vec<(WorkerId, Load)>>,
    /// The next publication panics.
    pub(crate) panic: AtomicBool,
    /// The next publication takes this many milliseconds.
    pub(crate) stall_ms: AtomicU64,
    /// The life that last published.
    pub(crate) publisher: Mutex<Option<LifeId>>,
}

struct TestHost {
    life: LifeId,
    seen: Arc<Seen>,
}

impl Host for TestHost {
    fn changed(&mut self, change: Change) {
        self.seen.changes.lock().expect("no panic inside").push(change);
    }

    fn load(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>) {
        self.seen.loads.lock().expect("no panic inside").push((life, worker.clone(), load));
    }

    fn note(&mut self, note: &Note) {
        self.seen.notes.lock().expect("no panic inside").push(note.clone());
    }

    fn feed(&mut self, _: FeedOrder) {}
    fn publish(&mut self) -> Option<Duration> {
        if self.seen.panic.swap(false, Ordering::SeqCst) {
            panic!("the host panics because a test wants it to");
        }
        let stall_ms = self.seen.stall_ms.swap(0, Ordering::SeqCst);
        if stall_ms > 0 {
            std::thread::sleep(Duration::from_millis(stall_ms));
        } else {
            self.seen.publishes.fetch_add(1, Ordering::SeqCst);
            *self.seen.publisher.lock().expect("no panic inside") = Some(self.life);
        }
        None
    }

    fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>) {
        out.extend(self.seen.load.lock().expect("no panic inside").iter().cloned());
    }
}

/// One gateway's mesh half, stopped when dropped.
pub(crate) struct Gateway {
    pub(crate) mesh: Mesh,
    pub(crate) seen: Arc<Seen>,
}

impl Gateway {
    pub(crate) fn address(&self) -> SocketAddr {
        self.mesh.bound_address().expect("the mesh is on")
    }

    /// Names of the peers with a link, sorted.
    pub(crate) fn linked(&self) -> Vec<String> {
        let mut names: Vec<String> = self.mesh.metrics().links.into_iter().map(|link| link.name).collect();
        names.sort();
        names
    }
}

pub(crate) fn net(seeds: &[SocketAddr]) -> NetConfig {
    NetConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise: None,
        seeds: seeds.iter().map(ToString::to_string).collect(),
        secret: Arc::from(SECRET),
    }
}

pub(crate) fn config(name: &str, key: &HashKey, net: Option<NetConfig>) -> (MeshConfig, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let node = NodeConfig {
        name: GatewayName::new(name).expect("a name"),
        cluster: "test".into(),
        key_id: key.id(),
        block_bytes: 256,
        placement_idle_ms: 3_600_000,
        expect_peers: net.as_ref().is_some_and(|net| !net.seeds.is_empty()),
    };
    let hosts = Arc::clone(&seen);
    let make_host = move |life| {
        hosts.lives.lock().expect("no panic inside").push(life);
        Box::new(TestHost { life, seen: Arc::clone(&hosts) }) as Box<dyn Host>
    };
    (MeshConfig::new(node, net, Arc::new(make_host)), seen)
}

pub(crate) fn gateway_with(name: &str, net: NetConfig) -> Gateway {
    let key = derive_hash_key(&net.secret);
    let (config, seen) = config(name, &key, Some(net));
    Gateway { mesh: start(config).expect("starts"), seen }
}

pub(crate) fn gateway(name: &str, seeds: &[SocketAddr]) -> Gateway {
    gateway_with(name, net(seeds))
}

/// Waits until `reached` says yes; panics with `what` after `bound`. Returns how long it took.
#[track_caller]
pub(crate) fn wait_for(what: &str, bound: Duration, mut reached: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !reached() {
        assert!(started.elapsed() < bound, "not within {bound:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    started.elapsed()
}

pub(crate) const SOON: Duration = Duration::from_secs(10);
