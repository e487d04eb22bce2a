//! The ground of a simulated process: virtual clocks, seeded randomness, a port of the in-memory network, and a
//! membership service that the world feeds.
//!
//! chitchat is left out, because its choice of peers and the order of its deltas come from the operating system's
//! randomness, which nobody can seed, and its bytes only leave it through a real socket. In its place stands a failure
//! detector over the truth: who runs, and whom datagrams reach both ways, known late by a seeded delay, and now and then
//! wrong. Its stream inside each connection is opened and held as the real one is.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use covey_crdt::id::LifeId;
use covey_crdt::stamp::WallMs;
use quinn::{Connection, Runtime};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::dice::Dice;
use super::network::Network;
use super::now;
use super::socket::{Gates, VirtualPort, VirtualRuntime};
use crate::input::{Member, MonoTime};
use crate::net::context::Context;
use crate::net::framing::{FrameError, read_bounded};
use crate::net::ground::{Ground, Port, Task};
use crate::net::members::MemberChange;
use crate::net::membership;
use crate::net::mesh::Shared;

/// What every host's wall clock reads at the start, give or take its offset.
const EPOCH_MS: u64 = 1_800_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const MESSAGE_BYTES_MAX: u32 = 65_507;

/// Who runs where: the truth that membership reports late.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory(Arc<Mutex<BTreeMap<SocketAddr, Arc<Shared>>>>);

impl Directory {
    pub(super) fn enter(&self, address: SocketAddr, shared: Arc<Shared>) {
        self.0.lock().expect("no panic inside").insert(address, shared);
    }

    pub(super) fn strike(&self, address: SocketAddr) {
        self.0.lock().expect("no panic inside").remove(&address);
    }

    fn lives(&self) -> Vec<(SocketAddr, LifeId)> {
        let entries = self.0.lock().expect("no panic inside");
        entries.iter().map(|(address, shared)| (*address, shared.current.load().life)).collect()
    }
}

/// How well membership knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hearsay {
    /// Until somebody who came is reported, at most.
    pub(super) up_ms: u64,
    /// Until somebody who went is reported, at most.
    pub(super) down_ms: u64,
    /// Chance, each time it looks, that a live member is reported gone for a while.
    pub(super) wrong_permille: u64,
}

impl Hearsay {
    pub(super) const fn good() -> Self {
        Self { up_ms: 400, down_ms: 1_500, wrong_permille: 0 }
    }
}

/// What one process stands on.
#[derive(Debug)]
pub(super) struct VirtualGround {
    pub(super) network: Network,
    pub(super) directory: Directory,
    pub(super) address: SocketAddr,
    pub(super) wall_offset_ms: i64,
    pub(super) hearsay: Arc<Mutex<Hearsay>>,
    /// Those of the life that began last.
    pub(super) gates: Mutex<Gates>,
    pub(super) start: Instant,
    pub(super) dice: Mutex<Dice>,
}

impl VirtualGround {
    /// The gates of the life that began last.
    pub(super) fn gates(&self) -> Gates {
        self.gates.lock().expect("no panic inside").clone()
    }

    /// New gates, for a life that begins.
    pub(super) fn renew_gates(&self) -> Gates {
        *self.gates.lock().expect("no panic inside") = Gates::default();
        self.gates()
    }
}

impl Ground for VirtualGround {
    fn mono(&self) -> MonoTime {
        MonoTime { us: u64::try_from((now() - self.start).as_micros()).expect("a short run") }
    }

    fn wall(&self) -> WallMs {
        let true_ms = EPOCH_MS + self.mono().us / 1_000;
        WallMs(true_ms.saturating_add_signed(self.wall_offset_ms))
    }

    fn instant(&self, at: MonoTime) -> Instant {
        self.start + Duration::from_micros(at.us)
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.dice.lock().expect("no panic inside").fill(bytes);
    }

    fn bind(&self, listen: SocketAddr) -> io::Result<Box<dyn Port>> {
        let plug = self.network.plug(listen).ok_or(io::ErrorKind::AddrInUse)?;
        Ok(Box::new(VirtualPort { network: self.network.clone(), address: listen, plug }))
    }

    fn quic(&self) -> Arc<dyn Runtime> {
        Arc::new(VirtualRuntime(self.gates().quic))
    }

    fn resolve(&self, seed: String) -> Task<io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { seed.parse().map(|address| vec![address]).map_err(|_| io::ErrorKind::NotFound.into()) })
    }

    fn membership(&self, context: Arc<Context>, _: String, out: mpsc::Sender<Member>) -> Task<()> {
        let watcher = Watcher {
            network: self.network.clone(),
            directory: self.directory.clone(),
            own: self.address,
            hearsay: Arc::clone(&self.hearsay),
            known: BTreeMap::new(),
        };
        Box::pin(watcher.run(context, out))
    }

    fn tunnel(
        &self,
        _: Arc<Context>,
        connection: Connection,
        dialled: bool,
        _: SocketAddr,
    ) -> Task<Result<(), FrameError>> {
        Box::pin(async move {
            let streams = if dialled { connection.open_bi().await } else { connection.accept_bi().await };
            let (mut send, mut recv) = streams?;
            send.write_all(&0u32.to_le_bytes()).await?;
            loop {
                let _ = read_bounded(&mut recv, MESSAGE_BYTES_MAX).await?;
            }
        })
    }
}

/// One process's failure detector.
struct Watcher {
    network: Network,
    directory: Directory,
    own: SocketAddr,
    hearsay: Arc<Mutex<Hearsay>>,
    known: BTreeMap<LifeId, Known>,
}

struct Known {
    address: SocketAddr,
    reported: bool,
    /// When the present truth will be reported.
    due: Option<Instant>,
    /// Reported gone although it is not, until then.
    wrong_until: Option<Instant>,
}

impl Watcher {
    async fn run(mut self, context: Arc<Context>, out: mpsc::Sender<Member>) {
        let mut dice = Dice::new(context.me.life.0 as u64, "membership");
        loop {
            sleep(LOOK_EVERY).await;
            let hearsay = *self.hearsay.lock().expect("no panic inside");
            for change in self.look(hearsay, &mut dice) {
                if membership::tell(&context, change, &out).await.is_err() {
                    return;
                }
            }
        }
    }

    fn look(&mut self, hearsay: Hearsay, dice: &mut Dice) -> Vec<MemberChange> {
        let now = now();
        let running = self.directory.lives();
        let there: BTreeMap<LifeId, SocketAddr> = running
            .into_iter()
            .filter(|(address, _)| *address != self.own && self.network.are_joined(self.own, *address))
            .map(|(address, life)| (life, address))
            .collect();
        for (life, address) in &there {
            let fresh = Known { address: *address, reported: false, due: None, wrong_until: None };
            self.known.entry(*life).or_insert(fresh);
        }
        let mut changes = Vec::new();
        for (life, known) in &mut self.known {
            let wrong = known.wrong_until.is_some_and(|until| now < until);
            if known.reported && !wrong && dice.happens(hearsay.wrong_permille) {
                known.wrong_until = Some(now + Duration::from_millis(dice.between(200, 3_000)));
                known.due = Some(now);
            }
            let truth = there.contains_key(life) && known.wrong_until.is_none_or(|until| now >= until);
            if truth == known.reported {
                known.due = None;
                continue;
            }
            let delay_ms = if truth { hearsay.up_ms } else { hearsay.down_ms };
            let due =
                *known.due.get_or_insert_with(|| now + Duration::from_millis(dice.between(delay_ms / 3, delay_ms)));
            if now >= due {
                (known.reported, known.due) = (truth, None);
                let address = known.address;
                changes.push(if truth { MemberChange::Up(*life, address) } else { MemberChange::Down(*life) });
            }
        }
        changes
    }
}
