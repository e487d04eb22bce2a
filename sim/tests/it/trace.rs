//! Hazards of traces: lines that are no JSON, a cause that is not in the trace, arrows from nowhere, a run that differs
//! when it is watched.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, Mutex};

use covey_sim::plan::Plan;
use covey_sim::trace::{Collector, Jsonl, Perfetto, SCHEMA, SCHEMA_VERSION, Tee, Tracer, first_difference};
use covey_sim::world::{Watch, World, run};
use serde_json::Value;

/// A file in memory that outlives the tracer.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A plan with faults of several kinds, small.
fn plan() -> Plan {
    Plan::from_seed(3)
}

fn traced(make: impl Fn(&Plan) -> Box<dyn Tracer>) -> covey_sim::world::Outcome {
    let plan = plan();
    let mut world = World::new(plan.clone(), Watch { tracer: Some(make(&plan)), ..Watch::default() });
    while world.step() {}
    let (outcome, tracer) = world.finish();
    tracer.unwrap().finish().unwrap();
    outcome
}

#[test]
fn lines_are_whole_and_every_cause_is_an_earlier_line() {
    let memory = Memory::default();
    let outcome = traced(|plan| Box::new(Jsonl::new(memory.clone(), plan)));
    let text = memory.text();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!((header["schema"].as_str(), header["version"].as_u64()), (Some(SCHEMA), Some(SCHEMA_VERSION)));
    assert_eq!(header["nodes"].as_array().unwrap().len(), plan().nodes);
    let (mut seq, mut before_us, mut kinds) = (0, 0, BTreeSet::new());
    for line in lines {
        seq += 1;
        assert_eq!(line["seq"].as_u64(), Some(seq));
        let at_us = line["t_us"].as_u64().unwrap();
        assert!(at_us >= before_us, "time goes on");
        before_us = at_us;
        assert!(line["cause"].as_u64().unwrap() < seq, "{line}");
        let kind = line["kind"].as_str().unwrap().to_owned();
        if kind == "deliver" {
            assert!(line["digest"].as_str().is_none_or(|digest| digest.len() == 32) && line["frame"].is_string());
            assert!(line["cause"].as_u64().unwrap() > 0, "a frame was sent in some event: {line}");
        }
        kinds.insert(kind);
    }
    assert_eq!(seq, outcome.events, "one line an event");
    for kind in ["deliver", "timer", "start", "dial", "fault", "request", "answer", "load", "check", "calm"] {
        assert!(kinds.contains(kind), "{kind} never happened: {kinds:?}");
    }
}

/// The shape that ui.perfetto.dev reads: chrome's trace event format.
#[test]
fn perfetto_gets_slices_arrows_counters_and_instants() {
    let memory = Memory::default();
    let outcome = traced(|plan| Box::new(Perfetto::new(memory.clone(), plan)));
    let document: Value = serde_json::from_str(&memory.text()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let names: BTreeSet<_> = of("M").iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    assert!(names.contains("cluster") && names.contains("gw-0") && names.contains("gw-2"));
    let slices = of("X");
    assert_eq!(slices.len() as u64, outcome.events);
    let places: BTreeSet<_> = slices.iter().map(|slice| (slice["ts"].as_u64(), slice["pid"].as_u64())).collect();
    let (starts, ends) = (of("s"), of("f"));
    assert_eq!(starts.len(), ends.len());
    assert!(starts.len() > 100, "frames are arrows");
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!((&start["id"], &end["bp"]), (&end["id"], &Value::from("e")));
        assert!(start["ts"].as_u64() < end["ts"].as_u64(), "a frame takes time: {start} {end}");
        assert!(places.contains(&(start["ts"].as_u64(), start["pid"].as_u64())), "an arrow begins at a slice: {start}");
        assert!(places.contains(&(end["ts"].as_u64(), end["pid"].as_u64())), "an arrow ends at a slice: {end}");
    }
    assert!(of("C").iter().any(|event| event["args"]["ops"].as_u64() > Some(0)), "somebody lagged");
    assert!(of("i").iter().any(|event| event["s"] == "g"), "faults are marked");
    assert!(of("i").iter().any(|event| event["s"] == "p" && event["name"].as_str().unwrap().contains("Clean")));
}

#[test]
fn a_run_is_the_same_watched_or_not() {
    let quiet = run(&plan());
    let collectors = [Collector::default(), Collector::default()];
    for collector in &collectors {
        let watched = traced(|_| Box::new(Tee(vec![Box::new(collector.clone()), Box::new(Collector::default())])));
        let sum = |outcome: &covey_sim::world::Outcome| (outcome.trace, outcome.events, outcome.bytes);
        assert_eq!(sum(&quiet), sum(&watched));
    }
    let [one, other] = collectors.map(|collector| collector.take());
    assert_eq!(one.iter().count() as u64, quiet.events);
    assert_eq!(first_difference(&one, &other), None);
    let mut steps: Vec<_> = other.iter().cloned().collect();
    steps[700].digest = Some(covey_crdt::digest::Digest(7));
    assert!(first_difference(&one, &covey_sim::trace::Kept::of(steps)).is_some());
}

#[test]
fn a_seed_has_one_trace_in_every_process() {
    let trace = |seed: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_covey-sim")).args(["run", "--seed", seed]).output().unwrap();
        assert!(out.status.success());
        let said = String::from_utf8(out.stdout).unwrap();
        let at = said.find("trace ").unwrap() + 6;
        said[at..at + 16].to_owned()
    };
    for seed in [3, 5] {
        let here = format!("{:016x}", run(&Plan::from_seed(seed)).trace);
        assert_eq!([trace(&seed.to_string()), trace(&seed.to_string())], [here.clone(), here], "seed {seed}");
    }
    assert_ne!(trace("3"), trace("5"));
}
