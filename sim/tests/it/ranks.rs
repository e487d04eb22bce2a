//! Hazards of data-parallel ranks behind one address: a request that another rank computes than the one chosen, events of
//! one rank taken for another's.

use std::collections::BTreeSet;

use covey_sim::worker::KvArgs;
use serde_json::{Value, json};

use crate::demo::covey;
use crate::gateway::{Answered, Gateway};
use crate::worker::Served;

/// An engine of two ranks that publishes the events of each.
async fn start() -> Served {
    Served::start(|args| {
        let address = || Some("tcp://127.0.0.1:0".to_owned());
        args.kv = KvArgs { kv_events: address(), replay: address(), ..KvArgs::default() };
        args.data_parallel_size = 2;
    })
    .await
}

/// Whole blocks that no other number shares.
fn ids(number: u32, blocks: u32) -> Vec<u32> {
    (0..blocks * 16).map(|nth| number * 10_000 + nth).collect()
}

fn body(prompt: &[u32]) -> Value {
    json!({"model": "demo", "prompt": prompt, "max_tokens": 8})
}

fn blocks(truth: &Value) -> BTreeSet<u64> {
    truth["blocks"].as_array().unwrap().iter().map(|block| block["hash"].as_u64().unwrap()).collect()
}

/// A conversation of token ids.
struct Talk {
    prompt: Vec<u32>,
    worker: String,
    turns: u32,
}

impl Talk {
    /// The next turn: the one before, its answer, and three blocks more.
    fn heard(&mut self, answered: &Answered, number: u32) {
        let answer: Vec<u32> = serde_json::from_value(answered.body["choices"][0]["token_ids"].clone()).unwrap();
        self.turns += 1;
        self.prompt.extend(answer);
        self.prompt.extend(ids(number * 10 + self.turns, 3));
    }
}

#[tokio::test]
async fn the_header_says_which_rank_computes_and_a_wrong_one_is_refused() {
    let served = start().await;
    for (rank, name) in [(Some("1"), "w0#1"), (Some("0"), "w0")] {
        let (status, text) = served.post_to(rank, "/v1/completions", &body(&ids(1, 2)).to_string()).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, answer["system_fingerprint"].as_str()), (200, Some(name)), "{text}");
        assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0, "caches are the ranks' own");
    }
    for wrong in ["2", "-1", "one", ""] {
        let (status, text) = served.post_to(Some(wrong), "/v1/completions", &body(&ids(1, 2)).to_string()).await;
        assert!(status == 400 && text.contains("this worker has the ranks 0 to 1"), "{wrong}: {text}");
    }
    let (status, text) = served.post_to(None, "/v1/completions", &body(&ids(1, 2)).to_string()).await;
    assert_eq!(status, 200, "who names none is served: {text}");
    assert_eq!((blocks(&served.truth(0).await).len(), blocks(&served.truth(1).await).len()), (2, 2));
    let page = served.page("/metrics").await;
    for rank in 0..2 {
        let series = format!("engine=\"{rank}\"");
        let of = |name: &str| page.lines().any(|line| line.starts_with(name) && line.contains(&series));
        assert!(of("vllm:cache_config_info{") && of("vllm:num_requests_running{"), "{series}: {page}");
    }
    let twice = page.lines().filter(|line| line.starts_with("# TYPE vllm:cache_config_info")).count();
    assert_eq!(twice, 1, "{page}");
}

#[tokio::test]
async fn a_conversation_stays_with_the_rank_that_holds_it_and_is_predicted_as_that_reports() {
    let Some(covey) = covey() else { return };
    let served = start().await;
    let events = format!("w0={}", served.kv_events.as_ref().unwrap());
    let replay = format!("w0={}", served.replay.as_ref().unwrap());
    let flags = ["--data-parallel", "w0=2", "--kv-events", &events, "--kv-replay", &replay];
    let gateway = Gateway::start(&covey, &served, &flags).await;
    gateway.warm(&served, 2).await;
    // Until both ranks have conversations.
    let mut talks: Vec<Talk> = Vec::new();
    for number in 0..40 {
        if number > 3 && talks.iter().map(|talk| &talk.worker).collect::<BTreeSet<_>>().len() == 2 {
            break;
        }
        let prompt = ids(number, 3 + number % 3);
        let answered = gateway.ask("/v1/completions", &body(&prompt)).await;
        let mut talk = Talk { prompt, worker: answered.worker.clone(), turns: 0 };
        talk.heard(&answered, number);
        talks.push(talk);
        gateway.in_step(&served, 2).await;
    }
    let used: BTreeSet<_> = talks.iter().map(|talk| talk.worker.clone()).collect();
    assert_eq!(used, BTreeSet::from(["w0".to_owned(), "w0#1".to_owned()]));
    for turn in 1..4 {
        for (number, talk) in (0..).zip(&mut talks) {
            let answered = gateway.ask("/v1/completions", &body(&talk.prompt)).await;
            assert_eq!((&answered.worker, &answered.engine), (&talk.worker, &talk.worker), "turn {turn}");
            assert_eq!(answered.predicted, answered.reported, "turn {turn} of {}", talk.worker);
            assert!(answered.reported >= 48 * turn, "turn {turn} of {}: {}", talk.worker, answered.reported);
            talk.heard(&answered, number);
            gateway.in_step(&served, 2).await;
        }
    }
    let (feeds, truths) = gateway.in_step(&served, 2).await;
    for (rank, (feed, truth)) in feeds.iter().zip(&truths).enumerate() {
        let name = if rank == 0 { "w0" } else { "w0#1" };
        assert_eq!((feed["worker"].as_str(), feed["counted"]["refused_ranks"].as_u64()), (Some(name), Some(0)));
        assert_eq!(feed["blocks"].as_u64(), Some(blocks(truth).len() as u64), "of {name}: {feed}");
    }
    assert!(blocks(&truths[0]).is_disjoint(&blocks(&truths[1])) && !blocks(&truths[1]).is_empty());
    let page = gateway.page("/metrics").await;
    for worker in ["w0", "w0#1"] {
        let series = format!("covey_worker_capacity_tokens{{worker=\"{worker}\"}} 120000");
        assert!(page.contains(&series), "no {series} in {page}");
    }
}

#[tokio::test]
async fn events_of_another_rank_are_refused_and_counted() {
    let Some(covey) = covey() else { return };
    let served = start().await;
    // Whoever configured this is one port off: rank 0 is looked for where rank 1 publishes.
    let (host, port) = served.kv_events.as_ref().unwrap().rsplit_once(':').unwrap();
    let events = format!("w0={host}:{}", port.parse::<u16>().unwrap() + 1);
    let gateway = Gateway::start(&covey, &served, &["--data-parallel", "w0=2", "--kv-events", &events]).await;
    let mut number = 0;
    let refused = |feeds: &[Value]| feeds[0]["counted"]["refused_ranks"].as_u64() >= Some(1);
    while !refused(&gateway.feeds().await) {
        number += 1;
        assert!(number < 300, "no batch was refused: {:#?}", gateway.feeds().await);
        served.post_to(Some("1"), "/v1/completions", &body(&ids(number, 2)).to_string()).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let feeds = gateway.feeds().await;
    assert!(feeds[0]["blocks"].as_u64().unwrap_or_default() == 0 && feeds[0]["is_complete"] == false, "{feeds:#?}");
}
