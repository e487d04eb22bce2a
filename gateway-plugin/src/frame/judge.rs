//! The verdict over a whole frame: the viewer's own, made worse by what others say that the viewer cannot see itself; or
//! the observer's, who sees everything.
//!
//! Not here: the viewer's own verdict (`verdict`), state groups (`groups`).

use covey_mesh::status::Phase;

use super::verdict::{HEARD_MS_MAX, Judged, Verdict, age, list};
use super::{Cell, GatewayView};

/// A summary older than this says nothing about now, milliseconds: they come once a second.
pub(super) const SUMMARY_MS_MAX: u64 = 2_500;

/// Two others must have lost each other for this long before it is believed, milliseconds: until each has told again.
const LOST_MS_MIN: u64 = 1_000;

/// How a gateway hears another, by its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hearing {
    /// Well.
    Well,
    /// It does not know the other, or never heard it.
    Never,
    /// It did, and does not now.
    Lost(u64),
}

fn hearing(cell: Option<&Cell>, age_ms: u64) -> Hearing {
    match cell.and_then(|cell| Some((cell.linked, cell.heard_ms?))) {
        None => Hearing::Never,
        // What was heard when the summary was written is older now.
        Some((linked, ms)) if !linked || ms > HEARD_MS_MAX => Hearing::Lost(ms.saturating_add(age_ms)),
        Some(_) => Hearing::Well,
    }
}

/// What others see and the viewer does not: clocks that are off, and two that it hears and that do not hear each other.
/// `lost_ms` is told of each such pair and says for how long it has been so: one that stood still for a moment says when it
/// wakes up that it heard nobody.
pub(super) fn add_others(
    judged: Judged,
    gateways: &[GatewayView],
    mut lost_ms: impl FnMut(&str, &str) -> u64,
) -> Judged {
    if !matches!(judged.0, Verdict::Converged | Verdict::Converging) {
        return judged;
    }
    let heard = |row: &GatewayView| !row.left && row.age_ms.is_some_and(|ms| ms <= SUMMARY_MS_MAX);
    let others = || gateways.iter().filter(|row| heard(row) && !row.me);
    let clock = |row: &GatewayView| row.clock.clone().filter(|clock| !clock.is_empty() && clock != "good");
    if let Some((row, clock)) = others().find_map(|row| Some((row, clock(row)?))) {
        return (Verdict::Degraded, format!("the clock of {} is {clock} of the others'", row.name));
    }
    for row in others() {
        let seen = row.sees.iter().zip(gateways).filter(|(_, other)| heard(other) && other.name != row.name);
        let lost = seen.filter_map(|(cell, other)| match hearing(cell.as_ref(), row.age_ms.unwrap_or(0)) {
            Hearing::Lost(ms) => Some((other, ms)),
            Hearing::Well | Hearing::Never => None,
        });
        let lost = lost.into_iter().find(|(other, _)| lost_ms(&row.name, &other.name) >= LOST_MS_MIN);
        if let Some((other, ms)) = lost {
            return (Verdict::Degraded, format!("{} has not heard {} for {}", row.name, other.name, age(ms)));
        }
    }
    judged
}

/// The observer's verdict; `down` tells who does not run.
pub(super) fn observe(gateways: &[GatewayView], diverged: Option<(usize, usize)>) -> Judged {
    let name = |nth: usize| gateways[nth].name.as_str();
    if let Some((one, other)) = diverged {
        return (Verdict::Diverged, format!("{} and {} saw the same ops and differ", name(one), name(other)));
    }
    let running: Vec<usize> = (0..gateways.len()).filter(|nth| gateways[*nth].age_ms.is_some()).collect();
    let down: Vec<&str> =
        gateways.iter().filter(|row| row.age_ms.is_none() && !row.left).map(|row| &*row.name).collect();
    let hears = |one: usize, other: usize| hearing(gateways[one].sees.get(other).and_then(Option::as_ref), 0);
    let part = reached(&running, |one, other| {
        !matches!(hears(one, other), Hearing::Lost(_)) && !matches!(hears(other, one), Hearing::Lost(_))
    });
    let apart: Vec<&str> = running.iter().filter(|nth| !part.contains(nth)).map(|nth| name(*nth)).collect();
    if !apart.is_empty() {
        return (
            Verdict::Partitioned,
            format!("no path leads from {} to {}", list(&names(gateways, &part)), list(&apart)),
        );
    }
    for one in &running {
        for other in running.iter().filter(|other| *other != one) {
            if let Hearing::Lost(ms) = hears(*one, *other) {
                let what = format!("{} has not heard {} for {}", name(*one), name(*other), age(ms));
                return (Verdict::Degraded, what);
            }
        }
    }
    if !down.is_empty() {
        return (
            Verdict::Degraded,
            format!("{} down: {}", if down.len() == 1 { "one is" } else { "some are" }, list(&down)),
        );
    }
    settle(gateways, &running)
}

fn settle(gateways: &[GatewayView], running: &[usize]) -> Judged {
    for row in running.iter().map(|nth| &gateways[*nth]) {
        if let Some(clock) = row.clock.as_deref().filter(|clock| *clock != "good") {
            return (Verdict::Degraded, format!("the clock of {} is {clock} of the others'", row.name));
        }
    }
    let unsettled = running.iter().map(|nth| &gateways[*nth]).find(|row| row.phase != Some(Phase::Clean));
    if let Some(row) = unsettled {
        let phase = if row.phase == Some(Phase::Joining) { "joining" } else { "dirty" };
        return (Verdict::Converging, format!("{} is {phase}", row.name));
    }
    match running.iter().map(|nth| &gateways[*nth]).find(|row| row.group != Some(0)) {
        Some(row) => (Verdict::Converging, format!("{} has another state than most", row.name)),
        None => (Verdict::Converged, format!("{} gateways agree", running.len())),
    }
}

/// Everybody that the first one reaches.
fn reached(among: &[usize], joined: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut part: Vec<usize> = among.first().copied().into_iter().collect();
    let mut next = 0;
    while let Some(one) = part.get(next).copied() {
        next += 1;
        for other in among {
            if !part.contains(other) && joined(one, *other) {
                part.push(*other);
            }
        }
    }
    part
}

fn names<'a>(gateways: &'a [GatewayView], of: &[usize]) -> Vec<&'a str> {
    of.iter().map(|nth| gateways[*nth].name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gateways that hear each other well, are clean and one group.
    fn mesh(names: &[&str]) -> Vec<GatewayView> {
        let well = Cell { linked: true, heard_ms: Some(100), ..Cell::default() };
        let row = |name: &&str| GatewayView {
            name: (*name).to_owned(),
            age_ms: Some(0),
            phase: Some(Phase::Clean),
            clock: Some("good".to_owned()),
            group: Some(0),
            sees: names.iter().map(|other| (other != name).then_some(well)).collect(),
            ..GatewayView::default()
        };
        names.iter().map(row).collect()
    }

    fn lose(gateways: &mut [GatewayView], one: usize, other: usize) {
        gateways[one].sees[other] = Some(Cell { linked: true, heard_ms: Some(2_000), ..Cell::default() });
    }

    #[test]
    fn the_observer_sees_a_partition_a_lost_pair_and_who_is_down() {
        assert_eq!(observe(&mesh(&["a", "b", "c"]), None), (Verdict::Converged, "3 gateways agree".to_owned()));
        let mut cut = mesh(&["a", "b", "c"]);
        lose(&mut cut, 2, 0);
        assert_eq!(observe(&cut, None), (Verdict::Degraded, "c has not heard a for 2.0 s".to_owned()));
        lose(&mut cut, 1, 2);
        assert_eq!(observe(&cut, None), (Verdict::Partitioned, "no path leads from a, b to c".to_owned()));
        let mut dead = mesh(&["a", "b"]);
        dead[1] = GatewayView { name: "b".to_owned(), sees: vec![None; 2], ..GatewayView::default() };
        assert_eq!(observe(&dead, None), (Verdict::Degraded, "one is down: b".to_owned()));
        assert_eq!(observe(&mesh(&["a", "b"]), Some((0, 1))).0, Verdict::Diverged);
    }

    #[test]
    fn the_observer_waits_for_dirty_joining_and_different_replicas() {
        let mut dirty = mesh(&["a", "b"]);
        dirty[1].phase = Some(Phase::Dirty);
        assert_eq!(observe(&dirty, None), (Verdict::Converging, "b is dirty".to_owned()));
        let mut other = mesh(&["a", "b"]);
        other[1].group = Some(1);
        assert_eq!(observe(&other, None).0, Verdict::Converging);
        let mut ahead = mesh(&["a", "b"]);
        ahead[0].clock = Some("ahead".to_owned());
        assert_eq!(observe(&ahead, None).0, Verdict::Degraded);
        let mut young = mesh(&["a", "b"]);
        young[0].sees[1] = None;
        young[1].sees[0] = None;
        assert_eq!(observe(&young, None).0, Verdict::Converged, "gateways that never met are no partition");
    }

    #[test]
    fn what_others_do_not_hear_makes_the_viewers_verdict_worse_and_old_summaries_do_not() {
        let mut rows = mesh(&["a", "b", "c"]);
        rows[0].me = true;
        let converged = || (Verdict::Converged, "3 gateways agree".to_owned());
        assert_eq!(add_others(converged(), &rows, |_, _| 1_000), converged());
        lose(&mut rows, 1, 2);
        rows[1].age_ms = Some(500);
        assert_eq!(
            add_others(converged(), &rows, |_, _| 1_000),
            (Verdict::Degraded, "b has not heard c for 2.5 s".to_owned())
        );
        assert_eq!(add_others(converged(), &rows, |_, _| 900), converged(), "only just");
        rows[1].age_ms = Some(SUMMARY_MS_MAX + 1);
        assert_eq!(add_others(converged(), &rows, |_, _| 1_000), converged());
        rows[1].age_ms = Some(0);
        rows[2].left = true;
        assert_eq!(add_others(converged(), &rows, |_, _| 1_000), converged(), "who left is not missed");
        rows[2] = GatewayView { clock: Some("ahead".to_owned()), ..mesh(&["a", "b", "c"]).remove(2) };
        assert_eq!(add_others(converged(), &rows, |_, _| 0).1, "the clock of c is ahead of the others'");
    }
}
