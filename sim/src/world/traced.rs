//! What the world tells a tracer, and the small hooks it is told through. Without a tracer none of this is built.
//!
//! Not here: what becomes of it (`trace`).

use bytes::Bytes;
use covey_mesh::note::Note;
use covey_mesh::output::Class;
use serde_json::{Map, Value, json};

use super::{Event, World};
use crate::network::State;
use crate::trace::{Step, node_name};

/// What one event is called, where it happens, and what only it has.
type Told = (&'static str, Option<usize>, Value);

impl World {
    pub(super) fn is_traced(&self) -> bool {
        self.watch.tracer.as_ref().is_some_and(|tracer| tracer.wants_steps())
    }

    /// The event as a trace has it, before it is carried out.
    pub(super) fn describe(&self, cause: u64, event: &Event) -> Step {
        let (kind, node, fields) = self.told(event);
        let fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        Step {
            t_us: self.now_us,
            seq: self.outcome.events,
            node,
            kind,
            cause,
            digest: None,
            hash: self.outcome.trace,
            fields,
            notes: Vec::new(),
            lags: Vec::new(),
        }
    }

    fn told(&self, event: &Event) -> Told {
        let nothing = json!({});
        match event {
            Event::Deliver(frame) => {
                let kind = covey_mesh::frame_kind(&frame.bytes).unwrap_or("unreadable");
                let state = format!("{:?}", frame.state).to_lowercase();
                let fields = json!({ "from": node_name(frame.from), "frame": kind, "bytes": frame.bytes.len() });
                let fields = with(fields, "state", state, frame.state != State::Whole);
                ("deliver", Some(frame.to), fields)
            }
            Event::Timer { node } => ("timer", Some(*node), nothing),
            Event::Start { node } => ("start", Some(*node), nothing),
            Event::Dial { one, other } => ("dial", Some(*one), json!({ "to": node_name(*other) })),
            Event::Shaken { one, other, .. } => ("handshake", Some(*one), json!({ "to": node_name(*other) })),
            Event::LinkDead { one, other } => ("link-dead", Some(*one), json!({ "to": node_name(*other) })),
            Event::PeerGone { node, life } => ("peer-gone", Some(*node), json!({ "life": life.to_string() })),
            Event::Missed { node, life } => ("missed", Some(*node), json!({ "life": life.to_string() })),
            Event::Member { node, member } => ("member", Some(*node), json!({ "says": format!("{member:?}") })),
            Event::Fault { nth } => ("fault", None, json!({ "nth": nth, "fault": self.plan.events[*nth].fault })),
            Event::Next(next) => ("fault-goes-on", None, json!({ "next": format!("{next:?}") })),
            Event::Blocked { node, to } => ("blocked", Some(*node), json!({ "to": node_name(*to) })),
            Event::Writable { node, to } => ("writable", Some(*node), json!({ "to": node_name(*to) })),
            Event::Stall { broken } => ("stall", Some(self.plan.broken[*broken].node), nothing),
            Event::Resume { node } => ("resume", Some(*node), nothing),
            Event::Request => ("request", None, nothing),
            Event::Probe { node } => ("probe", Some(*node), nothing),
            Event::Answer(answer) => {
                let worker = self.traffic.worker(answer.worker).to_string();
                ("answer", Some(answer.node), json!({ "worker": worker, "token": answer.token.as_str() }))
            }
            Event::Engine { worker } => ("engine", None, json!({ "worker": self.traffic.worker(*worker).to_string() })),
            Event::Feed(feed) => {
                let (worker, what) = (self.traffic.worker(feed.worker).to_string(), feed.doing.name());
                ("kv-event", Some(feed.node), json!({ "worker": worker, "what": what, "seq": feed.doing.seq() }))
            }
            Event::Load { node } => ("load", Some(*node), nothing),
            Event::Check { .. } => ("check", None, nothing),
            Event::Calm => ("calm", None, nothing),
        }
    }

    /// Hands the event on, after it was carried out.
    pub(super) fn traced(&mut self, step: Option<Step>) {
        let Some(mut step) = step else { return };
        step.notes = std::mem::take(&mut self.noted);
        let node = step.node.and_then(|nth| self.slots[nth].node.as_ref());
        step.digest = node.map(|node| node.replica().digest());
        if step.kind == "check" {
            step.lags = self.lags();
        }
        if let Some(tracer) = &mut self.watch.tracer {
            tracer.step(step);
        }
    }

    /// Ops published by anybody and not applied, at each live node.
    fn lags(&self) -> Vec<(usize, u64)> {
        let live = self.slots.iter().enumerate().filter_map(|(nth, slot)| Some((nth, slot.node.as_ref()?)));
        live.map(|(nth, node)| {
            let lacks = |(life, last): (_, u64)| last.saturating_sub(node.vector().head(life).seq);
            (nth, self.oracle.heads().map(lacks).sum())
        })
        .collect()
    }

    pub(super) fn watch_note(&mut self, node: usize, note: &Note) {
        let Some(mut tracer) = self.watch.tracer.take() else { return };
        if tracer.wants_steps() && !matches!(note, Note::Sent { .. } | Note::Applied { .. }) {
            self.noted.push((node, format!("{note:?}")));
        }
        tracer.note(self, node, note);
        self.watch.tracer = Some(tracer);
    }

    pub(super) fn watch_frame(&mut self, node: usize, class: Class, frame: &Bytes) {
        if let Some(tracer) = &mut self.watch.tracer {
            tracer.frame(node, class, frame);
        }
    }
}

fn with(mut fields: Value, name: &str, value: String, is_told: bool) -> Value {
    if is_told {
        fields[name] = value.into();
    }
    fields
}
