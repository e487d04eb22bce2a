//! Where workers publish their KV events: `--kv-events ID=ENDPOINT`, `--kv-replay ID=ENDPOINT`, or one port for all.
//!
//! Each rank of a data-parallel engine has the next port. Not here: reading them (`server::ingest`).

use std::collections::BTreeMap;
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
    /// A rank's port would be above 65535.
    PastLastPort {
        /// The flag, without dashes.
        flag: &'static str,
        /// The rank's name.
        id: String,
        /// Where rank 0 is.
        first: String,
    },
    /// Two sockets would have one address, because ranks are on consecutive ports.
    Overlap {
        /// The address.
        endpoint: String,
        /// What is there.
        first: String,
        /// What would be there too.
        second: String,
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
            Self::PastLastPort { flag, id, first } => write!(
                f,
                "{}: {id} would be above port 65535: ranks are on consecutive ports, and rank 0 is at {first}; choose a lower \
                 port (on the engine too), or correct {}",
                named(flag),
                named("data-parallel")
            ),
            Self::Overlap { endpoint, first, second } => write!(
                f,
                "{}: {endpoint} would be {first} and {second}: ranks are on consecutive ports; give ports that are further \
                 apart (on the engine too), or correct the size",
                named("data-parallel")
            ),
        }
    }
}

/// Two flags that say the same thing: of one worker, and of all by port.
struct Flags {
    each: &'static str,
    port: &'static str,
}

const EVENTS: Flags = Flags { each: "kv-events", port: "kv-events-port" };
const REPLAY: Flags = Flags { each: "kv-replay", port: "kv-replay-port" };

/// Which workers' events are read, and where.
pub(super) fn sources(args: &EventArgs, workers: &[WorkerSpec]) -> Result<Vec<(WorkerId, Source)>, ConfigError> {
    let events = endpoints(EVENTS.each, &args.kv_events, workers)?;
    let replays = endpoints(REPLAY.each, &args.kv_replay, workers)?;
    let mut sources = Vec::new();
    for worker in workers {
        let replay = place(&REPLAY, &replays, args.kv_replay_port, worker)?;
        match place(&EVENTS, &events, args.kv_events_port, worker)? {
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
    check_overlap(&sources, workers).map_err(ConfigError::Events)?;
    Ok(sources)
}

/// Where a worker is: as said of it or of all, and as many ports further as its rank.
fn place(
    flags: &Flags,
    given: &[(WorkerId, Endpoint)],
    port: Option<u16>,
    worker: &WorkerSpec,
) -> Result<Option<Endpoint>, ConfigError> {
    let said = given.iter().find(|(id, _)| id.name() == worker.id.name()).map(|(_, at)| (flags.each, at.clone()));
    let by_port = || Some((flags.port, beside(worker, port?)?));
    let Some((flag, first)) = said.or_else(by_port) else { return Ok(None) };
    let past = || EventsError::PastLastPort { flag, id: worker.id.to_string(), first: first.to_string() };
    first.of_rank(worker.id.rank()).map(Some).ok_or_else(|| ConfigError::Events(past()))
}

/// No socket of a data-parallel engine is another one's as well. vLLM's usual ports, 5557 and 5558, are such a case.
fn check_overlap(sources: &[(WorkerId, Source)], workers: &[WorkerSpec]) -> Result<(), EventsError> {
    let mut taken: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for (id, source) in sources {
        let has_ranks = workers.iter().any(|worker| worker.id == *id && worker.ranks > 1);
        let sockets = [("the events of", Some(&source.events)), ("the replays of", source.replay.as_ref())];
        for (what, at) in sockets.iter().filter_map(|(what, at)| Some((*what, (*at)?))) {
            let second = format!("{what} {id}");
            match taken.get(&at.to_string()) {
                Some((first, other)) if has_ranks || *other => {
                    return Err(EventsError::Overlap { endpoint: at.to_string(), first: first.clone(), second });
                }
                Some(_) => {}
                None => drop(taken.insert(at.to_string(), (second, has_ranks))),
            }
        }
    }
    Ok(())
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

    /// The first of the two with two ranks.
    fn with_ranks() -> Vec<WorkerSpec> {
        let workers = workers();
        let of_rank = |rank| WorkerSpec { id: workers[0].id.of_rank(rank), ranks: 2, ..workers[0].clone() };
        vec![of_rank(0), of_rank(1), workers[1].clone()]
    }

    #[test]
    fn ranks_are_on_consecutive_ports() {
        let ports = EventArgs { kv_replay_port: Some(7000), ..args(&["a=tcp://h:5557"], &[]) };
        let ports = EventArgs { kv_events_port: Some(6000), ..ports };
        let found = sources(&ports, &with_ranks()).expect("three sources");
        let told: Vec<_> = found.iter().map(|(id, at)| (id.to_string(), at.events.to_string())).collect();
        let expected =
            [("a", "tcp://h:5557"), ("a#1", "tcp://h:5558"), ("http://10.0.0.2:8000", "tcp://10.0.0.2:6000")];
        assert_eq!(told, expected.map(|(id, at)| (id.to_owned(), at.to_owned())));
        let replays: Vec<_> = found.iter().filter_map(|(_, at)| at.replay.as_ref().map(ToString::to_string)).collect();
        assert_eq!(replays, ["tcp://10.0.0.1:7000", "tcp://10.0.0.1:7001", "tcp://10.0.0.2:7000"]);
    }

    #[test]
    fn ports_of_ranks_end_at_the_last_and_are_no_others() {
        let by_port = EventArgs { kv_events_port: Some(65_535), ..EventArgs::default() };
        for (given, words) in [
            (args(&["a=tcp://h:65535"], &[]), "--kv-events (COVEY_KV_EVENTS): a#1 would be above port 65535"),
            (args(&["a=tcp://h:1"], &["a=tcp://h:65535"]), "--kv-replay (COVEY_KV_REPLAY): a#1 would be above"),
            (by_port, "--kv-events-port (COVEY_KV_EVENTS_PORT): a#1 would be above"),
            (
                args(&["a=tcp://h:5557"], &["a=tcp://h:5558"]),
                "tcp://h:5558 would be the replays of a and the events of a#1",
            ),
            (
                args(&["a=tcp://h:5557", "http://10.0.0.2:8000=tcp://h:5558"], &[]),
                "would be the events of a#1 and the events of http://10.0.0.2:8000",
            ),
        ] {
            let said = sources(&given, &with_ranks()).expect_err("it is refused").to_string();
            assert!(said.contains(words), "{said:?} does not say {words:?}");
        }
        assert!(sources(&args(&["a=tcp://h:5557"], &["a=tcp://h:5567"]), &with_ranks()).is_ok());
    }
}
