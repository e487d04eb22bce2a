//! The real binary as a process.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::fake::FakeWorker;
use crate::gateway::MODEL;

pub(crate) fn covey(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covey"));
    command.args(args).env_clear();
    command
}

/// A gateway process; killed when the test is over.
pub(crate) struct Process {
    child: Child,
    pub(crate) listen: String,
    pub(crate) admin: String,
    pub(crate) banner: String,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn start(worker: &FakeWorker, extra: &[&str]) -> Self {
        let worker = format!("w0={}", worker.url());
        let base = [
            "gateway",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
            "--model",
            MODEL,
            "--worker",
            &worker,
        ];
        let mut child = covey(&[&base[..], extra].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut banner = String::new();
        stdout.read_line(&mut banner).expect("a line");
        let after = |mark: &str| {
            let rest = banner.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark} in {banner:?}"));
            rest.split([',', ' ', '\n']).next().expect("an address").to_owned()
        };
        Self { listen: after("clients http://"), admin: after("admin http://"), banner: banner.clone(), child, stdout }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs").success());
    }

    /// Exit code and everything it logged.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        while self.child.try_wait().expect("a child").is_none() {
            assert!(start.elapsed() < Duration::from_secs(20), "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut log = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
        self.stdout.read_to_string(&mut log).expect("text");
        (self.child.wait().expect("a child").code(), log)
    }
}

pub(crate) fn status(admin: &str, extra: &[&str]) -> Output {
    covey(&[&["status", "--admin", admin], extra].concat()).output().expect("it runs")
}
