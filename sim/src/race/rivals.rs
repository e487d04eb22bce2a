//! The other routers: where their programs are, how they are started, and when they are ready.
//!
//! Both are started as their own documentation says for workers behind plain URLs, with cache-aware routing and otherwise
//! their defaults; only logs are made quieter.
//!
//! Not here: installing them (`make race`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::ArmName;
use crate::client::Client;
use crate::processes::{WorkerProcess, flags};

/// How long one page may take.
const PAGE_MAX: Duration = Duration::from_secs(2);

/// Programs of the routers that are here.
#[derive(Clone, Debug, Default)]
pub(super) struct Routers {
    vllm: Option<PathBuf>,
    sglang: Option<PathBuf>,
    /// What is not here although an arm needs it, and what becomes of the arm, in words.
    pub(super) missing: Vec<String>,
}

impl Routers {
    /// Looks for what `arms` need.
    pub(super) fn find(folder: Option<&Path>, arms: &[ArmName]) -> Self {
        let mut found = Self::default();
        let program = |name: &str| folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
        (found.vllm, found.sglang) = (program("vllm-router"), program("sglang-router"));
        let place =
            folder.map_or_else(|| "no --routers DIR was given".to_owned(), |it| format!("not in {}", it.display()));
        let missing = arms.iter().filter(|name| found.lacks(**name));
        let words = |name: &ArmName| format!("SKIPPED: {} ({place}); `make race` installs the routers", name.name());
        let mut missing: Vec<_> = missing.map(words).collect();
        if arms.contains(&ArmName::RoundRobin) && found.vllm.is_none() {
            missing.push(format!(
                "round-robin is done by Covey's gateways without a mesh: vllm-router is not here ({place})"
            ));
        }
        found.missing = missing;
        found
    }

    /// Whether an arm cannot be run.
    pub(super) const fn lacks(&self, name: ArmName) -> bool {
        match name {
            ArmName::Bound | ArmName::Covey | ArmName::RoundRobin => false,
            ArmName::VllmRouter => self.vllm.is_none(),
            ArmName::SglangRouter => self.sglang.is_none(),
        }
    }

    /// The program of an arm and how to start it; `None` when Covey's gateways do it.
    pub(super) fn command(
        &self,
        name: ArmName,
        listen: SocketAddr,
        metrics: SocketAddr,
        workers: &[WorkerProcess],
    ) -> Option<(PathBuf, Vec<String>)> {
        let (program, first, policy, quiet) = match name {
            ArmName::Bound | ArmName::Covey => return None,
            ArmName::VllmRouter => (self.vllm.clone()?, None, "cache_aware", "warning"),
            ArmName::RoundRobin => (self.vllm.clone()?, None, "round_robin", "warning"),
            ArmName::SglangRouter => (self.sglang.clone()?, Some("launch".to_owned()), "cache_aware", "warn"),
        };
        let rest = flags(&[
            ("--host", listen.ip().to_string()),
            ("--port", listen.port().to_string()),
            ("--prometheus-host", metrics.ip().to_string()),
            ("--prometheus-port", metrics.port().to_string()),
            ("--policy", policy.to_owned()),
            ("--worker-startup-check-interval", "1".to_owned()),
            ("--log-level", quiet.to_owned()),
        ]);
        let urls = std::iter::once("--worker-urls".to_owned()).chain(workers.iter().map(|worker| worker.base.clone()));
        Some((program, first.into_iter().chain(rest).chain(urls).collect()))
    }
}

/// Whether another router answers and knows all its workers.
///
/// # Errors
/// Says what is missing yet.
pub(super) async fn ready(client: &Client, name: ArmName, base: &str, workers: &[WorkerProcess]) -> Result<(), String> {
    client.page(&format!("{base}/readiness"), PAGE_MAX).await?;
    // sglang-router serves before it has found its workers; vllm-router only afterwards.
    if name == ArmName::SglangRouter {
        let known = client.page(&format!("{base}/workers"), PAGE_MAX).await?;
        if let Some(missing) = workers.iter().find(|worker| !known.contains(&worker.base)) {
            return Err(format!("it does not know {} yet", missing.base));
        }
    }
    Ok(())
}
