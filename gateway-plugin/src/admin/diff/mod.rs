//! `covey diff A B`: in what two running gateways differ, since when, and why.
//!
//! Two gateways are never asked at one moment, and under traffic they always differ by what is under way. So both are read
//! again up to three times, and what counts is what one gateway had at first and the other still lacks at the end.
//!
//! Not here: what a gateway answers (`covey_mesh::inspect`); the simulator's diff, which has an oracle. Words and classes
//! are the same. Upholds I12: what cannot be told is said to be so.

mod judge;
mod print;
mod read;
mod report;

use covey_mesh::inspect::{Class, Hex128};
use tokio::time::{Instant, sleep};

pub use report::{BlockDiff, DiffReport, GatewayRow, HolderDiff, LISTED_MAX, LogDiff, RecordDiff, Side};

use self::judge::Seen;
use self::read::{HolderName, HolderState, State};
use super::client::{AdminClient, AskError};
use super::printable::escaped;
use crate::cli::args::DiffArgs;

/// Further readings before something is called different.
const READINGS_MAX: usize = 3;

/// The exit code for a gateway that could not be asked.
pub const EXIT_UNKNOWN: u8 = 3;

/// Asks both gateways, and gives what they differ in and the text to print.
///
/// # Errors
/// [`AskError`] when one of them does not answer, or not like a gateway.
pub async fn diff(args: &DiffArgs) -> Result<(DiffReport, String), AskError> {
    let report = compare(args).await?;
    let text = if args.json {
        escaped(&serde_json::to_string(&report).expect("plain data serializes")) + "\n"
    } else {
        print::render(&report, args.blocks)
    };
    Ok((report, text))
}

/// A holder as both gateways have it.
struct Pair {
    name: HolderName,
    model: String,
    one: HolderState,
    other: HolderState,
}

async fn compare(args: &DiffArgs) -> Result<DiffReport, AskError> {
    let clients =
        (AdminClient::new(&args.one, Some(args.timeout))?, AdminClient::new(&args.other, Some(args.timeout))?);
    let began = Instant::now();
    let mut before = states(&clients).await?;
    let differing = judge::differing(&before.0, &before.1);
    let (wanted, unread) = differing.split_at(differing.len().min(args.limit));
    let mut first = pairs(&clients, wanted).await?;
    let is_same = differing.is_empty() && is_same(&before);
    let mut report = found(&clients, (&before, &before), (&first, &first), unread, began);
    for _ in 0..if is_same { 0 } else { READINGS_MAX } {
        sleep(args.settle).await;
        let after = states(&clients).await?;
        let last = pairs(&clients, wanted).await?;
        report = found(&clients, (&before, &after), (&first, &last), unread, began);
        // What a dirty replica had proves nothing, and what a life that is over had may have died with it: the next
        // reading is compared with this one.
        let is_reborn = lives(&before) != lives(&after);
        if report.is_final() && !is_reborn && !report.has(Class::Dirty) {
            break;
        }
        if is_reborn || report.has(Class::Dirty) {
            (before, first) = (after, last);
        }
    }
    Ok(report)
}

async fn states(clients: &(AdminClient, AdminClient)) -> Result<(State, State), AskError> {
    tokio::try_join!(read::state(&clients.0), read::state(&clients.1))
}

async fn pairs(clients: &(AdminClient, AdminClient), wanted: &[(HolderName, String)]) -> Result<Vec<Pair>, AskError> {
    let mut pairs = Vec::new();
    for (name, model) in wanted {
        let (one, other) = tokio::try_join!(read::holder(&clients.0, name), read::holder(&clients.1, name))?;
        pairs.push(Pair { name: name.clone(), model: model.clone(), one, other });
    }
    Ok(pairs)
}

/// Whether nothing differs at all, not even what is under way.
fn is_same((one, other): &(State, State)) -> bool {
    one.last.digest == other.last.digest && vectors(one) == vectors(other)
}

fn lives((one, other): &(State, State)) -> [Hex128; 2] {
    [one.last.life, other.last.life]
}

fn vectors(state: &State) -> Vec<(Hex128, u64)> {
    state.last.logs.iter().filter(|log| log.seq > 0).map(|log| (log.life, log.seq)).collect()
}

fn found(
    clients: &(AdminClient, AdminClient),
    (before, after): (&(State, State), &(State, State)),
    (first, last): (&[Pair], &[Pair]),
    unread: &[(HolderName, String)],
    began: Instant,
) -> DiffReport {
    let one = Seen { before: before.0.clone(), after: after.0.clone() };
    let other = Seen { before: before.1.clone(), after: after.1.clone() };
    let retired = (judge::retired(&after.0), judge::retired(&after.1));
    let (mut holders, mut holders_in_flight, mut blocks_in_flight) = (Vec::new(), 0, 0);
    for (first, last) in first.iter().zip(last) {
        let seen = |of: fn(&Pair) -> &HolderState| Seen { before: of(first).clone(), after: of(last).clone() };
        let sides = (seen(|pair| &pair.one), seen(|pair| &pair.other));
        let left = judge::holder(&first.name, &first.model, (&sides.0, &sides.1), (&retired.0, &retired.1));
        let still = left.as_ref().map_or(0, |left| left.lacking.0 + left.lacking.1 + left.cut);
        blocks_in_flight += lacking_at_first(first).saturating_sub(still);
        holders_in_flight += u64::from(left.is_none());
        holders.extend(left);
    }
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.class));
    let now = judge::differing(&after.0, &after.1);
    let holders_unread = unread.iter().filter(|name| now.contains(name)).count() as u64;
    let equal_vectors = judge::unread(&after.0, &after.1);
    let mut report = DiffReport {
        gateways: (gateway(&clients.0, &after.0), gateway(&clients.1, &after.1)),
        settled_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        logs: judge::logs(&one, &other),
        records: judge::records(&one, &other),
        holders,
        holders_in_flight,
        blocks_in_flight,
        holders_unread,
        unread: equal_vectors.filter(|_| holders_unread > 0),
        root_differs: false,
    };
    let differs = after.0.last.digest != after.1.last.digest;
    report.root_differs = differs && equal_vectors == Some(Class::Lost) && report.exit_code() < 2;
    report
}

/// Blocks that only one of the two had, or under an older stamp, when they were first read.
fn lacking_at_first(pair: &Pair) -> u64 {
    let lacks = |had: &HolderState, has: &HolderState| {
        let lacking =
            had.blocks.iter().filter(|(path, (stamp, _))| has.blocks.get(*path).is_none_or(|(known, _)| known < stamp));
        lacking.count() as u64
    };
    lacks(&pair.one, &pair.other) + lacks(&pair.other, &pair.one)
}

fn gateway(client: &AdminClient, state: &State) -> GatewayRow {
    let at = &state.last;
    let holders = || state.workers.values().flat_map(|worker| &worker.holders);
    GatewayRow {
        admin: client.admin().to_owned(),
        name: at.name.clone(),
        life: at.life,
        mesh: at.mesh,
        phase: at.phase,
        digest: at.digest,
        ops: at.logs.iter().map(|log| log.seq).fold(0, u64::saturating_add),
        holders: holders().filter(|holder| holder.blocks > 0).count() as u64,
        blocks: holders().map(|holder| holder.blocks).fold(0, u64::saturating_add),
    }
}

#[cfg(test)]
mod tests;
