//! What a policy that looks at coverage can do wrong to a fleet, tried on a town of conversations: workers with a queue and a
//! pace each, a cache without end, and turns that grow. Time goes in ticks. The town's view is exact; what stale views do is
//! tried apart.

use std::collections::VecDeque;

use super::*;

/// Conversations at a time.
const SESSIONS: usize = 96;
/// Blocks that a turn adds to its conversation.
const TURN_BLOCKS: u32 = 20;
/// Blocks at which a conversation ends and another one takes its place.
const SESSION_BLOCKS: u32 = 200;

/// A prompt in a worker's queue.
struct Job {
    session: usize,
    blocks: u32,
    left_tokens: u64,
}

struct Town {
    fleet: Numbers,
    /// Tokens a tick, by worker.
    pace: Vec<u64>,
    queues: Vec<VecDeque<Job>>,
    /// Blocks held, by session and worker.
    held: Vec<Vec<u32>>,
    /// Blocks so far, by session.
    length: Vec<u32>,
    /// Tokens computed, by worker.
    work: Vec<u64>,
    ticks: u64,
}

impl Town {
    fn new(pace: &[u64]) -> Self {
        let count = pace.len();
        Self {
            fleet: Numbers::idle(count as u32),
            pace: pace.to_vec(),
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            held: vec![vec![0; count]; SESSIONS],
            length: (0..SESSIONS as u32).map(|session| session * 7 % SESSION_BLOCKS).collect(),
            work: vec![0; count],
            ticks: 0,
        }
    }

    /// A worker without anything cached comes to the fleet.
    fn join(&mut self, pace: u64) {
        let no = self.pace.len() as u32;
        self.fleet.workers.push(WorkerNo(no));
        self.fleet.own.push(Load::default());
        self.fleet.others.push(Load::default());
        self.fleet.slowness.push(1.0);
        self.pace.push(pace);
        self.queues.push(VecDeque::new());
        self.held.iter_mut().for_each(|held| held.push(0));
        self.work.push(0);
    }

    /// One conversation takes its next turn: where it goes.
    fn turn(&mut self) -> WorkerNo {
        self.ticks += 1;
        let session = (mix(self.ticks) % SESSIONS as u64) as usize;
        if self.length[session] >= SESSION_BLOCKS {
            self.length[session] = 0;
            self.held[session].iter_mut().for_each(|held| *held = 0);
        }
        self.length[session] += TURN_BLOCKS;
        let blocks = self.length[session];
        let mut steps: Vec<(u32, Vec<u32>)> = Vec::new();
        for (worker, held) in (0u32..).zip(&self.held[session]).filter(|(_, held)| **held > 0) {
            match steps.iter_mut().find(|(depth, _)| depth == held) {
                Some((_, workers)) => workers.push(worker),
                None => steps.push((*held, vec![worker])),
            }
        }
        steps.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        let steps: Vec<(u32, &[u32])> = steps.iter().map(|(depth, workers)| (*depth, &workers[..])).collect();
        let overlap = Overlap::of(&steps);
        let prompt = prompt(u64::from(blocks));
        let query = Query {
            overlap: Some(&overlap),
            prompt,
            session: None,
            prefix: None,
            home: None,
            turn: 0,
            tuning: Tuning::default(),
        };
        let chosen = choose(Policy::Mesh, &query, &self.fleet, mix(self.ticks ^ 0x5eed)).expect("all are up").chosen;
        let uncached = prompt.tokens() - prompt.reusable_tokens(chosen.depth);
        let at = chosen.worker.0 as usize;
        self.queues[at].push_back(Job { session, blocks, left_tokens: uncached });
        self.fleet.own[at].requests += 1;
        self.fleet.own[at].queued_tokens += uncached;
        chosen.worker
    }

    /// Every worker computes for one tick.
    fn compute(&mut self) {
        for (at, queue) in self.queues.iter_mut().enumerate() {
            let mut left = self.pace[at];
            while let Some(job) = queue.front_mut() {
                let done = left.min(job.left_tokens);
                left -= done;
                job.left_tokens -= done;
                self.work[at] += done;
                self.fleet.own[at].queued_tokens -= done;
                if job.left_tokens > 0 {
                    break;
                }
                self.held[job.session][at] = self.held[job.session][at].max(job.blocks);
                self.fleet.own[at].requests -= 1;
                queue.pop_front();
            }
        }
    }

    /// So many turns, `ticks` ticks apart; the tokens that each worker computed meanwhile.
    fn run(&mut self, turns: u32, ticks: u32) -> Vec<u64> {
        let before = self.work.clone();
        for _ in 0..turns {
            self.turn();
            (0..ticks).for_each(|_| self.compute());
        }
        self.work.iter().zip(&before).map(|(now, before)| now - before).collect()
    }
}

fn mean(work: &[u64]) -> f64 {
    work.iter().sum::<u64>() as f64 / work.len() as f64
}

/// Sixty-four gateways act on one stale view in which many hold the prompt and one of these looks idle.
#[test]
fn gateways_with_one_stale_view_do_not_herd_on_one_of_many_holders() {
    let holders: Vec<u32> = (0..16).collect();
    let overlap = Overlap::of(&[(80, &holders)]);
    let mut fleet = Numbers::idle(32);
    fleet.others = vec![queued(30_000); 32];
    fleet.others[5] = Load::default();
    let mut arrived = [0u32; 32];
    for gateway in 0..64 {
        let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, mix(gateway)).expect("all are up");
        arrived[choice.chosen.worker.0 as usize] += 1;
    }
    assert!((1..=20).contains(&arrived[5]), "{} of 64 went to the holder that looks idle", arrived[5]);
    assert!(arrived.iter().filter(|count| **count > 0).count() >= 12, "the rest is spread: {arrived:?}");
}

/// A system prompt: everybody holds block 0 and what follows, one worker a block more of it. Whoever takes the longest match
/// sends everything there.
#[test]
fn a_hot_block_0_does_not_attract() {
    for deep in [1, 12, 30] {
        let others = [0, 1, 2, 4, 5, 6, 7];
        let overlap = Overlap::of(&[(deep + 1, &[3]), (deep, &others)]);
        let mut fleet = Numbers::idle(8);
        for word in 0..800 {
            let choice = choose(Policy::Mesh, &query(Some(&overlap)), &fleet, mix(word)).expect("all are up");
            fleet.send(&choice, u64::from(100 - choice.chosen.depth) * 64);
        }
        let requests: Vec<u32> = fleet.own.iter().map(|load| load.requests).collect();
        assert!(requests.iter().all(|count| (75..=130).contains(count)), "{deep} blocks: {requests:?}");
    }
}

#[test]
fn a_worker_that_joined_with_nothing_cached_is_chosen_soon_and_gets_its_share() {
    let mut town = Town::new(&[165; 7]);
    town.run(3_000, 2);
    town.join(165);
    let new = WorkerNo(7);
    let first = (1..=200).find(|_| {
        (0..2).for_each(|_| town.compute());
        town.turn() == new
    });
    assert!(first.is_some_and(|nth| nth <= 60), "chosen at request {first:?} after it joined");
    town.run(500, 2);
    let work = town.run(3_000, 2);
    let busy = mean(&work) / (3_000.0 * 2.0 * 165.0);
    assert!((0.4..0.95).contains(&busy), "the town is busy and not drowned: {busy:.2}");
    assert!(work[7] as f64 >= 0.7 * mean(&work), "the newcomer computed {} of {work:?}", work[7]);
    assert!(work.iter().all(|of| *of as f64 <= 1.4 * mean(&work)), "nobody is overwhelmed: {work:?}");
}

#[test]
fn a_worker_at_half_the_pace_is_sent_less() {
    let pace = [200, 200, 200, 100];
    let share = |slowness: [f64; 4]| {
        let mut town = Town::new(&pace);
        town.fleet.slowness = slowness.to_vec();
        town.run(500, 4);
        let work = town.run(4_000, 4);
        let waiting: u64 = town.fleet.own.iter().map(|load| load.queued_tokens).sum();
        (work[3] as f64 / mean(&work), waiting)
    };
    let (blind, _) = share([1.0; 4]);
    let (knowing, waiting) = share([0.875, 0.875, 0.875, 1.75]);
    assert!(knowing < 0.75 && knowing > 0.3, "it computed {knowing:.2} of the mean");
    assert!(knowing + 0.1 < blind, "{knowing:.2} of the mean, {blind:.2} without its pace");
    assert!(waiting < 60_000, "nothing piles up: {waiting} tokens are queued in the end");
}

/// A conversation that moves is computed again for nothing; a beginning that many share is worth having at one more worker.
#[test]
fn what_few_hold_is_moved_later_than_what_many_hold() {
    let mut fleet = Numbers::idle(12);
    let many: Vec<u32> = (0..3).collect();
    let chosen = |fleet: &Numbers, holders: &[u32]| {
        let overlap = Overlap::of(&[(60, holders)]);
        choose(Policy::Mesh, &query(Some(&overlap)), fleet, 5).expect("all are usable").chosen
    };
    let uncached = 40 * 64;
    assert_eq!((chosen(&fleet, &many).score, chosen(&fleet, &many[..2]).score), (uncached, uncached * 3 / 2));
    // More is queued at every holder than it saves, and less than one and a half times that.
    (0..3).for_each(|holder| fleet.others[holder] = queued(75 * 64));
    assert!(chosen(&fleet, &many[..2]).depth == 60 && chosen(&fleet, &many).depth == 0);
}
