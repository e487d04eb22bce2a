//! A trace as JSON lines: a header that names schema and run, then one object an event, in order.
//!
//! Not here: what is in an event (`world`).

use std::io::{self, BufWriter, Write};

use serde_json::{Map, Value, json};

use super::{Step, Tracer, node_name, plan_hash};
use crate::plan::Plan;

/// The name in the header line.
pub const SCHEMA: &str = "covey-sim-trace";
/// Grows when a field changes its meaning or goes; further fields may come at any time.
pub const SCHEMA_VERSION: u64 = 1;

/// Writes events as lines of JSON.
pub struct Jsonl<W: Write + Send> {
    out: BufWriter<W>,
    /// The first error; nothing is written after it.
    broken: Option<io::Error>,
}

impl<W: Write + Send> Jsonl<W> {
    /// A trace of a run of `plan`.
    pub fn new(out: W, plan: &Plan) -> Self {
        let mut trace = Self { out: BufWriter::new(out), broken: None };
        let nodes: Vec<String> = (0..plan.nodes).map(node_name).collect();
        trace.line(&json!({
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "package_version": env!("CARGO_PKG_VERSION"),
            "seed": plan.seed,
            "plan_hash": plan_hash(plan),
            "nodes": nodes,
        }));
        trace
    }

    fn line(&mut self, value: &Value) {
        if self.broken.is_none() {
            let wrote = serde_json::to_writer(&mut self.out, value).map_err(io::Error::from);
            self.broken = wrote.and_then(|()| self.out.write_all(b"\n")).err();
        }
    }
}

impl<W: Write + Send> Tracer for Jsonl<W> {
    fn step(&mut self, step: Step) {
        let mut line = Map::new();
        line.insert("t_us".to_owned(), step.t_us.into());
        line.insert("seq".to_owned(), step.seq.into());
        line.insert("node".to_owned(), step.node.map(node_name).into());
        line.insert("kind".to_owned(), step.kind.into());
        line.insert("cause".to_owned(), step.cause.into());
        line.insert("digest".to_owned(), step.digest.map(|digest| digest.to_string()).into());
        line.extend(step.fields);
        if !step.notes.is_empty() {
            let notes = step.notes.into_iter().map(|(node, note)| json!({ "node": node_name(node), "note": note }));
            line.insert("notes".to_owned(), notes.collect());
        }
        if !step.lags.is_empty() {
            let lags: Map<String, Value> =
                step.lags.into_iter().map(|(node, ops)| (node_name(node), ops.into())).collect();
            line.insert("lag_ops".to_owned(), lags.into());
        }
        self.line(&line.into());
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.broken.take() {
            Some(why) => Err(why),
            None => self.out.flush(),
        }
    }
}
