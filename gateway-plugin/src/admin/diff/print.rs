//! What `covey diff` found, in lines for people.
//!
//! Not here: finding it (`judge`), JSON (`report` serializes as it is).

use std::fmt::Write as _;

use covey_mesh::inspect::Class;
use covey_mesh::status::Phase;

use super::report::{BlockDiff, DiffReport, GatewayRow, HolderDiff, LogDiff, Side};
use crate::admin::printable::print_soundly;

/// The whole text; `most` blocks a holder and side are listed.
pub(super) fn render(report: &DiffReport, most: usize) -> String {
    let (mut out, report) = (String::new(), &printed(report.clone()));
    gateways(&mut out, report);
    let names = (report.gateways.0.name.as_str(), report.gateways.1.name.as_str());
    for log in &report.logs {
        log_line(&mut out, log, names);
    }
    for record in &report.records {
        let who = pick(names, record.lacks);
        let _ = writeln!(out, "{:<5} record of {}: {who} lacks {}", record.class.name(), record.name, record.what);
    }
    for holder in &report.holders {
        holder_lines(&mut out, report, holder, most);
    }
    if report.root_differs {
        let _ = writeln!(out, "LOST  root digest: they differ at equal clean vectors, and nothing that was read does");
    }
    if report.holders_unread > 0 {
        let class = report.unread.map_or("class unknown", Class::name);
        let _ = writeln!(
            out,
            "{} differ as well and were not read ({class}); raise --limit to see them",
            plural(report.holders_unread, "holder")
        );
    }
    if report.holders_in_flight > 0 || report.blocks_in_flight > 0 {
        let (holders, blocks) = (report.holders_in_flight, report.blocks_in_flight);
        let (blocks, holders) = (plural(blocks, "block"), plural(holders, "holder"));
        let _ = writeln!(out, "in flight: {blocks} and {holders} differed at first and do not any more");
    }
    out.push_str(&conclusion(report));
    out
}

/// The report with every text of the two fit for a terminal.
fn printed(mut report: DiffReport) -> DiffReport {
    let (one, other) = &mut report.gateways;
    [&mut one.name, &mut other.name].into_iter().for_each(print_soundly);
    report.logs.iter_mut().filter_map(|log| log.name.as_mut()).for_each(print_soundly);
    report.records.iter_mut().for_each(|record| print_soundly(&mut record.name));
    report.holders.iter_mut().flat_map(|of| [&mut of.worker, &mut of.model]).for_each(print_soundly);
    report
}

fn gateways(out: &mut String, report: &DiffReport) {
    let (one, other) = &report.gateways;
    let width = |of: fn(&GatewayRow) -> &str| of(one).len().max(of(other).len()).max(5);
    let (name, admin) = (width(|row| &row.name), width(|row| &row.admin));
    let _ = writeln!(
        out,
        "{:<name$}  {:<admin$}  {:<7}  {:>9}  {:>7}  {:>9}  DIGEST",
        "NAME", "ADMIN", "PHASE", "OPS", "HOLDERS", "BLOCKS"
    );
    for row in [one, other] {
        let phase = match row.phase {
            Phase::Joining => "joining",
            Phase::Clean => "clean",
            Phase::Dirty => "dirty",
        };
        let digest = row.digest.to_string();
        let _ = writeln!(
            out,
            "{:<name$}  {:<admin$}  {phase:<7}  {:>9}  {:>7}  {:>9}  {}",
            row.name,
            row.admin,
            row.ops,
            row.holders,
            row.blocks,
            &digest[..10]
        );
    }
    if one.life == other.life {
        let _ = writeln!(out, "both addresses are the same gateway");
    }
    if one.mesh != other.mesh {
        let (left, right) = (short(one.mesh), short(other.mesh));
        let _ =
            writeln!(out, "they belong to two meshes, founded by {left} and {right}: each may lack all of the other's");
    }
}

fn log_line(out: &mut String, log: &LogDiff, names: (&str, &str)) {
    let name = log.name.as_deref().unwrap_or("an unknown gateway");
    let life = short(log.life);
    let (left, right) = log.applied;
    let _ = write!(out, "{:<5} log of {name} ({life}): {left} | {right} ops; ", log.class.name());
    if log.forked {
        let _ = writeln!(out, "as many, but not the same ones");
        return;
    }
    let (who, lacks) = (pick(names, log.lacks), left.abs_diff(right));
    let _ = write!(out, "{who} lacks {lacks}, of which {} wait there", log.held);
    match log.since_ms {
        Some(ms) => _ = writeln!(out, ", known for {}", age(ms)),
        None => _ = writeln!(out, ", and does not know it"),
    }
}

fn holder_lines(out: &mut String, report: &DiffReport, holder: &HolderDiff, most: usize) {
    let names = (report.gateways.0.name.as_str(), report.gateways.1.name.as_str());
    let (one, other) = names;
    let _ = write!(
        out,
        "{:<5} holder {} {}: {} | {} blocks; {one} lacks {}, {other} lacks {}, {} cut",
        holder.class.name(),
        holder.worker,
        holder.model,
        holder.blocks.0,
        holder.blocks.1,
        holder.lacking.0,
        holder.lacking.1,
        holder.cut,
    );
    match holder.age_ms {
        Some(ms) => _ = writeln!(out, "; the oldest touched {} ago", age(ms)),
        None => out.push('\n'),
    }
    if holder.incarnations.0 != holder.incarnations.1 {
        let number = |counter: Option<u64>| counter.map_or_else(|| "none".to_owned(), |counter| counter.to_string());
        let (left, right) = (number(holder.incarnations.0), number(holder.incarnations.1));
        let _ = writeln!(out, "      incarnations {left} | {right}: the later one empties the holder");
    }
    if holder.floors_ms.0 != holder.floors_ms.1 {
        let floor = |ms: Option<u64>| ms.map_or_else(|| "none".to_owned(), |ms| ms.to_string());
        let _ = writeln!(out, "      floors at {} | {} ms", floor(holder.floors_ms.0), floor(holder.floors_ms.1));
    }
    if holder.unexplained > 0 && holder.class != Class::Lost {
        let _ = writeln!(
            out,
            "      {} of them though the log that touched them is applied on both: lost, unless an op still missing restates them",
            holder.unexplained
        );
    }
    if holder.is_partial {
        let _ = writeln!(out, "      it is too large to be read whole: there may be more");
    }
    let now = holder.since_ms.zip(holder.age_ms).map(|(since, age)| since.saturating_add(age));
    blocks(out, one, (&holder.lacks_one, holder.lacking.0), most, now);
    blocks(out, other, (&holder.lacks_other, holder.lacking.1), most, now);
}

fn blocks(out: &mut String, who: &str, (blocks, all): (&[BlockDiff], u64), most: usize, now: Option<u64>) {
    for block in blocks.iter().take(most) {
        let ago = now.map_or(0, |now| now.saturating_sub(block.stamp.ms));
        let _ = writeln!(
            out,
            "      {who} lacks block {} at depth {}{}, touched {} ago by {}",
            short(block.path),
            block.depth,
            if block.restamped { " under this stamp" } else { "" },
            age(ago),
            short(block.stamp.life),
        );
    }
    let listed = blocks.len().min(most) as u64;
    if most > 0 && all > listed {
        let _ = writeln!(out, "      and {} more", all - listed);
    }
}

fn conclusion(report: &DiffReport) -> String {
    let after = format!("after {}", age(report.settled_ms));
    if report.is_equal() {
        return format!("equal {after}\n");
    }
    let counted = [Class::Lost, Class::Dirty, Class::Cut, Class::Held, Class::Lag].into_iter().filter_map(|class| {
        let logs = report.logs.iter().filter(|log| log.class == class).count();
        let records = report.records.iter().filter(|record| record.class == class).count();
        let holders = report.holders.iter().filter(|holder| holder.class == class).count();
        let parts = [(logs, "log"), (records, "record"), (holders, "holder")];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(*n as u64, what)).collect();
        (!parts.is_empty()).then(|| format!("{} {}", class.name(), parts.join(", ")))
    });
    let counted: Vec<String> = counted.collect();
    match report.exit_code() {
        2 => format!("LOST: nothing explains it {after} ({}); keep both logs and report it\n", counted.join("; ")),
        _ => format!("different {after}: {}\n", counted.join("; ")),
    }
}

const fn pick<'a>(names: (&'a str, &'a str), side: Side) -> &'a str {
    match side {
        Side::One => names.0,
        Side::Other => names.1,
    }
}

fn short(id: impl std::fmt::Display) -> String {
    let hex = id.to_string();
    hex.get(..12).unwrap_or(&hex).to_owned()
}

fn plural(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A span of time in the largest unit that leaves two digits.
pub(super) fn age(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        10_000..600_000 => format!("{} s", ms / 1_000),
        600_000..36_000_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}
