//! The command line: one subcommand a room of the simulator.
//!
//! Not here: what they do (`covey_sim`). Exit codes: 0 as asked, 1 it failed or a figure missed its mark, 2 wrong usage.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use covey_sim::demo::{self, DemoArgs};
use covey_sim::eval::{self, EvalArgs};
use covey_sim::events::{self, EventsArgs};
use covey_sim::race::{self, RaceArgs};
use covey_sim::ring1::{self, DiffArgs, LegsArgs, RunArgs, ShrinkArgs, SwarmArgs};
use covey_sim::serve::{self, ServeArgs};
use covey_sim::worker::{self, WorkerArgs};

/// Tries Covey out: an engine model, workloads, and a demo with real processes
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare gateways with and without the mesh, with real processes on this machine
    Demo(Box<DemoArgs>),
    /// Compare two nodes of a simulated run at a moment: what differs, and why
    Diff(DiffArgs),
    /// Compare ways to route on a trace or a made-up workload, in virtual time: hits, time to the first byte, balance
    Eval(EvalArgs),
    /// Measure what engines' KV events are worth: predicted against reported hits, with real processes on this machine
    Events(EventsArgs),
    /// Run the chaos legs in virtual time: partitions, restarts, losses of gateways and workers, under load
    Legs(LegsArgs),
    /// Race Covey against other routers, with the same real workers and the same load
    Race(Box<RaceArgs>),
    /// Run one plan of the deterministic simulator and print what it came to, with traces if asked
    Run(RunArgs),
    /// Play a simulated run, or a recording of real gateways, on the dashboard's page
    Serve(ServeArgs),
    /// Make a plan that breaks an invariant smaller
    Shrink(ShrinkArgs),
    /// Run many seeds of the deterministic simulator
    Swarm(SwarmArgs),
    /// Serve the engine model over HTTP, like a vLLM worker
    Worker(WorkerArgs),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let ended = runtime.block_on(async {
        match command {
            Command::Demo(args) => demo::run(&args).await,
            Command::Diff(args) => ring1::diff(&args),
            Command::Eval(args) => eval::run(&args),
            Command::Events(args) => events::run(&args).await,
            Command::Legs(args) => ring1::legs(&args),
            Command::Race(args) => race::run(&args).await,
            Command::Run(args) => ring1::run(&args),
            Command::Serve(args) => serve::run(&args).await,
            Command::Shrink(args) => ring1::shrink(&args),
            Command::Swarm(args) => ring1::swarm(&args),
            Command::Worker(args) => worker::run(&args).await.map(|()| ExitCode::SUCCESS),
        }
    });
    ended.unwrap_or_else(|why| {
        eprintln!("covey-sim: {why}");
        ExitCode::FAILURE
    })
}
