//! Workers with KV events, and gateways in front of them, as processes on loopback.
//!
//! Not here: requests (`drive`). Upholds: dropping it kills every process in it.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::args::EventsArgs;
use crate::client::Client;
use crate::engine::BLOCK_TOKENS;
use crate::processes::{Binaries, POLL, Process, ports};
use crate::worker::{KV_EVENTS_ON, READY, REPLAY_ON};

/// Model name of the workers.
pub(super) const MODEL: &str = "demo";
/// The mesh's key for block hashes, so that blocks can be named as gateways do.
pub(super) const HASH_KEY: [u8; 32] = [0x5a; 32];
/// How long processes may take until they are ready.
const START_MAX: Duration = Duration::from_secs(20);
const PAGE_MAX: Duration = Duration::from_secs(2);

/// How many processes, and what they are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wiring {
    pub(super) gateways: u32,
    /// Whether gateways are told where events are.
    pub(super) events: bool,
    /// Batches that workers keep for replays.
    pub(super) replay_steps: u32,
}

impl Wiring {
    pub(super) const fn of(args: &EventsArgs) -> Self {
        Self { gateways: args.gateways, events: true, replay_steps: args.replay_steps }
    }
}

/// A worker process.
pub(super) struct WorkerProcess {
    pub(super) process: Process,
    /// `http://host:port`.
    pub(super) base: String,
    /// `tcp://host:port` of its events.
    pub(super) events: String,
    replay: String,
}

/// A gateway process.
#[derive(Debug)]
pub(super) struct GatewayProcess {
    pub(super) process: Process,
    /// `http://host:port` for clients.
    pub(super) base: String,
    /// `http://host:port` for operators.
    pub(super) admin: String,
}

/// Everything that runs.
pub(super) struct Cluster {
    pub(super) workers: Vec<WorkerProcess>,
    pub(super) gateways: Vec<GatewayProcess>,
    covey: PathBuf,
    // Last, so that it outlives the processes that write into it.
    files: TempDir,
}

impl Cluster {
    /// Starts everything and waits until every gateway says that it is ready.
    pub(super) async fn start(args: &EventsArgs, client: &Client, wiring: Wiring) -> Result<Self, String> {
        let binaries = Binaries::find(args.covey.as_deref())?;
        let files = TempDir::new().map_err(|why| format!("no temporary directory: {why}"))?;
        let mut cluster = Self { workers: Vec::new(), gateways: Vec::new(), covey: binaries.covey.clone(), files };
        for index in 0..args.workers {
            cluster.workers.push(cluster.worker(args, wiring, &binaries, index).await?);
        }
        cluster.start_gateways(args, wiring)?;
        for index in 0..cluster.gateways.len() {
            cluster.ready(index, client).await?;
        }
        Ok(cluster)
    }

    async fn worker(
        &self,
        args: &EventsArgs,
        wiring: Wiring,
        binaries: &Binaries,
        index: u32,
    ) -> Result<WorkerProcess, String> {
        let name = format!("w{index}");
        let flags = flags(&[
            ("--model", MODEL.to_owned()),
            ("--id", name.clone()),
            ("--cache-tokens", args.cache_tokens.to_string()),
            ("--prefill-tokens-per-s", "16000".to_owned()),
            ("--kv-events", "tcp://127.0.0.1:0".to_owned()),
            ("--replay", "tcp://127.0.0.1:0".to_owned()),
            ("--replay-steps", wiring.replay_steps.to_string()),
            ("--kv-delay-ms", args.lag_ms.to_string()),
        ]);
        let all = [vec!["worker".to_owned(), "--exit-with-stdin".to_owned()], flags].concat();
        let mut process = Process::spawn(&name, &binaries.covey_sim, &all, self.files.path())?;
        let base = format!("http://{}", process.line(READY, START_MAX).await?);
        let events = process.line(KV_EVENTS_ON, START_MAX).await?;
        let replay = process.line(REPLAY_ON, START_MAX).await?;
        Ok(WorkerProcess { process, base, events, replay })
    }

    fn start_gateways(&mut self, args: &EventsArgs, wiring: Wiring) -> Result<(), String> {
        let (secret, key) = (self.files.path().join("secret"), self.files.path().join("hash-key"));
        private(&secret, &format!("{:064x}", args.seed))?;
        private(&key, &"5a".repeat(HASH_KEY.len()))?;
        let ports = ports::free(3 * wiring.gateways as usize)?;
        let seeds: Vec<_> = ports.chunks_exact(3).map(|three| three[2].to_string()).collect();
        for (index, three) in ports.chunks_exact(3).enumerate() {
            let mut list = vec!["gateway".to_owned()];
            list.extend(flags(&[
                ("--listen", three[0].to_string()),
                ("--admin-listen", three[1].to_string()),
                ("--model", MODEL.to_owned()),
                ("--block-tokens", BLOCK_TOKENS.to_string()),
                ("--mesh", "on".to_owned()),
                ("--mesh-name", format!("g{index}")),
                ("--mesh-listen", three[2].to_string()),
                ("--mesh-seeds", seeds.join(",")),
                ("--mesh-secret-file", secret.display().to_string()),
                ("--mesh-hash-key-file", key.display().to_string()),
            ]));
            for worker in &self.workers {
                list.extend(flags(&[("--worker", format!("{}={}", worker.process.name, worker.base))]));
                if wiring.events {
                    list.extend(event_flags(worker));
                }
            }
            let process = Process::spawn(&format!("g{index}"), &self.covey, &list, self.files.path())?;
            let (base, admin) = (format!("http://{}", three[0]), format!("http://{}", three[1]));
            self.gateways.push(GatewayProcess { process, base, admin });
        }
        Ok(())
    }

    /// Waits until a gateway says that it is ready.
    pub(super) async fn ready(&mut self, index: usize, client: &Client) -> Result<(), String> {
        let (started, gateway) = (Instant::now(), &mut self.gateways[index]);
        while let Err(why) = client.page(&format!("{}/readyz", gateway.admin), PAGE_MAX).await {
            gateway.process.check()?;
            if started.elapsed() > START_MAX {
                return Err(format!(
                    "{} is not ready ({why}); it said:\n{}",
                    gateway.process.name,
                    gateway.process.tail()
                ));
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Where clients reach the gateways.
    pub(super) fn bases(&self) -> Vec<String> {
        self.gateways.iter().map(|gateway| gateway.base.clone()).collect()
    }

    /// An error when one of the processes has ended by itself.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let workers = self.workers.iter_mut().map(|worker| &mut worker.process);
        workers.chain(self.gateways.iter_mut().map(|gateway| &mut gateway.process)).try_for_each(Process::check)
    }
}

/// How a gateway is told where a worker's events are.
fn event_flags(worker: &WorkerProcess) -> Vec<String> {
    let of = |address: &str| format!("{}={address}", worker.process.name);
    flags(&[("--kv-events", of(&worker.events)), ("--kv-replay", of(&worker.replay))])
}

fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]).collect()
}

/// A file that only its owner reads.
fn private(path: &std::path::Path, text: &str) -> Result<(), String> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|why| format!("{} cannot be written: {why}", path.display()))
}
