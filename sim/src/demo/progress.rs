//! What the demo says while it runs: a bar on a terminal, a line now and then without one.
//!
//! Not here: the result (`report`). Everything goes to standard error, so that the table can be piped.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Pause between two lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Where the run is.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    requests: usize,
    done: AtomicUsize,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
struct Stage {
    name: String,
    said: Instant,
}

impl Progress {
    pub(super) fn new(arms: usize, requests: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some((arms * requests) as u64), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} requests  {msg}");
            bar.set_style(style.expect("a valid template"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let stage = Mutex::new(Stage { name: String::new(), said: Instant::now() });
        Self { bar, requests, done: AtomicUsize::new(0), stage }
    }

    /// Says lines alone.
    pub(crate) fn lines() -> Self {
        let stage = Mutex::new(Stage { name: String::new(), said: Instant::now() });
        Self { bar: None, requests: 0, done: AtomicUsize::new(0), stage }
    }

    /// Says nothing.
    pub(super) fn hidden() -> Self {
        let stage = Mutex::new(Stage { name: String::new(), said: Instant::now() });
        Self { bar: Some(ProgressBar::hidden()), requests: 0, done: AtomicUsize::new(0), stage }
    }

    /// Says one line.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// A new stage of the run begins.
    pub(super) fn stage(&self, name: &str) {
        self.done.store(0, Ordering::Relaxed);
        if let Ok(mut stage) = self.stage.lock() {
            *stage = Stage { name: name.to_owned(), said: Instant::now() };
        }
        match &self.bar {
            Some(bar) => bar.set_message(name.to_owned()),
            None => eprintln!("{name}"),
        }
    }

    /// One more request is done.
    pub(super) fn request(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
            return;
        }
        let Ok(mut stage) = self.stage.lock() else { return };
        if stage.said.elapsed() >= LINE_EVERY {
            stage.said = Instant::now();
            eprintln!("{}: {done} of {} requests", stage.name, self.requests);
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
