//! The screen drawn without a terminal: what must be read on it, at several sizes and in every state.

use covey_mesh::feed::FeedState;
use covey_mesh::status::Phase;

use super::*;
use crate::frame::{
    CoverageView, EventView, FeedView, GatewayView, ReplicaView, Sent, Source, TrafficView, VerdictView, WorkerView,
};

/// Three gateways, the last of which may be cut off and in a state group of its own.
fn frame(seq: u64, is_cut: bool) -> MeshFrame {
    let names = ["gw-1", "gw-2", "gw-3"];
    let cell = |row: usize, column: usize| {
        let far = is_cut && (row == 2 || column == 2);
        let lag = if far { 41 } else { 0 };
        (row != column).then_some(crate::frame::Cell {
            linked: !far,
            heard_ms: Some(if far { 3_200 } else { 120 }),
            lag_ops: Some(lag),
            lag_ms: Some(0),
            rtt_us: Some(400),
            offset_ms: Some(1),
        })
    };
    let gateways = (0..3).map(|row| GatewayView {
        name: names[row].to_owned(),
        life: format!("{row:032x}"),
        me: row == 0,
        age_ms: Some(0),
        phase: Some(if is_cut && row == 2 { Phase::Dirty } else { Phase::Clean }),
        group: Some(u32::from(is_cut && row == 2)),
        clock: Some("good".to_owned()),
        clock_ahead_ms: Some(-3),
        replica: Some(ReplicaView { ops_held: 7 * row as u64, ..ReplicaView::default() }),
        traffic: Some(TrafficView { push: Sent { frames: seq, bytes: seq * 1_000 }, ..TrafficView::default() }),
        propagation: Some(vec![seq * 98, seq * 2, 0]),
        sees: (0..3).map(|column| cell(row, column)).collect(),
        ..GatewayView::default()
    });
    let word = if is_cut { "partitioned" } else { "converged" };
    let coverage = |blocks| Some(CoverageView { blocks, ..CoverageView::default() });
    MeshFrame {
        schema: crate::frame::SCHEMA.to_owned(),
        version: crate::frame::VERSION,
        seq,
        t_ms: 1_764_000_000_000 + seq * 1_000,
        source: Source {
            kind: "live".to_owned(),
            viewer: Some("gw-1".to_owned()),
            cluster: "prod".to_owned(),
            ..Source::default()
        },
        verdict: VerdictView {
            word: word.to_owned(),
            why: format!("because it is {word}"),
            since_ms: 1_764_000_000_000,
            worst_lag_ops: Some(if is_cut { 41 } else { 0 }),
            seen: if is_cut { 2 } else { 3 },
            missing: u64::from(is_cut),
            ..VerdictView::default()
        },
        gateways: gateways.collect(),
        workers: vec![
            WorkerView {
                id: "engine-7".to_owned(),
                differs: is_cut,
                by: vec![coverage(120), coverage(120), coverage(if is_cut { 90 } else { 120 })],
                requests: 3,
                feed: Some(FeedView {
                    publishers: vec!["gw-2".to_owned()],
                    state: if is_cut { FeedState::Gap } else { FeedState::Exact },
                    ..FeedView::default()
                }),
                ..WorkerView::default()
            },
            WorkerView { id: "engine-8".to_owned(), by: vec![coverage(5); 3], ..WorkerView::default() },
        ],
        events: vec![EventView {
            t_ms: 1_764_000_000_000 + seq * 1_000,
            gateway: Some("gw-2".to_owned()),
            kind: "link".to_owned(),
            level: "warn".to_owned(),
            text: format!("event number {seq}"),
        }],
        propagation_bounds_ms: vec![5, 50],
        ..MeshFrame::default()
    }
}

/// A minute of peace and then one of partition.
fn incident() -> Screen {
    let mut screen = Screen::new("127.0.0.1:9080");
    (1..=60).for_each(|seq| screen.push(frame(seq, false)));
    (61..=120).for_each(|seq| screen.push(frame(seq, true)));
    screen
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "does not say {word:?}:\n{text}");
    }
}

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|line| line.contains(start)).unwrap_or_else(|| panic!("no {start:?}:\n{text}"))
}

#[test]
fn everything_has_its_place_at_80_by_24() {
    let mut screen = Screen::new("a:1");
    (1..=60).for_each(|seq| screen.push(frame(seq, false)));
    let text = text(&screen, 80, 24);
    assert_eq!(text.lines().count(), 24);
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    says(&text, &["CONVERGED for 60 s  because it is converged", "as gw-1 sees prod: 3 gateways, worst lag 0 ops"]);
    says(&text, &["lag in ops", "state groups", "gateways", "workers (2)", "traffic", "events", "q quit"]);
    says(
        &text,
        &[
            "push 3000 control 0 repair 0 B/s",
            "p50 <=5 ms  p99 <=50 ms  (9000 ops)",
            "mismatches 0, sessions given up 0",
        ],
    );
    let row: Vec<&str> = line(&text, "engine-7").split_whitespace().take(5).collect();
    assert_eq!(row, [">engine-7", "same", "exact", "120", "3"]);
    says(line(&text, "engine-8"), &["same    -  ", "5    0"]);
    says(line(&text, "event number 60"), &["16:01:00 warn gw-2: event number 60"]);
    assert!(text.find("event number 60") < text.find("event number 59"), "the latest first");
}

#[test]
fn a_partition_is_told_in_words_letters_and_numbers() {
    let wide = text(&incident(), 130, 30);
    says(line(&wide, "engine-7"), &["differs gap", "gw-2       nobody"]);
    let text = text(&incident(), 100, 30);
    says(&text, &["PARTITIONED for 120 s", "because it is partitioned", "2 gateways, 1 missing, worst lag 41 ops"]);
    let matrix = text.lines().find(|line| line.contains(">gw-1") && line.contains("cut")).expect("a row of the matrix");
    says(matrix, &["A     0   cut"]);
    let ribbon = text.lines().find(|line| line.contains(" gw-3") && line.contains("AAB")).expect("a ribbon that turns");
    assert!(ribbon.trim_end().ends_with('B') && !ribbon.contains('?'), "{ribbon}");
    let table = text.lines().find(|line| line.contains("gw-3") && line.contains("dirty")).expect("a row of the table");
    says(table, &["dirty    B", "41 ops", "3200 ms", "14", "good -3 ms"]);
    says(line(&text, "engine-7"), &["differs gap", "90..120"]);
}

#[test]
fn keys_select_pause_help_and_quit() {
    let mut screen = incident();
    assert!(screen.press(Key::Down) && screen.press(Key::Right));
    let moved = text(&screen, 80, 24);
    says(&moved, &[">gw-2", ">engine-8"]);
    (0..9).for_each(|_| assert!(screen.press(Key::Down)));
    says(&text(&screen, 80, 24), &[">gw-3"]);
    assert!(screen.press(Key::Pause));
    screen.push(frame(200, false));
    says(&text(&screen, 80, 24), &["PARTITIONED", "standing still", "event number 120"]);
    assert!(!text(&screen, 80, 24).contains("event number 200"));
    assert!(screen.press(Key::Pause) && screen.press(Key::Help));
    says(&text(&screen, 80, 24), &["CONVERGED", "stand still, and go on", "A is the largest"]);
    assert!(!screen.press(Key::Quit));
    let event = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
    assert_eq!(event(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::Quit));
    assert_eq!(event(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
    assert_eq!(event(KeyCode::Char('c'), KeyModifiers::NONE), None);
    assert_eq!(event(KeyCode::Up, KeyModifiers::NONE), Some(Key::Up));
}

#[test]
fn a_broken_stream_is_unknown_and_says_how_old_the_screen_is() {
    let mut screen = incident();
    screen.stream = Stream::Broken("cannot reach it".to_owned());
    screen.quiet = Some(Duration::from_secs(7));
    let broken = text(&screen, 80, 24);
    says(&broken, &["UNKNOWN", "was partitioned when last heard", "disconnected, last frame 7 s ago  cannot reach it"]);
    screen.push(frame(130, false));
    says(&text(&screen, 80, 24), &["CONVERGED"]);
    let mut never = Screen::new("h:9080");
    says(&text(&never, 80, 24), &["waiting for the first frame of h:9080"]);
    never.stream = Stream::Broken("nobody there".to_owned());
    says(&text(&never, 80, 24), &["nobody there", "trying again", "disconnected, no frame yet"]);
}

#[test]
fn a_stream_without_frames_is_unknown_and_grey_although_it_is_open() {
    let mut screen = Screen::new("h:9080");
    (1..=60).for_each(|seq| screen.push(frame(seq, false)));
    screen.quiet = Some(Duration::from_millis(2_900));
    says(&text(&screen, 80, 24), &["CONVERGED", "q quit"]);
    screen.quiet = Some(Duration::from_millis(4_100));
    assert_eq!(screen.stream, Stream::Open, "comments keep it so");
    let quiet = text(&screen, 80, 24);
    says(&quiet, &["UNKNOWN", "was converged when last heard", "no frame for 4 s"]);
    assert!(!quiet.contains("because it is converged"), "{quiet}");
    let Ok(mut terminal) = Terminal::new(TestBackend::new(80, 24));
    let Ok(drawn) = terminal.draw(|frame| view::draw(frame, &screen));
    assert_eq!(drawn.buffer[(0, 0)].fg, ratatui::style::Color::Gray, "not green");
    screen.push(frame(61, false));
    says(&text(&screen, 80, 24), &["CONVERGED", "q quit"]);
}

#[test]
fn after_a_clock_that_stepped_back_the_screen_shows_the_present_and_measures_from_there() {
    let back = |seq: u64| MeshFrame { t_ms: frame(seq, true).t_ms - 3_600_000, ..frame(seq, true) };
    let mut screen = Screen::default();
    (1..=30).for_each(|seq| screen.push(frame(seq, false)));
    (31..=40).for_each(|seq| screen.push(back(seq)));
    says(&text(&screen, 80, 24), &["PARTITIONED", "push 3000 control 0", "(2700 ops)"]);
    assert!(screen.press(Key::Pause));
    screen.push(MeshFrame { t_ms: 5, ..frame(50, false) });
    says(&text(&screen, 80, 24), &["PARTITIONED", "standing still", "event number 40"]);
    assert!(!text(&screen, 80, 24).contains("event number 50"));
}

#[test]
fn any_size_is_drawn_without_a_panic_and_keeps_the_verdict() {
    let mut screen = incident();
    for (columns, rows) in [(20, 4), (1, 1), (59, 40), (60, 20), (80, 19), (200, 60), (500, 200)] {
        let drawn = text(&screen, columns, rows);
        assert_eq!(drawn.lines().count(), usize::from(rows));
        assert!(columns < 20 || drawn.contains("PARTITIONED"), "{columns} x {rows}:\n{drawn}");
    }
    says(&text(&screen, 59, 30), &["the rest wants 60 x 20"]);
    assert!(screen.press(Key::Help));
    text(&screen, 20, 4);
    // Nothing at all, and nothing known.
    text(&Screen::default(), 80, 24);
    let mut empty = Screen::default();
    empty.push(MeshFrame::default());
    says(&text(&empty, 80, 24), &["no op has spread", "nothing happened yet", "worst lag unknown"]);
}

#[test]
fn what_a_silent_gateway_said_is_not_passed_off_as_the_present() {
    let mut screen = Screen::default();
    let mut late = frame(1, false);
    late.gateways[1].age_ms = Some(9_000);
    late.gateways[1].group = None;
    screen.push(late);
    let drawn = text(&screen, 100, 30);
    let rows: Vec<&str> = drawn.lines().filter(|line| line.starts_with(" gw-2")).collect();
    assert!(rows[0].split_whitespace().take(4).eq(["gw-2", "?", "?", "?"]), "{drawn}");
    assert!(rows[1].contains("silent"), "{drawn}");
}

#[test]
fn more_gateways_than_rows_are_reached_with_the_arrows() {
    let mut screen = Screen::default();
    let mut wide = frame(1, false);
    wide.gateways = (0..40)
        .map(|nth| GatewayView { name: format!("gateway-{nth}"), sees: vec![None; 40], ..GatewayView::default() })
        .collect();
    screen.push(wide);
    says(&text(&screen, 80, 24), &["more: arrows", ">gateway-0"]);
    (0..39).for_each(|_| assert!(screen.press(Key::Down)));
    let drawn = text(&screen, 80, 24);
    says(&drawn, &[">gateway-39"]);
    assert!(!drawn.contains("gateway-0 "));
}

#[test]
fn counters_of_another_life_are_not_compared() {
    let mut screen = Screen::default();
    screen.push(frame(1, false));
    let mut next = frame(3, false);
    next.gateways[1].life = "another".to_owned();
    next.gateways[1].traffic = Some(TrafficView::default());
    screen.push(next);
    let rates = screen.rates().expect("two seconds");
    assert!((rates.push - 2_000.0).abs() < 1e-6, "two of three gateways sent 1000 bytes a second each: {rates:?}");
    assert_eq!(screen.propagation().map(|(ops, ..)| ops), Some(2 * 200));
}
