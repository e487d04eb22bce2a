//! Data-parallel ranks behind one address: which one a request is for, and what happens to all of them at once.

use covey_gateway_plugin::server::Fault;

use crate::fake::{FakeWorker, chat_json, until};
use crate::gateway::{ask, gateway, gateway_at, header};

const RANK: &str = "x-data-parallel-rank";

#[tokio::test]
async fn a_request_names_the_rank_it_was_routed_to_whatever_the_client_says() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &["--data-parallel", "w0=3", "--policy", "round-robin"]).await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        let request = gateway.client.post(gateway.url("/v1/chat/completions")).header(RANK, "7");
        let response = request.body(ask("x", false).to_string()).send().await.expect("answered");
        seen.push(header(&response, "x-covey-worker").to_owned());
    }
    let sent: Vec<_> = worker.requests().iter().map(|request| request.header(RANK).map(str::to_owned)).collect();
    let named = |name: &String| if name == "w0" { "0".to_owned() } else { name.replace("w0#", "") };
    assert_eq!(sent, seen.iter().map(|name| Some(named(name))).collect::<Vec<_>>());
    for name in ["w0", "w0#1", "w0#2"] {
        assert_eq!(seen.iter().filter(|seen| *seen == name).count(), 2, "{seen:?}");
    }
    assert!(worker.requests().iter().all(|request| request.head.to_lowercase().matches(RANK).count() == 1));
}

#[tokio::test]
async fn an_engine_of_one_rank_is_told_nothing() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    for flags in [&[][..], &["--data-parallel", "w0=1"]] {
        let gateway = gateway(&[&worker], flags).await;
        let response = gateway.chat(&ask("x", false)).await;
        assert_eq!(header(&response, "x-covey-worker"), "w0");
        let last = worker.requests().pop().expect("a request");
        assert_eq!(last.header(RANK), None);
        // What a client says of it passes, as any header does.
        let request = gateway.client.post(gateway.url("/v1/chat/completions")).header(RANK, "7");
        assert_eq!(request.body(ask("x", false).to_string()).send().await.expect("answered").status(), 200);
        assert_eq!(worker.requests().pop().expect("a request").header(RANK), Some("7"));
    }
}

#[tokio::test]
async fn an_address_that_is_dead_is_masked_for_all_its_ranks_and_costs_no_request() {
    let alive = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let urls = ["http://127.0.0.1:1".to_owned(), alive.url()];
    let flags = ["--data-parallel", "w0=4", "--policy", "round-robin", "--health-interval", "1h"];
    let gateway = gateway_at(&urls, &flags).await;
    for _ in 0..6 {
        let response = gateway.chat(&ask(&"x".repeat(2_000), false)).await;
        assert_eq!((response.status().as_u16(), header(&response, "x-covey-worker")), (200, "w1"));
    }
    assert!(gateway.faults(Fault::Connect) <= 1, "masked after the first failure");
    let workers = gateway.running.gateway().workers().all();
    assert_eq!(
        workers.iter().map(|worker| worker.is_up() == Some(false)).collect::<Vec<_>>(),
        [true, true, true, true, false]
    );
}

#[tokio::test]
async fn one_size_for_all_ranks_is_each_ranks_and_none_is_divided() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &["--data-parallel", "w0=2"]).await;
    let workers = gateway.running.gateway().workers().all();
    let probed = || workers.iter().all(|worker| worker.last_probe().is_some());
    until("both are probed", probed).await;
    let capacities: Vec<_> =
        workers.iter().map(|worker| worker.last_probe().and_then(|probed| probed.capacity_tokens)).collect();
    assert_eq!(capacities, [Some(120_000), Some(120_000)]);
    let page = gateway.client.get(gateway.admin_url("/metrics")).send().await.expect("answered");
    let page = page.text().await.expect("a page");
    for name in ["w0", "w0#1"] {
        assert!(page.contains(&format!("covey_worker_up{{worker=\"{name}\"}} 1")), "{name}: {page}");
    }
}
