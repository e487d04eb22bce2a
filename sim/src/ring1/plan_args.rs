//! Where a plan comes from: a seed, a file, a committed regression.
//!
//! Not here: what a plan means (`plan`).

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::legs;
use crate::plan::Plan;

/// Which plan.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// The seed the plan is drawn from
    #[arg(long, default_value_t = 0, conflicts_with = "plan")]
    pub seed: u64,
    /// Take this plan in place of a seed's: JSON as `run` prints it, or as `shrink --out` writes it
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Take the plan of a chaos leg, as `covey-sim legs` names them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["seed", "plan"])]
    pub leg: Option<String>,
    /// Run it with a planted bug; needs a build with `--features plants`
    #[arg(long, value_name = "NAME")]
    pub plant: Option<String>,
}

/// A plan that once broke something, as it is committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regression {
    /// What it broke, in a line.
    pub why: String,
    /// The plan.
    pub plan: Plan,
}

impl PlanArgs {
    /// The plan, checked.
    ///
    /// # Errors
    /// When it cannot be read or carried out, naming the file and the place.
    pub fn plan(&self) -> Result<Plan, String> {
        match (&self.plan, &self.leg) {
            (Some(file), _) => read_plan(file),
            (None, Some(name)) => legs::plan(name).ok_or_else(|| {
                let names: Vec<_> = legs::LEGS.iter().chain(legs::SMALL).map(|leg| leg.name).collect();
                format!("{name:?} is no leg: choose among {}", names.join(", "))
            }),
            (None, None) => Ok(Plan::from_seed(self.seed)),
        }
    }

    /// What to call the plan in a title.
    #[must_use]
    pub fn title(&self) -> String {
        match (&self.plan, &self.leg) {
            (Some(file), _) => format!("plan {}", file.display()),
            (None, Some(name)) => format!("leg {name}"),
            (None, None) => format!("seed {}", self.seed),
        }
    }

    /// How to name the plan again on a command line.
    pub(super) fn again(&self) -> String {
        let plant = self.plant.as_ref().map(|name| format!(" --plant {name}")).unwrap_or_default();
        let plan = match (&self.plan, &self.leg) {
            (Some(file), _) => format!("--plan {}", file.display()),
            (None, Some(name)) => format!("--leg {name}"),
            (None, None) => format!("--seed {}", self.seed),
        };
        plan + &plant
    }
}

/// Reads and checks a plan.
///
/// # Errors
/// When it cannot be read or carried out, naming the file and the place.
pub fn read_plan(file: &Path) -> Result<Plan, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|why| format!("plan {name} cannot be read: {why}"))?;
    let is_regression =
        serde_json::from_str::<Value>(&text).is_ok_and(|value| value.get("plan").is_some_and(Value::is_object));
    // Parsed from the text, so that an error names line and column.
    let parsed = if is_regression {
        serde_json::from_str::<Regression>(&text).map(|regression| regression.plan)
    } else {
        serde_json::from_str::<Plan>(&text)
    };
    let plan = parsed.map_err(|why| {
        format!("plan {name} does not parse: {why}; `covey-sim run --seed 0` prints a plan with every field")
    })?;
    plan.check().map_err(|why| format!("plan {name}: {why}"))?;
    Ok(plan)
}
