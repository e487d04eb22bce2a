//! `covey record` and `covey top --once` against a source of frames that stops, restarts and lies.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use covey_gateway_plugin::dashboard::{Info, Reel, router};
use covey_gateway_plugin::frame::{
    Cell, CoverageView, EventView, GatewayView, MeshFrame, RepairView, ReplicaView, SCHEMA, Source, TrafficView,
    VERSION, VerdictView, WorkerView,
};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fake::{FakeWorker, Step, chat_json, reply, until};
use crate::process::covey;

/// A gateway's `/api`, without the gateway.
struct Frames {
    reel: Arc<Reel>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Frames {
    async fn start(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let reel = Arc::new(Reel::default());
        let info = Info { mode: "live".into(), label: "gw-1".into(), package_version: "0".into() };
        let routes = router(info, Arc::clone(&reel), None);
        let task = tokio::spawn(async move { axum::serve(listener, routes).await.expect("it serves") });
        Self { reel, address, task }
    }

    fn push(&self, seq: u64, t_ms: u64, life: &str) {
        self.reel.push(frame(seq, t_ms, life));
    }

    /// As when its process dies: streams break.
    async fn stop(self) {
        self.reel.close();
        self.task.abort();
        let _ = self.task.await;
    }
}

fn frame(seq: u64, t_ms: u64, life: &str) -> MeshFrame {
    let me = GatewayView { name: "gw-1".into(), life: life.into(), me: true, ..GatewayView::default() };
    MeshFrame {
        schema: SCHEMA.into(),
        version: VERSION,
        seq,
        t_ms,
        source: Source { kind: "live".into(), viewer: Some("gw-1".into()), ..Source::default() },
        verdict: VerdictView { word: "converged".into(), why: "all are equal".into(), ..VerdictView::default() },
        gateways: vec![me],
        events: vec![EventView { text: format!("frame {seq}"), ..EventView::default() }],
        ..MeshFrame::default()
    }
}

fn start(address: SocketAddr, out: &Path, extra: &[&str]) -> Child {
    let (address, out) = (address.to_string(), out.to_str().expect("text").to_owned());
    let mut command = covey(&[&["record", "--admin", &address, "--out", &out], extra].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn finish(child: Child) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs").success());
}

fn recorded(out: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(out).unwrap_or_default();
    let frames = text.lines().map(|line| serde_json::from_str::<MeshFrame>(line).expect("a whole frame a line"));
    frames.map(|frame| (frame.seq, frame.t_ms)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_every_frame_and_goes_on_when_the_gateway_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("incident.jsonl");
    let source = Frames::start("127.0.0.1:0").await;
    (1..=5).for_each(|seq| source.push(seq, seq * 1_000, "a"));
    let child = start(source.address, &out, &[]);
    until("it has begun with the latest", || recorded(&out) == [(5, 5_000)]).await;
    (6..=8).for_each(|seq| source.push(seq, seq * 1_000, "a"));
    until("every frame is written at once", || recorded(&out).len() == 4).await;
    let address = source.address.to_string();
    source.stop().await;
    // The connection breaks, and for a while nobody is there.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    let source = Frames::start(&address).await;
    (1..=3).for_each(|seq| source.push(seq, 9_000 + seq * 1_000, "b"));
    until("it goes on with what the new one has", || recorded(&out).len() == 7).await;
    assert_eq!(recorded(&out)[3..], [(8, 8_000), (1, 10_000), (2, 11_000), (3, 12_000)]);
    signal(&child, "INT");
    let (code, said, log) = finish(child);
    assert_eq!(code, Some(0), "{log}");
    assert!(said.contains("wrote 7 frames over 7.0 s") && said.contains("broke 1 time"), "{said}");
    assert!(log.contains("trying again") && log.contains("the gateway began anew"), "{log}");
    let first = std::fs::read_to_string(&out).expect("it is there").lines().next().map(str::to_owned);
    assert_eq!(first, Some(serde_json::to_string(&frame(5, 5_000, "a")).expect("JSON")), "as it came");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_between_two_frames_loses_none_and_repeats_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("r.jsonl");
    let source = Frames::start("127.0.0.1:0").await;
    (1..=4).for_each(|seq| source.push(seq, seq * 1_000, "a"));
    let child = start(source.address, &out, &["--history"]);
    until("it began with what was kept", || recorded(&out).len() == 4).await;
    let address = source.address.to_string();
    source.stop().await;
    let again = Frames::start(&address).await;
    (1..=7).for_each(|seq| again.push(seq, seq * 1_000, "a"));
    until("what came meanwhile is there", || recorded(&out).len() == 7).await;
    signal(&child, "TERM");
    let (code, _, log) = finish(child);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("recording goes on") && !log.contains("began anew"), "{log}");
    assert_eq!(recorded(&out).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_clock_steps_back_is_recorded_and_shown_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("r.jsonl");
    let source = Frames::start("127.0.0.1:0").await;
    source.push(1, 900_000, "a");
    let child = start(source.address, &out, &["--history"]);
    until("it has begun", || recorded(&out).len() == 1).await;
    (2..=4).for_each(|seq| source.push(seq, seq * 1_000, "a"));
    until("frames from before are frames", || recorded(&out).len() == 4).await;
    let admin = source.address.to_string();
    let output = covey(&["top", "--once", "--admin", &admin, "--timeout", "5s"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(0) && text.contains("frame 4"), "{text}");
    // A new process, and its clock is another hour behind.
    source.stop().await;
    let source = Frames::start(&admin).await;
    (1..=3).for_each(|seq| source.push(seq, seq * 10, "b"));
    until("it goes on", || recorded(&out).len() == 7).await;
    source.push(4, 5, "b");
    until("and on", || recorded(&out).len() == 8).await;
    signal(&child, "INT");
    let (code, said, log) = finish(child);
    assert!(code == Some(0) && said.contains("wrote 8 frames over 2.0 s"), "{said}{log}");
    let seqs: Vec<u64> = recorded(&out).iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_not_overwritten_unasked_and_the_time_can_be_limited() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("r.jsonl");
    std::fs::write(&out, "precious").expect("written");
    let source = Frames::start("127.0.0.1:0").await;
    source.push(1, 1_000, "a");
    let (code, _, log) = finish(start(source.address, &out, &[]));
    assert!(code == Some(1) && log.contains("--force"), "{log}");
    assert_eq!(std::fs::read_to_string(&out).expect("it is there"), "precious");
    let (code, said, log) = finish(start(source.address, &out, &["--force", "--for", "300ms"]));
    assert!(code == Some(0) && said.contains("wrote 1 frames"), "{said}{log}");
    assert_eq!(recorded(&out), [(1, 1_000)]);
    let (code, _, log) = finish(start(source.address, &dir.path().join("no/such/place"), &[]));
    assert!(code == Some(1) && log.contains("cannot write"), "{log}");
    for (bad, word) in [("--for=0s", "--for"), ("--for=soon", "--for")] {
        let (code, _, log) = finish(start(source.address, &dir.path().join("x"), &[bad]));
        assert!(code == Some(2) && log.contains(word), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_and_strangers_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("r.jsonl");
    let nobody: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let (code, _, log) = finish(start(nobody, &out, &[]));
    assert!(code == Some(3) && log.contains("cannot reach") && log.contains("--admin-listen"), "{log}");
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let (code, _, log) = finish(start(worker.address, &out, &[]));
    assert!(code == Some(3) && log.contains("does not answer like a covey gateway"), "{log}");
    let source = Frames::start("127.0.0.1:0").await;
    source.reel.push(MeshFrame { version: VERSION + 1, ..frame(1, 1_000, "a") });
    let (code, _, log) = finish(start(source.address, &out, &[]));
    assert!(code == Some(3) && log.contains("version 2"), "{log}");
    assert!(!out.exists(), "no empty file is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn top_prints_one_screen_without_a_terminal() {
    let source = Frames::start("127.0.0.1:0").await;
    let admin = source.address.to_string();
    let top = |extra: &[&str]| covey(&[&["top", "--admin", &admin], extra].concat()).output().expect("it runs");
    let output = top(&["--once", "--timeout", "2s"]);
    assert_eq!(output.status.code(), Some(3), "there is no frame yet");
    (1..=9).for_each(|seq| source.push(seq, 1_000_000 + seq * 1_000, "a"));
    let output = top(&["--once", "--columns", "90", "--rows", "30"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), text.lines().count()), (Some(0), 30), "{text}");
    for words in ["CONVERGED", "all are equal", "frame 9", "frame 1", ">gw-1"] {
        assert!(text.contains(words), "no {words:?}:\n{text}");
    }
    let output = top(&[]);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && log.contains("--once"), "{log}");
    let output = covey(&["top", "--once", "--admin", "127.0.0.1:1"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
}

/// Every number there is, at its extreme; `count` stands for those that grow.
fn extreme(seq: u64, t_ms: u64, count: u64) -> MeshFrame {
    let cell =
        Cell { linked: true, heard_ms: Some(1), lag_ops: Some(1), lag_ms: Some(1), rtt_us: Some(1), offset_ms: None };
    let row = |nth: usize| GatewayView {
        name: format!("gw-{nth}"),
        life: format!("{nth}"),
        me: nth == 0,
        age_ms: Some(1),
        phase: Some(covey_mesh::status::Phase::Clean),
        group: Some(u32::MAX),
        clock_ahead_ms: Some(i64::MIN),
        replica: Some(ReplicaView::default()),
        traffic: Some(TrafficView::default()),
        repair: Some(RepairView::default()),
        propagation: Some(vec![1; 3]),
        sees: vec![Some(Cell { offset_ms: Some(i64::MIN), ..cell }); 3],
        ..GatewayView::default()
    };
    let coverage = CoverageView { floor_ms: Some(1), newest_ms: Some(1), ..CoverageView::default() };
    let full = MeshFrame {
        verdict: VerdictView {
            word: "converged".into(),
            converged_ms: Some(1),
            worst_lag_ops: Some(1),
            worst_lag_ms: Some(1),
            eta_ms: Some(1),
            ..VerdictView::default()
        },
        gateways: (0..3).map(row).collect(),
        workers: vec![WorkerView { id: "w".into(), by: vec![Some(coverage); 3], ..WorkerView::default() }],
        propagation_bounds_ms: vec![1, 2],
        ..frame(seq, t_ms, "a")
    };
    let mut json = serde_json::to_value(full).expect("JSON");
    blow_up(&mut json, count);
    (json["seq"], json["t_ms"]) = (seq.into(), t_ms.into());
    serde_json::from_value(json).expect("a frame")
}

fn blow_up(json: &mut Value, count: u64) {
    match json {
        Value::Number(_) => *json = count.into(),
        Value::Array(all) => all.iter_mut().for_each(|value| blow_up(value, count)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "version" | "group" | "clock_ahead_ms" => {}
                    "sees" => value.as_array_mut().expect("cells").iter_mut().for_each(|cell| {
                        (1..5).for_each(|nth| cell[nth] = count.into());
                    }),
                    _ => blow_up(value, count),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_at_their_extremes_are_shown_and_recorded() {
    let source = Frames::start("127.0.0.1:0").await;
    source.reel.push(extreme(u64::MAX - 2, u64::MAX - 2_000, 0));
    source.reel.push(extreme(u64::MAX - 1, u64::MAX - 1_000, u64::MAX));
    source.reel.push(extreme(u64::MAX, u64::MAX, u64::MAX));
    let admin = source.address.to_string();
    for [columns, rows] in [["80", "24"], ["200", "60"]] {
        let asked = ["top", "--once", "--admin", &admin, "--columns", columns, "--rows", rows];
        let output = covey(&asked).output().expect("it runs");
        let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.code() == Some(0) && text.starts_with("CONVERGED"), "{text}{log}");
        assert!(text.contains("mismatches 18446744073709551615"), "{text}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("r.jsonl");
    let (code, said, log) = finish(start(source.address, &out, &["--history", "--for", "500ms"]));
    assert!(code == Some(0) && said.contains("wrote 3 frames over 2.0 s"), "{said}{log}");
}

/// A refusal that would clear the screen, and name the window.
const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2Jbusy \u{9b}31m\r\n\u{202e}for now";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_cannot_steer_the_terminal_and_is_read_within_bounds() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("r.jsonl");
    let body = EVIL.to_owned() + &"x".repeat(100_000);
    let server = FakeWorker::start(move |_| vec![reply("503 Unavailable", "text/plain", &body)]).await;
    let admin = server.address.to_string();
    let top = |admin: &str| {
        let output = covey(&["top", "--once", "--admin", admin, "--timeout", "20s"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let is_plain = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}');
    for (code, said, log) in [finish(start(server.address, &out, &[])), top(&admin)] {
        assert!(code == Some(3) && log.contains("cannot answer: ]0;owned[2Jbusy 31m  for now"), "{said}{log:?}");
        assert!(is_plain(&log[..log.len() - 1]) && log.len() < 350 && log.matches('\n').count() == 1, "{log:?}");
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n[";
    server.answer(move |_| vec![Step::Send(head.into()), Step::Forever(vec![b' '; 1 << 18])]);
    let (code, _, log) = top(&admin);
    assert!(code == Some(3) && log.contains(&admin) && log.contains("/api/frame has more than 64 MiB"), "{log}");

    let source = Frames::start("127.0.0.1:0").await;
    let verdict = VerdictView { word: "converged".into(), why: EVIL.into(), ..VerdictView::default() };
    let events = vec![EventView { text: EVIL.into(), level: EVIL.into(), ..EventView::default() }];
    source.reel.push(MeshFrame { verdict, events, ..frame(1, 1_000, "a") });
    let (code, text, _) = top(&source.address.to_string());
    assert!(code == Some(0) && text.contains("]0;owned[2Jbusy 31m  for now") && is_plain(&text), "{text:?}");
}
