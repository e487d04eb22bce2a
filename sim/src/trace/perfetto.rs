//! A trace in Chrome's trace event format, which ui.perfetto.dev opens: a process a node, a slice an event, flow arrows
//! for frames, counters for lag, instants for faults and notes.
//!
//! Not here: what is in an event (`world`).

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};

use super::{Step, Tracer, node_name};
use crate::plan::Plan;

/// The process that stands for the cluster as a whole; node `n` is process `n + 1`.
const CLUSTER: usize = 0;

/// Writes events as one JSON document.
pub struct Perfetto<W: Write + Send> {
    out: BufWriter<W>,
    is_first: bool,
    /// When each event was carried out, and at which process, by number.
    places: Vec<(u64, usize)>,
    broken: Option<io::Error>,
}

impl<W: Write + Send> Perfetto<W> {
    /// A trace of a run of `plan`.
    pub fn new(out: W, plan: &Plan) -> Self {
        let mut trace = Self { out: BufWriter::new(out), is_first: true, places: vec![(0, CLUSTER)], broken: None };
        trace.broken = trace.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n").err();
        trace.name(CLUSTER, "cluster");
        for node in 0..plan.nodes {
            trace.name(node + 1, &node_name(node));
        }
        trace
    }

    fn name(&mut self, process: usize, name: &str) {
        for (what, key) in [("process_name", name), ("thread_name", "events")] {
            self.event(&json!({ "ph": "M", "name": what, "pid": process, "tid": 0, "args": { "name": key } }));
        }
        let order = json!({ "sort_index": process });
        self.event(&json!({ "ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": order }));
    }

    fn event(&mut self, event: &Value) {
        if self.broken.is_some() {
            return;
        }
        let comma: &[u8] = if std::mem::take(&mut self.is_first) { b"" } else { b",\n" };
        let wrote = self.out.write_all(comma);
        self.broken = wrote.and_then(|()| serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)).err();
    }

    /// An arrow from the event that sent a frame to the one that received it.
    fn arrow(&mut self, step: &Step, process: usize) {
        let Some((sent_us, sender)) = usize::try_from(step.cause).ok().and_then(|nth| self.places.get(nth)).copied()
        else {
            return;
        };
        let name = step.fields.get("frame").cloned().unwrap_or_else(|| "frame".into());
        let flow = |phase: &str, process: usize, at: u64| json!({ "ph": phase, "cat": "frame", "name": name, "id": step.seq, "pid": process, "tid": 0, "ts": at });
        self.event(&flow("s", sender, sent_us));
        let mut end = flow("f", process, step.t_us);
        end["bp"] = "e".into();
        self.event(&end);
    }
}

impl<W: Write + Send> Tracer for Perfetto<W> {
    fn step(&mut self, step: Step) {
        let process = step.node.map_or(CLUSTER, |node| node + 1);
        let mut args = step.fields.clone();
        args.insert("seq".to_owned(), step.seq.into());
        args.insert("cause".to_owned(), step.cause.into());
        args.insert("digest".to_owned(), step.digest.map(|digest| digest.to_string()).into());
        let (at, kind) = (step.t_us, step.kind);
        self.event(&json!({ "ph": "X", "name": kind, "pid": process, "tid": 0, "ts": at, "dur": 1, "args": args }));
        let place = usize::try_from(step.seq).expect("as many events as fit into memory");
        self.places.resize(place + 1, (0, CLUSTER));
        self.places[place] = (step.t_us, process);
        if kind == "deliver" {
            self.arrow(&step, process);
        }
        if kind == "fault" {
            let name = step.fields.get("fault").map_or_else(|| "fault".to_owned(), Value::to_string);
            self.event(&json!({ "ph": "i", "s": "g", "name": name, "pid": CLUSTER, "tid": 0, "ts": at }));
        }
        for (node, note) in step.notes {
            self.event(&json!({ "ph": "i", "s": "p", "name": note, "pid": node + 1, "tid": 0, "ts": at }));
        }
        for (node, ops) in step.lags {
            let args = json!({ "ops": ops });
            self.event(&json!({ "ph": "C", "name": "lag", "pid": node + 1, "tid": 0, "ts": at, "args": args }));
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.broken.take() {
            Some(why) => Err(why),
            None => self.out.write_all(b"\n]}\n").and_then(|()| self.out.flush()),
        }
    }
}
