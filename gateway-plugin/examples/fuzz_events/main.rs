//! `make fuzz-events`: damaged real messages against everything that reads what an engine sends, for a while.
//! `make bench-events` (`--cost`): what real messages cost to read and apply. `--repeat FILE`: one input that was a fault.
//!
//! `FUZZ_SECONDS` says how long (600). The seed is printed; `FUZZ_SEED` repeats a run, message by message. An input that
//! is a fault is written to a file of the current folder. Not here: sockets.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a tool for a terminal")]

mod captures;
mod cost;
mod damage;
mod fuzz;

use std::process::ExitCode;
use std::time::Duration;

use covey_crdt::hash::HashKey;
use covey_crdt::id::ModelName;
use covey_gateway_plugin::ingest::{CacheRules, EngineCache};
use peak_alloc::PeakAlloc;

use crate::fuzz::Fault;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What `--cost` measures, in batches of each worker.
const COST_SECONDS: usize = 20;

fn cache() -> EngineCache {
    EngineCache::new(ModelName::new("fuzz").expect("a name"), HashKey::ZERO, CacheRules::default())
}

fn costs() -> ExitCode {
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    println!("decode + apply, {} workers x 1 batch/s, CPU time, {profile} profile:", cost::WORKERS);
    let mut worst = 0.0_f64;
    for (name, stream) in captures::NAMES.iter().zip(captures::captures()) {
        let cost::Cost { bytes, each_us, share } = cost::cost(&stream, COST_SECONDS);
        println!("{name}: {bytes} B a batch, {each_us:.1} us a batch, {share:.2} % of a core");
        worst = worst.max(share);
    }
    let is_within = worst <= cost::SHARE_MAX;
    println!(
        "at most {worst:.2} % of a core: {} (budget {} %)",
        if is_within { "ok" } else { "OVER" },
        cost::SHARE_MAX
    );
    if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the input down and says how to repeat it.
fn tell(fault: &Fault, seed: u64) -> ExitCode {
    let file = format!("fuzz-events-{}-{seed}-{}.bin", fault.what, fault.message);
    eprintln!(
        "FAULT: {} {} (message {} of seed {seed}, {} bytes)",
        fault.what,
        fault.why,
        fault.message,
        fault.bytes.len()
    );
    match std::fs::write(&file, &fault.bytes) {
        Ok(()) => eprintln!("alone:                     make fuzz-events ARGS='-- --repeat {file}'"),
        Err(error) => eprintln!("{file} cannot be written ({error}); the input is {:02x?}", fault.bytes),
    }
    eprintln!("with all that came before: make fuzz-events FUZZ_SEED={seed}");
    ExitCode::FAILURE
}

/// A number of the environment, or another one.
fn number(name: &str, otherwise: u64) -> Result<u64, String> {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => {
            text.parse().map_err(|_| format!("{name} must be a whole number, not {text:?}"))
        }
        Ok(_) | Err(_) => Ok(otherwise),
    }
}

fn run_fuzz() -> Result<ExitCode, String> {
    let seed = number("FUZZ_SEED", u64::from(std::process::id()))?;
    let seconds = number("FUZZ_SECONDS", 600)?;
    let corpus = captures::captures().concat();
    println!("{} recorded messages, {seconds} s, seed {seed}", corpus.len());
    let line = |at: u64, counts: &fuzz::Counts| println!("{at} s: {counts}");
    Ok(match fuzz::fuzz(&corpus, (seed, Duration::from_secs(seconds)), line) {
        Ok(counts) => {
            println!("done, no fault in {seconds} s of seed {seed}: {counts}");
            ExitCode::SUCCESS
        }
        Err(fault) => tell(&fault, seed),
    })
}

fn run_again(file: &str) -> Result<ExitCode, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
    Ok(match fuzz::repeat(&bytes) {
        Ok(()) => {
            println!("no fault: what was wrong with it is mended, or depends on what came before (FUZZ_SEED)");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("FAULT: {} {}", fault.what, fault.why);
            ExitCode::FAILURE
        }
    })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run_fuzz(),
        ["--cost"] => Ok(costs()),
        ["--repeat", file] => run_again(file),
        _ => Err("only --cost or --repeat FILE may be said".into()),
    };
    done.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because memory is counted for the whole process.
    #[test]
    fn two_seconds_of_damage_are_no_fault_and_recorded_messages_stay_within_their_budget() {
        let streams = captures::captures();
        fuzz::catches(b"any bytes");
        // A table for as many events as are claimed, and then one that is a list as long as the message.
        let claims =
            [&b"\x92\x00\xdd\x00\x00\x75\x30\x92\xacBlockRemoved\xdd\x00\x00\xea\x60"[..], &[1; 60_000]].concat();
        fuzz::repeat(&claims).expect("no fault");
        let counts = fuzz::fuzz(&streams.concat(), (5, Duration::from_secs(2)), |_, _| {}).expect("no fault");
        // That the fuzzer reaches what it is for: much is still read, some refused, some states and messages pass.
        assert!(counts.messages > 2_000 && counts.events > counts.messages, "{counts}");
        assert!(counts.refused > 0 && counts.wire > 0 && counts.taken > 0 && counts.taken < counts.states, "{counts}");
        assert!(counts.worst > 1.0, "dense messages cost memory: {counts}");
        for (name, stream) in captures::NAMES.iter().zip(&streams) {
            fuzz::repeat(&stream[0]).expect("no fault");
            let share = cost::cost(stream, 2).share;
            assert!(share <= cost::SHARE_MAX, "{name}: {share:.2} % of a core");
        }
    }
}
