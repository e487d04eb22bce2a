//! Turns of single nodes, carried out once: which node state an input leads to, what it sends, and what is wrong there.
//!
//! Most interleavings differ in how node states are combined, not in the states of one node, so nodes are kept by
//! fingerprint and turns by (fingerprint, time, input). The fingerprint is a 128-bit hash over the node's derived
//! `Debug` form, which prints every field, so two states are one only when nothing the protocol could act upon differs.
//! Lives, paths and digests print their first 32, 48 and 32 bits: lives are chosen to differ there, a dozen paths do, and
//! digests follow from what is printed beside them (the root digest goes in whole). The one thing that is not printed is
//! how far the node's random generator is; that decides jitter (shorter than any step of time here), a session's number
//! and which of several peers is asked, so of those choices one is followed.
//!
//! Not here: interleaving (`model`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use covey_crdt::digest::Digest;
use covey_crdt::replica::Expanded;
use covey_mesh::input::{Input, MonoTime};
use covey_mesh::node::Node;
use covey_mesh::note::Note;
use covey_mesh::status::Phase;
use covey_sim::invariants::{self, Marks, View, Violation};
use covey_sim::oracle::Oracle;
use xxhash_rust::xxh3::Xxh3Default;

use crate::cluster::{Frame, Outputs, life, turn};
use crate::returned;
use crate::scenario::{Deed, inputs};

/// One state of one node, and what a look at it says.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) print: u128,
    pub(crate) node: Node,
    pub(crate) clean: bool,
    /// Equal for equal vectors.
    pub(crate) vector: u64,
    pub(crate) digest: Digest,
    /// Ops received and not applied.
    pub(crate) held: u64,
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A frame, by number, arrives.
    Frame(u32),
    /// The gateway does the next thing of its list.
    Deed(usize),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) sight: Arc<Sight>,
    pub(crate) at_ms: u64,
    /// Numbers of the frames sent.
    pub(crate) sent: Vec<u32>,
    pub(crate) duplicate: bool,
    pub(crate) repaired: bool,
    pub(crate) aborted: bool,
    pub(crate) wrong: Arc<[Violation]>,
}

/// A clean replica's digest and content, by the logs its vector counts: life, sequence number, running hash.
type Contents = BTreeMap<Vec<(u128, u64, u64)>, (Digest, Expanded)>;

/// Everything seen so far.
#[derive(Default)]
pub(crate) struct Lab {
    sights: BTreeMap<u128, Arc<Sight>>,
    frames: Vec<Frame>,
    numbers: BTreeMap<Frame, u32>,
    turns: BTreeMap<(u128, u64, Event), Arc<Turn>>,
    contents: Contents,
}

impl Lab {
    /// The number of a frame; equal frames have equal numbers.
    pub(crate) fn number(&mut self, frame: Frame) -> u32 {
        let next = u32::try_from(self.frames.len()).expect("few frames");
        *self.numbers.entry(frame.clone()).or_insert_with(|| {
            self.frames.push(frame);
            next
        })
    }

    pub(crate) fn frame(&self, number: u32) -> &Frame {
        &self.frames[number as usize]
    }

    /// Distinct node states and turns so far.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.sights.len(), self.turns.len())
    }

    /// Looks at a node that is at the start of a scenario.
    pub(crate) fn first(&mut self, node: Node, oracle: &Oracle) -> Arc<Sight> {
        let (sight, wrong) = self.look(node, oracle);
        assert_eq!(wrong, [], "nothing is wrong yet");
        sight
    }

    /// Carries a turn out. `oracle` is told what the node published.
    pub(crate) fn turn(
        &mut self,
        before: &Arc<Sight>,
        at_ms: u64,
        event: Event,
        deed: Option<Deed>,
        oracle: &mut Arc<Oracle>,
    ) -> Arc<Turn> {
        let taken = deed.map(|deed| inputs(&before.node, deed, Arc::make_mut(oracle)));
        if let Some(known) = self.turns.get(&(before.print, at_ms, event)).cloned() {
            record(oracle, &before.node, &known.sight.node);
            return known;
        }
        let taken = taken.unwrap_or_else(|| {
            let Event::Frame(number) = event else { return Vec::new() };
            let frame = self.frame(number);
            vec![(0, Input::Received { from: life(frame.from), bytes: frame.bytes.clone() })]
        });
        let (mut node, mut at, mut outputs) = (before.node.clone(), at_ms, Outputs::default());
        for (ms, input) in taken {
            at += ms;
            turn(&mut node, at, input, &mut outputs);
        }
        record(oracle, &before.node, &node);
        let mut marks = Marks::default();
        let _ = marks.advance("", &before.node);
        let went_back = marks.advance("a node", &node);
        let broke_off = outputs.broke_off.map(|what| Violation { invariant: "link", what });
        let (sight, mut wrong) = self.look(node, oracle);
        wrong.extend(went_back.into_iter().chain(broke_off));
        let noted = |is: fn(&Note) -> bool| outputs.notes.iter().any(is);
        let done = Arc::new(Turn {
            sight,
            at_ms: at,
            duplicate: noted(|note| matches!(note, Note::Duplicate { .. })),
            repaired: noted(|note| matches!(note, Note::RepairDone { .. })),
            aborted: noted(|note| matches!(note, Note::RepairAborted { .. })),
            wrong: wrong.into(),
            sent: outputs.frames.into_iter().map(|frame| self.number(frame)).collect(),
        });
        self.turns.insert((before.print, at_ms, event), Arc::clone(&done));
        done
    }

    /// The node by its fingerprint, and what is wrong with it.
    fn look(&mut self, node: Node, oracle: &Oracle) -> (Arc<Sight>, Vec<Violation>) {
        let print = fingerprint(&node);
        if let Some(known) = self.sights.get(&print) {
            return (Arc::clone(known), Vec::new());
        }
        let view = View::of(node.life().to_string(), &node);
        let mut wrong: Vec<Violation> = self.differs(&node, &view).into_iter().collect();
        wrong.extend(returned::check(&view, oracle));
        wrong.extend(invariants::check(&[view], oracle, &invariants::Told::default()));
        let sight = Arc::new(Sight {
            print,
            clean: node.phase() == Phase::Clean,
            vector: node.vector().hash(),
            digest: node.replica().digest(),
            held: node.status(MonoTime::default()).ops_held,
            node,
        });
        if wrong.is_empty() {
            self.sights.insert(print, Arc::clone(&sight));
        }
        (sight, wrong)
    }

    /// I1 over all histories: whoever is clean and has counted these logs holds this, whatever way it took.
    fn differs(&mut self, node: &Node, view: &View) -> Option<Violation> {
        let wrong = |what: &str| Some(Violation { invariant: "I1", what: format!("{}: {what}", view.name) });
        if !node.replica().is_consistent() {
            return wrong("an incremental digest or count differs from one computed anew");
        }
        if !view.clean {
            return None;
        }
        let logs = node.vector().lives().map(|(life, head)| (life.0, head.seq, head.hash)).collect();
        let (digest, state) = self.contents.entry(logs).or_insert_with(|| (view.digest, view.state.clone()));
        if *digest != view.digest {
            return wrong("an equal clean vector had another digest in another history");
        }
        if *state != view.state {
            return wrong("an equal clean vector had another state in another history");
        }
        None
    }
}

fn record(oracle: &mut Arc<Oracle>, before: &Node, after: &Node) {
    if after.vector().head(after.life()) != before.vector().head(before.life()) {
        Arc::make_mut(oracle).record(after);
    }
}

fn fingerprint(node: &Node) -> u128 {
    struct Sink(Xxh3Default);
    impl Write for Sink {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut sink = Sink(Xxh3Default::new());
    write!(sink, "{node:?}").expect("hashing does not fail");
    sink.0.update(&node.replica().digest().0.to_be_bytes());
    sink.0.digest128()
}
