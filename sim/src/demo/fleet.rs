//! The processes of one arm: fresh workers, then gateways in front of them.
//!
//! Not here: requests (`drive`). Upholds: dropping the fleet kills every process in it.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::args::{ArmName, Chaos, DemoArgs};
use super::probe;
use super::switch::Switch;
use crate::client::Client;
use crate::processes::{
    Addresses, Binaries, POLL, Process, START_MAX, WorkerProcess, flags, gateway_flags, mesh_flags, secret,
};

/// A gateway process and how to start it again.
#[derive(Debug)]
pub(super) struct GatewayProcess {
    pub(super) process: Process,
    /// `http://host:port` for clients.
    pub(super) base: String,
    /// `http://host:port` for operators.
    pub(super) admin: String,
    args: Vec<String>,
}

/// Everything that runs in one arm.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) workers: Vec<WorkerProcess>,
    pub(super) gateways: Vec<GatewayProcess>,
    covey: PathBuf,
    /// What carries the mesh's datagrams, when they can be cut.
    switch: Option<Switch>,
    // Last, so that it outlives the processes that write into it.
    files: TempDir,
}

impl Fleet {
    /// Starts an arm and waits until every gateway says that it is ready.
    pub(super) async fn start(
        args: &DemoArgs,
        binaries: &Binaries,
        arm: ArmName,
        client: &Client,
    ) -> Result<Self, String> {
        let files = TempDir::new().map_err(|why| format!("no temporary directory: {why}"))?;
        let covey = binaries.covey.clone();
        let mut fleet = Self { workers: Vec::new(), gateways: Vec::new(), covey, switch: None, files };
        fleet.workers = args.workers_plan().start(binaries, fleet.files.path()).await?;
        fleet.start_gateways(args, arm).await?;
        for index in 0..fleet.gateways.len() {
            fleet.ready(index, client, START_MAX).await?;
        }
        Ok(fleet)
    }

    async fn start_gateways(&mut self, args: &DemoArgs, arm: ArmName) -> Result<(), String> {
        let count = arm.gateways(args.gateways);
        let mut addresses = Addresses::free(count)?;
        if arm == ArmName::Mesh && args.chaos == Some(Chaos::Cut) {
            let homes = addresses.iter().map(|address| address.mesh).collect();
            let switch = Switch::start(homes).await.map_err(|why| format!("no switch for the mesh: {why}"))?;
            addresses.iter_mut().enumerate().for_each(|(index, address)| address.told = switch.face(index));
            self.switch = Some(switch);
        }
        let secret = secret(self.files.path())?;
        for index in 0..count {
            let flags = self.gateway_flags(args, arm, index, &addresses, &secret);
            let process = Process::spawn(&format!("g{index}"), &self.covey, &flags, self.files.path())?;
            let Addresses { listen, admin, .. } = addresses[index];
            let (base, admin) = (format!("http://{listen}"), format!("http://{admin}"));
            self.gateways.push(GatewayProcess { process, base, admin, args: flags });
        }
        Ok(())
    }

    fn gateway_flags(
        &self,
        args: &DemoArgs,
        arm: ArmName,
        index: usize,
        all: &[Addresses],
        secret: &str,
    ) -> Vec<String> {
        let mut list = gateway_flags(&all[index], &self.workers);
        list.extend(flags(&[("--policy", args.policy.clone())]));
        match arm {
            ArmName::Mesh => {
                list.extend(mesh_flags(index, all, secret));
                list.extend((args.chaos == Some(Chaos::Panic)).then(|| "--test-hooks".to_owned()));
            }
            ArmName::Bound | ArmName::Off | ArmName::Sticky => list.extend(flags(&[("--mesh", "off".to_owned())])),
        }
        list
    }

    /// Waits until a gateway says that it is ready; gives how long that took.
    pub(super) async fn ready(
        &mut self,
        index: usize,
        client: &Client,
        patience: Duration,
    ) -> Result<Duration, String> {
        let started = Instant::now();
        let gateway = &mut self.gateways[index];
        loop {
            let Err(why) = probe::ready(client, &gateway.admin).await else { return Ok(started.elapsed()) };
            gateway.process.check()?;
            if started.elapsed() > patience {
                let said = gateway.process.tail();
                return Err(format!(
                    "{} is not ready after {patience:?} ({why}); it said:\n{said}",
                    gateway.process.name
                ));
            }
            sleep(POLL).await;
        }
    }

    /// Kills a gateway (SIGKILL).
    pub(super) async fn kill(&mut self, index: usize) -> Result<(), String> {
        self.gateways[index].process.kill().await
    }

    /// Starts a killed gateway again with the same flags.
    pub(super) fn restart(&mut self, index: usize) -> Result<(), String> {
        let gateway = &mut self.gateways[index];
        gateway.process = Process::spawn(&gateway.process.name, &self.covey, &gateway.args, self.files.path())?;
        Ok(())
    }

    /// What carries the mesh's datagrams.
    pub(super) fn switch(&self) -> Result<&Switch, String> {
        self.switch.as_ref().ok_or_else(|| "this arm has no switch to cut".to_owned())
    }

    /// An error when one of the processes has ended by itself.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let workers = self.workers.iter_mut().map(|worker| &mut worker.process);
        let gateways = self.gateways.iter_mut().map(|gateway| &mut gateway.process);
        workers.chain(gateways).try_for_each(Process::check)
    }
}
