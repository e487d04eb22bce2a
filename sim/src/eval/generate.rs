//! Workloads made up from a seed: sessions of growing prompts that come at random, each turn a while after the answer before
//! it.
//!
//! Not here: recorded ones (`read`).

use super::trace::{Ask, Trace};
use crate::workload::Dice;

/// What sessions are like. Ranges include both ends; sizes are in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    /// How many beginnings there are that sessions share.
    pub groups: usize,
    /// How long those are.
    pub shared: usize,
    /// What a session's first turn has besides.
    pub first: (usize, usize),
    /// What a later turn adds, the answer before it included.
    pub next: (usize, usize),
    /// Turns.
    pub turns: (usize, usize),
    /// Seconds from an answer to the next turn, on average.
    pub think_s: f64,
}

impl Shape {
    /// People who talk: a short common beginning, short turns.
    pub const CHAT: Self =
        Self { name: "chat", groups: 8, shared: 256, first: (200, 900), next: (150, 450), turns: (2, 6), think_s: 4.0 };
    /// Agents: a long common beginning of tools, many turns one after the other.
    pub const AGENTIC: Self = Self {
        name: "agentic",
        groups: 24,
        shared: 2_048,
        first: (600, 1_800),
        next: (150, 600),
        turns: (2, 5),
        think_s: 1.5,
    };
    /// Questions about documents: one of many long documents, few turns.
    pub const DOCUMENTS: Self = Self {
        name: "documents",
        groups: 600,
        shared: 6_144,
        first: (100, 400),
        next: (100, 300),
        turns: (1, 4),
        think_s: 5.0,
    };
    /// One hot beginning that everybody has.
    pub const HOT: Self = Self {
        name: "hot",
        groups: 1,
        shared: 4_096,
        first: (200, 700),
        next: (100, 400),
        turns: (1, 5),
        think_s: 3.0,
    };
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CHAT, Self::AGENTIC, Self::DOCUMENTS, Self::HOT];
}

/// Sessions of a shape that come at `per_s` a second for so many seconds, in blocks of `block_tokens`.
#[must_use]
pub fn sessions(shape: &Shape, per_s: f64, seconds: f64, block_tokens: u32, seed: u64) -> Trace {
    let mut dice = Dice::new(seed, shape.name, 0);
    let (mut asks, mut at_s, mut session) = (Vec::new(), 0.0, 0_u64);
    loop {
        at_s += dice.exponential(1.0 / per_s);
        if at_s > seconds {
            break;
        }
        session += 1;
        let group = dice.below(shape.groups) as u64;
        let mut tokens = shape.shared;
        let mut before = None;
        for turn in 0..dice.between(shape.turns.0, shape.turns.1) {
            let (least, most) = if turn == 0 { shape.first } else { shape.next };
            tokens += dice.between(least, most);
            let at_us = if turn == 0 { at_s } else { dice.exponential(shape.think_s) } * 1e6;
            asks.push(Ask {
                at_us: at_us as u64,
                after: before,
                session,
                is_followup: turn > 0,
                blocks: names(group, session, shape.shared, tokens, block_tokens).into(),
                input_tokens: tokens as u64,
                output_tokens: 100,
            });
            before = Some(asks.len() - 1);
        }
    }
    Trace { name: format!("{} {per_s}/s", shape.name), block_tokens, asks }
}

/// Names of a prompt's whole blocks: those of the common beginning by group, the others by session.
fn names(group: u64, session: u64, shared: usize, tokens: usize, block_tokens: u32) -> Vec<u64> {
    let block = block_tokens as usize;
    let common = shared / block;
    let name = |nth: usize| {
        let owner = if nth < common { group << 1 } else { (session << 1) | 1 };
        (owner << 20) | nth as u64
    };
    (0..tokens / block).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_grow_and_sessions_share_their_groups_beginning_alone() {
        let trace = sessions(&Shape::CHAT, 5.0, 20.0, 16, 3);
        assert_eq!(trace, sessions(&Shape::CHAT, 5.0, 20.0, 16, 3), "the seed decides");
        assert!((60..160).contains(&trace.asks.iter().filter(|ask| !ask.is_followup).count()));
        for ask in &trace.asks {
            let Some(before) = ask.after.map(|before| &trace.asks[before]) else { continue };
            assert!(ask.blocks.starts_with(&before.blocks) && ask.input_tokens > before.input_tokens);
        }
        let firsts: Vec<_> = trace.asks.iter().filter(|ask| ask.after.is_none()).collect();
        for (nth, one) in firsts.iter().enumerate() {
            for other in &firsts[nth + 1..] {
                let alike = one.blocks.iter().zip(other.blocks.iter()).take_while(|(one, other)| one == other).count();
                assert!(alike == 0 || alike == 16, "{alike} blocks");
            }
        }
    }
}
