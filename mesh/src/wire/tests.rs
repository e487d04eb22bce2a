//! The layout of every kind of frame, held by bytes that are checked in and never written by a test.

use std::collections::BTreeMap;

use super::*;
use crate::feed::{FeedReport, FeedState, Role};
use crate::note::ClockState;
use crate::status::Phase;
use crate::summary::{Effect, FeedSeen, PeerSeen, ReplicaCounts, Tally, WorkerSeen};

const GOLDEN: &str = include_str!("../../tests/golden/frames-1.txt");

fn buf(bytes: &[u8]) -> ByteBuf {
    ByteBuf::from(bytes.to_vec())
}

fn messages() -> Vec<(&'static str, Message)> {
    let id = Id(*b"0123456789abcdef");
    let feed = FeedEntry {
        worker: "http://10.0.0.1:8000".to_owned(),
        rank: 1,
        counter: 2,
        token: "boot".to_owned(),
        generation: 3,
        life: id,
        position: 4,
        part: 5,
        digest: 6,
    };
    let known = feed.clone();
    let exchange = Exchange {
        name: "gw-a".to_owned(),
        cluster: "prod".to_owned(),
        block_bytes: 256,
        wall_ms: 1_764_000_000_000,
        mono_us: 5,
        echo_us: 6,
        held_us: 7,
        phase: 1,
        digest: buf(&[8; 16]),
        vector: 9,
        version: 10,
        since: 11,
        vector_acked: 12,
        load_acked: 13,
        lives: buf(&[14; 32]),
        feeds: vec![feed],
        held: buf(&[15; 24]),
        closed: buf(&[16; 16]),
        side: 17,
        smallest: id,
        ends: buf(&[18; 16]),
        mesh: id,
        forgotten: buf(&[19; 24]),
        ingests: true,
    };
    let entry = LoadEntry { worker: "w".to_owned(), rank: 0, requests: 3, queued_tokens: 4_000 };
    let reply = SliceReply {
        session: 1,
        nth: 2,
        answer: 5,
        part: 3,
        vector: buf(&[3; 32]),
        target: buf(&[4; 24]),
        ends: buf(&[6; 48]),
        forgotten: buf(&[7; 24]),
        mesh: id,
        slice: buf(&[5; 4]),
        outcome: buf(&[6; 3]),
        more: false,
        dirty: true,
    };
    let ask =
        SliceAsk { session: 1, nth: 2, cursor: buf(&[3]), window: buf(&[4; 2]), holders: buf(&[5; 3]), whole: true };
    let piece = BlobPiece { kind: 0, worker: "w".to_owned(), rank: 1, id: 2, total: 9, offset: 3, bytes: buf(&[4, 5]) };
    let refused = SliceRefused { session: 1, why: "busy".to_owned(), retry_after_ms: 300, kept: true };
    vec![
        ("exchange", Message::Exchange(Box::new(exchange))),
        ("ops", Message::Ops(Ops { life: id, first: 1, before: 2, chains: buf(&[3]), ops: buf(&[4]) })),
        ("pull", Message::Pull(Pull { wants: buf(&[1; 32]) })),
        ("trimmed", Message::Trimmed(Trimmed { life: id })),
        ("want", Message::Want(Want { tips: buf(&[1; 20]) })),
        ("content", Message::Content(Content { chains: buf(&[1, 2]) })),
        ("loads", Message::Loads(Loads { version: 2, since: 1, entries: vec![entry] })),
        ("slice-ask", Message::SliceAsk(ask)),
        ("slice-reply", Message::SliceReply(Box::new(reply))),
        ("slice-refused", Message::SliceRefused(refused)),
        ("slice-end", Message::SliceEnd(SliceEnd { session: 1 })),
        ("feed-ops", Message::FeedOps(FeedOps { ops: vec![buf(&[1, 2]), buf(&[3])] })),
        ("feed-pull", Message::FeedPull(FeedPull { wants: vec![known] })),
        ("feed-trimmed", Message::FeedTrimmed(FeedTrimmed { worker: "w".to_owned(), rank: 1 })),
        ("blob-ask", Message::BlobAsk(BlobAsk { kind: 1, worker: "w".to_owned(), rank: 1, id: 2, offset: 3 })),
        ("blob-piece", Message::BlobPiece(piece)),
        ("summary", Message::Summary(Box::new(summary()))),
        ("refused", Message::Refused(Refused { why: "the name gw-a belongs to a live gateway".to_owned() })),
    ]
}

fn summary() -> Summary {
    let peer = PeerSeen {
        name: "gw-b".to_owned(),
        linked: true,
        left: false,
        heard_ms: Some(90),
        lag_ops: Some(0),
        lag_ms: None,
        rtt_us: Some(800),
        offset_ms: Some(-3),
    };
    let worker = WorkerSeen {
        worker: "w0".to_owned(),
        rank: 1,
        incarnation: 2,
        blocks: 300,
        stored: Some(280),
        is_complete: true,
        digest: u64::MAX,
        floor_ms: None,
        newest_ms: Some(1_764_000_000_000),
    };
    let report = FeedReport { state: FeedState::Exact, since_ms: 7, proven_ms: Some(8), lag_ms: None, position: 9 };
    let feed = FeedSeen { worker: "w0".to_owned(), rank: 1, role: Role::Standby, report };
    let effect = Effect { measured: 1, prompt_tokens: 900, outcomes: vec![("hit".to_owned(), 1)], ..Effect::default() };
    Summary {
        wall_ms: 1_764_000_000_000,
        phase: Phase::Clean,
        digest: Some("0123456789abcdef0123456789abcdef".to_owned()),
        vector: 7,
        clock: ClockState::Behind,
        clock_ahead_ms: Some(-300),
        replica: ReplicaCounts { ops_applied: 400, ..ReplicaCounts::default() },
        tally: Tally { duplicate_ops: 5, ..Tally::default() },
        effect: Some(effect),
        peers: vec![peer],
        workers: vec![worker],
        feeds: vec![feed],
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits")).collect()
}

#[test]
fn golden_bytes_of_every_kind_of_frame_of_wire_version_1() {
    assert_eq!(WIRE_VERSION, 1, "a new version gets a new file; the old one stays as long as it is read");
    let golden: BTreeMap<&str, &str> = GOLDEN.lines().filter_map(|line| line.split_once(' ')).collect();
    let messages = messages();
    // Until a version is released its file follows the layout: COVEY_WRITE_GOLDEN=1 writes it anew.
    if std::env::var_os("COVEY_WRITE_GOLDEN").is_some() {
        let lines: String =
            messages.iter().map(|(kind, message)| format!("{kind} {}\n", hex(&message.encode()))).collect();
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/frames-1.txt"), lines).expect("written");
        return;
    }
    assert_eq!(golden.len(), messages.len());
    for (kind, message) in messages {
        assert_eq!(golden.get(kind).copied(), Some(hex(&message.encode()).as_str()), "{kind}");
        assert_eq!(Message::decode(&unhex(golden[kind])), Ok(message), "{kind}");
    }
}

#[test]
fn a_summary_of_a_mesh_of_64_gateways_stays_small() {
    let mut summary = summary();
    summary.peers = vec![summary.peers[0].clone(); 63];
    summary.workers = vec![summary.workers[0].clone(); crate::limits::SUMMARY_WORKERS];
    let bytes = Message::Summary(Box::new(summary)).encode().len();
    assert!((1_500..2_500).contains(&bytes), "{bytes} bytes a second and peer: ARCHITECTURE says about 2 kB");
}

#[test]
fn a_kind_without_golden_bytes_does_not_compile() {
    for (kind, message) in messages() {
        let named = match message {
            Message::Exchange(_) => "exchange",
            Message::Ops(_) => "ops",
            Message::Pull(_) => "pull",
            Message::Trimmed(_) => "trimmed",
            Message::Want(_) => "want",
            Message::Content(_) => "content",
            Message::Summary(_) => "summary",
            Message::Loads(_) => "loads",
            Message::SliceAsk(_) => "slice-ask",
            Message::SliceReply(_) => "slice-reply",
            Message::SliceRefused(_) => "slice-refused",
            Message::SliceEnd(_) => "slice-end",
            Message::Refused(_) => "refused",
            Message::FeedOps(_) => "feed-ops",
            Message::FeedPull(_) => "feed-pull",
            Message::FeedTrimmed(_) => "feed-trimmed",
            Message::BlobAsk(_) => "blob-ask",
            Message::BlobPiece(_) => "blob-piece",
        };
        assert_eq!(kind, named);
    }
}

#[test]
fn frames_cut_short_or_longer_are_malformed_wherever_that_happens() {
    for (kind, message) in messages() {
        let frame = message.encode();
        for len in 0..frame.len() {
            let cut = Message::decode(&frame[..len]);
            assert!(matches!(cut, Err(RefuseFrame::Malformed { .. })), "{kind} cut to {len}: {cut:?}");
        }
        let longer = [&frame[..], &[0]].concat();
        assert_eq!(Message::decode(&longer), Err(RefuseFrame::Malformed { offset: frame.len() }), "{kind}");
    }
}

#[test]
fn a_frames_kind_shows_without_reading_it() {
    let frame = Message::Trimmed(Trimmed { life: LifeId(3).into() }).encode();
    assert_eq!(frame_kind(&frame), Some("Trimmed"));
    for end in 0..9 {
        assert_eq!(frame_kind(&frame[..end]), None, "{end} bytes");
    }
    assert_eq!(frame_kind(b"no frame at all"), None);
}
