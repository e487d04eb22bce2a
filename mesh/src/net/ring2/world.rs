//! A world: processes on one network, what was placed through them, and what must hold at every look.
//!
//! Not here: what happens to it (`script`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, LifeId, ModelName, Token, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ground::{Directory, Hearsay};
use super::network::{Network, Paths};
use super::now;
use super::process::{Droppers, Process, SECRET, Scene, Wish};
use crate::input::Local;
use crate::limits::{HELD_OPS_MAX, LOG_BYTES_MAX};
use crate::net::derive_hash_key;
use crate::net::driver::Exit;
use crate::status::{Phase, Status};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The three send queues of a link.
const QUEUED_BYTES_MAX: u64 = (1 << 20) + (768 << 10) + (1 << 20);
/// Blocks from one chain's first hash to the next one's.
const CHAIN_STRIDE: u64 = 1_000;

/// One chain handed to a gateway.
struct Placed {
    life: LifeId,
    blocks: u64,
}

/// Everything of one seed.
pub(super) struct World {
    pub(super) scene: Scene,
    /// By number; `None` is not running.
    pub(super) processes: Vec<Option<Process>>,
    /// How to start those that are not.
    pub(super) down: BTreeMap<usize, Wish>,
    placed: Vec<Placed>,
    /// Workers besides the one of all placements, each introduced by one gateway.
    introduced: u64,
    /// Every digest ever advertised with a vector (I1).
    digests: BTreeMap<String, (String, String)>,
    carrier: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

/// The usual address of a gateway.
pub(super) fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, u8::try_from(index + 1).expect("few gateways")], 7_946))
}

impl World {
    /// A world without processes.
    pub(super) fn new(seed: u64, paths: Paths) -> Self {
        let start = now();
        let network = Network::new(seed, paths, start);
        let carrier = tokio::spawn(network.clone().carry());
        let scene = Scene { seed, network, directory: Directory::default(), start, droppers: Droppers::default() };
        Self {
            scene,
            processes: Vec::new(),
            down: BTreeMap::new(),
            placed: Vec::new(),
            introduced: 0,
            digests: BTreeMap::new(),
            carrier,
        }
    }

    /// A world of gateways that know each other's addresses.
    pub(super) fn of(seed: u64, paths: Paths, gateways: usize) -> Self {
        let mut world = Self::new(seed, paths);
        for index in 0..gateways {
            let seeds: Vec<usize> = (0..gateways).filter(|other| *other != index).collect();
            world.start(wish(index, &seeds));
        }
        world
    }

    /// Starts one more gateway.
    pub(super) fn start(&mut self, wish: Wish) -> usize {
        let process = Process::start(&self.scene, wish);
        assert!(process.mesh.submit(known()));
        self.processes.push(Some(process));
        self.processes.len() - 1
    }

    /// Starts a gateway that went down, as the next start of the same name.
    pub(super) fn restart(&mut self, index: usize) {
        if let Some(mut wish) = self.down.remove(&index) {
            wish.nth += 1;
            let process = Process::start(&self.scene, wish);
            assert!(process.mesh.submit(known()));
            self.processes[index] = Some(process);
        }
    }

    pub(super) fn crash(&mut self, index: usize) {
        if let Some(process) = self.processes[index].take() {
            self.down.insert(index, process.crash());
        }
    }

    pub(super) async fn leave(&mut self, index: usize) {
        if let Some(process) = self.processes[index].take() {
            self.down.insert(index, process.leave().await);
        }
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().flatten()
    }

    /// Clean, equal, linked, and holding everything.
    pub(super) fn is_whole(&self) -> bool {
        self.agrees() && self.has_placed()
    }

    pub(super) fn process(&self, index: usize) -> &Process {
        self.processes[index].as_ref().expect("it runs")
    }

    /// Since the world began.
    pub(super) fn elapsed(&self) -> Duration {
        now() - self.scene.start
    }

    /// Hands a gateway a chain that nobody had before. Whether it had room for it.
    pub(super) fn place(&mut self, index: usize, blocks: u64) -> bool {
        let Some(process) = &self.processes[index] else { return false };
        let first = self.placed.len() as u64 * CHAIN_STRIDE;
        let life = process.mesh.life();
        let taken = process.mesh.submit(place(worker("w"), first, blocks));
        if taken {
            self.placed.push(Placed { life, blocks });
        }
        taken
    }

    /// Introduces a worker through a gateway: something that nobody can have heard of before now.
    pub(super) fn introduce(&mut self, index: usize) {
        self.introduced += 1;
        let probed = probed(worker(&format!("w{}", self.introduced)));
        assert!(self.process(index).mesh.submit(probed), "a queue that is emptied all the time has room");
    }

    /// Lets time pass, and looks.
    pub(super) async fn pass(&mut self, time: Duration) {
        let until = now() + time;
        while now() < until {
            sleep(LOOK_EVERY.min(until - now())).await;
            self.look();
        }
    }

    /// Lets time pass until `reached`; panics after `bound`. Returns how long it took.
    pub(super) async fn until(&mut self, what: &str, bound: Duration, reached: impl Fn(&Self) -> bool) -> Duration {
        let began = now();
        while !reached(self) {
            assert!(
                now() - began < bound,
                "seed {}: not within {bound:?}: {what}\n{}",
                self.scene.seed,
                self.describe()
            );
            sleep(LOOK_EVERY).await;
            self.look();
        }
        now() - began
    }

    /// What holds at any moment: equal clean vectors have equal digests, ever (I1); queues and logs are bounded (I9); no
    /// life failed.
    pub(super) fn look(&mut self) {
        let seed = self.scene.seed;
        for process in self.processes.iter().flatten() {
            let status = process.mesh.status();
            if let (Phase::Clean, Some(digest)) = (status.phase, &status.digest) {
                let said = || (digest.clone(), status.name.clone());
                let (first, by) = self.digests.entry(status.vector.clone()).or_insert_with(said);
                assert_eq!(first, digest, "I1, seed {seed}: {by} and {} at vector {}", status.name, status.vector);
            }
            assert!(status.log_bytes <= LOG_BYTES_MAX as u64, "I9, seed {seed}: {status:?}");
            assert!(status.ops_held <= HELD_OPS_MAX as u64, "I9, seed {seed}: {status:?}");
            for link in process.mesh.metrics().links {
                assert!(link.queued_bytes <= QUEUED_BYTES_MAX, "I9, seed {seed}: {link:?}");
            }
            let exits = process.exits.lock().expect("no panic inside");
            assert!(!exits.iter().any(|exit| matches!(exit, Exit::Failed(_))), "seed {seed}: {exits:?}");
        }
    }

    /// Whether all that run are clean and equal, and everybody is linked with everybody.
    pub(super) fn agrees(&self) -> bool {
        let others = self.running().count() - 1;
        let all: Vec<Arc<Status>> = self.running().map(|process| process.mesh.status()).collect();
        all.iter().all(|status| {
            status.phase == Phase::Clean && status.digest == all[0].digest && status.vector == all[0].vector
        }) && self.running().all(|process| process.linked().len() == others)
    }

    /// Whether what was placed through lives that still run (and dropped nothing) is everywhere, every worker that was
    /// introduced, and nothing else than what was placed.
    pub(super) fn has_placed(&self) -> bool {
        let droppers = self.scene.droppers.lock().expect("no panic inside");
        let lives = self.running().map(|process| process.mesh.life()).filter(|life| !droppers.contains(life));
        let lives: Vec<LifeId> = lives.collect();
        let kept: u64 = self.placed.iter().filter(|placed| lives.contains(&placed.life)).map(|p| p.blocks).sum();
        let all: u64 = self.placed.iter().map(|placed| placed.blocks).sum();
        self.running().map(|process| process.mesh.status()).all(|status| {
            (kept..=all).contains(&status.blocks) && (self.introduced == 0 || status.workers == 1 + self.introduced)
        })
    }

    /// One line per process, for a failure's message.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("at {:?}, {:?}\n", self.elapsed(), self.scene.network.counts());
        for process in self.running() {
            let (status, metrics) = (process.mesh.status(), process.mesh.metrics());
            text += &format!(
                "{} {:?} digest {:?} vector {} blocks {} repairing {} links {:?} members {} dials {} failed {:?} \
                 refused {:?} dropped {:?} reborn {} stalled {}\n",
                status.name,
                status.phase,
                status.digest,
                status.vector,
                status.blocks,
                status.repairing,
                process.linked(),
                metrics.members_live,
                metrics.dials,
                metrics.dials_failed,
                metrics.handshakes_refused,
                metrics.frames_dropped,
                process.exits.lock().expect("no panic inside").len(),
                metrics.restarts_stalled,
            );
        }
        text
    }
}

/// A gateway with the usual name and address.
pub(super) fn wish(index: usize, seeds: &[usize]) -> Wish {
    Wish {
        name: format!("g{index}"),
        address: address(index),
        seeds: seeds.iter().map(|seed| address(*seed)).collect(),
        secret: SECRET,
        wall_offset_ms: 0,
        hearsay: Hearsay::good(),
        nth: 0,
    }
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name, 0).expect("a name")
}

fn token() -> Token {
    Token::new("boot-1").expect("a token")
}

/// What makes the worker of all placements known.
pub(super) fn known() -> Local {
    probed(worker("w"))
}

fn probed(worker: WorkerId) -> Local {
    Local::Probed { worker, started_at: Incarnation::unknown(), token: token(), capacity_tokens: Some(1 << 26) }
}

fn place(worker: WorkerId, first: u64, blocks: u64) -> Local {
    assert!(blocks <= CHAIN_STRIDE);
    let model = ModelName::new("m").expect("a name");
    let keyspace = Keyspace::new(model, Unit::Bytes, 256, derive_hash_key(&SECRET).id()).expect("a keyspace");
    let chain: Vec<BlockHash> = (first..first + blocks).map(BlockHash).collect();
    Local::Place {
        worker,
        keyspace: Arc::new(keyspace),
        incarnation: Incarnation::unknown().next(token()),
        chain: chain.into(),
    }
}
