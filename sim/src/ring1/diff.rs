//! `covey-sim diff`: two nodes of a run at one moment.
//!
//! Not here: comparing (`diff`).

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use covey_crdt::replica::Blocks;
use covey_crdt::stamp::{Floor, Rank, Stamp};

use super::plan_args::PlanArgs;
use super::plants;
use super::say;
use super::units::{moment_us, node};
use crate::diff::{Class, Diff, HolderDiff};
use crate::trace::node_name;
use crate::world::{Watch, World};

/// What `covey-sim diff` takes.
#[derive(Args, Debug)]
pub struct DiffArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// The moment, in virtual time, for example 12.5s [default: the end of the run]
    #[arg(long, value_name = "TIME", value_parser = moment_us)]
    at: Option<u64>,
    /// Blocks listed per holder and side
    #[arg(long, default_value_t = 4)]
    blocks: usize,
    /// One node, for example gw-1
    #[arg(value_name = "NODE", value_parser = node)]
    one: usize,
    /// The other node
    #[arg(value_name = "NODE", value_parser = node)]
    other: usize,
}

/// Runs a plan up to a moment and prints in what two nodes differ. Exit code 1 when something is lost.
///
/// # Errors
/// When the plan cannot be run, or a node does not exist or is down at that moment.
pub fn diff(args: &DiffArgs) -> Result<ExitCode, String> {
    plants::with(args.plan.plant.as_deref(), || planted(args))?
}

fn planted(args: &DiffArgs) -> Result<ExitCode, String> {
    let plan = args.plan.plan()?;
    for node in [args.one, args.other] {
        if node >= plan.nodes {
            let last = node_name(plan.nodes - 1);
            return Err(format!("{} does not exist: the plan has nodes gw-0 to {last}", node_name(node)));
        }
    }
    if args.one == args.other {
        return Err(format!("{0} is compared with {0}: name two nodes", node_name(args.one)));
    }
    let mut world = World::new(plan, Watch { until_us: args.at, ..Watch::default() });
    world.run_out();
    let find = |wanted: usize| {
        let found = world.live().find(|(nth, _, _)| *nth == wanted).map(|(_, node, _)| node);
        let at_s = world.now_us() as f64 / 1e6;
        found.ok_or_else(|| format!("{} is down at {at_s:.6} s: choose another moment or node", node_name(wanted)))
    };
    let (one, other) = (find(args.one)?, find(args.other)?);
    let mut text = String::new();
    let at = args.at.unwrap_or_else(|| world.now_us());
    let _ = writeln!(text, "at {:.6} s, event {}:", at as f64 / 1e6, world.outcome().events);
    for (nth, node) in [(args.one, one), (args.other, other)] {
        let ops: u64 = node.vector().lives().map(|(_, head)| head.seq).sum();
        let (phase, digest) = (node.phase(), node.replica().digest());
        let _ = writeln!(text, "  {} is {phase:?}: {ops} ops applied, digest {digest}", node_name(nth));
    }
    if let Some(first) = world.outcome().violations.first() {
        let _ = writeln!(text, "  the run ended here: VIOLATION {}: {}", first.invariant, first.what);
    }
    let diff = crate::diff::diff(one, other, world.oracle());
    print(&mut text, &diff, args);
    say(&text);
    let is_lost = diff.records.iter().map(|record| record.class).chain(diff.holders.iter().map(|holder| holder.class));
    Ok(if is_lost.into_iter().any(|class| class == Class::Lost) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(text: &mut String, diff: &Diff, args: &DiffArgs) {
    let (one, other) = (node_name(args.one), node_name(args.other));
    if *diff == Diff::default() {
        let _ = writeln!(text, "no difference: equal vectors, records and coverage");
        return;
    }
    for log in &diff.logs {
        let (less, lacks) = if log.applied.0 < log.applied.1 {
            (&one, log.applied.1 - log.applied.0)
        } else {
            (&other, log.applied.0 - log.applied.1)
        };
        let _ = writeln!(
            text,
            "log of {} ({}): {} | {}; {less} lacks {lacks}, of which {} wait there",
            log.name, log.life, log.applied.0, log.applied.1, log.held
        );
    }
    for record in &diff.records {
        let _ = writeln!(text, "record of {} [{}]", record.name, record.class.name());
        for (name, words) in [(&one, &record.records.0), (&other, &record.records.1)] {
            let _ = writeln!(text, "  {name}: {}", if words.is_empty() { "none" } else { words });
        }
    }
    for holder in &diff.holders {
        print_holder(text, holder, (&one, &other), args.blocks);
    }
}

fn print_holder(text: &mut String, holder: &HolderDiff, (one, other): (&str, &str), most: usize) {
    let (worker, model) = (&holder.key.worker, holder.key.keyspace.model.as_str());
    let _ = writeln!(
        text,
        "holder {worker} {model} [{}]: {} | {} blocks, {} only at {one}, {} only at {other}, {} with other stamps",
        holder.class.name(),
        holder.blocks.0,
        holder.blocks.1,
        holder.only_one.len(),
        holder.only_other.len(),
        holder.restamped,
    );
    if holder.floors.0 != holder.floors.1 {
        let floor = |floor: Floor| match floor {
            Floor::LOWEST => "none".to_owned(),
            Rank { stamp, depth } => format!("{} from depth {depth}", words(stamp)),
        };
        let _ = writeln!(text, "  floors: {} | {}", floor(holder.floors.0), floor(holder.floors.1));
    }
    let mut list = |name: &str, blocks: &Blocks| {
        let mut blocks: Vec<_> = blocks.iter().collect();
        blocks.sort_by_key(|(_, (stamp, depth))| (*depth, *stamp));
        for (path, (stamp, depth)) in blocks.iter().take(most) {
            let _ = writeln!(text, "  only at {name}: {path:?} at depth {depth}, stamp {}", words(*stamp));
        }
        if blocks.len() > most && most > 0 {
            let _ = writeln!(text, "  only at {name}: {} more", blocks.len() - most);
        }
    };
    list(one, &holder.only_one);
    list(other, &holder.only_other);
}

/// A stamp as people read it: milliseconds, counter, life.
fn words(stamp: Stamp) -> String {
    format!("{}.{} of {:?}", stamp.hlc.ms(), stamp.hlc.counter(), stamp.life)
}
