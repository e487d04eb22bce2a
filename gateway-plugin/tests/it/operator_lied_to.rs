//! `covey status` and `covey diff` against whatever may answer at an address: bodies and pages without end, numbers at
//! their extremes, texts that would steer a terminal. None of it hangs, panics, fills memory or reaches the terminal.

use std::time::{Duration, Instant};

use covey_gateway_plugin::admin::MeshReport;
use serde_json::{Value, json};

use crate::fake::{FakeWorker, Recorded, Step, reply};
use crate::process::covey;

/// What `covey` says: exit code, standard output, standard error.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = covey(args).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn json_reply(json: &Value) -> Vec<Step> {
    vec![reply("200 OK", "application/json", &json.to_string())]
}

fn hex(digit: char) -> String {
    digit.to_string().repeat(32)
}

/// A page of a replica that holds one worker, whose numbers are all `n`.
fn page(life: char, worker: &str, n: u64) -> Value {
    let stamp = json!({"ms": n, "counter": u16::MAX, "life": hex('e')});
    let holder = |id: u8| {
        json!({"id": format!("{id:016x}"), "model": "m", "block_units": u32::MAX, "lane": u8::MAX, "digest": hex(life),
            "blocks": n, "floor": {"stamp": {"ms": 0, "counter": 0, "life": hex('0')}, "depth": u32::MAX}})
    };
    let log = |of: char| json!({"life": hex(of), "name": "g", "left": false, "seq": n, "hash": "0".repeat(16), "held": n, "gap_ms": n});
    let row = json!({"name": worker, "rank": u16::MAX, "incarnation": {"counter": n, "token": "t"}, "capacity_tokens": n,
        "meta": stamp, "record": hex('c'), "holders": [holder(1), holder(2)]});
    json!({"name": "g", "life": hex(life), "mesh": hex('d'), "phase": "clean", "digest": hex(life), "wall_ms": n,
        "logs": [log('8'), log('9')], "ends": {"digest": hex('0'), "retired": [], "forgotten": stamp}, "workers": [row],
        "more": false})
}

/// A page of one of its holders: two blocks, as deep and as late as can be said.
fn holder_page(life: char, n: u64) -> Value {
    let mut page = page(life, "w", n);
    let stamp = json!({"ms": n, "counter": u16::MAX, "life": hex('8')});
    page["incarnation"] = json!({"counter": u64::MAX, "token": "t"});
    page["floor"] = Value::Null;
    page["blocks"] = json!([{"stamp": stamp, "from": u32::MAX, "paths": [hex(life), hex('7')]}]);
    page["next"] = Value::Null;
    page
}

fn is_holder(request: &Recorded) -> bool {
    request.head.contains("/mesh/state/holder")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_end_is_read_within_bounds() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n[";
    let server = FakeWorker::start(move |_| vec![Step::Send(head.into()), Step::Forever(vec![b' '; 1 << 18])]).await;
    let admin = server.address.to_string();
    let asked: [(&[&str], &str); 2] = [
        (&["status", "--admin", &admin, "--timeout", "20s"], "/mesh"),
        (&["diff", &admin, &admin, "--timeout", "20s"], "/mesh/state"),
    ];
    for (asked, path) in asked {
        let (code, _, log) = run(asked);
        assert!(code == Some(3) && log.contains(&admin), "{log}");
        assert!(log.contains(&format!("its answer to {path} has more than 64 MiB")), "{log}");
    }
    let head = "HTTP/1.1 503 Unavailable\r\nconnection: close\r\n\r\n";
    server.answer(move |_| vec![Step::Send(head.into()), Step::Forever(b"not yet ".to_vec())]);
    let (code, _, log) = run(&["status", "--admin", &admin, "--timeout", "20s"]);
    assert!(code == Some(3) && log.contains("cannot answer: not yet not yet") && log.len() < 350, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_of_pages_without_end_ends() {
    let began = Instant::now();
    let mut same = page('a', "w", 1);
    same["more"] = true.into();
    let mut none = same.clone();
    none["workers"] = json!([]);
    let server = FakeWorker::start(|_| Vec::new()).await;
    let admin = server.address.to_string();
    let (ends, late) = ("there is more and does not come to an end", "did not come whole within 2 s");
    for page in [same, none] {
        server.answer(move |_| json_reply(&page));
        let (code, _, log) = run(&["diff", &admin, &admin, "--timeout", "2s"]);
        assert!(code == Some(3) && log.contains(ends) && log.contains(&admin), "{log}");
    }
    // Cursors that advance for ever are cut off by their number, or by the time.
    let count = std::sync::atomic::AtomicU64::new(0);
    server.answer(move |_| {
        let nth = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let mut next = page('a', &format!("w{nth:09}"), 1);
        next["more"] = true.into();
        json_reply(&next)
    });
    let (code, _, log) = run(&["diff", &admin, &admin, "--timeout", "2s"]);
    assert!(code == Some(3) && (log.contains(ends) || log.contains(late)), "{log}");
    // And so are the pages of a holder.
    let other = FakeWorker::start(|request| {
        json_reply(&if is_holder(request) { holder_page('b', 1) } else { page('b', "w", 1) })
    })
    .await;
    server.answer(|request| {
        let mut holder = holder_page('a', 1);
        holder["next"] = json!({"ms": 5, "counter": 0, "life": hex('8'), "depth": 1});
        json_reply(&if is_holder(request) { holder } else { page('a', "w", 1) })
    });
    let (code, _, log) = run(&["diff", &other.address.to_string(), &admin, "--timeout", "2s"]);
    assert!(code == Some(3) && log.contains(ends) && log.contains(&admin), "{log}");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_of_liars_with_numbers_at_their_extremes_is_judged_as_any_other() {
    let liar = async |life: char, n: u64| {
        FakeWorker::start(move |request| {
            json_reply(&if is_holder(request) { holder_page(life, n) } else { page(life, "w", n) })
        })
        .await
    };
    let (all, most, least) = (liar('a', u64::MAX).await, liar('b', u64::MAX).await, liar('f', 0).await);
    for (one, other) in [(&all, &most), (&all, &least), (&least, &most)] {
        let (one, other) = (one.address.to_string(), other.address.to_string());
        for extra in [&["--blocks", "9"][..], &["--json"]] {
            let (code, text, log) = run(&[&["diff", &one, &other, "--settle", "1ms"], extra].concat());
            assert!(matches!(code, Some(1 | 2)) && log.is_empty(), "{code:?} {text}{log}");
            assert!(text.contains("18446744073709551615"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_server_steers_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2Jbusy \u{9b}31m\r\n\u{202e}for now".to_owned() + &"x".repeat(70_000);
    let is_plain = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}');
    let body = evil.clone();
    let server = FakeWorker::start(move |_| vec![reply("503 Unavailable", "text/plain", &body)]).await;
    let admin = server.address.to_string();
    for asked in [&["status", "--admin", &admin][..], &["diff", &admin, &admin]] {
        let (code, text, log) = run(asked);
        assert!(code == Some(3) && log.contains("cannot answer: ]0;owned[2Jbusy 31m  for now"), "{log:?}");
        assert!(is_plain(&text) && is_plain(&log) && log.len() < 350 && log.matches('\n').count() == 1, "{log:?}");
    }
    let mut report = MeshReport::default();
    (report.status.name, report.status.life, report.status.clock) = (evil.clone(), "1".into(), evil.clone());
    let report = serde_json::to_value(report).expect("JSON");
    // A worker's name goes into an address, which has a bound of its own.
    let worker: String = evil.chars().take(240).collect();
    let mut state = page('a', &worker, 1);
    state["name"] = evil.clone().into();
    state["logs"][0]["name"] = evil.clone().into();
    state["workers"][0]["holders"][0]["model"] = evil.clone().into();
    server.answer(move |request| match request.head.contains("/mesh/state") {
        true if is_holder(request) => json_reply(&holder_page('a', 1)),
        true => json_reply(&state),
        false => json_reply(&report),
    });
    let (code, text, _) = run(&["status", "--admin", &admin]);
    assert!(code == Some(1) && text.contains("]0;owned[2Jbusy 31m  for now"), "{text:?}");
    assert!(is_plain(&text) && text.lines().count() == 3 && text.len() < 3_000, "{text:?}");
    let (_, json, _) = run(&["status", "--admin", &admin, "--json"]);
    let read: Value = serde_json::from_str(&json).expect("JSON");
    assert!(is_plain(&json) && read["status"]["name"] == evil.as_str(), "escaped, and whole");
    let other = FakeWorker::start(|request| {
        json_reply(&if is_holder(request) { holder_page('b', 0) } else { page('b', "w", 0) })
    })
    .await;
    let (code, text, log) = run(&["diff", &admin, &other.address.to_string(), "--settle", "1ms"]);
    assert!(matches!(code, Some(1 | 2)) && text.contains("]0;owned[2Jbusy 31m  for now"), "{code:?} {text:?}{log}");
    assert!(is_plain(&text) && text.len() < 10_000, "{text:?}");
}
