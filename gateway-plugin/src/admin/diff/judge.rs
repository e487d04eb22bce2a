//! What two replicas differ in, and why: a pure judgement over readings of both at two times.
//!
//! There is no oracle. What takes its place is that replicas only grow: whatever one gateway had when it was read first,
//! the other must have (a block under that stamp or a later one, or a floor above it, or a later incarnation) once its
//! vector covers the first one's, both being clean. If it has not, the update is lost, and no traffic can excuse it. If
//! its vector does not cover it yet, the logs that are behind explain the difference: lag, or held when all of that has
//! arrived and waits.
//!
//! What cannot be told: of which worker the missing ops are. So with logs behind, a lost block looks like a lagging one
//! until those logs have caught up. [`Lacking::unexplained`] counts blocks whose own log is not behind: of these only a
//! restated op in another log can still tell.
//!
//! Not here: reading (`read`), words (`print`).

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::stamp::{Floor, Rank, Stamp};
use covey_mesh::inspect::{Class, Hex128, LogRow, Moment};
use covey_mesh::status::Phase;

use super::read::{HolderName, HolderState, State};
use super::report::{BlockDiff, HolderDiff, LISTED_MAX, LogDiff, RecordDiff, Side};

/// What is known of one gateway at two times.
#[derive(Clone, Debug)]
pub(super) struct Seen<T> {
    pub(super) before: T,
    pub(super) after: T,
}

/// A gateway that lacks something the other had, and what explains it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excuse<'a> {
    had: (&'a Moment, &'a Moment),
    has: (&'a Moment, &'a Moment),
    retired: &'a BTreeSet<Hex128>,
}

impl<'a> Excuse<'a> {
    /// `had`: the ends of the first reading of the gateway that had it; `has`: those of the second of the one that lacks
    /// it, and the lives whose logs that one has done with.
    pub(super) const fn new(
        had: (&'a Moment, &'a Moment),
        has: (&'a Moment, &'a Moment),
        retired: &'a BTreeSet<Hex128>,
    ) -> Self {
        Self { had, has, retired }
    }

    /// Logs of which the one that lacks it has not applied what the other had, and by how much.
    fn behind(&self) -> impl Iterator<Item = (&'a LogRow, u64)> + '_ {
        let (had, has) = (self.had.1, self.has.0);
        had.logs.iter().filter(|log| !self.retired.contains(&log.life)).filter_map(|log| {
            let applied = row(has, log.life).map_or(0, |row| row.seq);
            (applied < log.seq).then(|| (log, log.seq - applied))
        })
    }

    /// Whether the log of this life is among them.
    fn is_behind(&self, life: Hex128) -> bool {
        self.behind().any(|(log, _)| log.life == life)
    }

    /// Why it may be lacking.
    pub(super) fn class(&self) -> Class {
        let moments = [self.had.0, self.had.1, self.has.0, self.has.1];
        if moments.iter().any(|moment| moment.phase != Phase::Clean) {
            return Class::Dirty;
        }
        let (mut missing, mut waiting) = (0, 0);
        for (log, lacks) in self.behind() {
            missing += 1;
            waiting += usize::from(row(self.has.0, log.life).is_some_and(|row| row.held >= lacks));
        }
        match missing {
            0 => Class::Lost,
            _ if waiting == missing => Class::Held,
            _ => Class::Lag,
        }
    }
}

fn row(at: &Moment, life: Hex128) -> Option<&LogRow> {
    at.logs.iter().find(|log| log.life == life)
}

/// Lives whose logs a gateway has done with.
pub(super) fn retired(state: &State) -> BTreeSet<Hex128> {
    state.ends.retired.iter().copied().collect()
}

/// Logs of which one gateway still has not applied what the other had at first.
pub(super) fn logs(one: &Seen<State>, other: &Seen<State>) -> Vec<LogDiff> {
    let mut found = Vec::new();
    for (had, has, lacks) in [(one, other, Side::Other), (other, one, Side::One)] {
        let retired = retired(&has.after);
        for log in had.before.last.logs.iter().filter(|log| !retired.contains(&log.life)) {
            let theirs = row(&has.after.first, log.life);
            let seq = theirs.map_or(0, |row| row.seq);
            // Both saw op `seq` last at different times, so only equal numbers can be compared; each fork shows once.
            let forked = seq == log.seq && lacks == Side::Other && theirs.is_some_and(|row| row.hash != log.hash);
            if seq >= log.seq && !forked {
                continue;
            }
            let held = theirs.map_or(0, |row| row.held);
            let class = match () {
                () if forked => Class::Lost,
                () if held >= log.seq - seq => Class::Held,
                () => Class::Lag,
            };
            let name = log.name.clone().or_else(|| theirs.and_then(|row| row.name.clone()));
            let since_ms = theirs.and_then(|row| row.gap_ms);
            let applied = if lacks == Side::Other { (log.seq, seq) } else { (seq, log.seq) };
            found.push(LogDiff { life: log.life, name, lacks, applied, held, since_ms, forked, class });
        }
    }
    found
}

/// Records of workers and lives that one gateway still lacks.
pub(super) fn records(one: &Seen<State>, other: &Seen<State>) -> Vec<RecordDiff> {
    let mut found = Vec::new();
    for (had, has, lacks) in [(one, other, Side::Other), (other, one, Side::One)] {
        let retired = retired(&has.after);
        let excuse = Excuse::new((&had.before.first, &had.before.last), (&has.after.first, &has.after.last), &retired);
        let mut lack = |name: String, what: &str| {
            found.push(RecordDiff { name, lacks, what: what.to_owned(), class: excuse.class() });
        };
        for (name, mine) in &had.before.workers {
            let what = match has.after.workers.get(name) {
                None => "the record",
                Some(theirs) if theirs.incarnation < mine.incarnation => "its incarnation",
                Some(theirs) if theirs.incarnation > mine.incarnation => continue,
                Some(theirs) if !shrank(mine.capacity_tokens, theirs.capacity_tokens) => "its capacity",
                Some(theirs) if theirs.meta < mine.meta => "its rules, lanes and labels",
                Some(_) => continue,
            };
            lack(worker_name(name), what);
        }
        for log in had.before.first.logs.iter().filter(|log| log.name.is_some() && !retired.contains(&log.life)) {
            let theirs = row(&has.after.last, log.life).filter(|row| row.name.is_some());
            let what = match theirs {
                None => "the record",
                Some(row) if log.left && !row.left => "its goodbye",
                Some(_) => continue,
            };
            lack(format!("life {} of {}", log.life, log.name.as_deref().unwrap_or_default()), what);
        }
        let (mine, theirs) = (&had.before.ends, &has.after.ends);
        let fewer = mine.retired.iter().any(|life| !retired.contains(life)) && theirs.forgotten <= mine.forgotten;
        if fewer || theirs.forgotten < mine.forgotten {
            lack("lives that are over".to_owned(), "some of their ends");
        }
    }
    found
}

/// A capacity can only shrink within an incarnation.
fn shrank(mine: Option<u64>, theirs: Option<u64>) -> bool {
    mine.is_none_or(|mine| theirs.is_some_and(|theirs| theirs <= mine))
}

pub(super) fn worker_name((name, rank): &(String, u16)) -> String {
    if *rank == 0 { name.clone() } else { format!("{name}#{rank}") }
}

/// What one gateway still lacks of a holder.
#[derive(Clone, Debug, Default)]
struct Lacking {
    blocks: Vec<BlockDiff>,
    /// Blocks the other still has and this one has cut.
    cut: usize,
    /// Whether it lacks the other's floor.
    floor: bool,
    /// Whether it lacks the other's incarnation of the worker.
    incarnation: bool,
    /// Blocks lacking although the log that stamped them is applied on both sides.
    unexplained: usize,
    class: Option<Class>,
}

fn lacking(had: &Seen<HolderState>, has: &Seen<HolderState>, retired: &BTreeSet<Hex128>) -> Lacking {
    let (mine, theirs) = (&had.before, &has.after);
    let mut found = Lacking::default();
    let over = theirs.incarnation > mine.incarnation;
    if over || mine.incarnation.is_none() {
        return found;
    }
    let excuse = Excuse::new((&mine.first, &mine.last), (&theirs.first, &theirs.last), retired);
    let same = theirs.incarnation == mine.incarnation;
    for (path, (stamp, depth)) in &mine.blocks {
        let known = theirs.blocks.get(path).filter(|_| same).map(|(stamp, _)| *stamp);
        if known.is_some_and(|known| known >= *stamp) {
            continue;
        }
        if same && (Rank { stamp: *stamp, depth: *depth }) <= theirs.floor {
            found.cut += usize::from(had.after.blocks.contains_key(path) && !theirs.blocks.contains_key(path));
            continue;
        }
        found.unexplained += usize::from(!excuse.is_behind(Hex128(stamp.life.0)));
        found.blocks.push(block(*path, *stamp, *depth, known.is_some()));
    }
    found.blocks.sort_by_key(|block| (block.stamp, block.depth));
    found.floor = same && theirs.floor < mine.floor;
    found.incarnation = !same;
    if !found.blocks.is_empty() || found.floor || found.incarnation {
        found.class = Some(excuse.class());
    }
    found
}

fn block(path: Hex128, stamp: Stamp, depth: u32, restamped: bool) -> BlockDiff {
    BlockDiff { path, stamp: stamp.into(), depth, restamped }
}

/// In what a holder still differs; `None` when it does not.
pub(super) fn holder(
    name: &HolderName,
    model: &str,
    (one, other): (&Seen<HolderState>, &Seen<HolderState>),
    retired: (&BTreeSet<Hex128>, &BTreeSet<Hex128>),
) -> Option<HolderDiff> {
    let lacks_one = lacking(other, one, retired.0);
    let lacks_other = lacking(one, other, retired.1);
    let cut = lacks_one.cut + lacks_other.cut;
    let both = [&lacks_one, &lacks_other];
    let only_floors = both.iter().all(|lacking| lacking.blocks.is_empty() && !lacking.incarnation);
    let classes: Vec<Class> = both.iter().filter_map(|lacking| lacking.class).collect();
    let has = |class| classes.contains(&class);
    let class = match () {
        () if has(Class::Lost) => Class::Lost,
        () if has(Class::Dirty) => Class::Dirty,
        () if only_floors && (cut > 0 || !classes.is_empty()) => Class::Cut,
        () if has(Class::Lag) => Class::Lag,
        () if has(Class::Held) => Class::Held,
        () => return None,
    };
    let oldest = both.iter().flat_map(|lacking| &lacking.blocks).map(|block| block.stamp.ms).min();
    let lacking = (lacks_one.blocks.len() as u64, lacks_other.blocks.len() as u64);
    let listed = |lacking: Lacking| lacking.blocks.into_iter().take(LISTED_MAX).collect();
    let unexplained = (lacks_one.unexplained + lacks_other.unexplained) as u64;
    let floor = |floor: Floor| (floor > Floor::LOWEST).then(|| floor.stamp.hlc.ms());
    Some(HolderDiff {
        worker: worker_name(&name.0),
        model: model.to_owned(),
        id: name.1,
        blocks: (one.after.blocks.len() as u64, other.after.blocks.len() as u64),
        incarnations: (counter(&one.after), counter(&other.after)),
        floors_ms: (floor(one.after.floor), floor(other.after.floor)),
        cut: cut as u64,
        unexplained,
        lacking,
        since_ms: oldest,
        age_ms: oldest.map(|ms| one.after.last.wall_ms.max(other.after.last.wall_ms).saturating_sub(ms)),
        lacks_one: listed(lacks_one),
        lacks_other: listed(lacks_other),
        class,
        is_partial: [&one.before, &one.after, &other.before, &other.after].iter().any(|state| state.is_partial),
    })
}

fn counter(state: &HolderState) -> Option<u64> {
    state.incarnation.as_ref().map(|incarnation| incarnation.counter)
}

/// What a holder that was not read can be called: lost when equal clean vectors with another digest say so by themselves.
pub(super) fn unread(one: &State, other: &State) -> Option<Class> {
    let equal = vector(&one.first) == vector(&one.last)
        && vector(&one.last) == vector(&other.first)
        && vector(&other.first) == vector(&other.last);
    let clean = [&one.first, &one.last, &other.first, &other.last].iter().all(|at| at.phase == Phase::Clean);
    (equal && clean).then_some(Class::Lost)
}

fn vector(at: &Moment) -> BTreeMap<Hex128, u64> {
    at.logs.iter().filter(|log| log.seq > 0).map(|log| (log.life, log.seq)).collect()
}

/// Holders whose digests differ, those that differ most in blocks first.
pub(super) fn differing(one: &State, other: &State) -> Vec<(HolderName, String)> {
    let rows = |state: &State| -> BTreeMap<HolderName, (String, Hex128, u64)> {
        let holders = state.workers.iter().flat_map(|(name, worker)| {
            worker.holders.iter().map(|row| {
                // A worker's new life starts with an empty holder, which is another one.
                ((name.clone(), row.id), (row.model.clone(), row.digest, row.blocks))
            })
        });
        holders.filter(|(_, (_, digest, _))| *digest != Hex128(0)).collect()
    };
    let (mine, theirs) = (rows(one), rows(other));
    let names: BTreeSet<&HolderName> = mine.keys().chain(theirs.keys()).collect();
    let mut found: Vec<(u64, HolderName, String)> = Vec::new();
    for name in names {
        let (left, right) = (mine.get(name), theirs.get(name));
        if left.map(|row| row.1) == right.map(|row| row.1) {
            continue;
        }
        let blocks = |row: Option<&(String, Hex128, u64)>| row.map_or(0, |row| row.2);
        let model = left.or(right).map(|row| row.0.clone()).unwrap_or_default();
        found.push((blocks(left).abs_diff(blocks(right)), name.clone(), model));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().map(|(_, name, model)| (name, model)).collect()
}
