//! `--data-parallel WORKER=SIZE`: an engine with several data-parallel ranks behind one address is as many workers.
//!
//! Not here: where ranks publish their events (`events`), how an engine is told which rank is meant (`server::exchange`).

use std::collections::BTreeSet;
use std::fmt;

use super::error::{ConfigError, named};
use super::worker::WorkerSpec;

/// Most ranks behind one address.
pub const RANKS_MAX: u16 = 64;

/// What is wrong with a flag about ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RanksError {
    /// It is not `WORKER=SIZE`.
    Form {
        /// The text.
        given: String,
        /// What is wrong.
        why: &'static str,
    },
    /// It names a worker that no `--worker` has.
    Unknown {
        /// The id.
        id: String,
    },
    /// A worker's size is given twice.
    Twice {
        /// The id.
        id: String,
    },
    /// No engine has so many ranks.
    Size {
        /// The id.
        id: String,
        /// The size.
        given: String,
    },
    /// A rank would be called as another worker is.
    Name {
        /// The name.
        name: String,
    },
}

impl fmt::Display for RanksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = named("data-parallel");
        match self {
            Self::Form { given, why } => write!(f, "{flag}: {given:?}: {why}; write WORKER=SIZE, such as w0=8"),
            Self::Unknown { id } => write!(
                f,
                "{flag}: no worker is called {id:?}; give the id of a {} (or its URL, when it has none)",
                named("worker")
            ),
            Self::Twice { id } => write!(f, "{flag}: worker {id:?} has two sizes; leave one out"),
            Self::Size { id, given } => write!(
                f,
                "{flag}: worker {id:?} cannot have {given} ranks; give the engine's own data-parallel size, 1 to {RANKS_MAX}"
            ),
            Self::Name { name } => write!(
                f,
                "{flag}: {name:?} would be a rank and another worker; call the other one differently in {}",
                named("worker")
            ),
        }
    }
}

/// Each worker as often as its engine has ranks.
pub(super) fn spread(given: &[String], workers: &[WorkerSpec]) -> Result<Vec<WorkerSpec>, ConfigError> {
    let sizes = sizes(given, workers).map_err(ConfigError::Ranks)?;
    let mut spread = Vec::new();
    for worker in workers {
        let size = sizes.iter().find(|(id, _)| id == worker.id.name()).map_or(1, |(_, size)| *size);
        spread.extend((0..size).map(|rank| WorkerSpec { id: worker.id.of_rank(rank), ranks: size, ..worker.clone() }));
    }
    let mut names = BTreeSet::new();
    match spread.iter().map(|worker| worker.id.to_string()).find(|name| !names.insert(name.clone())) {
        Some(name) => Err(ConfigError::Ranks(RanksError::Name { name })),
        None => Ok(spread),
    }
}

fn sizes(given: &[String], workers: &[WorkerSpec]) -> Result<Vec<(String, u16)>, RanksError> {
    let mut sizes: Vec<(String, u16)> = Vec::new();
    for text in given.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let form = |why| RanksError::Form { given: text.to_owned(), why };
        let (id, size) = text.rsplit_once('=').ok_or_else(|| form("the size is missing"))?;
        let (id, size) = (id.trim().to_owned(), size.trim());
        if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(form("the size is no number"));
        }
        if !workers.iter().any(|worker| worker.id.name() == id) {
            return Err(RanksError::Unknown { id });
        }
        if sizes.iter().any(|(known, _)| *known == id) {
            return Err(RanksError::Twice { id });
        }
        let Some(number) = size.parse().ok().filter(|size| (1..=RANKS_MAX).contains(size)) else {
            return Err(RanksError::Size { id, given: size.to_owned() });
        };
        sizes.push((id, number));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers() -> Vec<WorkerSpec> {
        ["a=http://10.0.0.1:8000", "http://10.0.0.2:8000/x=y", "c#1=http://10.0.0.3:8000", "c=http://10.0.0.4:8000"]
            .map(|text| WorkerSpec::parse(text).expect("a spec"))
            .into()
    }

    fn spread_by(given: &[&str]) -> Result<Vec<WorkerSpec>, String> {
        let given: Vec<_> = given.iter().map(|text| (*text).to_owned()).collect();
        spread(&given, &workers()).map_err(|error| error.to_string())
    }

    #[test]
    fn each_rank_is_a_worker_and_one_rank_is_told_nothing() {
        let found = spread_by(&["a=3", "http://10.0.0.2:8000/x=y=2", "c=1"]).expect("good");
        let told: Vec<_> = found.iter().map(|worker| (worker.id.to_string(), worker.sent_rank())).collect();
        let url = "http://10.0.0.2:8000/x=y";
        let expected =
            [("a", Some(0)), ("a#1", Some(1)), ("a#2", Some(2)), (url, Some(0)), (&format!("{url}#1"), Some(1))];
        let alone = [("c#1", None), ("c", None)];
        let expected: Vec<_> = expected.into_iter().chain(alone).map(|(id, rank)| (id.to_owned(), rank)).collect();
        assert_eq!(told, expected);
        assert!(found[..3].iter().all(|worker| worker.url == "http://10.0.0.1:8000"));
        assert_eq!(spread_by(&[]).expect("good"), workers());
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (given, words) in [
            (vec!["a"], "write WORKER=SIZE"),
            (vec!["a=two"], "the size is no number"),
            (vec!["a="], "the size is no number"),
            (vec!["b=2"], "no worker is called \"b\"; give the id of a --worker"),
            (vec!["a=2", "a=3"], "worker \"a\" has two sizes"),
            (vec!["a=0"], "worker \"a\" cannot have 0 ranks"),
            (vec!["a=65"], "1 to 64"),
            (vec!["a=99999999"], "cannot have 99999999 ranks"),
            (vec!["c=2"], "\"c#1\" would be a rank and another worker"),
        ] {
            let said = spread_by(&given).expect_err("it is refused");
            assert!(
                said.contains(words) && said.contains("--data-parallel (COVEY_DATA_PARALLEL)"),
                "{said:?}: {words:?}"
            );
        }
    }
}
