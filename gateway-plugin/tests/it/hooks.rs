//! The mesh thread broken on purpose: requests do not notice, a new life follows, and nobody gets to do it unasked.

use std::time::{Duration, Instant};

use covey_mesh::status::Phase;

use crate::fake::{FakeWorker, chat_json};
use crate::gateway::{TestGateway, ask, gateway};

async fn post(gateway: &TestGateway, what: &str) -> u16 {
    let url = gateway.admin_url(&format!("/test/mesh/{what}"));
    gateway.client.post(url).send().await.expect("the admin port answers").status().as_u16()
}

/// Chats until the mesh has a clean life other than `before`; says whether any answer was routed on load alone.
async fn chats_until_a_new_life(gateway: &TestGateway, before: covey_crdt::id::LifeId) -> bool {
    let (start, mut stale) = (Instant::now(), false);
    let mesh = gateway.running.gateway().mesh();
    while mesh.life() == before || mesh.status().phase != Phase::Clean {
        assert!(start.elapsed() < Duration::from_secs(20), "no clean new life");
        let response = gateway.chat(&ask(&"a long prompt ".repeat(40), false)).await;
        assert_eq!(response.status(), 200, "no request fails");
        stale |= response.headers()["x-covey-outcome"] == "stale";
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stale
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_not_told_to_has_no_hooks() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &[]).await;
    for what in ["panic", "stall"] {
        assert_eq!(post(&gateway, what).await, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mesh_thread_that_panics_or_stalls_costs_no_request() {
    let worker = FakeWorker::start(|_| vec![chat_json("hi")]).await;
    let gateway = gateway(&[&worker], &["--test-hooks"]).await;
    gateway.ready().await;
    for what in ["panic", "stall"] {
        let before = gateway.running.gateway().mesh().life();
        assert_eq!(post(&gateway, what).await, 202);
        let stale = chats_until_a_new_life(&gateway, before).await;
        assert!(stale || what == "panic", "a view that stands still for two seconds is labelled");
    }
}
