//! What passes through a gateway, and what is added.

use covey_gateway_plugin::server::Fault;
use serde_json::{Value, json};

use crate::fake::{DONE, FakeWorker, Step, chat_json, reply, sse_head};
use crate::gateway::{MODEL, ask, gateway, header};

#[tokio::test]
async fn body_and_headers_reach_the_worker_unchanged() {
    let worker = FakeWorker::start(|_| vec![chat_json("hello")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let body = format!(
        "{{ \"messages\":[{{\"content\":\"h\\u00e9 \u{1F600}\",\"role\":\"user\"}}],\n\t\"model\" : \"{MODEL}\",\"zz\":1.50}}"
    );
    let response = gateway
        .client
        .post(gateway.url("/v1/chat/completions"))
        .header("authorization", "Bearer key-1")
        .header("x-request-id", "r-17")
        .header("connection", "keep-alive, x-hop")
        .header("x-hop", "mine")
        .header("content-type", "application/json; charset=utf-8")
        .body(body.clone())
        .send()
        .await
        .expect("answered");
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "x-engine"), "fake");
    assert_eq!(header(&response, "x-covey-worker"), "w0");
    assert!(!header(&response, "x-covey-outcome").is_empty());
    assert_eq!(header(&response, "x-covey-predicted-tokens"), "", "only when asked");
    let answer: Value = response.json().await.expect("JSON");
    assert_eq!(answer["choices"][0]["message"]["content"], "hello");
    let seen = &worker.requests()[0];
    assert_eq!(seen.body, body.as_bytes());
    assert!(seen.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", seen.head);
    assert_eq!(seen.header("authorization"), Some("Bearer key-1"));
    assert_eq!(seen.header("x-request-id"), Some("r-17"));
    assert_eq!(seen.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(seen.header("host"), Some(worker.address.to_string().as_str()));
    assert_eq!(seen.header("x-hop"), None);
    assert!(!seen.head.to_lowercase().contains("covey"), "{}", seen.head);
}

#[tokio::test]
async fn debug_headers_come_when_asked_for() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let response = gateway.chat(&ask("hello", false)).await;
    assert!(header(&response, "x-covey-predicted-tokens").parse::<u64>().is_ok());
    assert!(header(&response, "x-covey-lookup-us").parse::<u64>().is_ok());
    assert!(!header(&response, "x-covey-reason").is_empty());
    assert_eq!(gateway.running.gateway().counters().lookup_cpu.quantiles([0.5]).0, 1);
}

#[tokio::test]
async fn completions_and_prompts_without_bytes_are_served() {
    let choice = json!({"choices": [{"index": 0, "text": " there", "finish_reason": "stop"}]}).to_string();
    let worker = FakeWorker::start(move |_| vec![reply("200 OK", "application/json", &choice)]).await;
    let gateway = gateway(&[&worker], &["--policy", "mesh"]).await;
    for prompt in [json!("hello"), json!([1, 2, 3]), json!(["a", "b"])] {
        let body = json!({"model": MODEL, "prompt": prompt});
        let response = gateway.client.post(gateway.url("/v1/completions")).body(body.to_string()).send().await;
        assert_eq!(response.expect("answered").status(), 200, "{prompt}");
    }
    assert_eq!(worker.requests().len(), 3);
}

#[tokio::test]
async fn a_workers_own_refusal_passes_through_once_and_places_nothing() {
    let body = r#"{"error":{"message":"context too long","type":"BadRequestError"}}"#;
    let worker = FakeWorker::start(move |_| vec![reply("400 Bad Request", "application/json", body)]).await;
    let other = FakeWorker::start(|_| vec![chat_json("never")]).await;
    let gateway = gateway(&[&worker, &other], &["--policy", "sticky"]).await;
    other.answer(move |_| vec![reply("400 Bad Request", "application/json", body)]);
    let response = gateway.chat(&ask(&"x".repeat(2_000), false)).await;
    assert_eq!(response.status(), 400);
    assert_eq!(response.text().await.expect("a body"), body);
    assert_eq!(worker.requests().len() + other.requests().len(), 1, "a refusal is not tried elsewhere");
    assert_eq!((gateway.placements(), gateway.faults(Fault::Busy)), (0, 0));
}

#[tokio::test]
async fn a_compressed_answer_passes_unread_and_places_nothing() {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
    let worker = FakeWorker::start(move |_| vec![Step::Send([head.as_bytes(), &[0x1f, 0x8b, 9]].concat())]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let response = gateway.chat(&ask(&"x".repeat(2_000), false)).await;
    assert_eq!(response.bytes().await.expect("a body").as_ref(), [0x1f, 0x8b, 9]);
    assert_eq!(worker.requests()[0].header("accept-encoding"), Some("identity"));
    assert_eq!(gateway.running.gateway().counters().unmeasured_count(), 1);
    assert_eq!(gateway.placements(), 0);
}

#[tokio::test]
async fn models_health_and_metrics_are_served() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &["--model", "second"]).await;
    let get = |url: String| async { gateway.client.get(url).send().await.expect("answered") };
    let models: Value = get(gateway.url("/v1/models")).await.json().await.expect("JSON");
    let ids: Vec<_> = models["data"].as_array().expect("a list").iter().map(|model| model["id"].clone()).collect();
    assert_eq!(ids, [json!(MODEL), json!("second")]);
    assert_eq!(get(gateway.url("/healthz")).await.status(), 200);
    gateway.chat(&ask("hello", false)).await.bytes().await.expect("a body");
    let response = get(gateway.admin_url("/metrics")).await;
    assert!(header(&response, "content-type").starts_with("text/plain; version=0.0.4"));
    let classic = response.text().await.expect("text");
    let open = gateway.client.get(gateway.admin_url("/metrics")).header("accept", "application/openmetrics-text");
    let response = open.send().await.expect("answered");
    assert!(header(&response, "content-type").starts_with("application/openmetrics-text"));
    let text = response.text().await.expect("text");
    assert!(text.ends_with("# EOF\n") && !classic.contains("# EOF"));
    assert!(classic.contains("# TYPE covey_gateway_retries_total counter\n"), "{classic}");
    let documented = |line: &str| {
        let name = line.split(['{', ' ']).next().expect("a name");
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        [Some(name), family].into_iter().flatten().any(|name| classic.contains(&format!("# HELP {name} ")))
    };
    for line in classic.lines().filter(|line| !line.starts_with('#')) {
        assert!((line.starts_with("covey_") || line.starts_with("process_")) && documented(line), "no help: {line}");
    }
    for line in [
        "covey_upstream_responses_total{class=\"2xx\"} 1",
        "covey_gateway_lookup_cpu_seconds_count 1",
        "covey_gateway_lookup_cpu_seconds_bucket{le=\"+Inf\"} 1",
        "covey_mesh_propagation_seconds_bucket{le=\"+Inf\"} 0",
        "covey_cache_reported_tokens_total 64",
        "covey_cache_prompt_tokens_total 100",
        "covey_gateway_errors_total{reason=\"nonsense\"} 0",
        "covey_gateway_requests_in_flight 0.0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in:\n{text}");
    }
    let report: Value = get(gateway.admin_url("/mesh")).await.json().await.expect("JSON");
    assert_eq!(report["cached_tokens"], 64);
    assert_eq!(report["lookup_cpu_us"]["count"], 1);
    assert_eq!(report["config"]["mesh"], false);
    assert_eq!(report["workers"][0]["id"], "w0");
}

/// Shapes of requests and answers that the byte keyspace has to live with, whether it can score them or not.
#[tokio::test]
async fn several_choices_tools_images_and_deep_nesting_pass_through() {
    let choice = |index: u32, text: &str| {
        let delta = json!({"content": text, "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]});
        let choice = json!({"index": index, "delta": delta, "finish_reason": "stop"});
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}});
        Step::Send(format!("data: {}\n\n", json!({"choices": [choice], "usage": usage})).into_bytes())
    };
    let steps = [sse_head(), choice(2, "c"), choice(0, "a"), choice(1, "b"), Step::Send(DONE.into())];
    let worker = FakeWorker::start(move |_| steps.to_vec()).await;
    let gateway = gateway(&[&worker], &[]).await;
    let image =
        json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{}", "A".repeat(4_000))}});
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let bodies = [
        json!({"model": MODEL, "n": 3, "stream": true, "messages": [{"role": "user", "content": "x".repeat(2_000)}]}),
        json!({"model": MODEL, "stream": true, "messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, image]}]}),
        json!({"model": MODEL, "stream": true, "tools": [tool], "messages": [
            {"role": "user", "content": "x".repeat(2_000)},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]}),
        json!({"model": MODEL, "messages": [{"role": 5, "content": {"a": [1]}}]}),
        json!({"model": MODEL, "messages": null}),
        json!({"model": MODEL}),
    ];
    let deep = format!("{{\"model\":\"{MODEL}\",\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for body in bodies.iter().map(Value::to_string).chain([deep]) {
        let response = gateway.client.post(gateway.url("/v1/chat/completions")).body(body.clone()).send().await;
        let response = response.expect("the gateway answers");
        let start: String = body.chars().take(200).collect();
        assert!(!header(&response, "x-covey-outcome").is_empty() || response.status() == 400, "{start}");
        response.bytes().await.expect("a whole answer");
    }
    assert!(worker.requests().len() >= 6, "{} came through", worker.requests().len());
    let sums = gateway.running.gateway().counters().token_sums();
    assert_eq!(sums.requests, worker.requests().len() as u64, "usage in every event is counted once a request");
}

#[tokio::test]
async fn a_prompt_of_fifty_thousand_tokens_is_scored_in_the_next_turn() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let body = ask(&"tokn".repeat(50_000), false);
    assert_eq!(gateway.chat(&body).await.status(), 200);
    let mut predicted = 0;
    let start = std::time::Instant::now();
    while predicted == 0 && start.elapsed().as_secs() < 10 {
        let response = gateway.chat(&body).await;
        predicted = header(&response, "x-covey-predicted-tokens").parse().expect("a number");
    }
    assert!((49_900..50_100).contains(&predicted), "{predicted} of about 50,000 tokens");
}
