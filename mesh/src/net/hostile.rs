//! Tests only: a member of the mesh (it has the secret) that breaks every rule of a link, one after the other. Each
//! costs it the link and is counted; the mesh goes on.
//!
//! Not here: strangers without the secret (the integration tests).

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use covey_crdt::change::Change;
use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use covey_crdt::keyspace::HashKeyId;
use covey_crdt::stamp::WallMs;
use quinn::{Connection, ConnectionError, Endpoint, SendStream};
use tokio::time::timeout;

use super::clock::Clock;
use super::framing::{Hello, class_byte, prefix};
use super::ground::{Ground, Port, System};
use super::identity::{Identity, MeshCa, SERVER_NAME};
use super::metrics::{LinkFailure, NetSnapshot};
use super::tls::{Tls, protocol};
use super::transport::{CloseCode, client_config, endpoint, failure};
use super::{Host, Mesh, MeshConfig, NetConfig, start};
use crate::input::Load;
use crate::node::NodeConfig;
use crate::note::Note;
use crate::output::Class;
use crate::output::FeedOrder;

const SECRET: [u8; 32] = [3; 32];
const KEY: HashKeyId = HashKeyId(77);
const LIFE: LifeId = LifeId(0xbad);
const BOUND: Duration = Duration::from_secs(10);

#[derive(Default)]
struct NoHost {
    panic: Arc<AtomicBool>,
}

impl Host for NoHost {
    fn changed(&mut self, _: Change) {}
    fn load(&mut self, _: LifeId, _: &WorkerId, _: Option<Load>) {}
    fn note(&mut self, _: &Note) {}
    fn feed(&mut self, _: FeedOrder) {}
    fn publish(&mut self) -> Option<Duration> {
        assert!(!self.panic.swap(false, Ordering::SeqCst), "the host panics because a test wants it to");
        None
    }
    fn sample_load(&mut self, _: &mut Vec<(WorkerId, Load)>) {}
}

fn victim() -> Mesh {
    victim_that_panics(&Arc::default())
}

/// A victim whose mesh thread panics when the flag is set.
fn victim_that_panics(panic: &Arc<AtomicBool>) -> Mesh {
    let panic = Arc::clone(panic);
    let node = NodeConfig {
        name: GatewayName::new("victim").expect("a name"),
        cluster: "test".into(),
        key_id: KEY,
        block_bytes: 256,
        placement_idle_ms: 3_600_000,
        expect_peers: false,
    };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let net = NetConfig { listen, advertise: None, seeds: Vec::new(), secret: Arc::from(SECRET) };
    let make_host = move |_| Box::new(NoHost { panic: Arc::clone(&panic) }) as Box<dyn Host>;
    start(MeshConfig::new(node, Some(net), Arc::new(make_host))).expect("starts")
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(BOUND, test).await.expect("within the bound") });
}

/// A member whose certificate was issued when its clock read `wall`.
async fn dial(victim: &Mesh, wall: WallMs) -> (Endpoint, Result<Connection, ConnectionError>) {
    let ca = MeshCa::derive(&SECRET).expect("derives");
    let me = Identity { name: GatewayName::new("bad").expect("a name"), life: LIFE };
    let leaf = ca.issue(&me, wall, [5; 32]).expect("issues");
    let ground: Arc<dyn Ground> = Arc::new(System::new());
    let tls = Tls::new(&ca, leaf, &protocol(KEY), &ground).expect("configures");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_nonblocking(true).expect("sets");
    let socket = socket.open().expect("a socket");
    let endpoint = endpoint(socket, &*ground, &SECRET, &me.name, &tls).expect("an endpoint");
    let to = victim.bound_address().expect("the mesh is on");
    let connecting = endpoint.connect_with(client_config(&tls), to, SERVER_NAME).expect("dials");
    let connection = connecting.await;
    (endpoint, connection)
}

/// A member with a link: both hellos are said.
struct Bad {
    endpoint: Endpoint,
    connection: Connection,
    control: SendStream,
}

async fn linked(victim: &Mesh) -> Bad {
    let (endpoint, connection) = dial(victim, Clock::start().wall()).await;
    let connection = connection.expect("connects");
    let advertised = endpoint.local_addr().expect("an address");
    let mut control = connection.open_uni().await.expect("opens");
    let hello = Hello { life: LIFE, dial: 1, advertised }.encode();
    control.write_all(&[class_byte(Class::Control)]).await.expect("writes");
    control.write_all(&prefix(&hello)).await.expect("writes");
    control.write_all(&hello).await.expect("writes");
    reached(victim, |metrics| metrics.links.len() == 1).await;
    Bad { endpoint, connection, control }
}

#[expect(clippy::disallowed_methods, reason = "sockets on loopback run on the real clock")]
async fn reached(victim: &Mesh, condition: impl Fn(&NetSnapshot) -> bool) {
    let started = Instant::now();
    while !condition(&victim.metrics()) {
        assert!(started.elapsed() < BOUND / 2, "not reached: {:?}", victim.metrics());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn closed_for_protocol(victim: &Mesh, connection: &Connection) {
    let error = connection.closed().await;
    assert_eq!(failure(&error), LinkFailure::Protocol, "{error}");
    reached(victim, |metrics| metrics.links.is_empty() && metrics.frames_malformed == 1).await;
    assert!(victim.silent_for() < Duration::from_secs(1));
}

#[test]
fn a_frame_of_four_gigabytes_costs_the_link_and_no_memory() {
    run(async {
        let victim = victim();
        let mut bad = linked(&victim).await;
        bad.control.write_all(&u32::MAX.to_le_bytes()).await.expect("writes");
        closed_for_protocol(&victim, &bad.connection).await;
    });
}

#[test]
fn a_second_stream_of_a_class_or_one_of_no_class_costs_the_link() {
    for class in [class_byte(Class::Control), 9] {
        run(async {
            let victim = victim();
            let bad = linked(&victim).await;
            let mut stream = bad.connection.open_uni().await.expect("opens");
            stream.write_all(&[class]).await.expect("writes");
            closed_for_protocol(&victim, &bad.connection).await;
        });
    }
}

#[test]
fn a_hello_in_another_lifes_name_makes_no_link() {
    run(async {
        let victim = victim();
        let (endpoint, connection) = dial(&victim, Clock::start().wall()).await;
        let connection = connection.expect("connects");
        let advertised = endpoint.local_addr().expect("an address");
        let hello = Hello { life: LifeId(1), dial: 1, advertised }.encode();
        let mut control = connection.open_uni().await.expect("opens");
        control
            .write_all(&[&[class_byte(Class::Control)], &prefix(&hello)[..], &hello].concat())
            .await
            .expect("writes");
        closed_for_protocol(&victim, &connection).await;
    });
}

#[test]
fn a_member_that_says_nothing_is_let_go_after_the_handshake_timeout() {
    run(async {
        let victim = victim();
        let (_endpoint, connection) = dial(&victim, Clock::start().wall()).await;
        let error = connection.expect("connects").closed().await;
        assert_eq!(failure(&error), LinkFailure::Protocol, "{error}");
        assert!(victim.metrics().links.is_empty());
        assert!(victim.metrics().handshakes_refused.contains(&(LinkFailure::TimedOut, 1)));
    });
}

#[test]
fn a_certificate_outside_its_dates_is_named_as_a_clock_problem() {
    run(async {
        let now = Clock::start().wall().0;
        for (hours, refused) in [(-26i64, true), (-22, false), (2, true)] {
            let victim = victim();
            let wall = WallMs(now.saturating_add_signed(hours * 3_600_000));
            let (_endpoint, connection) = dial(&victim, wall).await;
            if !refused {
                connection.expect("within its dates");
                continue;
            }
            // With TLS 1.3 the dialler may believe itself connected before it is refused.
            let error = match connection {
                Ok(connection) => connection.closed().await,
                Err(error) => error,
            };
            assert_eq!(failure(&error), LinkFailure::Clock, "{error}");
            reached(&victim, |metrics| metrics.handshakes_refused.contains(&(LinkFailure::Clock, 1))).await;
        }
    });
}

#[test]
fn two_links_of_one_member_become_the_newer_one() {
    run(async {
        let victim = victim();
        let first = linked(&victim).await;
        let (_endpoint, second) = dial(&victim, Clock::start().wall()).await;
        let second = second.expect("connects");
        let hello =
            Hello { life: LIFE, dial: 2, advertised: first.endpoint.local_addr().expect("an address") }.encode();
        let mut control = second.open_uni().await.expect("opens");
        control
            .write_all(&[&[class_byte(Class::Control)], &prefix(&hello)[..], &hello].concat())
            .await
            .expect("writes");
        let error = first.connection.closed().await;
        assert_eq!(failure(&error), LinkFailure::Duplicate, "{error}");
        assert!(second.close_reason().is_none());
        assert_eq!(victim.metrics().links.len(), 1);
    });
}

#[test]
fn a_life_that_ended_without_a_word_is_reset_by_the_next() {
    run(async {
        let panic = Arc::new(AtomicBool::new(false));
        let victim = victim_that_panics(&panic);
        let mut bad = linked(&victim).await;
        panic.store(true, Ordering::SeqCst);
        reached(&victim, |metrics| metrics.restarts_panicked == 1 && metrics.links.is_empty()).await;
        // Any packet for the old life is answered.
        let _ = bad.control.write_all(&[0; 4]).await;
        assert_eq!(bad.connection.closed().await, ConnectionError::Reset);
    });
}

/// Membership messages as chitchat 0.13 lays them out, blocks uncompressed.
fn message(kind: u8, stream: &[u8], tail: &[u8]) -> Vec<u8> {
    let length = u16::try_from(stream.len()).expect("a short stream").to_le_bytes();
    [&45_139u16.to_le_bytes()[..], &[1, kind, 2], &length, stream, &[0], tail].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).expect("a short text").to_le_bytes()[..], text.as_bytes()].concat()
}

fn member_id() -> Vec<u8> {
    [text("bad"), 1u64.to_le_bytes().to_vec(), vec![4, 127, 0, 0, 1, 9, 0]].concat()
}

#[test]
fn membership_messages_that_explode_are_refused_and_one_that_kills_the_service_only_restarts_it() {
    run(async {
        let victim = victim();
        let bad = linked(&victim).await;
        let (mut send, _recv) = bad.connection.open_bi().await.expect("opens");
        let mut say = async |message: &[u8]| {
            send.write_all(&prefix(message)).await.expect("writes");
            send.write_all(message).await.expect("writes");
        };
        say(b"").await;
        say(&[0; 60_000]).await;
        reached(&victim, |metrics| metrics.membership_refused == 1).await;
        // A node makes itself known, then a delta whose last version lies below its keys' fails an assertion.
        let numbers: Vec<u8> = [1u64, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        say(&message(0, &[member_id(), numbers].concat(), &text("test"))).await;
        let node = [vec![0], member_id(), vec![0; 16]].concat();
        let key = [vec![1], text("k"), text("v"), 100u64.to_le_bytes().to_vec(), vec![0]].concat();
        let lower = [vec![2], 5u64.to_le_bytes().to_vec()].concat();
        say(&message(2, &[node, key, lower].concat(), &[])).await;
        reached(&victim, |metrics| metrics.membership_restarts == 1).await;
        let metrics = victim.metrics();
        assert_eq!((metrics.links.len(), metrics.restarts_failed, metrics.restarts_panicked), (1, 0, 0));
        let before = metrics.membership_messages_out;
        reached(&victim, |metrics| metrics.membership_messages_out > before).await;
        bad.connection.close(CloseCode::Leaving.code(), b"");
    });
}
