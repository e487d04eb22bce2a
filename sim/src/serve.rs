//! `covey-sim serve`: the dashboard's page over a simulated run, or over a recording of real gateways.
//!
//! Not here: the page and its routes (`covey_gateway_plugin::dashboard`), running and filming (`film`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use covey_gateway_plugin::dashboard::{Info, Reel, is_built, router};
use covey_gateway_plugin::frame::{MeshFrame, SCHEMA, VERSION};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::net::TcpListener;

use crate::film::{FRAMES_MAX, film};
use crate::invariants::Violation;
use crate::ring1::{FilmArgs, PlanArgs};
use crate::worker::asked_to_stop;
use crate::world::Outcome;

/// Bytes of a recording at most: a page keeps it whole.
const RECORDING_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What `covey-sim serve` takes.
#[derive(Args, Debug)]
pub struct ServeArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    film: FilmArgs,
    /// Play this recording in place of a run: frames as `covey record` or `covey-sim run --frames` writes them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "plan", "leg", "plant"])]
    recording: Option<PathBuf>,
    /// Address to serve the page on; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7090", env = "COVEY_SIM_SERVE_LISTEN")]
    listen: SocketAddr,
}

/// A film, and whose.
struct Film {
    label: String,
    lines: Vec<u8>,
    last: Option<MeshFrame>,
    frames: usize,
}

/// Serves until it is asked to stop.
///
/// # Errors
/// When the plan or the recording cannot be read, or the address cannot be had; in words for a terminal.
pub async fn run(args: &ServeArgs) -> Result<ExitCode, String> {
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|why| format!("--listen {}: {why}; choose another port, or 0 for a free one", args.listen))?;
    let film = match &args.recording {
        Some(path) => read(path)?,
        None => simulate(args)?,
    };
    let address = listener.local_addr().map_err(|why| why.to_string())?;
    say(&format!("{}, {} frames: http://{address}/  (Ctrl-C stops)\n", film.label, film.frames));
    if !is_built() {
        say(
            "This binary has only the plain page; with npm installed, `make dashboard` and another build bring the pictures.\n",
        );
    }
    let reel = Arc::new(Reel::default());
    if let Some(last) = film.last {
        reel.push(last);
    }
    let info =
        Info { mode: "playback".to_owned(), label: film.label, package_version: env!("CARGO_PKG_VERSION").to_owned() };
    let routes = router(info, Arc::clone(&reel), Some(film.lines.into()));
    let stopped = async move {
        asked_to_stop().await;
        reel.close();
    };
    axum::serve(listener, routes)
        .with_graceful_shutdown(stopped)
        .await
        .map_err(|why| format!("serving ended: {why}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints; a reader that hung up is no reason to fail.
fn say(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn simulate(args: &ServeArgs) -> Result<Film, String> {
    let plan = args.plan.plan()?;
    let (every_ms, viewer) = args.film.check(&plan)?;
    let mut film_of = Film { label: args.plan.title(), lines: Vec::new(), last: None, frames: 0 };
    let style = ProgressStyle::with_template("simulating {msg}: {pos} frames, {elapsed}").expect("a good template");
    let bar = ProgressBar::new_spinner().with_style(style).with_message(film_of.label.clone());
    let outcome = film(&plan, every_ms, viewer, None, |frame| {
        film_of.add(frame);
        bar.inc(1);
        film_of.lines.len() as u64 <= RECORDING_BYTES_MAX
    });
    bar.finish_and_clear();
    say(&told(&outcome, &film_of));
    Ok(film_of)
}

/// What became of the run, in a line.
fn told(outcome: &Outcome, film: &Film) -> String {
    let mut text = match (outcome.violations.first(), outcome.converged_ms) {
        (Some(Violation { invariant, what }), _) => format!("VIOLATION {invariant}: {what}; the film ends there\n"),
        (None, Some(ms)) => format!("held; all replicas clean and equal {ms} virtual ms after the last fault\n"),
        (None, None) => "held as far as it ran\n".to_owned(),
    };
    if film.frames >= FRAMES_MAX || film.lines.len() as u64 > RECORDING_BYTES_MAX {
        text.push_str("the film ends before the run does: take a larger --every\n");
    }
    text
}

impl Film {
    fn add(&mut self, frame: MeshFrame) {
        serde_json::to_writer(&mut self.lines, &frame).expect("plain data into memory");
        self.lines.push(b'\n');
        self.frames += 1;
        self.last = Some(frame);
    }
}

/// Reads a recording whole, and every frame in it.
fn read(path: &Path) -> Result<Film, String> {
    let name = path.display();
    let unreadable = |why: std::io::Error| format!("recording {name} cannot be read: {why}");
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > RECORDING_BYTES_MAX {
        let (is, max) = (bytes >> 20, RECORDING_BYTES_MAX >> 20);
        return Err(format!(
            "recording {name} has {is} MiB, a page takes {max}: cut it, every line is a frame of its own"
        ));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let label = path.file_name().map_or_else(|| name.to_string(), |file| file.to_string_lossy().into_owned());
    let mut film = Film { label, lines: Vec::new(), last: None, frames: 0 };
    let lines: Vec<&str> = text.lines().collect();
    for (nth, line) in lines.iter().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<MeshFrame>(line) {
            Ok(frame) if frame.schema == SCHEMA && frame.version <= VERSION => film.add(frame),
            Ok(frame) => {
                let (schema, version) = (frame.schema, frame.version);
                return Err(format!(
                    "recording {name}, line {}: {schema:?} version {version}, this reads {SCHEMA:?} up to {VERSION}",
                    nth + 1
                ));
            }
            // A recorder that was killed leaves half a line at the end.
            Err(_) if nth + 1 == lines.len() && film.frames > 0 => {}
            Err(why) => return Err(format!("recording {name}, line {}: no frame: {why}", nth + 1)),
        }
    }
    if film.frames == 0 {
        return Err(format!("recording {name} has no frame; `covey record --out FILE` makes one"));
    }
    Ok(film)
}
