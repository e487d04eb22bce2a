//! What happened between two frames, in words: read off the frames themselves, so that a live stream, a recording and the
//! simulator tell the same.
//!
//! Not here: log lines.

use covey_mesh::feed::FeedState;
use covey_mesh::status::Phase;

use super::verdict::HEARD_MS_MAX;
use super::{EventView, FeedView, GatewayView, MeshFrame};

/// Events about feeds in one frame at most; one more says how many are left out.
const FEED_EVENTS_MAX: usize = 8;

/// Collects events of one moment.
struct News {
    t_ms: u64,
    events: Vec<EventView>,
}

impl News {
    fn add(&mut self, gateway: Option<&str>, kind: &str, level: &str, text: String) {
        let gateway = gateway.map(str::to_owned);
        self.events.push(EventView { t_ms: self.t_ms, gateway, kind: kind.to_owned(), level: level.to_owned(), text });
    }
}

/// What is different in `now`.
pub(super) fn between(before: &MeshFrame, now: &MeshFrame) -> Vec<EventView> {
    let mut news = News { t_ms: now.t_ms, events: Vec::new() };
    for row in &now.gateways {
        match before.gateways.iter().find(|old| old.name == row.name) {
            None => news.add(Some(&row.name), "life", "info", format!("{} is new", row.name)),
            Some(old) => gateway(&mut news, old, row),
        }
        links(&mut news, before, now, row);
    }
    // A viewer that began a new life knows nobody yet: nobody left for that.
    let me = |frame: &MeshFrame| frame.gateways.iter().find(|row| row.me).map(|row| row.life.clone());
    let is_same = me(before) == me(now);
    let gone = |old: &&GatewayView| is_same && now.gateways.iter().all(|row| row.name != old.name);
    for old in before.gateways.iter().filter(gone) {
        // Who says goodbye is retired as soon as everybody has its last op, which may be before the next frame.
        let text = match (old.left, old.group) {
            (false, Some(_)) => format!("{} left the mesh", old.name),
            _ => format!("{} is retired: nothing is awaited of it any more", old.name),
        };
        news.add(Some(&old.name), "life", "info", text);
    }
    if is_same {
        feeds(&mut news, before, now);
    }
    faults(&mut news, before, now);
    if before.verdict.word != now.verdict.word {
        let level = match now.verdict.word.as_str() {
            "converged" => "info",
            "diverged" | "partitioned" => "bad",
            _ => "warn",
        };
        news.add(None, "verdict", level, format!("{}: {}", now.verdict.word, now.verdict.why));
    }
    news.events
}

fn gateway(news: &mut News, old: &GatewayView, row: &GatewayView) {
    let name = row.name.as_str();
    if old.life != row.life && !old.life.is_empty() {
        return news.add(Some(name), "life", "warn", format!("{name} began a new life, {}", short(&row.life)));
    }
    if row.left && !old.left {
        news.add(Some(name), "life", "info", format!("{name} said goodbye"));
    }
    if old.age_ms.is_some() && row.age_ms.is_none() {
        news.add(Some(name), "life", "warn", format!("{name} is gone"));
    }
    if old.phase != row.phase
        && let Some(phase) = row.phase
    {
        let (level, word) = match phase {
            Phase::Joining => ("info", "joining"),
            Phase::Clean => ("info", "clean"),
            Phase::Dirty => ("warn", "dirty"),
        };
        news.add(Some(name), "phase", level, format!("{name} is {word}"));
    }
    if let (Some(was), Some(clock)) = (&old.clock, &row.clock)
        && was != clock
        && !was.is_empty()
    {
        let level = if clock == "good" { "info" } else { "bad" };
        let by = row.clock_ahead_ms.map(|ms| format!(" ({ms:+} ms)")).unwrap_or_default();
        news.add(Some(name), "clock", level, format!("the clock of {name} is {clock}{by}"));
    }
    repair(news, old, row);
}

fn repair(news: &mut News, old: &GatewayView, row: &GatewayView) {
    let (Some(was), Some(is)) = (&old.repair, &row.repair) else { return };
    let name = row.name.as_str();
    let rose = |was: u64, is: u64| is.checked_sub(was).filter(|more| *more > 0);
    if rose(was.mismatches, is.mismatches).is_some() {
        let text = format!("{name} met a replica with the same ops and another digest");
        news.add(Some(name), "mismatch", "bad", text);
    }
    if rose(was.started, is.started).is_some() {
        news.add(Some(name), "repair", "info", format!("{name} began a repair session"));
    }
    if rose(was.done, is.done).is_some() {
        let segments = is.segments.saturating_sub(was.segments);
        news.add(Some(name), "repair", "info", format!("{name} ended a repair session: {segments} segments"));
    }
    if rose(was.aborted, is.aborted).is_some() {
        news.add(Some(name), "repair", "warn", format!("{name} gave a repair session up"));
    }
}

/// Who hears whom no more, or again; only of gateways that both were there before.
fn links(news: &mut News, before: &MeshFrame, now: &MeshFrame, row: &GatewayView) {
    let Some(old) = before.gateways.iter().find(|old| old.name == row.name && old.life == row.life) else { return };
    for (nth, other) in now.gateways.iter().enumerate() {
        let was = before.gateways.iter().position(|known| known.name == other.name && known.life == other.life);
        let was = was.and_then(|nth| old.sees.get(nth).copied().flatten());
        let is = row.sees.get(nth).copied().flatten();
        let (Some(was), Some(is)) = (was, is) else { continue };
        let well = |cell: super::Cell| cell.linked && cell.heard_ms.is_some_and(|ms| ms <= HEARD_MS_MAX);
        if well(was) && !well(is) && !other.left {
            news.add(Some(&row.name), "link", "warn", format!("{} does not hear {}", row.name, other.name));
        } else if !well(was) && well(is) {
            news.add(Some(&row.name), "link", "info", format!("{} hears {}", row.name, other.name));
        }
    }
}

/// Feeds that changed their state or their publisher, of workers that both frames show.
fn feeds(news: &mut News, before: &MeshFrame, now: &MeshFrame) {
    let both = now.workers.iter().filter_map(|row| {
        let old = before.workers.iter().find(|old| old.id == row.id)?;
        Some((row.id.as_str(), old.feed.as_ref(), row.feed.as_ref()))
    });
    let changes: Vec<_> = both.flat_map(|(id, was, is)| [state(id, was, is), owner(id, was, is)]).flatten().collect();
    let hidden = changes.len().saturating_sub(FEED_EVENTS_MAX);
    for (gateway, level, text) in changes.into_iter().take(FEED_EVENTS_MAX) {
        news.add(gateway, "feed", level, text);
    }
    if hidden > 0 {
        news.add(None, "feed", "warn", format!("{hidden} more changes of feeds are not shown"));
    }
}

/// The only publisher.
fn publisher(feed: Option<&FeedView>) -> Option<&str> {
    match feed?.publishers.as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

type Change<'a> = (Option<&'a str>, &'static str, String);

fn state<'a>(id: &str, was: Option<&FeedView>, is: Option<&'a FeedView>) -> Option<Change<'a>> {
    let states = [was, is].map(|feed| feed.map(|feed| feed.state));
    let (level, text) = match states {
        [was, is] if was == is => return None,
        [_, None] => ("warn", format!("nobody reads events of {id} any more")),
        [_, Some(FeedState::Exact)] => ("info", format!("the feed of {id} is exact")),
        [None, Some(state)] => ("info", format!("the feed of {id} begins: {}", state.name())),
        [Some(was), Some(state)] => ("warn", format!("the feed of {id} is {}, was {}", state.name(), was.name())),
    };
    Some((publisher(is), level, text))
}

fn owner<'a>(id: &str, was: Option<&FeedView>, is: Option<&'a FeedView>) -> Option<Change<'a>> {
    let (was, now) = (was?, is?);
    if was.publishers == now.publishers {
        return None;
    }
    let before = if was.publishers.is_empty() { "nobody".to_owned() } else { was.publishers.join(", ") };
    Some(match now.publishers.as_slice() {
        [] => (None, "warn", format!("nobody publishes the feed of {id}, {before} did")),
        [one] => (Some(one.as_str()), "info", format!("{one} publishes the feed of {id}, {before} did")),
        all => (None, "warn", format!("{} publish the feed of {id} at once", all.join(", "))),
    })
}

fn faults(news: &mut News, before: &MeshFrame, now: &MeshFrame) {
    let begins = now.faults.iter().filter(|fault| !before.faults.contains(fault));
    let ends = before.faults.iter().filter(|fault| !now.faults.contains(fault));
    for (fault, word) in begins.map(|fault| (fault, "begins")).chain(ends.map(|fault| (fault, "ends"))) {
        let gateway = match fault.gateways.as_slice() {
            [one] => Some(one.as_str()),
            _ => None,
        };
        news.add(gateway, "fault", "warn", format!("{} {word}: {}", fault.kind, fault.text));
    }
}

fn short(life: &str) -> &str {
    life.get(..8).unwrap_or(life)
}

#[cfg(test)]
mod tests;
