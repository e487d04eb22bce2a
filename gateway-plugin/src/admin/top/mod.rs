//! `covey top`: the mesh on a terminal, from the same frames as the page.
//!
//! Not here: what is drawn (`view`), what is known (`screen`), the stream (`stream`). The terminal is given back whatever
//! ends the program: a key, a signal, a panic.

mod clean;
mod rows;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, timeout};

use self::screen::{Key, Screen, Stream};
use super::client::{AdminClient, AskError};
use super::stream::{From, Heard, follow};
use crate::cli::args::TopArgs;
use crate::frame::MeshFrame;

/// The screen is drawn at least this often, so that "N s ago" goes on.
const REDRAW: Duration = Duration::from_millis(500);
/// How often the thread that reads keys looks whether anybody still listens.
const KEYS: Duration = Duration::from_millis(200);

/// Why there is nothing to see.
#[derive(Debug)]
pub enum TopError {
    /// There is no terminal.
    NoTerminal,
    /// The terminal refused something.
    Terminal(io::Error),
    /// The gateway could not be asked (with `--once`; else that is shown, and tried again).
    Ask(AskError),
}

impl fmt::Display for TopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTerminal => f.write_str("standard output is no terminal: use --once for one screen as plain text"),
            Self::Terminal(error) => write!(f, "the terminal refused: {error}"),
            Self::Ask(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TopError {}

impl TopError {
    /// 1: no usable terminal, 3: the gateway could not be asked.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NoTerminal | Self::Terminal(_) => 1,
            Self::Ask(_) => 3,
        }
    }
}

/// One screen as plain text, from all frames that the gateway still has.
///
/// # Errors
/// [`TopError::Ask`] when it does not answer within the timeout.
pub async fn once(args: &TopArgs) -> Result<String, TopError> {
    let late = || TopError::Ask(AskError::Unreachable { admin: args.admin.clone(), error: "no frame in time".into() });
    let screen = timeout(args.timeout, whole(args)).await.unwrap_or_else(|_| Err(late()))?;
    Ok(text(&screen, args.columns, args.rows))
}

/// What there is up to the latest frame.
async fn whole(args: &TopArgs) -> Result<Screen, TopError> {
    let client = AdminClient::new(&args.admin, None).map_err(TopError::Ask)?;
    let latest: MeshFrame = client.json("/api/frame").await.map_err(TopError::Ask)?;
    let mut frames = follow(client, From::Retained);
    let mut screen = Screen::new(&args.admin);
    while let Some(heard) = frames.recv().await {
        match heard {
            Heard::Frame(frame, _) => {
                let is_last = frame.seq >= latest.seq;
                screen.push(*frame);
                if is_last {
                    break;
                }
            }
            Heard::Lost(error) => return Err(TopError::Ask(error)),
            Heard::Back { .. } => {}
        }
    }
    Ok(screen)
}

/// A screen drawn without a terminal.
fn text(screen: &Screen, columns: u16, rows: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
    let Ok(_) = terminal.draw(|frame| view::draw(frame, screen));
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(usize::from(columns).max(1)).map(|cells| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Shows the mesh until the user has seen enough.
///
/// # Errors
/// [`TopError`] when there is no terminal to show it on.
pub async fn top(args: &TopArgs) -> Result<(), TopError> {
    if !io::stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let client = AdminClient::new(&args.admin, None).map_err(TopError::Ask)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(TopError::Terminal)?;
    // Also sets a panic hook that gives the terminal back.
    let mut terminal = ratatui::try_init().map_err(TopError::Terminal)?;
    let shown = tokio::select! {
        shown = show(&mut terminal, client, Screen::new(&args.admin)) => shown,
        _ = terminate.recv() => Ok(()),
    };
    ratatui::restore();
    shown.map_err(TopError::Terminal)
}

async fn show(terminal: &mut ratatui::DefaultTerminal, client: AdminClient, mut screen: Screen) -> io::Result<()> {
    let (mut frames, mut keys) = (follow(client, From::Retained), keys());
    let mut redraw = interval(REDRAW);
    let mut heard_at = None;
    loop {
        screen.quiet = heard_at.map(|at: Instant| at.elapsed());
        terminal.draw(|frame| view::draw(frame, &screen))?;
        tokio::select! {
            heard = frames.recv() => {
                let Some(mut heard) = heard else { return Ok(()) };
                // Many come at once at the start: they need not be drawn one by one.
                loop {
                    heard_at = if matches!(heard, Heard::Frame(..)) { Some(Instant::now()) } else { heard_at };
                    hear(&mut screen, heard);
                    match frames.try_recv() {
                        Ok(next) => heard = next,
                        Err(_) => break,
                    }
                }
            }
            key = keys.recv() => match key {
                Some(Some(key)) if !screen.press(key) => return Ok(()),
                Some(_) => {}
                None => return Ok(()),
            },
            _ = redraw.tick() => {}
        }
    }
}

fn hear(screen: &mut Screen, heard: Heard) {
    match heard {
        Heard::Frame(frame, _) => screen.push(*frame),
        Heard::Lost(error) => screen.stream = Stream::Broken(error.to_string()),
        Heard::Back { .. } => screen.stream = Stream::Open,
    }
}

/// Keys from a thread of their own, since reading them blocks; `None` for whatever else should be drawn, as a new size.
fn keys() -> mpsc::Receiver<Option<Key>> {
    let (out, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !out.is_closed() {
            match event::poll(KEYS).and_then(|is_there| is_there.then(event::read).transpose()) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    let key = meaning(&event);
                    if (key.is_some() || matches!(event, Event::Resize(..))) && out.blocking_send(key).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
    keys
}

#[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here, and so will further ones")]
fn meaning(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char('p' | ' ') => Key::Pause,
        KeyCode::Char('?' | 'h') => Key::Help,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        _ => return None,
    })
}
