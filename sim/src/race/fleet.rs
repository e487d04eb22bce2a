//! The processes of one arm: fresh workers, then gateways of one kind in front of them.
//!
//! Not here: requests (`drive`). Upholds: dropping the fleet kills every process in it.

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::args::{ArmName, RaceArgs};
use super::rivals::{self, Routers};
use crate::client::Client;
use crate::processes::{
    Addresses, Binaries, POLL, Process, START_MAX, Usage, WorkerProcess, flags, gateway_flags, mesh_flags, secret,
};

/// How long one page may take.
const PAGE_MAX: Duration = Duration::from_secs(2);

/// A gateway of any kind.
#[derive(Debug)]
struct Gateway {
    process: Process,
    /// `http://host:port` for clients.
    base: String,
    /// Where Covey's gateways say whether they are ready.
    readyz: Option<String>,
}

/// Everything that runs in one arm.
#[derive(Debug)]
pub(super) struct Fleet {
    workers: Vec<WorkerProcess>,
    gateways: Vec<Gateway>,
    // Last, so that it outlives the processes that write into it.
    files: TempDir,
}

impl Fleet {
    /// Starts an arm and waits until every gateway is ready.
    pub(super) async fn start(
        args: &RaceArgs,
        binaries: &Binaries,
        routers: &Routers,
        (name, gateways): (ArmName, usize),
        client: &Client,
    ) -> Result<Self, String> {
        let files = TempDir::new().map_err(|why| format!("no temporary directory: {why}"))?;
        let workers = args.workers_plan().start(binaries, files.path()).await?;
        let mut fleet = Self { workers, gateways: Vec::new(), files };
        fleet.start_gateways(binaries, routers, name, gateways)?;
        for index in 0..gateways {
            fleet.ready(index, name, client).await?;
        }
        Ok(fleet)
    }

    fn start_gateways(
        &mut self,
        binaries: &Binaries,
        routers: &Routers,
        name: ArmName,
        gateways: usize,
    ) -> Result<(), String> {
        let all = Addresses::free(gateways)?;
        let secret = secret(self.files.path())?;
        for (index, own) in all.iter().enumerate() {
            let (program, words) = match routers.command(name, own.listen, own.admin, &self.workers) {
                Some(command) => command,
                None => (binaries.covey.clone(), self.covey_flags(name, index, &all, &secret)),
            };
            let process = Process::spawn(&format!("g{index}"), &program, &words, self.files.path())?;
            let readyz = (program == binaries.covey).then(|| format!("http://{}/readyz", own.admin));
            self.gateways.push(Gateway { process, base: format!("http://{}", own.listen), readyz });
        }
        Ok(())
    }

    /// What the README's first example says, and no more.
    fn covey_flags(&self, name: ArmName, index: usize, all: &[Addresses], secret: &str) -> Vec<String> {
        let mut list = gateway_flags(&all[index], &self.workers);
        if name == ArmName::RoundRobin {
            list.extend(flags(&[("--policy", "round-robin".to_owned()), ("--mesh", "off".to_owned())]));
        } else if all.len() > 1 {
            list.extend(mesh_flags(index, all, secret));
        } else {
            list.extend(flags(&[("--mesh", "off".to_owned())]));
        }
        list
    }

    async fn ready(&mut self, index: usize, name: ArmName, client: &Client) -> Result<(), String> {
        let started = Instant::now();
        let gateway = &mut self.gateways[index];
        loop {
            let ready = match &gateway.readyz {
                Some(page) => client.page(page, PAGE_MAX).await.map(drop),
                None => rivals::ready(client, name, &gateway.base, &self.workers).await,
            };
            let Err(why) = ready else { return Ok(()) };
            gateway.process.check()?;
            if started.elapsed() > START_MAX {
                let (name, said) = (&gateway.process.name, gateway.process.tail());
                return Err(format!("{name} is not ready after {START_MAX:?} ({why}); it said:\n{said}"));
            }
            sleep(POLL).await;
        }
    }

    /// Where clients reach each gateway.
    pub(super) fn gateways(&self) -> Vec<String> {
        self.gateways.iter().map(|gateway| gateway.base.clone()).collect()
    }

    /// Where a worker is reached without a gateway.
    pub(super) fn worker(&self) -> Option<&str> {
        self.workers.first().map(|worker| worker.base.as_str())
    }

    /// What each gateway has taken of the machine.
    pub(super) fn usage(&self) -> Result<Vec<Usage>, String> {
        self.gateways.iter().map(|gateway| Usage::of(gateway.process.pid()?)).collect()
    }

    /// An error when one of the processes has ended by itself.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let workers = self.workers.iter_mut().map(|worker| &mut worker.process);
        let gateways = self.gateways.iter_mut().map(|gateway| &mut gateway.process);
        workers.chain(gateways).try_for_each(Process::check)
    }
}
