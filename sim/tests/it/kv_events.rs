//! Hazards of the worker's KV events on real sockets: a subscriber that reads something else than what happened, a fault
//! that does not do what it says.

use std::time::Duration;

use bytes::Bytes;
use covey_crdt::lane::Tier;
use covey_sim::events::Reader;
use covey_sim::worker::{KvArgs, Wire};
use serde_json::{Value, json};
use tokio::time::timeout;
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use crate::worker::Served;

const PATIENCE: Duration = Duration::from_secs(10);

fn events_of(served: &Served) -> (String, String) {
    (served.kv_events.clone().unwrap(), served.replay.clone().unwrap())
}

async fn start(wire: Wire) -> Served {
    Served::start(|args| {
        let address = || Some("tcp://127.0.0.1:0".to_owned());
        args.kv =
            KvArgs { kv_events: address(), replay: address(), kv_topic: "kv@w0".into(), wire, ..KvArgs::default() };
    })
    .await
}

/// A gateway's view of the worker, fed from its sockets.
struct Subscriber {
    sub: SubSocket,
    reader: Reader,
    /// Numbers as they came.
    seqs: Vec<u64>,
}

impl Subscriber {
    /// Subscribes; the worker's first request afterwards may still be missed, as with any PUB socket.
    async fn connect(address: &str) -> Self {
        let mut sub = SubSocket::new();
        timeout(PATIENCE, sub.connect(address)).await.unwrap().unwrap();
        sub.subscribe("kv@").await.unwrap();
        Self { sub, reader: Reader::new(16), seqs: Vec::new() }
    }

    async fn next(&mut self) -> u64 {
        let frames = timeout(PATIENCE, self.sub.recv()).await.expect("a batch comes").unwrap().into_vec();
        assert_eq!((frames.len(), &frames[0][..]), (3, &b"kv@w0"[..]));
        let seq = u64::from_be_bytes(frames[1][..].try_into().unwrap());
        self.apply(&frames[2]);
        self.seqs.push(seq);
        seq
    }

    fn apply(&mut self, payload: &[u8]) {
        let decoded = self.reader.apply(payload);
        assert!(!decoded.is_broken && decoded.refused.is_empty(), "{decoded:?}");
    }

    async fn until(&mut self, seq: u64) {
        while self.next().await != seq {}
    }

    /// Whether nothing comes for a while.
    async fn is_quiet(&mut self) -> bool {
        timeout(Duration::from_millis(150), self.sub.recv()).await.is_err()
    }

    fn check(&self, truth: &Value) {
        let blocks = truth["blocks"].as_array().unwrap();
        assert_eq!(self.reader.blocks(Tier::Device).len(), blocks.len(), "{truth}");
    }
}

/// Asks for a replay; the messages that came, each its frames, until the end marker or silence.
async fn replay(address: &str, start: u64) -> (Vec<Vec<Bytes>>, bool) {
    let mut dealer = DealerSocket::new();
    timeout(PATIENCE, dealer.connect(address)).await.unwrap().unwrap();
    let ask = vec![Bytes::new(), Bytes::copy_from_slice(&start.to_be_bytes())];
    dealer.send(ZmqMessage::try_from(ask).unwrap()).await.unwrap();
    let mut messages = Vec::new();
    while let Ok(message) = timeout(Duration::from_millis(400), dealer.recv()).await {
        let frames = message.unwrap().into_vec();
        if frames[frames.len() - 1].is_empty() {
            return (messages, true);
        }
        messages.push(frames);
    }
    (messages, false)
}

fn numbers(messages: &[Vec<Bytes>]) -> Vec<u64> {
    messages.iter().map(|frames| u64::from_be_bytes(frames[frames.len() - 2][..].try_into().unwrap())).collect()
}

/// A prompt of whole blocks that no other number shares.
fn ids(number: u32, blocks: u32) -> Vec<u32> {
    (0..blocks * 16).map(|nth| number * 100_000 + nth).collect()
}

async fn complete(served: &Served, prompt: &[u32]) -> Value {
    served.post_json("/v1/completions", &json!({"prompt": prompt, "max_tokens": 1})).await
}

async fn fault(served: &Served, body: Value) {
    served.post_json("/covey/fault", &body).await;
}

async fn truth(served: &Served) -> Value {
    served.get_json("/covey/truth").await
}

/// Asks until a subscriber is served, so that what follows is not missed. Gives the number of the next batch.
async fn warmed(served: &Served, reader: &mut Subscriber) -> u64 {
    for number in 0..100 {
        complete(served, &ids(1_000 + number, 1)).await;
        let came = timeout(Duration::from_millis(100), reader.sub.recv()).await;
        if let Ok(came) = came {
            let frames = came.unwrap().into_vec();
            let seq = u64::from_be_bytes(frames[1][..].try_into().unwrap());
            let (missed, ended) = replay(served.replay.as_ref().unwrap(), 0).await;
            assert!(ended && numbers(&missed) == (0..=seq).collect::<Vec<_>>());
            missed.iter().for_each(|frames| reader.apply(&frames[frames.len() - 1]));
            return seq + 1;
        }
    }
    panic!("the subscription never took hold");
}

#[tokio::test]
async fn a_subscriber_learns_exactly_what_the_cache_holds_in_every_form() {
    for wire in [Wire::VllmMap, Wire::VllmArray, Wire::Sglang] {
        let served = start(wire).await;
        let (events, replays) = events_of(&served);
        let mut reader = Subscriber::connect(&events).await;
        let next = warmed(&served, &mut reader).await;
        let turn = complete(&served, &ids(1, 3)).await;
        assert_eq!(turn["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
        complete(&served, &ids(2, 2)).await;
        let again = complete(&served, &ids(1, 3)).await;
        assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 32, "the last token is always computed");
        let truth = truth(&served).await;
        reader.until(truth["position"].as_u64().unwrap() - 1).await;
        reader.check(&truth);
        assert_eq!(reader.reader.predict(&ids(1, 4)), 48, "all of a prompt that goes on behind it");
        let copied = truth["blocks"].as_array().unwrap().iter().filter(|block| block["copies"] == 2).count();
        assert_eq!(copied, 1, "the block of that token: {truth}");

        let (messages, ended) = replay(&replays, next).await;
        assert_eq!((numbers(&messages), ended), (reader.seqs.clone(), true));
        let frames = if wire == Wire::VllmMap { 4 } else { 3 };
        assert!(messages.iter().all(|message| message.len() == frames), "{wire:?}");
    }
}

#[tokio::test]
async fn answers_to_ids_name_their_own_and_the_next_turn_hits_them() {
    let served = start(Wire::VllmMap).await;
    let body = |prompt: &[u32], stream: bool| json!({"prompt": [prompt], "max_tokens": 33, "stream": stream});
    let first = served.post_json("/v1/completions", &body(&ids(1, 2), false)).await;
    let answer: Vec<u32> = serde_json::from_value(first["choices"][0]["token_ids"].clone()).unwrap();
    assert_eq!(answer.len(), 33);
    let (status, text) = served.post("/v1/completions", &body(&ids(1, 2), true).to_string()).await;
    let streamed = text.lines().filter_map(|line| line.strip_prefix("data: {"));
    let streamed = streamed.flat_map(|rest| {
        let chunk: Value = serde_json::from_str(&format!("{{{rest}")).unwrap();
        serde_json::from_value::<Vec<u32>>(chunk["choices"][0]["token_ids"].clone()).unwrap()
    });
    assert_eq!((status, streamed.collect::<Vec<_>>()), (200, answer.clone()));
    let turn = [ids(1, 2), answer].concat();
    let next = served.post_json("/v1/completions", &json!({"prompt": turn})).await;
    assert_eq!(next["usage"]["prompt_tokens_details"]["cached_tokens"], 64, "both prompt blocks and two of the answer");
    let text = served.post_json("/v1/completions", &json!({"prompt": "text", "return_token_ids": true})).await;
    assert!(text["choices"][0]["token_ids"].is_array());
    let text = served.post_json("/v1/completions", &json!({"prompt": "text"})).await;
    assert!(text["choices"][0].get("token_ids").is_none(), "only who asks by ids or for ids gets them");
}

#[tokio::test]
async fn a_dropped_batch_is_a_gap_that_a_replay_fills() {
    let served = start(Wire::VllmMap).await;
    let (events, replays) = events_of(&served);
    let mut reader = Subscriber::connect(&events).await;
    let next = warmed(&served, &mut reader).await;
    fault(&served, json!({"kind": "drop", "batches": 1})).await;
    complete(&served, &ids(1, 1)).await;
    complete(&served, &ids(2, 1)).await;
    assert_eq!(reader.next().await, next + 1);
    assert_eq!(numbers(&replay(&replays, next).await.0), [next, next + 1]);
    fault(&served, json!({"kind": "truncate_replay"})).await;
    let (messages, ended) = replay(&replays, next).await;
    assert_eq!((numbers(&messages), ended), (vec![next], false), "half of it, and no end");
    fault(&served, json!({"kind": "lose_replay"})).await;
    complete(&served, &ids(3, 1)).await;
    reader.until(next + 2).await;
    let (messages, ended) = replay(&replays, next).await;
    assert_eq!((numbers(&messages), ended), (vec![next + 2], true));
}

#[tokio::test]
async fn order_repetition_and_pauses_are_as_asked() {
    let served = start(Wire::VllmMap).await;
    let mut reader = Subscriber::connect(&events_of(&served).0).await;
    let next = warmed(&served, &mut reader).await;
    fault(&served, json!({"kind": "reorder", "batches": 2, "ms": 5_000})).await;
    complete(&served, &ids(1, 1)).await;
    complete(&served, &ids(2, 1)).await;
    fault(&served, json!({"kind": "duplicate", "batches": 1})).await;
    complete(&served, &ids(3, 1)).await;
    fault(&served, json!({"kind": "pause", "ms": 600})).await;
    complete(&served, &ids(4, 1)).await;
    for wanted in [next + 1, next, next + 2, next + 2] {
        assert_eq!(reader.next().await, wanted);
    }
    assert!(reader.is_quiet().await, "the pause");
    assert_eq!(reader.next().await, next + 3);
    fault(&served, json!({"kind": "delay", "batches": 1, "ms": 600})).await;
    complete(&served, &ids(5, 1)).await;
    assert!(reader.is_quiet().await, "the delay");
    assert_eq!(reader.next().await, next + 4);
}

#[tokio::test]
async fn a_reset_is_told_with_the_next_batch() {
    let served = start(Wire::VllmMap).await;
    let mut reader = Subscriber::connect(&events_of(&served).0).await;
    let next = warmed(&served, &mut reader).await;
    let before = truth(&served).await;
    fault(&served, json!({"kind": "reset"})).await;
    assert_eq!(truth(&served).await, before, "nothing was told yet");
    assert!(reader.is_quiet().await);
    complete(&served, &ids(1, 2)).await;
    assert_eq!(reader.next().await, next);
    let after = truth(&served).await;
    assert_eq!(after["blocks"].as_array().unwrap().len(), 2, "{after}");
    reader.check(&after);
}

#[tokio::test]
async fn a_restart_is_a_new_life_at_the_same_addresses() {
    let served = start(Wire::VllmMap).await;
    let (events, replays) = events_of(&served);
    let mut reader = Subscriber::connect(&events).await;
    warmed(&served, &mut reader).await;
    complete(&served, &ids(1, 2)).await;
    let (old_start, old) = (served.metric("process_start_time_seconds").await, truth(&served).await);
    let running = served.post("/v1/completions", r#"{"prompt": [1, 2], "max_tokens": 4000}"#);
    let restart = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fault(&served, json!({"kind": "restart", "clock_back_s": 3_600})).await;
    };
    let ((status, body), ()) = tokio::join!(running, restart);
    assert_eq!(status, 500, "{body}");
    let start = served.metric("process_start_time_seconds").await;
    assert!((3_590.0..3_600.5).contains(&(old_start - start)), "{old_start} {start}");
    let new = truth(&served).await;
    assert_eq!((&new["position"], new["blocks"].as_array().unwrap().len()), (&json!(0), 0));
    assert_ne!(new["token"], old["token"]);
    let again = complete(&served, &ids(1, 2)).await;
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let names =
        |truth: &Value| truth["blocks"].as_array().unwrap().iter().map(|b| b["hash"].clone()).collect::<Vec<_>>();
    assert!(
        names(&truth(&served).await).iter().all(|name| !names(&old).contains(name)),
        "the same blocks, other names"
    );
    assert_eq!(numbers(&replay(&replays, 0).await.0), [0]);
    let mut reader = Subscriber::connect(&events).await;
    assert_eq!(warmed(&served, &mut reader).await, reader_position(&served).await);
}

async fn reader_position(served: &Served) -> u64 {
    truth(served).await["position"].as_u64().unwrap()
}

#[tokio::test]
async fn nonsense_is_refused_and_nothing_happens() {
    let served = start(Wire::VllmMap).await;
    for body in [r#"{"kind": "explode"}"#, r#"{"kind": "pause", "ms": 600001}"#, r#"{"kind": "drop", "batch": 1}"#, "{"]
    {
        assert_eq!(served.post("/covey/fault", body).await.0, 400, "{body}");
    }
    let mut dealer = DealerSocket::new();
    dealer.connect(served.replay.as_ref().unwrap()).await.unwrap();
    for ask in [vec![Bytes::from_static(&[0; 8])], vec![Bytes::new(), Bytes::from_static(&[0; 7])]] {
        dealer.send(ZmqMessage::try_from(ask).unwrap()).await.unwrap();
    }
    assert!(timeout(Duration::from_millis(150), dealer.recv()).await.is_err(), "no answer to what no engine answers");
    assert!(replay(served.replay.as_ref().unwrap(), 0).await.1, "and others are served");
}
