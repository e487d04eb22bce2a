//! Hazards of a worker with a tokenizer: other token ids than gateways look up, answers longer than asked for.

use std::path::Path;

use covey_sim::worker::KvArgs;
use serde_json::{Value, json};

use crate::demo::covey;
use crate::gateway::Gateway;
use crate::worker::Served;

/// A model's directory as it is shipped, from the fixture of the gateway's own tests.
fn shipped(name: &str) -> tempfile::TempDir {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway-plugin/tests/tokens/cases.json");
    let cases: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let model = cases["models"].as_array().unwrap().iter().find(|model| model["name"] == name).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = &cases["tokenizers"][model["tokenizer"].as_str().unwrap()];
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(dir.path().join("tokenizer_config.json"), model["config"].to_string()).unwrap();
    dir
}

async fn start(model: &tempfile::TempDir) -> Served {
    Served::start(|args| {
        let address = || Some("tcp://127.0.0.1:0".to_owned());
        args.kv = KvArgs { kv_events: address(), replay: address(), ..KvArgs::default() };
        args.tokenizer = Some(model.path().to_owned());
    })
    .await
}

#[tokio::test]
async fn every_turn_of_a_chat_in_text_is_predicted_as_the_worker_reports_it() {
    let Some(covey) = covey() else { return };
    let model = shipped("chatml");
    let served = start(&model).await;
    let events = format!("w0={}", served.kv_events.as_ref().unwrap());
    let replay = format!("w0={}", served.replay.as_ref().unwrap());
    let path = model.path().to_str().unwrap();
    // The block size is left to events: a wrong one would show as a prediction of 0.
    let flags = ["--tokenizer", path, "--kv-events", &events, "--kv-replay", &replay];
    let gateway = Gateway::start(&covey, &served, &flags).await;
    gateway.warm(&served, 1).await;
    let mut messages = vec![json!({"role": "system", "content": "You answer briefly. ".repeat(10)})];
    let mut last = 0;
    for turn in 0..3 {
        messages.push(json!({"role": "user", "content": format!("Question {turn}: {}", "why is that? ".repeat(20))}));
        let request = json!({"model": "demo", "messages": messages, "max_tokens": 40});
        let answered = gateway.ask("/v1/chat/completions", &request).await;
        assert_eq!(answered.predicted, answered.reported, "turn {turn}: {answered:?}");
        assert!(
            (turn == 0) == (answered.reported == 0) && (turn == 0 || answered.reported > last),
            "turn {turn}: {answered:?}"
        );
        last = answered.reported;
        assert!(answered.body["usage"]["completion_tokens"].as_u64().unwrap() <= 40, "{answered:?}");
        messages.push(answered.body["choices"][0]["message"].clone());
        gateway.in_step(&served, 1).await;
    }
    let doctor = gateway.page("/doctor").await;
    assert!(doctor.contains("\"mismatch\":null"), "{doctor}");
}

#[tokio::test]
async fn a_prompt_has_the_ids_of_the_tokenizer_and_what_has_none_is_refused() {
    let model = shipped("chatml");
    let served = start(&model).await;
    let ids = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let text = "<|im_start|>".repeat(8);
    let plain = served.post_json("/v1/completions", &json!({"prompt": text, "max_tokens": 4})).await;
    assert_eq!(ids(&plain), 9, "a token each and the tokenizer's own; of four bytes they were 24: {plain}");
    assert!(plain["usage"]["completion_tokens"].as_u64().unwrap() <= 4, "{plain}");
    let image = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]});
    assert_eq!(served.post("/v1/chat/completions", &image.to_string()).await.0, 400);
    let cut = json!({"prompt": text, "truncate_prompt_tokens": 2});
    let (status, why) = served.post("/v1/completions", &cut.to_string()).await;
    assert!(status == 400 && why.contains("truncated"), "{why}");
}
