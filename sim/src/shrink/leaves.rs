//! Passes over single numbers of a plan, whatever they mean: off, least, ever lower.
//!
//! A plan is walked as JSON, so that a field that is added to plans is shrunk without anybody thinking of it; a plan that
//! makes no sense is refused by its own check. Not here: what a plan has many of (`sizes`).

use serde::Serialize;
use serde_json::Value;

use super::Shrinker;
use crate::plan::Plan;

/// Fields that are no magnitudes, or whose small values are not simpler ones.
const LEFT_ALONE: &[&str] =
    &["seed", "nodes", "workers", "hash_bits", "end_us", "faults_ms", "idle_ms", "driver", "knobs"];
/// Halvings of one number.
const HALVINGS: u32 = 12;
/// Shares are not lowered by less than this: what breaks at 1.2 % loss explains no more than what breaks at 1.5 %.
const SHARE_STEP: f64 = 0.005;

pub(super) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("plans are plain fields")
}

pub(super) fn from_json(json: Value) -> Option<Plan> {
    serde_json::from_value(json).ok()
}

/// Puts what has an ordinary value back to it: sizes that were turned down, short idle times, cut hashes, and whatever
/// chance drew differs from what another seed's plan leaves off.
pub(super) fn neutral(shrinker: &mut Shrinker<'_>) {
    let mut proposals: Vec<(&str, Value)> = vec![
        ("/knobs", to_json(&covey_mesh::limits::Knobs::default())),
        ("/idle_ms", 3_600_000.into()),
        ("/hash_bits", 64.into()),
        ("/driver", to_json(&crate::plan::DriverPlan::default())),
    ];
    let knobs = to_json(&covey_mesh::limits::Knobs::default());
    let names: Vec<String> =
        knobs.as_object().into_iter().flatten().map(|(name, _)| format!("/knobs/{name}")).collect();
    for name in &names {
        let value = knobs.pointer(name.trim_start_matches("/knobs")).cloned().unwrap_or_default();
        proposals.push((name, value));
    }
    for (path, value) in proposals {
        let mut json = to_json(&shrinker.best);
        let Some(place) = json.pointer_mut(path) else { continue };
        *place = value;
        if let Some(plan) = from_json(json) {
            shrinker.try_plan(path, plan);
        }
    }
}

/// Lowers every number: to 0, to 1, then by halves towards the last value that was too low. Flags go off, optional parts go.
pub(super) fn lower(shrinker: &mut Shrinker<'_>) {
    let mut paths = Vec::new();
    let json = to_json(&shrinker.best);
    for (name, value) in json.as_object().into_iter().flatten() {
        if !LEFT_ALONE.contains(&name.as_str()) {
            // What is done to the cluster comes last: its numbers are many, and most are times.
            let rank = u8::from(name == "events");
            collect(value, format!("/{name}"), rank, &mut paths);
        }
    }
    paths.sort_by_key(|(rank, _)| *rank);
    for (_, path) in paths {
        if shrinker.is_spent() {
            return;
        }
        lower_one(shrinker, &path);
    }
}

fn collect(value: &Value, path: String, rank: u8, paths: &mut Vec<(u8, String)>) {
    match value {
        Value::Array(list) => {
            if !list.is_empty() {
                paths.push((rank, path.clone()));
            }
            for (nth, value) in list.iter().enumerate() {
                collect(value, format!("{path}/{nth}"), rank, paths);
            }
        }
        Value::Object(fields) => {
            paths.push((rank, path.clone()));
            for (name, value) in fields {
                collect(value, format!("{path}/{name}"), rank, paths);
            }
        }
        Value::Number(_) | Value::Bool(true) => paths.push((rank, path)),
        Value::Null | Value::Bool(false) | Value::String(_) => {}
    }
}

fn lower_one(shrinker: &mut Shrinker<'_>, path: &str) {
    let json = to_json(&shrinker.best);
    let mut propose = |value: Value| {
        let mut json = to_json(&shrinker.best);
        // A path may be gone with an event that was left out meanwhile.
        let Some(place) = json.pointer_mut(path) else { return false };
        *place = value;
        from_json(json).is_some_and(|plan| shrinker.try_plan(path, plan))
    };
    match json.pointer(path) {
        Some(Value::Bool(true)) => {
            propose(false.into());
        }
        // An optional part; where it is none, the plan does not parse and nothing is run.
        Some(Value::Object(_)) => {
            propose(Value::Null);
        }
        Some(Value::Number(number)) => match number.as_i64() {
            Some(value) => lower_whole(value, propose),
            None => lower_share(number.as_f64().unwrap_or(0.0), propose),
        },
        Some(Value::Array(_)) => {
            propose(Value::Array(Vec::new()));
        }
        Some(Value::Null | Value::Bool(false) | Value::String(_)) | None => {}
    }
}

fn lower_whole(mut value: i64, mut propose: impl FnMut(Value) -> bool) {
    let least = value.signum();
    if value == 0 || propose(0.into()) || value == least || propose(least.into()) {
        return;
    }
    let mut too_low = least;
    for _ in 0..HALVINGS {
        let middle = too_low + (value - too_low) / 2;
        if middle == too_low {
            return;
        }
        if propose(middle.into()) { value = middle } else { too_low = middle }
    }
}

fn lower_share(mut value: f64, mut propose: impl FnMut(Value) -> bool) {
    if value == 0.0 || propose(0.0.into()) {
        return;
    }
    let mut too_low = 0.0;
    while value - too_low > SHARE_STEP {
        let middle = f64::midpoint(too_low, value);
        if propose(middle.into()) { value = middle } else { too_low = middle }
    }
}
