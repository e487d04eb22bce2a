//! Planted bugs on the command line: hunting for them, and running or shrinking a plan under one.
//!
//! A binary has them only when it was built with the feature `plants`; any other says so. Not here: the hunt (`hunt`), the
//! plants (`covey_crdt::plant`).

use serde::Serialize;

/// Whether a planted bug was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantFound {
    /// Its name.
    pub name: String,
    /// Whether some seed broke an invariant under it.
    pub found: bool,
    /// How many seeds were run until then; `None` when none broke.
    pub seeds_needed: Option<u64>,
}

#[cfg(feature = "plants")]
mod present {
    use covey_crdt::plant::Plant;

    use super::PlantFound;
    use crate::hunt::{Hunt, command};
    use crate::ring1::say;

    fn named(name: &str) -> Result<Plant, String> {
        Plant::named(name).ok_or_else(|| {
            let names: Vec<_> = Plant::ALL.iter().map(|plant| plant.name()).collect();
            format!("--plant {name:?} is no planted bug: choose `all` or one of {}", names.join(", "))
        })
    }

    pub(in crate::ring1) fn hunt(name: &str, jobs: usize) -> Result<Vec<PlantFound>, String> {
        let hunts = command(name, jobs, say)?;
        let found = |hunt: Hunt| PlantFound {
            name: hunt.name.to_owned(),
            found: hunt.found,
            seeds_needed: hunt.found.then_some(hunt.seeds_needed),
        };
        Ok(hunts.into_iter().map(found).collect())
    }

    pub(in crate::ring1) fn with<T>(name: Option<&str>, then: impl FnOnce() -> T) -> Result<T, String> {
        match name {
            None => Ok(then()),
            Some(name) => Ok(named(name)?.with(then)),
        }
    }
}

#[cfg(not(feature = "plants"))]
mod absent {
    use super::PlantFound;

    const NONE_HERE: &str = "--plant needs a binary with planted bugs in it, and this one has none: build one with \
         `cargo build --release -p covey-sim --features plants --target-dir target/plants`, or run `make plants`";

    pub(in crate::ring1) fn hunt(_: &str, _: usize) -> Result<Vec<PlantFound>, String> {
        Err(NONE_HERE.to_owned())
    }

    pub(in crate::ring1) fn with<T>(name: Option<&str>, then: impl FnOnce() -> T) -> Result<T, String> {
        if name.is_some() { Err(NONE_HERE.to_owned()) } else { Ok(then()) }
    }
}

#[cfg(not(feature = "plants"))]
pub(super) use absent::{hunt, with};
#[cfg(feature = "plants")]
pub(super) use present::{hunt, with};
