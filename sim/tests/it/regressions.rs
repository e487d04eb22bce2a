//! Plans that once broke something, or were written to: all of them hold, as committed and to their end.

use std::path::Path;

use covey_sim::plan::Plan;
use covey_sim::ring1::Regression;
use covey_sim::world::run;

fn all() -> Vec<(String, Regression)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &Path| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(file).unwrap();
        let regression = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name} does not parse: {why}"));
        (name, regression)
    };
    files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")).map(|file| read(file)).collect()
}

#[test]
fn plans_that_broke_something_hold() {
    let all = all();
    assert!(all.len() >= 3, "the regressions are found");
    for (name, Regression { why, plan }) in all {
        plan.check().unwrap_or_else(|bad| panic!("{name}: {bad}"));
        assert!(!why.is_empty() && why.lines().count() == 1, "{name} says in a line what it broke");
        let whole = Plan { end_us: None, ..plan.clone() };
        for plan in [plan, whole] {
            let outcome = run(&plan);
            assert!(outcome.violations.is_empty(), "{name} ({why}): {:?}", outcome.violations);
            assert!(plan.end_us.is_some() || outcome.converged_ms.is_some(), "{name} ends equal");
        }
    }
}
