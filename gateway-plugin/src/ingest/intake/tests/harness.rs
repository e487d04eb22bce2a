//! A literal engine, two intakes, the replica they feed, and what is between them.
//!
//! Checked after every step: an exact intake equals the engine at its position; ops of equal keys are equal; the replica,
//! where it is complete, equals the engine's life it speaks of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use covey_crdt::hash::{BlockHash, BlockHasher};
use covey_crdt::id::{Incarnation, Token};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::stored::{FeedState, StoredKey};

use super::super::super::event::{Event, Removed, Stored};
use super::super::*;

const BLOCK: u32 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    Marked,
    Cut,
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// The engine computes so many blocks of a prompt, or evicts the last one it has of it.
    Step {
        prompt: usize,
        blocks: usize,
        keeps: bool,
    },
    Clear,
    Deliver {
        to: usize,
        count: usize,
    },
    Lose {
        to: usize,
    },
    Double {
        to: usize,
    },
    Swap {
        to: usize,
    },
    Cut {
        to: usize,
    },
    Restart,
    Replay {
        to: usize,
        count: usize,
        ends: Ends,
    },
    HandOff {
        to: usize,
        has: bool,
    },
    Tick {
        ms: u64,
    },
    Raise,
    Probe,
}

/// One life of the engine: its batches, and what it held after each.
struct Life {
    token: Token,
    batches: Vec<Batch>,
    sets: Vec<BTreeSet<BlockHash>>,
    copies: BTreeMap<(usize, usize), u32>,
}

struct Side {
    intake: Intake,
    wire: VecDeque<Batch>,
    ask: Option<(u64, u64)>,
    is_asking_gateways: bool,
    notes: Vec<Note>,
    resets: usize,
}

pub(super) struct World {
    now: MonoTime,
    keeps: usize,
    lives: Vec<Life>,
    incarnation: Incarnation,
    sides: Vec<Side>,
    ops: BTreeMap<StoredKey, StoredOp>,
    replica: Option<FeedState>,
}

pub(super) fn config(life: u128) -> IntakeConfig {
    IntakeConfig {
        worker: WorkerId::new("http://engine:8000", 0).expect("a name"),
        model: ModelName::new("m").expect("a name"),
        key: HashKey::ZERO,
        rules: CacheRules { block_tokens: Some(BLOCK), ..CacheRules::default() },
        life: LifeId(life),
        rank: None,
        has_replay: true,
    }
}

fn tokens(prompt: usize, block: usize) -> [u32; 2] {
    [prompt as u32 * 1_000 + block as u32, 7]
}

fn name(prompt: usize, block: usize) -> BlockHash {
    let model = ModelName::new("m").expect("a name");
    let keyspace = Keyspace::new(model, Unit::Tokens, BLOCK, HashKey::ZERO.id()).expect("a block size");
    let mut chain = Vec::new();
    let all: Vec<u32> = (0..=block).flat_map(|block| tokens(prompt, block)).collect();
    BlockHasher::new(&keyspace, &HashKey::ZERO, b"").tokens(&all, &mut chain);
    chain[block]
}

fn hash(prompt: usize, block: usize) -> u64 {
    (prompt * 100 + block + 1) as u64
}

impl Life {
    fn new(nth: usize) -> Self {
        let token = Token::new(&format!("boot-{nth}")).expect("a token");
        Self { token, batches: Vec::new(), sets: vec![BTreeSet::new()], copies: BTreeMap::new() }
    }

    /// One store from the root where the prompt has nothing, else a child or a removal, as the copies say.
    fn step(&mut self, prompt: usize, blocks: usize, keeps: bool) -> Vec<Event> {
        let held = (0..8).take_while(|block| self.copies.contains_key(&(prompt, *block))).count();
        if !keeps && held > 0 {
            let last = held - 1;
            let copies = self.copies.get_mut(&(prompt, last)).expect("held");
            *copies -= 1;
            if *copies == 0 {
                self.copies.remove(&(prompt, last));
            }
            return vec![Event::Removed(Removed { hashes: vec![hash(prompt, last)], ..Removed::default() })];
        }
        // The last block that is held is computed once more, as when a whole prompt was cached: a second copy.
        let first = held.min(blocks.saturating_sub(1));
        let stored: Vec<usize> = (first..blocks.max(first + 1)).collect();
        stored.iter().for_each(|block| *self.copies.entry((prompt, *block)).or_default() += 1);
        vec![Event::Stored(Box::new(Stored {
            hashes: stored.iter().map(|block| hash(prompt, *block)).collect(),
            parent: first.checked_sub(1).map(|before| hash(prompt, before)),
            tokens: stored.iter().flat_map(|block| tokens(prompt, *block)).collect(),
            block_tokens: BLOCK,
            is_full: true,
            ..Stored::default()
        }))]
    }

    fn publish(&mut self, nth: usize, events: Vec<Event>) -> Batch {
        let seq = self.batches.len() as u64;
        let batch = Batch { seq, print: nth as u64 * 1_000_000 + seq, events, bytes: 10, ..Batch::default() };
        self.batches.push(batch.clone());
        self.sets.push(self.copies.keys().map(|(prompt, block)| name(*prompt, *block)).collect());
        batch
    }
}

impl World {
    pub(super) fn new(keeps: usize) -> Self {
        let side = |life| Side {
            intake: Intake::new(config(life)),
            wire: VecDeque::new(),
            ask: None,
            is_asking_gateways: false,
            notes: Vec::new(),
            resets: 0,
        };
        let life = Life::new(0);
        let incarnation = Incarnation { counter: 1, token: life.token.clone() };
        let (sides, ops, replica) = (vec![side(1), side(2)], BTreeMap::new(), None);
        let mut world = Self { now: MonoTime::from_ms(1), keeps, lives: vec![life], incarnation, sides, ops, replica };
        for to in 0..2 {
            let incarnation = world.incarnation.clone();
            world.give(to, Input::Incarnation(incarnation)).expect("a first input");
            world.give(to, Input::Connected).expect("a second");
        }
        world
    }

    /// A world whose first intake has begun at the engine's first batch.
    pub(super) fn started() -> Self {
        let mut world = Self::new(10_000);
        world.run(Action::HandOff { to: 0, has: false });
        world.run(Action::Replay { to: 0, count: 100, ends: Ends::Marked });
        world
    }

    pub(super) fn run(&mut self, action: Action) {
        self.act(action).expect("all holds");
    }

    fn life(&mut self) -> &mut Life {
        self.lives.last_mut().expect("one at least")
    }

    fn emit(&mut self, events: Vec<Event>) {
        let nth = self.lives.len();
        let batch = self.life().publish(nth, events);
        self.sides.iter_mut().for_each(|side| side.wire.push_back(batch.clone()));
    }

    pub(super) fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Step { prompt, blocks, keeps } => {
                let events = self.life().step(prompt, blocks, keeps);
                self.emit(events);
            }
            Action::Clear => {
                self.life().copies.clear();
                self.emit(vec![Event::Cleared]);
            }
            Action::Deliver { to, count } => {
                for _ in 0..count {
                    let Some(batch) = self.sides[to].wire.pop_front() else { break };
                    self.give(to, Input::Message(Arrival::Batch(Box::new(batch))))?;
                }
            }
            Action::Lose { to } => drop(self.sides[to].wire.pop_front()),
            Action::Double { to } => {
                let first = self.sides[to].wire.front().cloned();
                self.sides[to].wire.extend(first);
            }
            Action::Swap { to } => {
                if self.sides[to].wire.len() > 1 {
                    self.sides[to].wire.swap(0, 1);
                }
            }
            Action::Cut { to } => self.reconnect(to)?,
            Action::Restart => {
                self.lives.push(Life::new(self.lives.len()));
                (0..2).try_for_each(|to| self.reconnect(to))?;
            }
            Action::Replay { to, count, ends } => self.replay(to, count, ends)?,
            Action::HandOff { to, has } => self.hand_off(to, has)?,
            Action::Tick { ms } => self.tick(ms)?,
            Action::Raise => {
                let token = self.incarnation.token.clone();
                self.name_life(token)?;
            }
            Action::Probe => {
                let token = self.life().token.clone();
                if token != self.incarnation.token {
                    self.name_life(token)?;
                }
            }
        }
        Ok(())
    }

    fn name_life(&mut self, token: Token) -> Result<(), String> {
        self.incarnation = self.incarnation.next(token);
        (0..2).try_for_each(|to| self.give(to, Input::Incarnation(self.incarnation.clone())))
    }

    fn reconnect(&mut self, to: usize) -> Result<(), String> {
        self.sides[to].wire.clear();
        self.sides[to].ask = None;
        self.give(to, Input::Lost)?;
        self.give(to, Input::Connected)
    }

    fn replay(&mut self, to: usize, count: usize, ends: Ends) -> Result<(), String> {
        let Some((ask, from)) = self.sides[to].ask.take() else { return Ok(()) };
        let life = self.lives.last().expect("one at least");
        let oldest = life.batches.len().saturating_sub(self.keeps);
        let from = oldest.max(usize::try_from(from).expect("small")).min(life.batches.len());
        let all = life.batches[from..].to_vec();
        let is_cut = count < all.len();
        for batch in all.into_iter().take(count) {
            self.give(to, Input::Replayed { ask, arrival: Arrival::Batch(Box::new(batch)) })?;
        }
        // An end marker may be lost with what is before it; it never comes in place of it.
        let how = match (ends, is_cut) {
            (Ends::Marked, false) => ReplayEnd::Marked,
            (Ends::Marked | Ends::Cut, _) => ReplayEnd::Cut,
            (Ends::Silent, _) => return Ok(()),
        };
        self.give(to, Input::ReplayEnded { ask, how })
    }

    fn hand_off(&mut self, to: usize, has: bool) -> Result<(), String> {
        if !std::mem::take(&mut self.sides[to].is_asking_gateways) {
            return Ok(());
        }
        let state = self.sides[1 - to].intake.export().filter(|_| has).map(Bytes::from);
        self.give(to, Input::HandedOff(state))
    }

    fn tick(&mut self, ms: u64) -> Result<(), String> {
        let until = self.now.plus_ms(ms);
        loop {
            let due =
                self.sides.iter().enumerate().filter_map(|(to, side)| Some((side.intake.next_deadline()?, to))).min();
            match due {
                Some((at, to)) if at <= until => {
                    self.now = self.now.max(at);
                    self.give(to, Input::Elapsed)?;
                    if self.sides[to].intake.next_deadline().is_some_and(|next| next <= at) {
                        return Err(format!("{to} is due again at {at:?}, without end"));
                    }
                }
                _ => break,
            }
        }
        self.now = until;
        Ok(())
    }

    fn give(&mut self, to: usize, input: Input) -> Result<(), String> {
        self.sides[to].intake.handle(self.now, input);
        let mut has_grown = false;
        while let Some(output) = self.sides[to].intake.poll_output() {
            let side = &mut self.sides[to];
            match output {
                Output::Ask { ask, from } => side.ask = Some((ask, from)),
                Output::AskHandOff => side.is_asking_gateways = true,
                Output::Reconnect => {
                    side.wire.clear();
                    self.give(to, Input::Connected)?;
                }
                Output::Publish(op) => has_grown |= self.published(op)?,
                Output::Reset => side.resets += 1,
                Output::Note(note) => side.notes.push(note),
                Output::Probe | Output::State(_) => {}
            }
        }
        self.check(to)?;
        if has_grown {
            let feed = self.feed();
            (0..2).try_for_each(|to| self.give(to, Input::Feed(feed.clone())))?;
        }
        Ok(())
    }

    fn published(&mut self, op: StoredOp) -> Result<bool, String> {
        // An engine that has restarted and was not probed since is two lives under one name, for as long as a probe takes.
        let is_named = self.lives.last().is_some_and(|life| life.token == op.key.incarnation.token);
        let same = self.ops.entry(op.key.clone()).or_insert_with(|| op.clone());
        if is_named && *same != op {
            return Err(format!("two ops of one key: {same:?} and {op:?}"));
        }
        let is_newer = self.replica.as_ref().is_none_or(|state| state.key < op.key);
        if is_newer && op.begins {
            self.replica = Some(FeedState::begun(&op));
        } else if is_newer {
            let state = self.replica.as_mut().ok_or("the first op of a feed begins nothing")?;
            if state.apply(&op).is_err() && is_named && state.key.generation == op.key.generation {
                return Err(format!("{:?} does not follow {:?}", op.key, state.key));
            }
        }
        Ok(is_newer)
    }

    pub(super) fn feed(&self) -> Option<FeedView> {
        let state = self.replica.as_ref()?;
        Some(FeedView::of(state))
    }

    fn set(&self, to: usize) -> BTreeSet<BlockHash> {
        self.sides[to].intake.cache().contents().into_iter().flat_map(|net| net.added).collect()
    }

    fn check(&self, to: usize) -> Result<(), String> {
        let intake = &self.sides[to].intake;
        if intake.state().phase != Phase::Exact {
            return Ok(());
        }
        let position = intake.key().ok_or("exact without a key")?.position as usize;
        let life = self.lives.last().expect("one at least");
        let truth = life.sets.get(position).ok_or(format!("exact at {position}, where the engine never was"))?;
        if *truth != self.set(to) {
            return Err(format!("exact at {position}, and holds {:?} where the engine holds {truth:?}", self.set(to)));
        }
        Ok(())
    }

    /// The faults stop: what is on the wire arrives, questions are answered, the token is probed.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        for _ in 0..40 {
            self.act(Action::Probe)?;
            for to in 0..2 {
                self.act(Action::Deliver { to, count: usize::MAX })?;
                self.act(Action::HandOff { to, has: true })?;
                self.act(Action::Replay { to, count: usize::MAX, ends: Ends::Marked })?;
            }
            self.act(Action::Tick { ms: 500 })?;
        }
        let last = self.lives.last().expect("one at least").batches.len() as u64;
        for to in 0..2 {
            let phase = self.phase(to);
            let is_fine = phase == Phase::Exact || (self.keeps < 100 && phase == Phase::Bootstrapping);
            if !is_fine || self.position(to) != Some(last) {
                return Err(format!(
                    "{to} ends {phase:?} at {:?} of {last}: {:?}",
                    self.position(to),
                    self.counters(to)
                ));
            }
        }
        let replica = self.replica.as_ref().ok_or("nothing was published")?;
        let held: BTreeSet<BlockHash> = replica.lanes().values().flat_map(|set| set.blocks()).copied().collect();
        if (replica.key.position, &held) != (last, &self.set(0)) || self.set(0) != self.set(1) {
            return Err(format!(
                "the replica is at {:?} of {last} and holds {held:?}, not {:?}",
                replica.key,
                self.set(0)
            ));
        }
        Ok(())
    }

    pub(super) fn phase(&self, to: usize) -> Phase {
        self.sides[to].intake.state().phase
    }

    pub(super) fn position(&self, to: usize) -> Option<u64> {
        self.sides[to].intake.key().map(|key| key.position)
    }

    pub(super) fn held(&self, to: usize) -> usize {
        self.set(to).len()
    }

    pub(super) fn counters(&self, to: usize) -> &Counters {
        self.sides[to].intake.counters()
    }

    pub(super) fn notes(&self, to: usize) -> &[Note] {
        &self.sides[to].notes
    }

    pub(super) fn resets(&self, to: usize) -> usize {
        self.sides[to].resets
    }
}
