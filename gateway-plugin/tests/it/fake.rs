//! A worker that records what it is sent, byte for byte, and answers by script: a hand-written HTTP/1.1 server, so that
//! answers can be as broken as they like.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A request as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// One step of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Write these bytes.
    Send(Vec<u8>),
    /// Wait until the test releases one step, or the gateway hangs up.
    Await,
    /// Write these bytes again and again until the gateway hangs up.
    Forever(Vec<u8>),
}

type Script = Arc<dyn Fn(&Recorded) -> Vec<Step> + Send + Sync>;

pub(crate) struct FakeWorker {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<Mutex<Vec<Recorded>>>,
    pub(crate) hangups: Arc<AtomicUsize>,
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) healthy: Arc<AtomicBool>,
    pub(crate) token: Arc<Mutex<String>>,
    /// Requests that it says it has.
    pub(crate) told: Arc<AtomicUsize>,
    script: Arc<Mutex<Script>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for FakeWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) const CAPACITY: &str = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"7500\"} 1.0\n";

impl FakeWorker {
    pub(crate) async fn start(script: impl Fn(&Recorded) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut worker = Self {
            address,
            requests: Arc::default(),
            hangups: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
            healthy: Arc::new(AtomicBool::new(true)),
            token: Arc::new(Mutex::new("1764400000.5".to_owned())),
            told: Arc::default(),
            script: Arc::new(Mutex::new(Arc::new(script))),
            task: tokio::spawn(async {}),
        };
        let served = worker.share();
        worker.task = tokio::spawn(async move {
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(served.clone(), stream));
                }
            }
        });
        worker
    }

    fn share(&self) -> Served {
        Served {
            requests: Arc::clone(&self.requests),
            hangups: Arc::clone(&self.hangups),
            gate: Arc::clone(&self.gate),
            healthy: Arc::clone(&self.healthy),
            token: Arc::clone(&self.token),
            told: Arc::clone(&self.told),
            script: Arc::clone(&self.script),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().expect("not poisoned").clone()
    }

    pub(crate) fn hangups(&self) -> usize {
        self.hangups.load(Ordering::SeqCst)
    }

    pub(crate) fn release(&self, steps: usize) {
        self.gate.add_permits(steps);
    }

    pub(crate) fn answer(&self, script: impl Fn(&Recorded) -> Vec<Step> + Send + Sync + 'static) {
        *self.script.lock().expect("not poisoned") = Arc::new(script);
    }
}

#[derive(Clone)]
struct Served {
    requests: Arc<Mutex<Vec<Recorded>>>,
    hangups: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    healthy: Arc<AtomicBool>,
    token: Arc<Mutex<String>>,
    told: Arc<AtomicUsize>,
    script: Arc<Mutex<Script>>,
}

async fn serve(worker: Served, mut stream: TcpStream) {
    let Some(request) = read(&mut stream).await else { return };
    let path = request.head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let steps = match path.as_str() {
        "/health" if worker.healthy.load(Ordering::SeqCst) => vec![reply("200 OK", "text/plain", "")],
        "/health" => vec![reply("503 Unavailable", "text/plain", "")],
        "/metrics" => {
            let token = worker.token.lock().expect("not poisoned").clone();
            let told = worker.told.load(Ordering::SeqCst);
            let page = format!("process_start_time_seconds {token}\n{CAPACITY}vllm:num_requests_waiting {told}\n");
            vec![reply("200 OK", "text/plain", &page)]
        }
        _ => {
            worker.requests.lock().expect("not poisoned").push(request.clone());
            let script = Arc::clone(&worker.script.lock().expect("not poisoned"));
            script(&request)
        }
    };
    play(&worker, &mut stream, steps).await;
    let _ = stream.shutdown().await;
}

async fn play(worker: &Served, stream: &mut TcpStream, steps: Vec<Step>) {
    for step in steps {
        let alive = match step {
            Step::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
            Step::Await => {
                let mut byte = [0];
                tokio::select! {
                    permit = worker.gate.acquire() => { permit.expect("never closed").forget(); true }
                    read = stream.read(&mut byte) => matches!(read, Ok(1)),
                }
            }
            Step::Forever(bytes) => {
                while stream.write_all(&bytes).await.is_ok() {}
                false
            }
        };
        if !alive {
            worker.hangups.fetch_add(1, Ordering::SeqCst);
            return;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Recorded> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut request = Recorded { head, body: bytes[end + 4..].to_vec() };
    let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while request.body.len() < length {
        if stream.read_buf(&mut request.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(request)
}

/// A whole answer with a length.
pub(crate) fn reply(status: &str, kind: &str, body: &str) -> Step {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nx-engine: fake\r\nconnection: close\r\n");
    Step::Send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// A chat answer in one piece.
pub(crate) fn chat_json(content: &str) -> Step {
    let message = serde_json::json!({"role": "assistant", "content": content});
    let choice = serde_json::json!({"index": 0, "message": message, "finish_reason": "stop"});
    let usage = serde_json::json!({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}});
    reply("200 OK", "application/json", &serde_json::json!({"choices": [choice], "usage": usage}).to_string())
}

/// The head of a stream of events; its end is the end of the connection.
pub(crate) fn sse_head() -> Step {
    Step::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec())
}

/// The head of a chunked stream of events: its end is told, so that a cut shows.
pub(crate) fn sse_head_chunked() -> Step {
    Step::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec())
}

/// One event as one chunk.
pub(crate) fn chunk(event: &str) -> Step {
    Step::Send(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes())
}

/// A content delta as an event.
pub(crate) fn delta(content: &str) -> String {
    let choice = serde_json::json!({"index": 0, "delta": {"content": content}, "finish_reason": null});
    format!("data: {}\n\n", serde_json::json!({"choices": [choice]}))
}

/// The last delta of an answer.
pub(crate) fn finish(reason: &str) -> String {
    let choice = serde_json::json!({"index": 0, "delta": {}, "finish_reason": reason});
    format!("data: {}\n\n", serde_json::json!({"choices": [choice]}))
}

pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A streamed chat answer.
pub(crate) fn chat_stream(pieces: &[&str]) -> Vec<Step> {
    let mut steps = vec![sse_head()];
    steps.extend(pieces.iter().map(|piece| Step::Send(delta(piece).into_bytes())));
    steps.push(Step::Send((finish("stop") + DONE).into_bytes()));
    steps
}

/// Waits until something holds, for at most ten seconds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
