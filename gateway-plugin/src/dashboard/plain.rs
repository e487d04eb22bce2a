//! The script-free page: the latest frame as tables, refreshed every two seconds. For text browsers, for strict policies,
//! and for gateways that were built without the page.
//!
//! Not here: history; that needs the page.

use std::fmt::Write as _;

use covey_mesh::status::Phase;

use super::assets;
use crate::frame::{Cell, EffectView, FeedView, GatewayView, HEARD_MS_MAX, MeshFrame};

/// Its style sheet.
pub(super) const STYLE: &str = include_str!("plain.css");

/// The page for a frame, `None` while there is none.
#[must_use]
pub fn render(label: &str, frame: Option<&MeshFrame>) -> String {
    let mut html = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    html.push_str("<meta http-equiv=\"refresh\" content=\"2\"><link rel=\"stylesheet\" href=\"/plain.css\">");
    let word = frame.map_or("unknown", |frame| frame.verdict.word.as_str());
    let _ = write!(html, "<title>{} · {}</title></head><body>", escape(word), escape(label));
    match frame {
        None => html.push_str("<h1 class=\"unknown\">no frame yet</h1><p>The first comes within a second.</p>"),
        Some(frame) => body(&mut html, label, frame),
    }
    if assets::is_built() {
        html.push_str("<p><a href=\"/\">The page with history and pictures</a></p>");
    } else {
        html.push_str(
            "<p>This binary was built without the dashboard's pictures and history. To get them, with npm installed: \
             <code>make dashboard</code>, then build Covey again.</p>",
        );
    }
    html.push_str("</body></html>");
    html
}

fn body(html: &mut String, label: &str, frame: &MeshFrame) {
    let verdict = &frame.verdict;
    let _ = write!(html, "<h1 class=\"{0}\">{0}</h1>", escape(&verdict.word));
    let _ = write!(html, "<p>{} <small>(as {} sees it)</small></p><dl>", escape(&verdict.why), escape(label));
    let mut fact = |name: &str, text: String| {
        let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&text));
    };
    fact("for", duration(frame.t_ms.saturating_sub(verdict.since_ms)));
    fact("gateways", format!("{} seen, {} missing", verdict.seen, verdict.missing));
    fact("worst lag", lag(verdict.worst_lag_ops, verdict.worst_lag_ms));
    let equal = verdict.converged_ms.map(|ms| format!("{} ago", duration(frame.t_ms.saturating_sub(ms))));
    fact("last equal", equal.unwrap_or_else(|| "never".to_owned()));
    html.push_str("</dl>");
    gateways(html, frame);
    matrix(html, frame);
    workers(html, frame);
    events(html, frame);
}

fn gateways(html: &mut String, frame: &MeshFrame) {
    html.push_str("<h2>Gateways</h2><table><tr><th>name<th>state<th>group<th>digest<th>ops<th>held<th>blocks<th>clock<th>predicted<th>reported<th>said</tr>");
    for row in &frame.gateways {
        let number = |of: fn(&crate::frame::ReplicaView) -> u64| known(row.replica.as_ref().map(of));
        let said = row.age_ms.map(|ms| format!("{} ago", duration(ms)));
        let cells = [
            row.name.clone(),
            state(row).to_owned(),
            row.group.map_or_else(|| "?".to_owned(), letter),
            row.digest.as_deref().and_then(|digest| digest.get(..8)).unwrap_or("?").to_owned(),
            number(|replica| replica.ops_applied),
            number(|replica| replica.ops_held),
            number(|replica| replica.blocks),
            row.clock.clone().unwrap_or_else(|| "?".to_owned()),
            share(row, |effect| effect.predicted_tokens),
            share(row, |effect| effect.cached_tokens),
            if row.me { "now".to_owned() } else { said.unwrap_or_else(|| "never".to_owned()) },
        ];
        tr(html, &cells);
    }
    html.push_str("</table>");
}

/// Of the prompt tokens of measured requests, in percent.
fn share(row: &GatewayView, of: fn(&EffectView) -> u64) -> String {
    let effect = row.effect.as_ref().filter(|effect| effect.prompt_tokens > 0);
    effect.map_or_else(
        || "?".to_owned(),
        |effect| format!("{:.1} %", 100.0 * of(effect) as f64 / effect.prompt_tokens as f64),
    )
}

fn matrix(html: &mut String, frame: &MeshFrame) {
    html.push_str("<h2>Who lacks what</h2><p>Ops that the gateway of the row lacks from the one of the column.</p><table><tr><th>");
    for column in &frame.gateways {
        let _ = write!(html, "<th>{}", escape(&column.name));
    }
    html.push_str("</tr>");
    for row in &frame.gateways {
        let _ = write!(html, "<tr><th>{}", escape(&row.name));
        for (cell, column) in row.sees.iter().zip(&frame.gateways) {
            let text = if row.name == column.name { "·".to_owned() } else { cell_text(cell.as_ref()) };
            let _ = write!(html, "<td>{}", escape(&text));
        }
        html.push_str("</tr>");
    }
    html.push_str("</table>");
}

fn cell_text(cell: Option<&Cell>) -> String {
    match cell {
        None => "?".to_owned(),
        Some(cell) if !cell.linked => "not linked".to_owned(),
        Some(cell) if cell.heard_ms.is_none_or(|ms| ms > HEARD_MS_MAX) => "silent".to_owned(),
        Some(cell) => known(cell.lag_ops),
    }
}

fn workers(html: &mut String, frame: &MeshFrame) {
    html.push_str(
        "<h2>Workers</h2><table><tr><th>worker<th>up<th>capacity, tokens<th>requests<th>queued tokens<th>feed\
         <th>owner<th>standby<th>feed lag<th>blocks by events<th>differs",
    );
    for column in &frame.gateways {
        let _ = write!(html, "<th>blocks at {}", escape(&column.name));
    }
    html.push_str("</tr>");
    for worker in &frame.workers {
        let up = worker.up.map_or("?", |up| if up { "yes" } else { "no" });
        let mut cells = vec![
            worker.id.clone(),
            up.to_owned(),
            known(worker.capacity_tokens),
            worker.requests.to_string(),
            worker.queued_tokens.to_string(),
        ];
        cells.extend(feed(worker.feed.as_ref()));
        cells.push(if worker.differs { "yes" } else { "no" }.to_owned());
        cells.extend(worker.by.iter().map(|by| known(by.as_ref().map(|by| by.blocks))));
        tr(html, &cells);
    }
    html.push_str("</table>");
    if frame.workers_hidden > 0 {
        let _ = write!(html, "<p>{} more workers are not shown.</p>", frame.workers_hidden);
    }
}

/// State, owner, standby, lag and blocks of a feed.
fn feed(feed: Option<&FeedView>) -> [String; 5] {
    let Some(feed) = feed else { return ["unknown", "?", "?", "?", "?"].map(str::to_owned) };
    let names = |of: &[String]| if of.is_empty() { "nobody".to_owned() } else { of.join(", ") };
    let more = if feed.is_complete == Some(false) { " at least" } else { "" };
    [
        feed.state.name().to_owned(),
        names(&feed.publishers),
        names(&feed.standbys),
        feed.lag_ms.map_or_else(|| "?".to_owned(), duration),
        known(feed.stored_blocks) + more,
    ]
}

fn events(html: &mut String, frame: &MeshFrame) {
    html.push_str("<h2>Just now</h2><ul>");
    for event in &frame.events {
        let _ = write!(html, "<li class=\"{}\">{}</li>", escape(&event.level), escape(&event.text));
    }
    if frame.events.is_empty() {
        html.push_str("<li>nothing</li>");
    }
    html.push_str("</ul>");
}

fn tr(html: &mut String, cells: &[String]) {
    html.push_str("<tr>");
    for cell in cells {
        let _ = write!(html, "<td>{}", escape(cell));
    }
    html.push_str("</tr>");
}

const fn state(row: &GatewayView) -> &'static str {
    match (row.left, row.phase) {
        (true, _) => "left",
        (false, Some(Phase::Joining)) => "joining",
        (false, Some(Phase::Clean)) => "clean",
        (false, Some(Phase::Dirty)) => "dirty",
        (false, None) => "?",
    }
}

/// A state group's letter: A is the largest.
fn letter(group: u32) -> String {
    match u8::try_from(group) {
        Ok(nth) if nth < 26 => char::from(b'A' + nth).to_string(),
        _ => format!("#{group}"),
    }
}

fn known(value: Option<u64>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

fn lag(ops: Option<u64>, ms: Option<u64>) -> String {
    match (ops, ms) {
        (Some(ops), Some(ms)) => format!("{ops} ops, {}", duration(ms)),
        (Some(ops), None) => format!("{ops} ops"),
        (None, _) => "unknown".to_owned(),
    }
}

fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use covey_mesh::feed::FeedState;

    use crate::frame::{EventView, VerdictView, WorkerView};

    #[test]
    fn the_page_says_what_the_frame_says_and_takes_no_markup_from_names() {
        let cell = Cell { linked: true, heard_ms: Some(90), lag_ops: Some(17), ..Cell::default() };
        let silent = Cell { heard_ms: Some(5_000), ..cell };
        let effect =
            EffectView { prompt_tokens: 200, predicted_tokens: 101, cached_tokens: 100, ..EffectView::default() };
        let row = |name: &str, sees| GatewayView {
            name: name.to_owned(),
            phase: Some(Phase::Clean),
            digest: Some("0123456789abcdef".to_owned()),
            group: Some(1),
            effect: Some(effect.clone()),
            sees,
            ..GatewayView::default()
        };
        let feed = FeedView {
            publishers: vec!["gw-0".to_owned()],
            state: FeedState::Gap,
            lag_ms: Some(7),
            stored_blocks: Some(40),
            is_complete: Some(false),
            ..FeedView::default()
        };
        let frame = MeshFrame {
            verdict: VerdictView {
                word: "degraded".to_owned(),
                why: "<b>gw</b> & co".to_owned(),
                ..VerdictView::default()
            },
            gateways: vec![row("gw-0", vec![None, Some(cell)]), row("<script>", vec![Some(silent), None])],
            workers: vec![
                WorkerView { id: "w\"0".to_owned(), by: vec![None, None], ..WorkerView::default() },
                WorkerView { id: "w1".to_owned(), feed: Some(feed), by: vec![None, None], ..WorkerView::default() },
            ],
            workers_hidden: 3,
            events: vec![EventView { text: "it's".to_owned(), level: "bad".to_owned(), ..EventView::default() }],
            ..MeshFrame::default()
        };
        let html = render("gw-0", Some(&frame));
        for text in [
            "<h1 class=\"degraded\">degraded</h1>",
            "&lt;b&gt;gw&lt;/b&gt; &amp; co",
            "<td>17",
            "<td>silent",
            "&lt;script&gt;",
            "w&quot;0",
            "3 more workers",
            "it&#39;s",
            "<td>B<td>01234567",
            "<td>50.5 %<td>50.0 %",
            "<td>unknown<td>?<td>?<td>?<td>?<td>no",
            "<td>gap<td>gw-0<td>nobody<td>7 ms<td>40 at least<td>no",
        ] {
            assert!(html.contains(text), "{text} is missing in {html}");
        }
        assert!(!html.contains("<script") && !html.contains("style="), "no script, no inline style");
    }

    #[test]
    fn without_a_frame_nothing_is_claimed() {
        let html = render("gw-0", None);
        assert!(html.contains("no frame yet") && html.contains("class=\"unknown\"") && !html.contains("converged"));
    }
}
