//! Where workers publish their KV events: `--kv-events ID=ENDPOINT`, `--kv-replay ID=ENDPOINT`, or one port for all.
//!
//! Not here: reading them (`server::ingest`).

use std::fmt;

use covey_crdt::id::WorkerId;
use url::Url;

use super::args::EventArgs;
use super::error::{ConfigError, named};
use super::worker::WorkerSpec;
use crate::ingest::runner::Source;
use crate::ingest::zmtp::Endpoint;

/// What is wrong with a flag about events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventsError {
    /// It is not `ID=ENDPOINT`, or the endpoint is none.
    Form {
        /// The flag, without dashes.
        flag: &'static str,
        /// The text.
        given: String,
        /// What is wrong.
        why: String,
    },
    /// It names a worker that no `--worker` has.
    Unknown {
        /// The flag, without dashes.
        flag: &'static str,
        /// The id.
        id: String,
    },
    /// A worker's events are given twice.
    Twice {
        /// The flag, without dashes.
        flag: &'static str,
        /// The id.
        id: String,
    },
    /// A replay without events.
    Alone {
        /// The id.
        id: String,
    },
}

impl fmt::Display for EventsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form { flag, given, why } => {
                write!(f, "{}: {given:?}: {why}; write WORKER=tcp://HOST:PORT", named(flag))
            }
            Self::Unknown { flag, id } => write!(
                f,
                "{}: no worker is called {id:?}; give the id of a {} (or its URL, when it has none)",
                named(flag),
                named("worker")
            ),
            Self::Twice { flag, id } => write!(f, "{}: worker {id:?} has two; leave one out", named(flag)),
            Self::Alone { id } => write!(
                f,
                "{}: worker {id:?} has a replay endpoint and no events; give {} as well",
                named("kv-replay"),
                named("kv-events")
            ),
        }
    }
}

/// Which workers' events are read, and where.
pub(super) fn sources(args: &EventArgs, workers: &[WorkerSpec]) -> Result<Vec<(WorkerId, Source)>, ConfigError> {
    let events = endpoints("kv-events", &args.kv_events, workers)?;
    let replays = endpoints("kv-replay", &args.kv_replay, workers)?;
    let mut sources = Vec::new();
    for worker in workers {
        let of = |list: &[(WorkerId, Endpoint)]| list.iter().find(|(id, _)| *id == worker.id).map(|(_, at)| at.clone());
        let at = |port: Option<u16>| port.and_then(|port| beside(worker, port));
        let replay = of(&replays).or_else(|| at(args.kv_replay_port));
        match of(&events).or_else(|| at(args.kv_events_port)) {
            Some(events) => {
                let topic = args.kv_topic.clone();
                sources.push((worker.id.clone(), Source { events, replay, topic }));
            }
            None if replay.is_some() => {
                return Err(ConfigError::Events(EventsError::Alone { id: worker.id.to_string() }));
            }
            None => {}
        }
    }
    Ok(sources)
}

fn endpoints(
    flag: &'static str,
    given: &[String],
    workers: &[WorkerSpec],
) -> Result<Vec<(WorkerId, Endpoint)>, ConfigError> {
    let mut found: Vec<(WorkerId, Endpoint)> = Vec::new();
    for text in given.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let form = |why: String| ConfigError::Events(EventsError::Form { flag, given: text.to_owned(), why });
        let (id, endpoint) = text.rsplit_once('=').ok_or_else(|| form("the worker is missing".to_owned()))?;
        let endpoint = Endpoint::parse(endpoint.trim()).map_err(|error| form(error.to_string()))?;
        let id = id.trim().to_owned();
        let Some(worker) = workers.iter().find(|worker| worker.id.name() == id) else {
            return Err(ConfigError::Events(EventsError::Unknown { flag, id }));
        };
        if found.iter().any(|(known, _)| *known == worker.id) {
            return Err(ConfigError::Events(EventsError::Twice { flag, id }));
        }
        found.push((worker.id.clone(), endpoint));
    }
    Ok(found)
}

/// A port on the worker's own host.
fn beside(worker: &WorkerSpec, port: u16) -> Option<Endpoint> {
    let url = Url::parse(&worker.url).ok()?;
    Endpoint::parse(&format!("tcp://{}:{port}", url.host_str()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers() -> Vec<WorkerSpec> {
        ["a=http://10.0.0.1:8000", "http://10.0.0.2:8000"].map(|text| WorkerSpec::parse(text).expect("a spec")).into()
    }

    fn args(events: &[&str], replays: &[&str]) -> EventArgs {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        EventArgs { kv_events: list(events), kv_replay: list(replays), ..EventArgs::default() }
    }

    fn refused(args: &EventArgs) -> String {
        sources(args, &workers()).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_worker_is_named_by_its_id_or_its_url_and_a_port_stands_for_all() {
        let given =
            args(&["a=tcp://10.0.0.1:5557", "http://10.0.0.2:8000=tcp://10.0.0.2:5557"], &["a=tcp://10.0.0.1:5558"]);
        let found = sources(&given, &workers()).expect("two sources");
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].1.events.to_string(), found[0].1.replay.is_some()),
            ("tcp://10.0.0.1:5557".to_owned(), true)
        );
        assert!(found[1].1.replay.is_none());
        let ports = EventArgs { kv_events_port: Some(6000), kv_replay_port: Some(6001), ..args(&["a=tcp://h:1"], &[]) };
        let found = sources(&ports, &workers()).expect("two sources");
        let told: Vec<String> = found.iter().map(|(_, source)| source.events.to_string()).collect();
        assert_eq!(told, ["tcp://h:1", "tcp://10.0.0.2:6000"]);
        assert!(sources(&EventArgs::default(), &workers()).expect("none").is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (given, words) in [
            (args(&["tcp://h:1"], &[]), "write WORKER=tcp://HOST:PORT"),
            (args(&["a=udp://h:1"], &[]), "udp://h:1"),
            (args(&["b=tcp://h:1"], &[]), "no worker is called \"b\""),
            (args(&["a=tcp://h:1", "a=tcp://h:2"], &[]), "has two"),
            (args(&[], &["a=tcp://h:1"]), "--kv-events (COVEY_KV_EVENTS)"),
        ] {
            let said = refused(&given);
            assert!(said.contains(words), "{said:?} does not say {words:?}");
        }
    }
}
