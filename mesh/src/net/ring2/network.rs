//! The in-memory network: datagrams between ports in virtual time, with seeded delay, jitter (which reorders), loss,
//! duplication, a path MTU, one-way and two-way cuts, bounded receive queues, and a NAT that can move a node. Every
//! datagram handed to it leaves one line of trace: when, from, to, how large.
//!
//! Not here: what QUIC sees of it (`socket`), when which fault happens (`script`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::dice::Dice;

/// Datagrams that may wait at a port; more are dropped, as a kernel does.
pub(super) const INBOX_MAX: usize = 512;

/// How the paths are. The same for every pair; cuts are per pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths {
    pub(super) delay_us: u64,
    /// Added, uniformly; more than the spacing of datagrams reorders them.
    pub(super) jitter_us: u64,
    pub(super) loss_permille: u64,
    pub(super) duplicate_permille: u64,
    /// Larger datagrams vanish.
    pub(super) mtu_bytes: usize,
}

impl Paths {
    /// A quiet local network.
    pub(super) const fn calm() -> Self {
        Self { delay_us: 500, jitter_us: 0, loss_permille: 0, duplicate_permille: 0, mtu_bytes: 1_500 }
    }
}

#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
    pub(super) ecn: Option<u8>,
}

/// Names one taking of a port: who held it before has nothing to do with what comes and goes there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plug(u64);

#[derive(Debug)]
struct Inbox {
    plug: Plug,
    waiting: VecDeque<Datagram>,
    wakers: Vec<Waker>,
}

type Flight = (Instant, u64);

#[derive(Debug)]
struct State {
    paths: Paths,
    dice: Dice,
    inboxes: BTreeMap<SocketAddr, Inbox>,
    cut: BTreeSet<(SocketAddr, SocketAddr)>,
    /// Where a port appears to the others, when not at its own address.
    moved: BTreeMap<SocketAddr, SocketAddr>,
    due: BinaryHeap<Reverse<Flight>>,
    flying: BTreeMap<Flight, (SocketAddr, Datagram)>,
    sequence: u64,
    plugs: u64,
    counts: Counts,
    trace: u64,
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) too_large: u64,
    pub(super) cut: u64,
    pub(super) overflowed: u64,
    pub(super) nobody: u64,
    pub(super) delivered: u64,
}

/// The network, as everybody holds it.
#[derive(Clone, Debug)]
pub(super) struct Network {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    start: Instant,
}

impl Network {
    /// A network whose clock starts now. [`Self::carry`] must run for anything to arrive.
    pub(super) fn new(seed: u64, paths: Paths, start: Instant) -> Self {
        let state = State {
            paths,
            dice: Dice::new(seed, "network"),
            inboxes: BTreeMap::new(),
            cut: BTreeSet::new(),
            moved: BTreeMap::new(),
            due: BinaryHeap::new(),
            flying: BTreeMap::new(),
            sequence: 0,
            plugs: 0,
            counts: Counts::default(),
            trace: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default(), start }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic inside")
    }

    /// Moves what is due, for ever.
    pub(super) async fn carry(self) {
        loop {
            let next = self.lock().due.peek().map(|Reverse((at, _))| *at);
            let Some(at) = next else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = sleep_until(at) => self.lock().deliver(at),
            }
        }
    }

    /// Takes a port; `None` when it is taken.
    pub(super) fn plug(&self, address: SocketAddr) -> Option<Plug> {
        let mut state = self.lock();
        if state.inboxes.contains_key(&address) {
            return None;
        }
        state.plugs += 1;
        let plug = Plug(state.plugs);
        state.inboxes.insert(address, Inbox { plug, waiting: VecDeque::new(), wakers: Vec::new() });
        Some(plug)
    }

    /// The port is gone: what arrives for it is lost, and what its owner still sends, too.
    pub(super) fn unplug(&self, address: SocketAddr) {
        let mut state = self.lock();
        state.inboxes.remove(&address);
        state.moved.remove(&address);
    }

    pub(super) fn set_paths(&self, paths: Paths) {
        self.lock().paths = paths;
    }

    /// Nothing goes from one to the other any more.
    pub(super) fn cut(&self, from: SocketAddr, to: SocketAddr) {
        self.lock().cut.insert((from, to));
    }

    pub(super) fn mend(&self, from: SocketAddr, to: SocketAddr) {
        self.lock().cut.remove(&(from, to));
    }

    pub(super) fn mend_all(&self) {
        self.lock().cut.clear();
    }

    /// Whether datagrams can pass both ways.
    pub(super) fn are_joined(&self, a: SocketAddr, b: SocketAddr) -> bool {
        let state = self.lock();
        !state.cut.contains(&(a, b)) && !state.cut.contains(&(b, a))
    }

    /// The node's NAT takes another address for it: what it sends comes from there, what is sent to where it appeared
    /// before is lost.
    pub(super) fn renumber(&self, own: SocketAddr, appears: SocketAddr) {
        self.lock().moved.insert(own, appears);
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// One number for everything that was sent so far: when, from, to, size.
    pub(super) fn trace(&self) -> u64 {
        self.lock().trace
    }

    /// Sends one datagram from the port at `own`.
    pub(super) fn send(
        &self,
        (own, plug): (SocketAddr, Plug),
        to: SocketAddr,
        bytes: &[u8],
        ecn: Option<u8>,
        now: Instant,
    ) {
        let at_us = u64::try_from((now - self.start).as_micros()).expect("a short run");
        let mut state = self.lock();
        if state.inboxes.get(&own).is_none_or(|inbox| inbox.plug != plug) {
            return;
        }
        state.send(at_us, now, own, to, bytes, ecn);
        drop(state);
        self.changed.notify_one();
    }

    /// Hands datagrams to `take` for as long as it wants more. `false` when none waited: the waker is then called once one
    /// comes. A port that is gone stays silent.
    pub(super) fn receive(
        &self,
        (own, plug): (SocketAddr, Plug),
        waker: &Waker,
        mut take: impl FnMut(Datagram) -> bool,
    ) -> bool {
        let mut state = self.lock();
        let Some(inbox) = state.inboxes.get_mut(&own).filter(|inbox| inbox.plug == plug) else { return false };
        let mut took = false;
        while let Some(datagram) = inbox.waiting.pop_front() {
            took = true;
            if !take(datagram) {
                break;
            }
        }
        if !took {
            inbox.wakers.push(waker.clone());
        }
        took
    }
}

impl State {
    fn send(&mut self, at_us: u64, now: Instant, own: SocketAddr, to: SocketAddr, bytes: &[u8], ecn: Option<u8>) {
        self.counts.sent += 1;
        self.record(at_us, own, to, bytes.len());
        let owner = self.moved.iter().find(|(_, appears)| **appears == to).map(|(own, _)| *own);
        // Somebody behind a NAT is reached where it appears, and only there.
        let target = owner.unwrap_or(to);
        if owner.is_none() && self.moved.contains_key(&to) {
            self.counts.nobody += 1;
        } else if bytes.len() > self.paths.mtu_bytes {
            self.counts.too_large += 1;
        } else if self.cut.contains(&(own, target)) {
            self.counts.cut += 1;
        } else if self.dice.happens(self.paths.loss_permille) {
            self.counts.lost += 1;
        } else {
            let from = self.moved.get(&own).copied().unwrap_or(own);
            let twice = self.dice.happens(self.paths.duplicate_permille);
            self.counts.duplicated += u64::from(twice);
            for _ in 0..1 + u64::from(twice) {
                let wait_us = self.paths.delay_us + self.dice.below(self.paths.jitter_us + 1);
                let flight = (now + Duration::from_micros(wait_us), self.sequence);
                self.sequence += 1;
                self.due.push(Reverse(flight));
                self.flying.insert(flight, (target, Datagram { from, bytes: bytes.to_vec(), ecn }));
            }
        }
    }

    fn record(&mut self, at_us: u64, from: SocketAddr, to: SocketAddr, bytes: usize) {
        let line = format!("{at_us} {from} {to} {bytes}\n");
        self.trace = xxh3_64_with_seed(line.as_bytes(), self.trace);
    }

    fn deliver(&mut self, until: Instant) {
        while let Some(Reverse(flight)) = self.due.peek().copied()
            && flight.0 <= until
        {
            self.due.pop();
            let (to, datagram) = self.flying.remove(&flight).expect("what is due is flying");
            let Some(inbox) = self.inboxes.get_mut(&to) else {
                self.counts.nobody += 1;
                continue;
            };
            if inbox.waiting.len() >= INBOX_MAX {
                self.counts.overflowed += 1;
                continue;
            }
            self.counts.delivered += 1;
            inbox.waiting.push_back(datagram);
            inbox.wakers.drain(..).for_each(Waker::wake);
        }
    }
}
