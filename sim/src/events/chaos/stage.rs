//! What every leg that breaks something needs: a cluster whose feeds have owners, a witness of each engine, load that goes on,
//! and the silence afterwards in which everybody must hold the same.
//!
//! Not here: what is broken (`kill`, `restart`).

use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use covey_crdt::hash::HashKey;
use covey_mesh::feed::{FeedState, Role};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::truth::Naming;
use super::watch::{Row, Watch, feeds};
use super::witness::Witness;
use crate::client::Client;
use crate::engine::BLOCK_TOKENS;
use crate::events::args::{EventsArgs, Leg};
use crate::events::cluster::{Cluster, GatewayProcess, HASH_KEY, MODEL, Wiring};
use crate::events::drive::{Control, Drive, Driven};
use crate::events::run;
use crate::events::traffic::Traffic;

/// How long until every feed has its two owners.
const SETTLED_MAX: Duration = Duration::from_secs(30);
/// How long after the last request everybody must hold what the engines do.
const QUIET_MAX: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(50);
/// Traffic that is stopped, not timed.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// Load under way.
pub(super) struct Load {
    control: Arc<Control>,
    task: JoinHandle<(Traffic, Driven)>,
}

/// Everything that runs.
pub(super) struct Stage {
    name: &'static str,
    began: Instant,
    args: EventsArgs,
    pub(super) client: Arc<Client>,
    pub(super) naming: Arc<Naming>,
    // Before the cluster, so that they end first.
    pub(super) witnesses: Vec<Witness>,
    pub(super) cluster: Cluster,
    bases: Vec<String>,
}

impl Stage {
    /// Starts everything, and waits until every feed is published by one gateway, and read by a second.
    pub(super) async fn start(args: &EventsArgs, leg: Leg, wiring: Wiring) -> Result<Self, String> {
        let client = Arc::new(Client::new()?);
        let began = Instant::now();
        say(leg.name(), began, &format!("starts {} gateways and {} workers", wiring.gateways, args.workers));
        let cluster = Cluster::start(args, &client, wiring).await?;
        let naming = Arc::new(Naming::new(MODEL, BLOCK_TOKENS, &HashKey::new(HASH_KEY)));
        let witness = |worker: &crate::events::cluster::WorkerProcess| {
            Witness::start(&client, &worker.process.name, &worker.base, &worker.events, &naming)
        };
        let witnesses = cluster.workers.iter().map(witness).collect();
        let bases = cluster.bases();
        let stage = Self { name: leg.name(), began, args: args.clone(), client, naming, witnesses, cluster, bases };
        stage.settled().await?;
        Ok(stage)
    }

    /// Says where the leg is, on standard error.
    pub(super) fn say(&self, what: &str) {
        say(self.name, self.began, what);
    }

    /// What every gateway that runs shows.
    async fn rows(&self) -> Result<Vec<(&GatewayProcess, Vec<Row>)>, String> {
        let mut rows = Vec::new();
        for gateway in &self.cluster.gateways {
            rows.push((gateway, feeds(&self.client, &gateway.admin).await?));
        }
        Ok(rows)
    }

    /// Waits until every worker has a publisher and a standby.
    pub(super) async fn settled(&self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let rows = self.rows().await.unwrap_or_default();
            let is_owned = |witness: &Witness| {
                let of_worker = rows.iter().flat_map(|(_, rows)| rows).filter(|row| row.worker == witness.worker);
                let mut roles: Vec<_> = of_worker.filter(|row| reads(row)).map(|row| row.role).collect();
                roles.sort_unstable();
                roles == [Role::Standby, Role::Publisher] && witness.latest().is_some()
            };
            if self.witnesses.iter().all(is_owned) {
                return Ok(());
            }
            if started.elapsed() > SETTLED_MAX {
                return Err(format!("not every feed has a publisher and a standby after {SETTLED_MAX:?}: {rows:?}"));
            }
            sleep(AGAIN).await;
        }
    }

    /// The gateway that has this role for a worker, by its name, and how its row is.
    pub(super) async fn owner(&self, worker: &str, role: Role) -> Result<(String, Row), String> {
        let rows = self.rows().await?;
        let found = rows.into_iter().find_map(|(gateway, rows)| {
            let row = rows.into_iter().find(|row| row.worker == worker && row.role == role)?;
            Some((gateway.process.name.clone(), row))
        });
        found.ok_or_else(|| format!("no gateway is {} of {worker}", role.name()))
    }

    /// Kills these gateways at the same moment, and waits until they are gone.
    pub(super) async fn kill(&mut self, names: &[String]) -> Result<(), String> {
        let gateways = std::mem::take(&mut self.cluster.gateways);
        let (mut killed, left) =
            gateways.into_iter().partition(|one: &GatewayProcess| names.contains(&one.process.name));
        self.cluster.gateways = left;
        killed.iter_mut().try_for_each(|gateway: &mut GatewayProcess| gateway.process.strike())?;
        for mut gateway in killed {
            gateway.process.kill().await?;
        }
        Ok(())
    }

    /// Looks at every gateway that runs, from now on.
    pub(super) fn watch(&self) -> Watch {
        let gateways = self.cluster.gateways.iter();
        Watch::start(&self.client, gateways.map(|one| (one.process.name.clone(), one.admin.clone())))
    }

    /// Load from now on, through all gateways there were. Keeps how prompts began with `keeps`.
    pub(super) fn load(&self, traffic: Option<Traffic>, keeps: bool) -> Load {
        let answered = keeps.then(|| Mutex::new(Vec::new()));
        let control = Arc::new(Control { answered, ..Control::default() });
        let (client, gateways, ours) = (Arc::clone(&self.client), self.bases.clone(), Arc::clone(&control));
        let blocks_per_s = f64::from(self.args.blocks_per_s * self.args.workers);
        let mut traffic = traffic.unwrap_or_else(|| Traffic::new(run::traffic(&self.args, self.args.workers)));
        let task = tokio::spawn(async move {
            let drive = Drive { client: &client, model: MODEL, gateways: &gateways, blocks_per_s, control: &ours };
            let driven = drive.run(&mut traffic, FOR_EVER).await;
            (traffic, driven)
        });
        Load { control, task }
    }

    /// Lets some seconds pass; an error when a process that should run has ended.
    pub(super) async fn pass(&mut self, seconds: u32) -> Result<(), String> {
        sleep(Duration::from_secs(seconds.into())).await;
        self.cluster.check()
    }

    /// Waits until every gateway holds exactly what the engines say they hold; what does not come to that, in words.
    pub(super) async fn quiet(&self) -> Result<Vec<String>, String> {
        let started = Instant::now();
        loop {
            let wrong = self.differences().await?;
            if wrong.is_empty() || started.elapsed() > QUIET_MAX {
                return Ok(wrong);
            }
            sleep(AGAIN).await;
        }
    }

    async fn differences(&self) -> Result<Vec<String>, String> {
        let mut wrong = Vec::new();
        for witness in &self.witnesses {
            let (told, held) = witness.told().await?;
            for (gateway, rows) in self.rows().await? {
                let row = rows.into_iter().find(|row| row.worker == witness.worker);
                let row = row.ok_or_else(|| format!("/feeds does not have {}", witness.worker))?;
                let is_same = row.position == Some(told.position)
                    && row.contents.map(|contents| contents.0) == Some(held.contents().0);
                let blocks = held.blocks().len();
                if !is_same || row.blocks != Some(blocks) || !row.is_complete {
                    let (name, position) = (&gateway.process.name, told.position);
                    wrong.push(format!(
                        "when all is quiet {name} shows {row:?}, but the engine is at {position} with {blocks} blocks"
                    ));
                }
            }
            // The witness itself must have come to what the engine says.
            if witness.contents_at(&told.token, told.position).is_some_and(|contents| contents != held.contents()) {
                wrong.push(format!("{}'s events do not add up to what it holds", witness.worker));
            }
        }
        Ok(wrong)
    }
}

impl Load {
    /// How prompts that were answered began, and by whom.
    pub(super) fn answered(&self) -> Vec<(String, Vec<u32>)> {
        let kept = self.control.answered.as_ref().and_then(|answered| Some(answered.lock().ok()?.clone()));
        kept.unwrap_or_default()
    }

    /// Sends no more, and waits for the answers.
    pub(super) async fn stop(self) -> Result<(Traffic, Driven), String> {
        self.control.stop.store(true, Ordering::Relaxed);
        self.task.await.map_err(|why| format!("the load broke: {why}"))
    }
}

/// Whether a gateway reads the worker's events, and knows all of them.
fn reads(row: &Row) -> bool {
    row.role.ingests() && row.state == Some(FeedState::Exact)
}

fn say(leg: &str, began: Instant, what: &str) {
    // Nobody is missed who does not read it.
    let _ = writeln!(std::io::stderr(), "{leg} {:>6.1} s  {what}", began.elapsed().as_secs_f64());
}
