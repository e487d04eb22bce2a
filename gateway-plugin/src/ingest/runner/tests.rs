//! The runner and the sockets against an independent ZeroMQ, and against servers that are hostile.

use std::sync::Mutex;

use covey_crdt::hash::HashKey;
use covey_crdt::id::{LifeId, ModelName, Token};
use rmp_serde::to_vec;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;
use zeromq::{PubSocket, RouterSocket, Socket as _, SocketRecv as _, SocketSend as _, ZmqMessage};

use super::super::cache::CacheRules;
use super::super::intake::Phase;
use super::super::zmtp::{RefuseWire, greeting};
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Seen {
    ops: Mutex<Vec<StoredOp>>,
    phase: Mutex<Option<Phase>>,
    hand_offs: Mutex<usize>,
}

impl Sink for Seen {
    fn ingested(&self, op: StoredOp) {
        self.ops.lock().expect("no panic").push(op);
    }
    fn reset(&self, _: &WorkerId) {}
    fn probe(&self, _: &WorkerId) {}
    fn ask_hand_off(&self, _: &WorkerId) {
        *self.hand_offs.lock().expect("no panic") += 1;
    }
    fn note(&self, _: &WorkerId, _: Note) {}
    fn report(&self, _: &WorkerId, report: FeedReport) {
        *self.phase.lock().expect("no panic") = Some(report.state.phase);
    }
}

impl Seen {
    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waited = timeout(PATIENCE, async {
            while !is_so(self) {
                sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"));
    }

    fn position(&self) -> Option<u64> {
        self.ops.lock().expect("no panic").last().map(|op| op.key.position)
    }
}

fn config() -> IntakeConfig {
    IntakeConfig {
        worker: WorkerId::new("http://engine:8000", 0).expect("a name"),
        model: ModelName::new("m").expect("a name"),
        key: HashKey::ZERO,
        rules: CacheRules::default(),
        life: LifeId(1),
        rank: None,
        has_replay: true,
    }
}

fn payload(seq: u64) -> Bytes {
    let tokens: Vec<u64> = (seq * 4..seq * 4 + 4).collect();
    to_vec(&json!([seq as f64, [["BlockStored", [seq + 1], null, tokens, 4]]])).expect("plain data").into()
}

fn message(frames: Vec<Bytes>) -> ZmqMessage {
    ZmqMessage::try_from(frames).expect("frames")
}

/// Answers one replay with batches `0..until` from where it was asked.
async fn answer(router: &mut RouterSocket, until: u64) -> u64 {
    let asked = timeout(PATIENCE, router.recv()).await.expect("asked").expect("a request").into_vec();
    let [identity, empty, from] = &asked[..] else { panic!("three frames: {asked:?}") };
    assert!(empty.is_empty());
    let from = u64::from_be_bytes(from[..].try_into().expect("8 bytes"));
    for seq in from..until {
        let number = Bytes::copy_from_slice(&seq.to_be_bytes());
        let frames = vec![identity.clone(), Bytes::new(), "kv".into(), number, payload(seq)];
        router.send(message(frames)).await.expect("sent");
    }
    let end = vec![identity.clone(), Bytes::new(), Bytes::new(), Bytes::from_static(&[0xff; 8]), Bytes::new()];
    router.send(message(end)).await.expect("sent");
    from
}

fn endpoint(of: &zeromq::Endpoint) -> Endpoint {
    Endpoint::parse(&of.to_string()).expect("an endpoint")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_begins_with_a_replay_and_goes_on_with_what_is_published() {
    let (mut publisher, mut router) = (PubSocket::new(), RouterSocket::new());
    let events = endpoint(&publisher.bind("tcp://127.0.0.1:0").await.expect("bound"));
    let replay = endpoint(&router.bind("tcp://127.0.0.1:0").await.expect("bound"));
    let seen = Arc::new(Seen::default());
    let source = Source { events, replay: Some(replay), topic: "kv".into() };
    let handle = RunnerHandle::start(config(), source, Arc::<Seen>::clone(&seen));
    handle.incarnation(Incarnation { counter: 1, token: Token::new("boot").expect("a token") }).await;
    seen.until("gateways are asked first", |seen| *seen.hand_offs.lock().expect("no panic") == 1).await;
    assert!(handle.export().await.is_none());
    handle.handed_off(None).await;
    assert_eq!(answer(&mut router, 3).await, 0);
    seen.until("the past", |seen| seen.position() == Some(3)).await;
    for seq in 3..6_u64 {
        let number = Bytes::copy_from_slice(&seq.to_be_bytes());
        publisher.send(message(vec!["other".into(), number.clone(), payload(99)])).await.expect("sent");
        publisher.send(message(vec!["kv@pod".into(), number, payload(seq)])).await.expect("sent");
    }
    seen.until("the present", |seen| seen.position() == Some(6)).await;
    seen.until("exact", |seen| *seen.phase.lock().expect("no panic") == Some(Phase::Exact)).await;
    let state = handle.export().await.expect("there is a state now");
    assert!(state.len() > 100);
    let positions: Vec<u64> = seen.ops.lock().expect("no panic").iter().map(|op| op.key.position).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4, 5, 6], "every batch once, in order");
    handle.stop().await;
}

/// What a subscription to a server that says `bytes` and then waits comes to.
async fn subscribing_to(bytes: &'static [u8]) -> Result<Vec<Bytes>, SocketError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let endpoint =
        Endpoint::parse(&format!("tcp://{}", listener.local_addr().expect("an address"))).expect("an endpoint");
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let _ = stream.write_all(bytes).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let result = async { ZmtpSocket::subscribe(&endpoint, b"").await?.receive().await };
    let result = timeout(PATIENCE, result).await.expect("it ends");
    server.abort();
    result
}

#[tokio::test]
async fn hostile_servers_cost_a_connection_and_nothing_else() {
    let garbage = subscribing_to(b"SSH-2.0-OpenSSH_9.2\r\n").await;
    assert!(matches!(garbage, Err(SocketError::Wire(RefuseWire::Greeting { at: 0 }))), "{garbage:?}");
    let ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";
    let huge = [&greeting()[..], ready, &[2, 0x80, 0, 0, 0, 0, 0, 0, 0]].concat().leak();
    let huge = subscribing_to(huge).await;
    assert!(matches!(huge, Err(SocketError::Wire(RefuseWire::TooLarge { bytes })) if bytes == 1 << 63), "{huge:?}");
    let endless = [&greeting()[..], ready, &[1, 0].repeat(9)].concat().leak();
    let endless = subscribing_to(endless).await;
    assert!(matches!(endless, Err(SocketError::Wire(RefuseWire::TooManyParts))), "{endless:?}");
    // A server that greets and says no more: the handshake has a deadline.
    let slow = subscribing_to(&[0xff]).await;
    assert!(matches!(slow, Err(SocketError::Slow)), "{slow:?}");
}

#[test]
fn endpoints_are_checked() {
    for wrong in [
        "10.0.0.7:5557",
        "tcp://*:5557",
        "tcp://host",
        "tcp://host:0",
        "tcp://host:70000",
        "ipc:///x",
        "tcp://::1:5",
        "tcp://:5",
    ] {
        assert!(Endpoint::parse(wrong).expect_err(wrong).to_string().contains("tcp://HOST:PORT"));
    }
    let first = Endpoint::parse("tcp://[::1]:5557").expect("an endpoint");
    assert_eq!(first.of_rank(3).map(|at| at.to_string()).as_deref(), Some("tcp://[::1]:5560"));
    assert_eq!(Endpoint::parse("tcp://h:65535").expect("an endpoint").of_rank(1), None);
}

/// Against libzmq itself, where `make check-zmq` found its Python binding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_library_is_understood() {
    let Some(python) = std::env::var_os("COVEY_ZMQ_PYTHON") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zmq/engine.py");
    let mut engine = tokio::process::Command::new(python);
    let engine = engine.arg(script).stdout(std::process::Stdio::piped()).kill_on_drop(true);
    let mut engine = engine.spawn().expect("Python runs");
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(engine.stdout.take().expect("piped")));
    let ports = lines.next_line().await.expect("readable").expect("two ports");
    let (events, replay) = ports.split_once(' ').expect("two ports");
    let at = |port: &str| Endpoint::parse(&format!("tcp://127.0.0.1:{port}")).expect("an endpoint");
    let seen = Arc::new(Seen::default());
    let source = Source { events: at(events), replay: Some(at(replay)), topic: "kv".into() };
    let handle = RunnerHandle::start(config(), source, Arc::<Seen>::clone(&seen));
    handle.incarnation(Incarnation { counter: 1, token: Token::new("boot").expect("a token") }).await;
    seen.until("gateways are asked first", |seen| *seen.hand_offs.lock().expect("no panic") == 1).await;
    handle.handed_off(None).await;
    seen.until("all of it", |seen| seen.position() == Some(5_300)).await;
    seen.until("exact", |seen| *seen.phase.lock().expect("no panic") == Some(Phase::Exact)).await;
    let positions: Vec<u64> = seen.ops.lock().expect("no panic").iter().map(|op| op.key.position).collect();
    assert_eq!(positions, (0..=5_300).collect::<Vec<u64>>(), "every batch once, in order");
    handle.stop().await;
}
