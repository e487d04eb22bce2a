//! `cargo run --release -p covey-benches`: the hot paths, each with a budget. Exits 1 when one is over its budget.
//!
//! Medians are judged where the machine may be shared; the one p99 that is judged is the promise of the whole lookup.
//! Not here: comparisons with other indexes.

mod fleet;
mod lookup;
mod timing;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let rows = lookup::rows();
    let mut out = std::io::stdout().lock();
    let mut print = |line: String| writeln!(out, "{line}").is_ok();
    print(format!("{:<52} {:>9} {:>9}  budget", "nanoseconds", "p50", "p99"));
    for row in &rows {
        let verdict = if row.is_within_budget() { "ok" } else { "OVER" };
        print(format!("{:<52} {:>9} {:>9}  {} {verdict}", row.name, row.p50_ns, row.p99_ns, row.budget));
    }
    if rows.iter().all(timing::Row::is_within_budget) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
