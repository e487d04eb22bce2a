//! The processes of one arm: fresh workers, then gateways in front of them.
//!
//! Not here: requests (`drive`). Upholds: dropping the fleet kills every process in it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::args::{ArmName, Chaos, DemoArgs};
use super::process::{Binaries, POLL, Process};
use super::switch::Switch;
use super::{ports, probe};
use crate::client::Client;
use crate::worker::READY;

/// Model name of the demo.
pub(super) const MODEL: &str = "demo";
/// How long processes may take until they are ready.
const START_MAX: Duration = Duration::from_secs(20);

/// A worker process.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    pub(super) process: Process,
    /// `http://host:port`.
    pub(super) base: String,
}

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

/// Addresses of one gateway.
#[derive(Clone, Copy)]
struct Addresses {
    listen: SocketAddr,
    admin: SocketAddr,
    mesh: SocketAddr,
    /// Where the other gateways find it: its face on the switch, when there is one.
    told: SocketAddr,
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
        fleet.start_workers(args, binaries).await?;
        fleet.start_gateways(args, arm).await?;
        for index in 0..fleet.gateways.len() {
            fleet.ready(index, client, START_MAX).await?;
        }
        Ok(fleet)
    }

    async fn start_workers(&mut self, args: &DemoArgs, binaries: &Binaries) -> Result<(), String> {
        for index in 0..args.workers {
            let name = format!("w{index}");
            let flags = flags(&[
                ("--listen", "127.0.0.1:0".to_owned()),
                ("--model", MODEL.to_owned()),
                ("--id", name.clone()),
                ("--cache-tokens", args.cache_tokens.to_string()),
                ("--prefill-tokens-per-s", args.prefill_tokens_per_s.to_string()),
                ("--decode-step-ms", args.decode_step_ms.to_string()),
            ]);
            let all = [vec!["worker".to_owned(), "--exit-with-stdin".to_owned()], flags].concat();
            let process = Process::spawn(&name, &binaries.covey_sim, &all, self.files.path())?;
            self.workers.push(WorkerProcess { process, base: String::new() });
        }
        for worker in &mut self.workers {
            worker.base = format!("http://{}", worker.process.line(READY, START_MAX).await?);
        }
        Ok(())
    }

    async fn start_gateways(&mut self, args: &DemoArgs, arm: ArmName) -> Result<(), String> {
        let count = arm.gateways(args.gateways);
        let mut addresses: Vec<_> = ports::free(3 * count)?
            .chunks_exact(3)
            .map(|three| Addresses { listen: three[0], admin: three[1], mesh: three[2], told: three[2] })
            .collect();
        if arm == ArmName::Mesh && args.chaos == Some(Chaos::Cut) {
            let homes = addresses.iter().map(|address| address.mesh).collect();
            let switch = Switch::start(homes).await.map_err(|why| format!("no switch for the mesh: {why}"))?;
            addresses.iter_mut().enumerate().for_each(|(index, address)| address.told = switch.face(index));
            self.switch = Some(switch);
        }
        let secret = self.secret()?;
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
        let own = all[index];
        let mut list = vec!["gateway".to_owned()];
        list.extend(flags(&[
            ("--listen", own.listen.to_string()),
            ("--admin-listen", own.admin.to_string()),
            ("--model", MODEL.to_owned()),
            ("--policy", args.policy.clone()),
        ]));
        let workers =
            self.workers.iter().map(|worker| ("--worker", format!("{}={}", worker.process.name, worker.base)));
        list.extend(flags(&workers.collect::<Vec<_>>()));
        match arm {
            ArmName::Mesh => {
                list.extend(flags(&[
                    ("--mesh", "on".to_owned()),
                    ("--mesh-name", format!("g{index}")),
                    ("--mesh-listen", own.mesh.to_string()),
                    ("--mesh-advertise", own.told.to_string()),
                    ("--mesh-seeds", seeds(index, all)),
                    ("--mesh-secret-file", secret.to_owned()),
                ]));
                list.extend((args.chaos == Some(Chaos::Panic)).then(|| "--test-hooks".to_owned()));
            }
            ArmName::Bound | ArmName::Off | ArmName::Sticky => list.extend(flags(&[("--mesh", "off".to_owned())])),
        }
        list
    }

    /// A file with a fresh secret that only its owner can read.
    fn secret(&self) -> Result<String, String> {
        let cannot = |why: std::io::Error| format!("no secret for the mesh: {why}");
        let mut random = [0_u8; 32];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random))
            .map_err(cannot)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        // `tempfile` makes files with mode 0600.
        let mut file = tempfile::Builder::new().prefix("secret").tempfile_in(self.files.path()).map_err(cannot)?;
        file.write_all(text.as_bytes()).map_err(cannot)?;
        let (_, path) = file.keep().map_err(|why| cannot(why.error))?;
        Ok(path.display().to_string())
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

/// The next gateway and one further on: two places to join by, without any gateway that all depend on.
fn seeds(index: usize, all: &[Addresses]) -> String {
    let mut others: Vec<_> =
        [1, 3].iter().map(|step| (index + step) % all.len()).filter(|&other| other != index).collect();
    others.dedup();
    others.iter().map(|&other| all[other].told.to_string()).collect::<Vec<_>>().join(",")
}

fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]).collect()
}
