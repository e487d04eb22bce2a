//! `covey status`: asks one gateway's admin port and says in a few lines how the mesh is.
//!
//! Not here: the judgement (`verdict`).

use std::fmt::Write as _;

use covey_mesh::status::{PeerStatus, Phase, Status};
use serde::Serialize;

use super::client::{AdminClient, AskError};
use super::printable::{escaped, print_soundly, printable};
use super::report::MeshReport;
use crate::cli::args::StatusArgs;
use crate::frame::{FeedCounts, Verdict, verdict};

#[derive(Serialize)]
struct Judged<'a> {
    verdict: Verdict,
    why: &'a str,
    #[serde(flatten)]
    report: &'a MeshReport,
}

/// Asks, and gives the verdict and the text to print.
///
/// # Errors
/// [`AskError`] when nobody answers, or nobody who can be understood.
pub async fn status(args: &StatusArgs) -> Result<(Verdict, String), AskError> {
    let report = ask(args).await?;
    let (word, why) = judge(&report);
    if args.json {
        let json = serde_json::to_string(&Judged { verdict: word, why: &why, report: &report })
            .expect("plain data serializes");
        return Ok((word, escaped(&json) + "\n"));
    }
    Ok((word, render(&printed(report), word, &printable(&why))))
}

/// The gateway's own verdict, made worse by what others told it: what the dashboard says.
fn judge(report: &MeshReport) -> (Verdict, String) {
    let own = verdict(&report.status, report.silent_ms);
    let settled = matches!(own.0, Verdict::Converged | Verdict::Converging);
    let worse = report.frame.as_ref().filter(|frame| settled && frame.verdict == Verdict::Degraded.name());
    worse.map_or(own, |frame| (Verdict::Degraded, frame.why.clone()))
}

async fn ask(args: &StatusArgs) -> Result<MeshReport, AskError> {
    AdminClient::new(&args.admin, Some(args.timeout))?.json("/mesh").await
}

/// The report with every text that is printed fit for a terminal.
fn printed(mut report: MeshReport) -> MeshReport {
    let status = &mut report.status;
    [&mut status.name, &mut status.clock].into_iter().chain(status.digest.as_mut()).for_each(print_soundly);
    for peer in &mut status.peers {
        std::iter::once(&mut peer.name).chain(peer.digest.as_mut()).for_each(print_soundly);
    }
    report
}

/// One line for each gateway, this one first, then one of feeds where events are read, and the verdict.
fn render(report: &MeshReport, word: Verdict, why: &str) -> String {
    let status = &report.status;
    let width = status.peers.iter().map(|peer| peer.name.len()).chain([status.name.len()]).max().unwrap_or(4).max(4);
    let mut out = String::new();
    let mut row = |cells: [&str; 6]| {
        let [name, state, digest, lag, rtt, heard] = cells;
        let _ = writeln!(out, "{name:<width$}  {state:<11}  {digest:<10}  {lag:>8}  {rtt:>9}  {heard:>8}");
    };
    row(["NAME", "STATE", "DIGEST", "LAG", "RTT", "HEARD"]);
    row([&status.name, &own_state(status), short(status.digest.as_deref()), "-", "-", "self"]);
    for peer in &status.peers {
        let lag = known(peer.lag_ops, |ops| format!("{ops} ops"));
        let rtt = known(peer.rtt_us, |us| format!("{:.2} ms", us as f64 / 1e3));
        row([&peer.name, state(peer), short(peer.digest.as_deref()), &lag, &rtt, &known(peer.heard_ms, age)]);
    }
    if let Some(line) = report.frame.as_ref().and_then(|frame| feeds(&frame.feeds)) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(
        out,
        "{}  {why}{}",
        word.name(),
        if report.config.mesh { "" } else { " (mesh off: a replica of one)" }
    );
    out
}

/// Workers by the state of their feeds; `None` where no worker's events are known.
fn feeds(counts: &FeedCounts) -> Option<String> {
    let FeedCounts { exact, gap, bootstrapping, stale, unread } = *counts;
    let told = [(exact, "exact"), (gap, "gap"), (bootstrapping, "bootstrapping"), (stale, "stale")];
    let is_any = told.iter().any(|(count, _)| *count > 0);
    let unread = (unread > 0).then(|| format!("{unread} without events"));
    let words = told.into_iter().map(|(count, word)| format!("{count} {word}")).chain(unread);
    is_any.then(|| format!("feeds: {}", words.collect::<Vec<_>>().join(", ")))
}

fn own_state(status: &Status) -> String {
    let phase = phase(status.phase);
    match status.clock.as_str() {
        "good" | "" => phase.to_owned(),
        clock => format!("{phase}/{clock}"),
    }
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Joining => "joining",
        Phase::Clean => "clean",
        Phase::Dirty => "dirty",
    }
}

fn state(peer: &PeerStatus) -> &'static str {
    match (peer.left, peer.linked, peer.phase) {
        (true, _, _) => "left",
        (false, true, Some(known)) => phase(known),
        (false, false, _) if peer.heard_ms.is_some() => "unreachable",
        (false, _, _) => "connecting",
    }
}

fn short(digest: Option<&str>) -> &str {
    digest.map_or("-", |digest| digest.get(..10).unwrap_or(digest))
}

fn known<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

fn age(ms: u64) -> String {
    if ms < 10_000 { format!("{ms} ms") } else { format!("{} s", ms / 1_000) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::report::FrameReport;

    #[test]
    fn what_others_told_makes_the_verdict_worse_and_never_better() {
        let frame = |word: &str| {
            let why = "b has not heard c".to_owned();
            Some(FrameReport { verdict: word.to_owned(), why, ..FrameReport::default() })
        };
        let status = Status { name: "a".to_owned(), life: "1".to_owned(), phase: Phase::Clean, ..Status::default() };
        let report = MeshReport { status, frame: frame("degraded"), ..MeshReport::default() };
        assert_eq!(judge(&report), (Verdict::Degraded, "b has not heard c".to_owned()));
        assert_eq!(judge(&MeshReport { frame: frame("converged"), ..report.clone() }).0, Verdict::Converged);
        let lost = PeerStatus { heard_ms: Some(9_000), member: Some(true), ..PeerStatus::default() };
        let cut = Status { peers: vec![lost], ..report.status.clone() };
        assert_eq!(judge(&MeshReport { status: cut, ..report }).0, Verdict::Partitioned, "its own word is worse");
    }

    #[test]
    fn feeds_have_a_line_where_events_are_read() {
        let text = |feeds| {
            let frame = Some(FrameReport { feeds, ..FrameReport::default() });
            render(&MeshReport { frame, ..MeshReport::default() }, Verdict::Converged, "all are equal")
        };
        let some = text(FeedCounts { exact: 3, stale: 1, unread: 2, ..FeedCounts::default() });
        let line = "\nfeeds: 3 exact, 0 gap, 0 bootstrapping, 1 stale, 2 without events\nconverged  ";
        assert!(some.contains(line), "{some}");
        assert!(!text(FeedCounts { unread: 2, ..FeedCounts::default() }).contains("feeds"));
    }

    #[test]
    fn every_gateway_has_a_line_and_the_verdict_comes_last() {
        let peer = |name: &str| PeerStatus { name: name.to_owned(), ..PeerStatus::default() };
        let report = MeshReport {
            status: Status {
                name: "gw-0".to_owned(),
                phase: Phase::Clean,
                digest: Some("0123456789abcdef".to_owned()),
                clock: "ahead".to_owned(),
                peers: vec![
                    PeerStatus { left: true, linked: false, heard_ms: Some(90_000), ..peer("gw-1") },
                    PeerStatus { linked: false, heard_ms: Some(500), ..peer("gateway-2") },
                    PeerStatus {
                        linked: true,
                        phase: Some(Phase::Clean),
                        rtt_us: Some(420),
                        lag_ops: Some(3),
                        ..peer("gw-3")
                    },
                    peer("gw-4"),
                ],
                ..Status::default()
            },
            ..MeshReport::default()
        };
        let text = render(&report, Verdict::Degraded, "gw-4 cannot be reached");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["gw-0", "clean/ahead", "0123456789", "-", "-", "self"]);
        assert_eq!(lines[2], ["gw-1", "left", "-", "-", "-", "90", "s"]);
        assert_eq!(lines[3][..2], ["gateway-2", "unreachable"]);
        assert_eq!(lines[4], ["gw-3", "clean", "-", "3", "ops", "0.42", "ms", "-"]);
        assert_eq!(lines[5][1], "connecting");
        assert!(lines[6].join(" ").starts_with("degraded gw-4 cannot be reached"), "{text}");
    }
}
