//! Traces: what happened in a run, event by event, for people and tools.
//!
//! A [`Tracer`] is handed to the world; a run without one builds nothing of this. [`Jsonl`] writes one object a line,
//! [`Perfetto`] a file for ui.perfetto.dev, [`Collector`] keeps the last events in memory for failure reports and
//! comparisons.
//!
//! Not here: what an event does (`world`), what a violation means (`invariants`).

mod collector;
mod jsonl;
mod perfetto;

use std::fmt;

use bytes::Bytes;
use covey_crdt::digest::Digest;
use covey_mesh::note::Note;
use covey_mesh::output::Class;
use serde_json::{Map, Value};

pub use collector::{Collector, Difference, Kept, first_difference};
pub use jsonl::{Jsonl, SCHEMA, SCHEMA_VERSION};
pub use perfetto::Perfetto;

use crate::plan::Plan;
use crate::world::World;

/// One event that was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When, in virtual microseconds.
    pub t_us: u64,
    /// Its number, from 1.
    pub seq: u64,
    /// The node it happened at; `None` for the cluster as a whole.
    pub node: Option<usize>,
    /// What it was.
    pub kind: &'static str,
    /// The number of the event that queued it; 0 for the plan itself.
    pub cause: u64,
    /// The node's root digest afterwards; `None` where there is no node.
    pub digest: Option<Digest>,
    /// The rolling hash over all events so far.
    pub hash: u64,
    /// What only this kind has.
    pub fields: Map<String, Value>,
    /// What the nodes noted meanwhile: node and note.
    pub notes: Vec<(usize, String)>,
    /// Ops published and not applied at each live node, where they were counted.
    pub lags: Vec<(usize, u64)>,
}

/// Hears of everything that happens in a run.
pub trait Tracer: Send {
    /// An event was carried out.
    fn step(&mut self, step: Step);

    /// Whether [`Self::step`] does anything: describing events is dear.
    fn wants_steps(&self) -> bool {
        true
    }

    /// A node noted something; the world is as it was before the node's turn was carried on.
    fn note(&mut self, _world: &World, _node: usize, _note: &Note) {}

    /// A node sent a frame, whether or not it will arrive.
    fn frame(&mut self, _node: usize, _class: Class, _frame: &Bytes) {}

    /// The run is over.
    ///
    /// # Errors
    /// When what was heard could not be written.
    fn finish(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Passes everything on to several tracers.
#[derive(Default)]
pub struct Tee(pub Vec<Box<dyn Tracer>>);

impl Tracer for Tee {
    fn step(&mut self, step: Step) {
        if let Some((last, others)) = self.0.split_last_mut() {
            others.iter_mut().for_each(|tracer| tracer.step(step.clone()));
            last.step(step);
        }
    }

    fn note(&mut self, world: &World, node: usize, note: &Note) {
        self.0.iter_mut().for_each(|tracer| tracer.note(world, node, note));
    }

    fn frame(&mut self, node: usize, class: Class, frame: &Bytes) {
        self.0.iter_mut().for_each(|tracer| tracer.frame(node, class, frame));
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.0.iter_mut().try_for_each(|tracer| tracer.finish())
    }
}

/// The name of a node in traces and reports.
#[must_use]
pub fn node_name(node: usize) -> String {
    format!("gw-{node}")
}

/// A number that tells plans apart: 16 hex digits over the plan's JSON.
#[must_use]
pub fn plan_hash(plan: &Plan) -> String {
    let text = serde_json::to_string(plan).expect("a plan of plain fields always encodes");
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.map_or_else(|| "-".to_owned(), node_name);
        write!(f, "{:>12.6} s  #{:<7} {node:<6} {:<9}", self.t_us as f64 / 1e6, self.seq, self.kind)?;
        write!(f, " <- #{:<7}", self.cause)?;
        for (name, value) in &self.fields {
            match value.as_str() {
                Some(text) => write!(f, " {name}={text}")?,
                None => write!(f, " {name}={value}")?,
            }
        }
        for (node, note) in &self.notes {
            write!(f, " [{}: {note}]", node_name(*node))?;
        }
        Ok(())
    }
}
