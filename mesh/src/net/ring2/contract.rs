//! What a link promises the node: of one connection and class, every frame arrives once and in the order it was sent,
//! none is left out unless the sender was told so, and a pause is always followed by a word to go on. Judged on the
//! network half alone, with numbered frames in the node's place, over the worst paths and through lost connections.
//!
//! Not here: what is in frames (`swarm` runs the node).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use covey_crdt::id::LifeId;
use tokio::time::timeout_at;

use super::dice::Dice;
use super::network::Paths;
use super::process::{Process, Scene};
use super::script::paths;
use super::world::{World, wish};
use super::{now, run};
use crate::input::{Input, Link};
use crate::net::links::Links;
use crate::net::network::Network;
use crate::node::NodeConfig;
use crate::output::Class;

const STEP: Duration = Duration::from_millis(10);
/// Class, connection as the sender counts it, number within both.
const HEADER_BYTES: usize = 1 + 8 + 8;

/// The network half of a gateway, and the books of what went through it.
struct Clerk {
    network: Network,
    links: Links,
    /// Connections with each peer so far.
    ups: BTreeMap<LifeId, u64>,
    linked: BTreeMap<LifeId, Outgoing>,
    incoming: BTreeMap<(LifeId, Class), (u64, u64)>,
    received: u64,
    pauses: u64,
    resumes: u64,
}

/// What goes to one peer over the present connection.
#[derive(Default)]
struct Outgoing {
    next: [u64; 3],
    paused: bool,
}

impl Clerk {
    fn start(scene: &Scene, index: usize, others: &[usize]) -> Self {
        let parts = Process::parts(scene, wish(index, others));
        let node: &NodeConfig = &parts.config.node;
        let base = parts.base.expect("the mesh is on");
        let network = Network::start(&base, &parts.shared, node, parts.state.life).expect("starts");
        let links = Links::new(Arc::clone(&network.context));
        Self {
            network,
            links,
            ups: BTreeMap::new(),
            linked: BTreeMap::new(),
            incoming: BTreeMap::new(),
            received: 0,
            pauses: 0,
            resumes: 0,
        }
    }

    /// Takes what happens for a while; `eager` is how many frames at most.
    async fn work(&mut self, time: Duration, eager: usize) {
        let until = now() + time;
        for _ in 0..eager {
            let Ok(Some(event)) = timeout_at(until, self.network.events.recv()).await else { break };
            self.links.on_event(event);
            self.inputs();
        }
        tokio::time::sleep_until(until).await;
        let _ = self.links.tick(self.network.context.now());
        self.inputs();
    }

    fn inputs(&mut self) {
        while let Some(input) = self.links.poll_input() {
            match input {
                Input::Link(Link::Up(life)) => {
                    *self.ups.entry(life).or_default() += 1;
                    self.linked.insert(life, Outgoing::default());
                    for class in Class::ALL {
                        self.incoming.remove(&(life, class));
                    }
                }
                Input::Link(Link::Down(life)) => {
                    assert!(self.linked.remove(&life).is_some(), "down without up");
                }
                Input::Link(Link::Blocked(life)) => {
                    self.pauses += 1;
                    self.linked.get_mut(&life).expect("only a linked peer pauses").paused = true;
                }
                Input::Link(Link::Writable(life)) => {
                    self.resumes += 1;
                    self.linked.get_mut(&life).expect("only a linked peer resumes").paused = false;
                }
                Input::Received { from, bytes } => self.receive(from, &bytes),
                Input::Local(_) | Input::Member(_) | Input::Elapsed => unreachable!("links say nothing of the kind"),
            }
        }
    }

    fn receive(&mut self, from: LifeId, bytes: &[u8]) {
        assert!(self.linked.contains_key(&from), "a frame of a connection that is not up");
        self.received += 1;
        let class = Class::ALL[usize::from(bytes[0])];
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (connection, nth) = (number(1), number(9));
        let (of, next) = *self.incoming.entry((from, class)).or_insert((connection, 0));
        assert_eq!(of, connection, "frames of two connections on one link");
        // Push is paused in time; the others are told by `frames_dropped` only.
        assert!(nth >= next, "{class:?} {nth} after {next} of connection {connection}: twice or out of order");
        assert!(nth == next || class != Class::Push, "push {nth} after {next}: left out without a word");
        self.incoming.insert((from, class), (connection, nth + 1));
    }

    fn send(&mut self, to: LifeId, class: Class, size: usize) {
        let connection = self.ups[&to];
        let outgoing = self.linked.get_mut(&to).expect("it is linked");
        if outgoing.paused && class == Class::Push {
            return;
        }
        let nth = outgoing.next[class as usize];
        outgoing.next[class as usize] += 1;
        let mut frame = vec![class as u8];
        frame.extend_from_slice(&connection.to_le_bytes());
        frame.extend_from_slice(&nth.to_le_bytes());
        frame.resize(HEADER_BYTES + size, 0);
        self.links.send(to, class, Bytes::from(frame));
        self.inputs();
    }
}

/// Ten seconds of frames of all sizes between three, with readers that are slow for a while and cuts that cost
/// connections; then all that is under way arrives.
async fn exchange(seed: u64) -> [u64; 3] {
    let mut dice = Dice::new(seed, "contract");
    let bad = Paths { loss_permille: dice.between(0, 50), ..paths(&mut dice) };
    let world = World::new(seed, bad);
    let mut clerks: Vec<Clerk> = (0..3)
        .map(|index| Clerk::start(&world.scene, index, &(0..3).filter(|other| *other != index).collect::<Vec<_>>()))
        .collect();
    let mut slow = [0u64; 3];
    for step in 0..1_000 {
        for (index, clerk) in clerks.iter_mut().enumerate() {
            if dice.happens(2) {
                slow[index] = step + dice.between(10, 200);
            }
            let eager = if step < slow[index] { 1 } else { usize::MAX };
            for life in clerk.linked.keys().copied().collect::<Vec<_>>() {
                let class = dice.one_of(&Class::ALL);
                let size = usize::try_from(dice.log_between(1, 60_000)).expect("small");
                for _ in 0..dice.below(4) {
                    clerk.send(life, class, size);
                }
            }
            clerk.work(STEP / 3, eager).await;
        }
        if dice.happens(4) {
            let (a, b) = (super::world::address(0), super::world::address(1 + usize::from(dice.happens(500))));
            world.scene.network.cut(a, b);
        }
        if dice.happens(4) {
            world.scene.network.mend_all();
        }
    }
    world.scene.network.mend_all();
    world.scene.network.set_paths(Paths::calm());
    for _ in 0..600 {
        for clerk in &mut clerks {
            clerk.work(STEP, usize::MAX).await;
        }
    }
    for clerk in &clerks {
        assert_eq!(clerk.linked.len(), 2, "seed {seed}: both links are there in the end");
        assert!(clerk.linked.values().all(|outgoing| !outgoing.paused), "seed {seed}: paused, and never told to go on");
    }
    let sum = |of: fn(&Clerk) -> u64| clerks.iter().map(of).sum();
    [sum(|clerk| clerk.received), sum(|clerk| clerk.pauses), sum(|clerk| clerk.ups.values().sum())]
}

#[test]
fn frames_of_a_class_arrive_once_in_order_and_a_pause_always_ends() {
    let mut all = [0; 3];
    for seed in 0..40 {
        let one = run(exchange(seed));
        all = std::array::from_fn(|at| all[at] + one[at]);
    }
    eprintln!("frames, pauses, connections: {all:?}");
    assert!(all[0] > 100_000 && all[1] > 20 && all[2] > 40 * 6, "too little happened: {all:?}");
}
