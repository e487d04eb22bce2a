//! The parts of the screen as lines of text: matrix, ribbon, tables, traffic, events.
//!
//! Every state is a word, a letter or a number; colour only repeats it.
//!
//! Not here: where they stand (`view`).

use covey_mesh::feed::FeedState;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::screen::{Screen, Seen};
use crate::frame::{Cell, EventView, FeedView, GatewayView, MeshFrame, WorkerView};

/// Columns of a gateway's name.
pub(super) const NAME: usize = 10;
/// Columns of one cell of the matrix.
const CELL: usize = 6;
/// Columns that workers need with the owners of their feeds.
const WIDE: usize = 61;

/// Okabe and Ito's colours, that most people can tell apart, for state groups.
const GROUPS: [Color; 6] = [
    Color::Rgb(0, 158, 115),
    Color::Rgb(230, 159, 0),
    Color::Rgb(86, 180, 233),
    Color::Rgb(204, 121, 167),
    Color::Rgb(213, 94, 0),
    Color::Rgb(240, 228, 66),
];

const GREY: Color = Color::DarkGray;

/// A summary older than this says nothing about now, milliseconds: one comes every second.
const SUMMARY_MS_MAX: u64 = 5_000;

/// Whether what a row says is too old to be true.
fn is_silent(gateway: &GatewayView) -> bool {
    !gateway.left && gateway.age_ms.is_none_or(|ms| ms > SUMMARY_MS_MAX)
}

/// The colour that repeats a verdict.
pub(super) fn verdict(word: &str) -> Style {
    let colour = match word {
        "converged" => Color::Green,
        "converging" => Color::Yellow,
        "degraded" => Color::Magenta,
        "diverged" | "partitioned" => Color::Red,
        _ => Color::Gray,
    };
    Style::new().fg(colour).add_modifier(Modifier::BOLD)
}

/// The letter of a state group: A the largest.
pub(super) fn letter(group: u32) -> char {
    u8::try_from(group).ok().filter(|group| *group < 26).map_or('+', |group| char::from(b'A' + group))
}

fn group_style(group: u32) -> Style {
    Style::new().fg(GROUPS[group as usize % GROUPS.len()])
}

/// The first columns of a text, padded to as many.
pub(super) fn fit(text: &str, columns: usize) -> String {
    let mut out: String = text.chars().take(columns).collect();
    if text.chars().count() > columns && columns > 1 {
        out.pop();
        out.push('~');
    }
    format!("{out:<columns$}")
}

/// The end of a name, by which names of a fleet differ.
fn tail(name: &str, columns: usize) -> String {
    let skip = name.chars().count().saturating_sub(columns);
    name.chars().skip(skip).collect()
}

fn marked(is_selected: bool, name: &str) -> Span<'static> {
    let text = format!("{}{}", if is_selected { '>' } else { ' ' }, fit(name, NAME));
    let style = if is_selected { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    Span::styled(text, style)
}

/// `count` rows around the selected one.
pub(super) fn window(all: usize, selected: usize, count: usize) -> std::ops::Range<usize> {
    let count = count.min(all);
    let first = selected.saturating_sub(count / 2).min(all - count);
    first..first + count
}

pub(super) fn ms(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        10_000..600_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", ms / 60_000),
    }
}

fn known<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "?".to_owned(), text)
}

/// A number in at most five columns.
fn count(n: u64) -> String {
    match n {
        0..100_000 => n.to_string(),
        100_000..10_000_000 => format!("{}k", n / 1_000),
        _ => format!("{}M", n / 1_000_000),
    }
}

/// Ops that the row lacks from the column.
pub(super) fn matrix(frame: &MeshFrame, screen: &Screen, width: usize, rows: usize) -> Vec<Line<'static>> {
    let all = &frame.gateways;
    let columns = window(all.len(), screen.gateway, width.saturating_sub(NAME + 1) / CELL);
    let head = columns.clone().map(|nth| format!("{:>CELL$}", tail(&all[nth].name, CELL - 1)));
    let mut lines = vec![Line::styled(format!("{:<1$}", "", NAME + 1) + &head.collect::<String>(), grey())];
    for nth in window(all.len(), screen.gateway, rows) {
        let row = &all[nth];
        let mut spans = vec![marked(nth == screen.gateway, &row.name)];
        for column in columns.clone() {
            let (text, style) = match (nth == column, row.left || all[column].left) {
                (true, _) => (row.group.map_or('?', letter).to_string(), row.group.map_or(grey(), group_style)),
                (_, true) => ("left".to_owned(), grey()),
                _ if is_silent(row) => ("?".to_owned(), grey()),
                _ => cell(row.sees.get(column).and_then(Option::as_ref)),
            };
            spans.push(Span::styled(format!("{text:>CELL$}"), style));
        }
        lines.push(Line::from(spans));
    }
    lines
}

fn cell(cell: Option<&Cell>) -> (String, Style) {
    match cell {
        None => ("?".to_owned(), grey()),
        Some(cell) if !cell.linked => ("cut".to_owned(), Style::new().fg(Color::Red)),
        Some(cell) => match cell.lag_ops {
            None => ("?".to_owned(), grey()),
            Some(0) => ("0".to_owned(), Style::new().fg(Color::Green)),
            Some(ops) => (count(ops), Style::new().fg(Color::Yellow)),
        },
    }
}

pub(super) fn grey() -> Style {
    Style::new().fg(GREY)
}

/// State groups over time, the present at the right.
pub(super) fn ribbon(frame: &MeshFrame, screen: &Screen, width: usize, rows: usize) -> Vec<Line<'static>> {
    let columns = width.saturating_sub(NAME + 2);
    let scale = format!("{:<1$}-5 min{2:>3$}", "", NAME + 1, "now", columns.saturating_sub(6));
    let mut lines = vec![Line::styled(scale, grey())];
    for nth in window(frame.gateways.len(), screen.gateway, rows) {
        let name = &frame.gateways[nth].name;
        let mut spans = vec![marked(nth == screen.gateway, name)];
        spans.extend(screen.ribbon(name, columns).into_iter().map(|seen| match seen {
            None => Span::raw(" "),
            Some(Seen::Left) => Span::styled("-", grey()),
            Some(Seen::Unknown) => Span::styled("?", grey()),
            Some(Seen::Group(group)) => Span::styled(letter(group).to_string(), group_style(group)),
        }));
        lines.push(Line::from(spans));
    }
    lines
}

/// Every gateway in numbers.
pub(super) fn gateways(frame: &MeshFrame, screen: &Screen, rows: usize) -> Vec<Line<'static>> {
    let head = format!(
        " {:<NAME$} {:<8} {:<3} {:>9} {:>8} {:>6} {:>8} {:>15}",
        "NAME", "STATE", "GRP", "LAG", "HEARD", "HELD", "RTT", "CLOCK"
    );
    let mut lines = vec![Line::styled(head, grey())];
    let viewer = frame.gateways.iter().find(|gateway| gateway.me);
    for nth in window(frame.gateways.len(), screen.gateway, rows) {
        let gateway = &frame.gateways[nth];
        let seen = viewer.and_then(|viewer| viewer.sees.get(nth)).and_then(Option::as_ref);
        let mut spans = vec![marked(nth == screen.gateway, &gateway.name)];
        spans.push(Span::raw(format!(" {:<8} ", state(gateway))));
        let group = gateway.group.map_or('?', letter);
        spans.push(Span::styled(format!("{group:<3} "), gateway.group.map_or(grey(), group_style)));
        let lag = gateway.sees.iter().flatten().filter_map(|cell| cell.lag_ops).max();
        let heard = if gateway.me { "viewer".to_owned() } else { known(seen.and_then(|cell| cell.heard_ms), ms) };
        let rtt = known(seen.and_then(|cell| cell.rtt_us), |us| format!("{:.1} ms", us as f64 / 1e3));
        let rtt = if gateway.me { "-".to_owned() } else { rtt };
        let held = known(gateway.replica.map(|replica| replica.ops_held), count);
        let ahead = gateway.clock_ahead_ms.map_or_else(String::new, |ms| format!(" {ms:+} ms"));
        let clock = format!("{}{ahead}", gateway.clock.as_deref().unwrap_or("?"));
        spans.push(Span::raw(format!(
            "{:>9} {heard:>8} {held:>6} {rtt:>8} {clock:>15}",
            known(lag, |ops| count(ops) + " ops")
        )));
        lines.push(Line::from(spans));
    }
    lines
}

fn state(gateway: &GatewayView) -> &'static str {
    use covey_mesh::status::Phase;
    match gateway.phase {
        _ if gateway.left => "left",
        None => "?",
        _ if is_silent(gateway) => "silent",
        Some(Phase::Joining) => "joining",
        Some(Phase::Clean) => "clean",
        Some(Phase::Dirty) => "dirty",
    }
}

/// Workers; those on which replicas disagree come first. Owner and standby of feeds where there is room.
pub(super) fn workers(frame: &MeshFrame, screen: &Screen, width: usize, rows: usize) -> Vec<Line<'static>> {
    let is_wide = width >= WIDE;
    let mut head = format!(" {:<9} {:<7} {:<5} {:>9} {:>4}", "WORKER", "SAYS", "FEED", "BLOCKS", "REQ");
    if is_wide {
        head += &format!(" {:<NAME$} {:<NAME$}", "OWNER", "STANDBY");
    }
    let mut lines = vec![Line::styled(head, grey())];
    for nth in window(frame.workers.len(), screen.worker, rows) {
        let worker = &frame.workers[nth];
        let says =
            if worker.differs { Span::styled("differs", Style::new().fg(Color::Red)) } else { Span::raw("same   ") };
        let mark = if nth == screen.worker { '>' } else { ' ' };
        let mut spans = vec![
            Span::raw(format!("{mark}{} ", fit(&worker.id, 9))),
            says,
            feed_state(worker.feed.as_ref()),
            Span::raw(format!(" {:>9} {:>4}", blocks(worker), count(worker.requests))),
        ];
        if is_wide {
            spans.push(Span::raw(owners(worker.feed.as_ref())));
        }
        lines.push(Line::from(spans));
    }
    lines
}

/// In six columns, the space before it included.
fn feed_state(feed: Option<&FeedView>) -> Span<'static> {
    let (word, style) = match feed.map(|feed| feed.state) {
        None => ("-", grey()),
        Some(FeedState::Exact) => ("exact", Style::new().fg(Color::Green)),
        Some(FeedState::Gap) => ("gap", Style::new().fg(Color::Yellow)),
        Some(FeedState::Bootstrapping) => ("boot", Style::new().fg(Color::Yellow)),
        Some(FeedState::Stale) => ("stale", Style::new().fg(Color::Red)),
    };
    Span::styled(format!(" {word:<5}"), style)
}

fn owners(feed: Option<&FeedView>) -> String {
    let names = |of: Option<&Vec<String>>| match of {
        None => "-".to_owned(),
        Some(names) if names.is_empty() => "nobody".to_owned(),
        Some(names) => names.join(","),
    };
    let (owner, standby) = (names(feed.map(|feed| &feed.publishers)), names(feed.map(|feed| &feed.standbys)));
    format!(" {} {}", fit(&owner, NAME), fit(&standby, NAME))
}

fn blocks(worker: &WorkerView) -> String {
    let counts = || worker.by.iter().flatten().map(|coverage| coverage.blocks);
    match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if least == most => count(most),
        (Some(least), Some(most)) => format!("{}..{}", count(least), count(most)),
        _ => "?".to_owned(),
    }
}

/// What is sent, and how fast ops spread.
pub(super) fn traffic(frame: &MeshFrame, screen: &Screen) -> Vec<Line<'static>> {
    let rate = |bytes: f64| match bytes {
        bytes if bytes < 1e4 => format!("{bytes:.0}"),
        bytes if bytes < 1e7 => format!("{:.0}k", bytes / 1e3),
        bytes => format!("{:.0}M", bytes / 1e6),
    };
    let sent = screen.rates().map_or_else(
        || "sent ? (one frame so far)".to_owned(),
        |r| format!("push {} control {} repair {} B/s", rate(r.push), rate(r.control), rate(r.repair)),
    );
    let spread = screen.propagation().map_or_else(
        || "no op has spread".to_owned(),
        |(ops, half, most)| format!("p50 {half}  p99 {most}  ({} ops)", count(ops)),
    );
    let repairs = frame.gateways.iter().filter_map(|gateway| gateway.repair);
    let (mut mismatches, mut aborted) = (0_u64, 0_u64);
    for repair in repairs {
        mismatches = mismatches.saturating_add(repair.mismatches);
        aborted = aborted.saturating_add(repair.aborted);
    }
    let lines = [sent, spread, format!("mismatches {mismatches}, sessions given up {aborted}")];
    lines.into_iter().map(Line::raw).collect()
}

/// What happened, the latest first.
pub(super) fn events<'a>(events: impl Iterator<Item = &'a EventView>, rows: usize, live: bool) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = events
        .take(rows)
        .map(|event| {
            let style = match event.level.as_str() {
                "bad" => Style::new().fg(Color::Red),
                "warn" => Style::new().fg(Color::Yellow),
                _ => Style::new(),
            };
            let level = if event.level == "info" { "" } else { event.level.as_str() };
            let whose = event.gateway.as_deref().filter(|name| !event.text.contains(name));
            let whose = whose.map_or_else(String::new, |name| format!("{name}: "));
            Line::from(vec![
                Span::styled(format!("{} ", clock(event.t_ms, live)), grey()),
                Span::styled(format!("{level:<4} "), style),
                Span::raw(format!("{whose}{}", event.text)),
            ])
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line::styled("nothing happened yet", grey()));
    }
    lines
}

/// Time of day, UTC, for a live source; seconds since the start for the simulator.
pub(super) fn clock(t_ms: u64, live: bool) -> String {
    if !live {
        return format!("{:>8.1} s", t_ms as f64 / 1e3);
    }
    let seconds = t_ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}
