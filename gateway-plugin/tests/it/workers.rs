//! Workers that fail, come back, or are not there.

use std::sync::atomic::Ordering;

use covey_gateway_plugin::server::Fault;

use crate::fake::{CAPACITY, FakeWorker, Step, chat_json, reply, until};
use crate::gateway::{ask, gateway, gateway_at, header, secret};

#[tokio::test]
async fn a_dead_worker_costs_no_request_and_is_masked_at_once() {
    let alive = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let urls = ["http://127.0.0.1:1".to_owned(), alive.url()];
    let gateway = gateway_at(&urls, &["--policy", "round-robin", "--health-interval", "1h"]).await;
    for _ in 0..6 {
        let response = gateway.chat(&ask(&"x".repeat(2_000), false)).await;
        assert_eq!((response.status().as_u16(), header(&response, "x-covey-worker")), (200, "w1"));
    }
    let counters = gateway.running.gateway().counters();
    assert!(counters.retry_count() <= 1, "masked after the first failure");
    assert_eq!(counters.retry_count(), gateway.faults(Fault::Connect));
    assert_eq!(gateway.running.gateway().workers().all()[0].is_up(), Some(false));
    assert_eq!(gateway.placements(), 12, "only the worker that accepted is placed");
}

#[tokio::test]
async fn a_busy_worker_is_replaced_once_while_nothing_was_sent() {
    for status in ["429 Too Many Requests", "502 Bad Gateway", "503 Service Unavailable"] {
        let busy = FakeWorker::start(move |_| vec![reply(status, "application/json", "{\"busy\":true}")]).await;
        let other = FakeWorker::start(|_| vec![chat_json("hi")]).await;
        let gateway = gateway(&[&busy, &other], &["--policy", "round-robin"]).await;
        for _ in 0..4 {
            let response = gateway.chat(&ask(&"x".repeat(2_000), false)).await;
            assert_eq!((response.status().as_u16(), header(&response, "x-covey-worker")), (200, "w1"), "{status}");
        }
        assert_eq!(gateway.placements(), 8, "{status}: of the worker that refused nothing is placed");
        let counters = gateway.running.gateway().counters();
        assert!(counters.retry_count() >= 1, "{status}");
        assert_eq!(counters.retry_count(), gateway.faults(Fault::Busy));
        assert_eq!(gateway.running.gateway().workers().all()[0].is_up(), Some(true), "busy is not down");
    }
}

#[tokio::test]
async fn when_every_worker_is_busy_the_client_gets_the_last_ones_words() {
    let busy = |_: &_| vec![reply("503 Service Unavailable", "application/json", "{\"busy\":true}")];
    let workers = [FakeWorker::start(busy).await, FakeWorker::start(busy).await, FakeWorker::start(busy).await];
    let gateway = gateway(&[&workers[0], &workers[1], &workers[2]], &[]).await;
    let response = gateway.chat(&ask("x", false)).await;
    assert_eq!(response.status(), 503);
    assert!(!header(&response, "x-covey-worker").is_empty());
    assert_eq!(response.text().await.expect("a body"), "{\"busy\":true}");
    assert_eq!(workers.iter().map(|worker| worker.requests().len()).sum::<usize>(), 2, "one retry, no more");
    assert_eq!(gateway.placements(), 0);
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_head_is_tried_elsewhere() {
    let breaks = FakeWorker::start(|_| vec![Step::Send(Vec::new())]).await;
    let other = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&breaks, &other], &["--policy", "round-robin"]).await;
    for _ in 0..2 {
        assert_eq!(gateway.chat(&ask("x", false)).await.status(), 200);
    }
    let retries = gateway.running.gateway().counters().retry_count();
    assert!(retries >= 1 && gateway.faults(Fault::Connect) == retries);
}

#[tokio::test]
async fn an_unhealthy_worker_gets_nothing_until_it_is_healthy_again() {
    let sick = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let other = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&sick, &other], &["--policy", "round-robin"]).await;
    let state = || gateway.running.gateway().workers().all()[0].is_up();
    until("it is checked", || state() == Some(true)).await;
    sick.healthy.store(false, Ordering::SeqCst);
    until("it is masked", || state() == Some(false)).await;
    for _ in 0..4 {
        assert_eq!(header(&gateway.chat(&ask("x", false)).await, "x-covey-worker"), "w1");
    }
    sick.healthy.store(true, Ordering::SeqCst);
    until("it is back", || state() == Some(true)).await;
    let mut seen = false;
    for _ in 0..4 {
        seen |= header(&gateway.chat(&ask("x", false)).await, "x-covey-worker") == "w0";
    }
    assert!(seen, "it takes requests again");
}

#[tokio::test]
async fn a_probe_reads_life_and_capacity() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    let probed = || gateway.running.gateway().workers().all()[0].last_probe();
    until("it is probed", || probed().is_some()).await;
    let found = probed().expect("probed");
    assert_eq!((found.token.as_str(), found.capacity_tokens), ("1764400000.5", Some(120_000)), "{CAPACITY}");
    "1764499999.25".clone_into(&mut worker.token.lock().expect("not poisoned"));
    until("the new life is seen", || probed().is_some_and(|found| found.token == "1764499999.25")).await;
}

/// Clients that go round the gateways, or gateways that cannot be heard: the worker alone knows of them.
#[tokio::test]
async fn a_worker_that_is_busy_with_what_no_gateway_sent_is_left_alone() {
    let busy = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let other = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    busy.told.store(40, Ordering::SeqCst);
    // The others of its mesh were never met.
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let mesh = ["--mesh", "on", "--mesh-name", "a", "--mesh-listen", "127.0.0.1:0", "--mesh-secret-file", path];
    let flags = [&mesh[..], &["--mesh-seeds", "127.0.0.1:1"]].concat();
    let gateway = gateway(&[&busy, &other], &flags).await;
    let plugin = || gateway.running.gateway().plugin();
    let id = gateway.running.gateway().workers().all()[0].id.clone();
    until("it has told", || plugin().unseen_load(&id).requests == 40).await;
    until("it knows that it is alone", || plugin().unheard() > 0.0 && !plugin().is_stale()).await;
    for nth in 0..8 {
        let prompt = format!("{nth} {}", "x".repeat(2_000));
        assert_eq!(header(&gateway.chat(&ask(&prompt, false)).await, "x-covey-worker"), "w1");
    }
    busy.told.store(0, Ordering::SeqCst);
    until("it is idle", || plugin().unseen_load(&id).requests == 0).await;
    let mut seen = false;
    for nth in 0..32 {
        let prompt = format!("later {nth} {}", "x".repeat(2_000));
        seen |= header(&gateway.chat(&ask(&prompt, false)).await, "x-covey-worker") == "w0";
    }
    assert!(seen, "it takes requests again");
}
