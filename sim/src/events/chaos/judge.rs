//! Whether what a gateway says a worker holds is what it held at that position: pure.
//!
//! A state that claims to be all must be equal. One that says it is not all must have nothing else.

use super::watch::Look;
use super::witness::Witness;

/// What a look comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Exactly what the worker held.
    Equal,
    /// A part of it, and labelled so.
    Part,
    /// Blocks lost, doubled or never held: what, in words.
    Wrong(String),
    /// Nothing to compare: no state, between two ops of a batch, or what was held then is not known.
    Open,
}

/// Judges a look at a state of the life named `token`.
pub(super) fn judge(look: &Look, witness: &Witness, token: &str) -> Verdict {
    let (row, Some(position)) = (&look.row, look.row.position) else { return Verdict::Open };
    let Some(truth) = witness.contents_at(token, position).filter(|_| row.is_last) else { return Verdict::Open };
    if row.contents.is_some_and(|contents| contents.0 == truth.0) {
        return Verdict::Equal;
    }
    let is_labelled = !row.is_complete;
    if is_labelled && look.blocks.is_none() {
        return Verdict::Open;
    }
    let held = witness.blocks_at(token, position).unwrap_or_default();
    let claimed = look.blocks.as_deref();
    let extra = claimed.map(|blocks| blocks.iter().filter(|block| !held.contains(block)).count());
    if is_labelled && extra == Some(0) {
        return Verdict::Part;
    }
    let label = if is_labelled { "labelled as a part" } else { "labelled as all" };
    let never = extra.map_or_else(String::new, |extra| format!(", {extra} of them never held"));
    Verdict::Wrong(format!(
        "{} says of {} at position {position}: {} blocks{never}, {label}; the worker held {}",
        look.gateway,
        row.worker,
        row.blocks.unwrap_or_default(),
        held.len(),
    ))
}
