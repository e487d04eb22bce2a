//! Legs of `covey-sim events` in which something breaks under load: the owner of a feed, both owners, an engine.
//!
//! Every state that a gateway shows is compared with what the engine held at that very position; what is measured besides is
//! how long it takes until all is as it should be. Not here: legs in which nothing breaks (`run`).

mod judge;
mod kill;
mod restart;
mod stage;
mod truth;
mod watch;
mod witness;

use serde_json::{Map, Value, json};

use super::args::{EventsArgs, Leg};

/// What one leg came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The leg.
    pub(super) name: &'static str,
    /// From the break until all was as it should be; `None`: it never was.
    ms: Option<f64>,
    limit_ms: f64,
    /// States of gateways that were compared with what the engine held.
    compared: usize,
    requests: usize,
    failed: Vec<String>,
    /// Coverage lost, doubled or claimed beyond what there was; anything else that must not be.
    wrong: Vec<String>,
    /// Positions, generations and other numbers, as JSON.
    facts: Map<String, Value>,
}

impl Outcome {
    fn new(leg: Leg, limit_ms: f64) -> Self {
        Self { name: leg.name(), limit_ms, ..Self::default() }
    }

    fn fact(&mut self, name: &str, value: Value) {
        self.facts.insert(name.to_owned(), value);
    }

    /// What was missed, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        match self.ms {
            None => missed.push("it never was as it should be again".to_owned()),
            Some(ms) if ms > self.limit_ms => missed.push(format!("{ms:.0} ms, at most {:.0} wanted", self.limit_ms)),
            Some(_) => {}
        }
        if self.compared == 0 {
            missed.push("no state could be compared".to_owned());
        }
        if self.requests == 0 {
            missed.push("nothing was answered".to_owned());
        }
        if let Some(why) = self.failed.last() {
            missed.push(format!("{} requests failed, the last: {why}", self.failed.len()));
        }
        if let Some(why) = self.wrong.first() {
            missed.push(format!("{} things are wrong, the first: {why}", self.wrong.len()));
        }
        missed
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "leg": self.name,
            "ms": self.ms,
            "limit_ms": self.limit_ms,
            "compared": self.compared,
            "requests": self.requests,
            "failed": self.failed.len(),
            "wrong": self.wrong,
            "facts": self.facts,
            "missed": self.missed(),
        })
    }

    pub(super) const HEAD: &str = "leg                ms  limit compared requests failed wrong   (what was seen)\n";

    pub(super) fn line(&self) -> String {
        let ms = self.ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
        let (failed, wrong) = (self.failed.len(), self.wrong.len());
        let facts: Vec<_> = self.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        format!(
            "{:<15} {ms:>5} {:>6.0} {:>8} {:>8} {failed:>6} {wrong:>5}   {}\n",
            self.name,
            self.limit_ms,
            self.compared,
            self.requests,
            facts.join(", ")
        )
    }
}

/// Plays a leg in which something breaks; `None`: nothing does in this one.
///
/// # Errors
/// When something cannot be started, ends by itself or says something that cannot be read.
pub(super) async fn play(args: &EventsArgs, leg: Leg) -> Result<Option<Outcome>, String> {
    match leg {
        Leg::KillOwner => kill::owner(args).await.map(Some),
        Leg::KillBoth => kill::both(args).await.map(Some),
        Leg::KillBothShort => kill::both_without_history(args).await.map(Some),
        Leg::Restart => restart::play(args).await.map(Some),
        Leg::Model | Leg::Events | Leg::Placements => Ok(None),
    }
}
