//! The mesh changes where a request goes, never a byte of it.

use crate::fake::{FakeWorker, Recorded, chat_stream};
use crate::gateway::{ask, gateway, secret};

async fn sent_with(mesh: &[&str]) -> Vec<Recorded> {
    let worker = FakeWorker::start(|_| chat_stream(&["hel", "lo"])).await;
    let gateway = gateway(&[&worker], mesh).await;
    for turn in 0..3 {
        let request = gateway
            .client
            .post(gateway.url("/v1/chat/completions"))
            .header("authorization", "Bearer k")
            .header("x-session-id", "s-1")
            .header("x-covey-debug", "1")
            .header("user-agent", "client/1")
            .body(ask(&"turn ".repeat(200 + turn), true).to_string());
        request.send().await.expect("answered").bytes().await.expect("a stream");
    }
    let port = worker.address.port().to_string();
    let mask = |mut recorded: Recorded| {
        recorded.head = recorded.head.replace(&port, "PORT");
        recorded
    };
    worker.requests().into_iter().map(mask).collect()
}

#[tokio::test]
async fn mesh_off_and_mesh_on_send_byte_identical_requests() {
    let secret = secret();
    let path = secret.path.to_str().expect("a path");
    let off = sent_with(&[]).await;
    let on =
        sent_with(&["--mesh", "on", "--mesh-name", "gw-a", "--mesh-secret-file", path, "--mesh-listen", "127.0.0.1:0"])
            .await;
    assert_eq!(off.len(), 3);
    assert_eq!(off, on);
}
