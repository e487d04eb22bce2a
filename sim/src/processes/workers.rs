//! Engine models as processes.
//!
//! Not here: the engine model (`worker`).

use std::path::Path;

use super::{Binaries, MODEL, Process, START_MAX, flags};
use crate::worker::READY;

/// A worker process.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    pub(crate) process: Process,
    /// `http://host:port`.
    pub(crate) base: String,
}

/// Workers that are all alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkersPlan {
    pub(crate) workers: usize,
    pub(crate) cache_tokens: u64,
    pub(crate) prefill_tokens_per_s: u32,
    pub(crate) decode_step_ms: u64,
}

impl WorkersPlan {
    /// Starts them with empty caches and waits until each says where it listens. Their output goes to `logs`.
    pub(crate) async fn start(&self, binaries: &Binaries, logs: &Path) -> Result<Vec<WorkerProcess>, String> {
        let mut workers = Vec::with_capacity(self.workers);
        for index in 0..self.workers {
            let name = format!("w{index}");
            let flags = flags(&[
                ("--listen", "127.0.0.1:0".to_owned()),
                ("--model", MODEL.to_owned()),
                ("--id", name.clone()),
                ("--cache-tokens", self.cache_tokens.to_string()),
                ("--prefill-tokens-per-s", self.prefill_tokens_per_s.to_string()),
                ("--decode-step-ms", self.decode_step_ms.to_string()),
            ]);
            let all = [vec!["worker".to_owned(), "--exit-with-stdin".to_owned()], flags].concat();
            let process = Process::spawn(&name, &binaries.covey_sim, &all, logs)?;
            workers.push(WorkerProcess { process, base: String::new() });
        }
        for worker in &mut workers {
            worker.base = format!("http://{}", worker.process.line(READY, START_MAX).await?);
        }
        Ok(workers)
    }
}
