//! The screen of `covey top`, a pure function of what is known: what stands where, and what gives way on a small one.
//!
//! Not here: the text of the parts (`rows`).

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Sparkline, Wrap};

use super::rows;
use super::screen::{Screen, Stream};
use crate::frame::MeshFrame;

/// Below this the parts have no room.
const COLUMNS_MIN: u16 = 60;
const ROWS_MIN: u16 = 20;
/// Rows of workers and traffic, border and head included.
const MIDDLE: u16 = 6;
/// Rows of events, border included.
const EVENTS_MIN: u16 = 3;

/// Frames come every second: after this long without one, what the last one said is not the present any more.
const QUIET_MAX: Duration = Duration::from_secs(3);

const HELP: &str = "\
up, down     select a gateway
left, right  select a worker
p, space     stand still, and go on
?            this help
q, Esc       quit

matrix: ops that the row has not applied and the column has;
        cut: no link, ?: not known, the letter: its state group
groups: gateways with one letter have the same state, or lack of
        each other only what is under way; A is the largest,
        ? is not known, - has left";

/// Draws everything.
pub(super) fn draw(target: &mut Frame<'_>, screen: &Screen) {
    let area = target.area();
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    target.render_widget(Paragraph::new(header(screen)), head);
    target.render_widget(Paragraph::new(footer(screen)), foot);
    match screen.latest() {
        None => target.render_widget(Paragraph::new(waiting(screen)).wrap(Wrap { trim: true }), body),
        Some(_) if area.width < COLUMNS_MIN || area.height < ROWS_MIN => {
            let text = format!(
                "this terminal has {} x {}; the rest wants {COLUMNS_MIN} x {ROWS_MIN}",
                area.width, area.height
            );
            target.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), body);
        }
        Some(frame) => draw_body(target, screen, frame, body),
    }
    if screen.help {
        draw_help(target, body);
    }
}

fn header(screen: &Screen) -> Vec<Line<'static>> {
    let Some(frame) = screen.latest() else { return vec![Line::raw(format!("covey top  {}", screen.admin))] };
    let verdict = &frame.verdict;
    let since = rows::ms(frame.t_ms.saturating_sub(verdict.since_ms));
    // What comes no more says nothing about now.
    let word = if is_stale(screen) { "unknown" } else { verdict.word.as_str() };
    let why = if is_stale(screen) {
        format!(" (was {} when last heard)", verdict.word)
    } else {
        format!("  {}", verdict.why)
    };
    let first = vec![
        Span::styled(word.to_uppercase(), rows::verdict(word)),
        Span::styled(format!(" for {since}"), rows::grey()),
        Span::raw(why),
    ];
    let lag = match (verdict.worst_lag_ops, verdict.worst_lag_ms) {
        (Some(ops), Some(ms)) => format!("worst lag {ops} ops, {}", rows::ms(ms)),
        (Some(ops), None) => format!("worst lag {ops} ops"),
        _ => "worst lag unknown".to_owned(),
    };
    let eta = verdict.eta_ms.map_or_else(String::new, |ms| format!(", equal in {}", rows::ms(ms)));
    let viewer = frame.source.viewer.as_deref().unwrap_or("the observer");
    let missing = if verdict.missing > 0 { format!(", {} missing", verdict.missing) } else { String::new() };
    let second = format!(
        "{} as {viewer} sees {}: {} gateways{missing}, {lag}{eta}",
        rows::clock(frame.t_ms, is_live(frame)),
        frame.source.cluster,
        verdict.seen,
    );
    vec![Line::from(first), Line::raw(second)]
}

fn is_live(frame: &MeshFrame) -> bool {
    frame.source.kind == "live"
}

fn is_stale(screen: &Screen) -> bool {
    (matches!(screen.stream, Stream::Broken(_)) || silent(screen).is_some()) && !screen.is_paused()
}

/// For how long no frame has come over a stream that may well be open, when that is too long.
fn silent(screen: &Screen) -> Option<Duration> {
    screen.quiet.filter(|quiet| *quiet >= QUIET_MAX)
}

fn footer(screen: &Screen) -> Line<'static> {
    let keys = "q quit  arrows select  p pause  ? help";
    let ago =
        screen.quiet.map_or_else(|| "no frame yet".to_owned(), |quiet| format!("last frame {} s ago", quiet.as_secs()));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    match &screen.stream {
        Stream::Broken(why) => Line::from(vec![
            Span::styled(format!("disconnected, {ago}"), bold.fg(Color::Red)),
            Span::raw(format!("  {why}")),
        ]),
        Stream::Open | Stream::Waiting if screen.is_paused() => {
            Line::from(vec![Span::styled("standing still", bold), Span::raw(format!("  p goes on  {keys}"))])
        }
        Stream::Open | Stream::Waiting => match silent(screen) {
            Some(quiet) => Line::from(vec![
                Span::styled(format!("no frame for {} s", quiet.as_secs()), bold.fg(Color::Red)),
                Span::raw(format!("  connected to {}  {keys}", screen.admin)),
            ]),
            None => Line::styled(keys, rows::grey()),
        },
    }
}

fn waiting(screen: &Screen) -> String {
    match &screen.stream {
        Stream::Broken(why) => format!("{why}\ntrying again"),
        Stream::Open | Stream::Waiting => format!("waiting for the first frame of {}", screen.admin),
    }
}

fn draw_body(target: &mut Frame<'_>, screen: &Screen, frame: &MeshFrame, body: Rect) {
    let gateways = u16::try_from(frame.gateways.len()).unwrap_or(u16::MAX);
    // Matrix and table have a border and a head each.
    let room = body.height.saturating_sub(MIDDLE + EVENTS_MIN) / 2;
    let tall = gateways.saturating_add(2).min(room.max(3));
    let parts = [Constraint::Length(tall), Constraint::Length(tall), Constraint::Length(MIDDLE), Constraint::Min(0)];
    let [upper, table, middle, lower] = Layout::vertical(parts).areas(body);
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2);
    let ([left, right], [workers, traffic]) = (halves.areas(upper), halves.areas(middle));
    let shown = usize::from(tall.saturating_sub(2));
    let hidden = frame.gateways.len().saturating_sub(shown);
    let more = if hidden > 0 { format!(" ({hidden} more: arrows)") } else { String::new() };

    part(target, left, &format!("lag in ops: row lacks of column{more}"), |area| {
        rows::matrix(frame, screen, usize::from(area.width), shown)
    });
    part(target, right, "state groups", |area| rows::ribbon(frame, screen, usize::from(area.width), shown));
    part(target, table, &format!("gateways{more}"), |_| rows::gateways(frame, screen, shown));
    let total = frame.workers_hidden.saturating_add(frame.workers.len() as u64);
    part(target, workers, &format!("workers ({total})"), |area| {
        rows::workers(frame, screen, usize::from(area.width), usize::from(area.height.saturating_sub(1)))
    });
    draw_traffic(target, screen, frame, traffic);
    part(target, lower, "events, latest first (UTC)", |area| {
        rows::events(screen.events(), usize::from(area.height), is_live(frame))
    });
}

fn part(target: &mut Frame<'_>, area: Rect, title: &str, lines: impl FnOnce(Rect) -> Vec<Line<'static>>) {
    let block = Block::new().borders(Borders::TOP).title(format!("{title} ")).border_style(rows::grey());
    let inner = block.inner(area);
    target.render_widget(block, area);
    target.render_widget(Paragraph::new(lines(inner)), inner);
}

fn draw_traffic(target: &mut Frame<'_>, screen: &Screen, frame: &MeshFrame, area: Rect) {
    part(target, area, "traffic and propagation, last 30 s", |_| rows::traffic(frame, screen));
    let line = Rect { y: area.bottom().saturating_sub(2), height: 2.min(area.height), ..area };
    let [label, chart] = Layout::horizontal([Constraint::Length(4), Constraint::Min(0)]).areas(line);
    target.render_widget(Paragraph::new("\np99"), label);
    let data = screen.propagation_line(usize::from(chart.width));
    let most = frame.propagation_bounds_ms.len() as u64 + 1;
    target.render_widget(Sparkline::default().data(data).max(most).style(Style::new().fg(Color::Cyan)), chart);
}

fn draw_help(target: &mut Frame<'_>, body: Rect) {
    let (width, height) = (66.min(body.width), 14.min(body.height));
    let area = Rect { x: body.x + (body.width - width) / 2, y: body.y, width, height };
    target.render_widget(Clear, area);
    target.render_widget(Paragraph::new(HELP).block(Block::bordered().title("help")), area);
}
