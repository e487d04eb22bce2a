//! One process that a comparison started: its output in a file, killed when dropped.
//!
//! Not here: what it serves.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How much of a process's last output an error quotes.
const TAIL_LINES: usize = 12;
/// Pause between two looks at something that is about to happen.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Covey's own programs.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    pub(crate) covey: PathBuf,
    pub(crate) covey_sim: PathBuf,
}

impl Binaries {
    /// This program, and the gateway's given or beside it.
    ///
    /// # Errors
    /// Says which file is missing and how to get it.
    pub(crate) fn find(covey: Option<&Path>) -> Result<Self, String> {
        let covey_sim = std::env::current_exe().map_err(|why| format!("own path is unknown: {why}"))?;
        let covey = covey.map_or_else(|| covey_sim.with_file_name("covey"), Path::to_path_buf);
        if !covey.is_file() {
            return Err(format!(
                "{} is missing: build it with `cargo build -p covey-gateway-plugin` (the same profile), or name it \
                 with --covey FILE",
                covey.display()
            ));
        }
        Ok(Self { covey, covey_sim })
    }
}

/// A running program. It is in a process group of its own, so that Ctrl-C reaches this one alone, which then stops it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; its output is appended to `<logs>/<name>.log`. Settings in the environment are not passed on.
    pub(crate) fn spawn(name: &str, program: &Path, args: &[String], logs: &Path) -> Result<Self, String> {
        let log = logs.join(format!("{name}.log"));
        let cannot = |why: std::io::Error| format!("{name} ({}) cannot be started: {why}", program.display());
        let out = File::options().create(true).append(true).open(&log).map_err(cannot)?;
        let err = out.try_clone().map_err(cannot)?;
        let mut command = Command::new(program);
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("COVEY_")) {
            command.env_remove(key);
        }
        // A worker exits when this pipe closes, even when this one is killed.
        command.args(args).stdin(Stdio::piped()).stdout(out).stderr(err);
        let child = command.kill_on_drop(true).process_group(0).spawn().map_err(cannot)?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Its id.
    ///
    /// # Errors
    /// When it was waited for already.
    pub(crate) fn pid(&self) -> Result<u32, String> {
        self.child.id().ok_or_else(|| format!("{} has ended", self.name))
    }

    /// An error when it has ended, with its last words.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended by itself ({status}); it said:\n{}", self.name, self.tail())),
            Err(why) => Err(format!("{} cannot be watched: {why}", self.name)),
        }
    }

    /// Kills it (SIGKILL) without waiting until it is gone.
    pub(crate) fn strike(&mut self) -> Result<(), String> {
        self.child.start_kill().map_err(|why| format!("{} cannot be killed: {why}", self.name))
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), String> {
        self.child.kill().await.map_err(|why| format!("{} cannot be killed: {why}", self.name))
    }

    /// Waits until its output has a line that begins with `prefix`; gives the rest of that line.
    pub(crate) async fn line(&mut self, prefix: &str, patience: Duration) -> Result<String, String> {
        let deadline = Instant::now() + patience;
        loop {
            let output = self.output();
            let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
            if let Some(rest) = whole.lines().find_map(|line| line.strip_prefix(prefix)) {
                return Ok(rest.to_owned());
            }
            self.check()?;
            if Instant::now() > deadline {
                return Err(format!("{} is not ready after {patience:?}; it said:\n{}", self.name, self.tail()));
            }
            sleep(POLL).await;
        }
    }

    /// Its last lines of output, indented.
    pub(crate) fn tail(&self) -> String {
        let output = self.output();
        let lines: Vec<_> = output.lines().collect();
        let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        if last.is_empty() { "  (nothing)".to_owned() } else { format!("  {}", last.join("\n  ")) }
    }

    fn output(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}
