//! Growing conversations in token ids: groups share a first message, each turn carries the answer before it.
//!
//! Upholds: the ids asked for follow from the seed and from the answers that were given; no two conversations share more
//! than their group's first message.
//!
//! Not here: when a turn is sent and to whom.

use crate::workload::Dice;

/// Ids below this belong to groups; those of conversations are drawn above.
const GROUP_IDS: u32 = 1 << 20;
/// Tokens of a group's first message.
const GROUP_TOKENS: usize = 512;
/// Groups.
const GROUPS: usize = 8;

/// What conversations are like: sizes in tokens, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficConfig {
    /// Everything follows from it.
    pub seed: u64,
    /// Conversations at a time; one that ends is followed by a new one.
    pub live: usize,
    /// Turns of a conversation.
    pub turns: (usize, usize),
    /// New tokens of a first turn.
    pub first: (usize, usize),
    /// New tokens of a later one.
    pub next: (usize, usize),
    /// Tokens of an answer.
    pub answer: (usize, usize),
}

impl Default for TrafficConfig {
    fn default() -> Self {
        Self { seed: 1, live: 40, turns: (3, 9), first: (300, 700), next: (60, 300), answer: (16, 96) }
    }
}

/// One request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which of the live conversations.
    pub slot: usize,
    /// The whole prompt.
    pub prompt: Vec<u32>,
    /// Tokens to generate.
    pub answer_tokens: u32,
}

#[derive(Clone, Debug)]
struct Conversation {
    ids: Vec<u32>,
    turns_left: usize,
    is_waiting: bool,
}

/// All conversations.
#[derive(Clone, Debug)]
pub struct Traffic {
    config: TrafficConfig,
    dice: Dice,
    began: u32,
    live: Vec<Conversation>,
}

impl Traffic {
    /// Conversations that have not begun.
    #[must_use]
    pub fn new(config: TrafficConfig) -> Self {
        let dice = Dice::new(config.seed, "events", 0);
        let mut traffic = Self { config, dice, began: 0, live: Vec::new() };
        traffic.live = (0..config.live).map(|_| traffic.begin()).collect();
        traffic
    }

    fn begin(&mut self) -> Conversation {
        let group = self.dice.below(GROUPS) as u32;
        let ids = (0..GROUP_TOKENS as u32).map(|nth| group * GROUP_TOKENS as u32 + nth).collect();
        self.began += 1;
        let turns_left = self.dice.between(self.config.turns.0, self.config.turns.1);
        Conversation { ids, turns_left, is_waiting: false }
    }

    /// The next turn of a conversation whose last answer is here; `None` while all wait for theirs.
    pub fn next_turn(&mut self) -> Option<Turn> {
        let ready: Vec<_> = (0..self.live.len()).filter(|&slot| !self.live[slot].is_waiting).collect();
        if ready.is_empty() {
            return None;
        }
        let slot = ready[self.dice.below(ready.len())];
        if self.live[slot].turns_left == 0 {
            self.live[slot] = self.begin();
        }
        let is_first = self.live[slot].ids.len() == GROUP_TOKENS;
        let (least, most) = if is_first { self.config.first } else { self.config.next };
        let fresh = self.dice.between(least, most);
        for _ in 0..fresh {
            let id = self.dice.between(GROUP_IDS as usize, u32::MAX as usize) as u32;
            self.live[slot].ids.push(id);
        }
        let answer_tokens = self.dice.between(self.config.answer.0, self.config.answer.1) as u32;
        let conversation = &mut self.live[slot];
        conversation.is_waiting = true;
        conversation.turns_left -= 1;
        Some(Turn { slot, prompt: conversation.ids.clone(), answer_tokens })
    }

    /// The answer to the turn that a conversation waits for; empty when there was none.
    pub fn answered(&mut self, slot: usize, answer: &[u32]) {
        let conversation = &mut self.live[slot];
        conversation.ids.extend(answer);
        conversation.is_waiting = false;
    }

    /// Conversations begun so far.
    #[must_use]
    pub const fn began(&self) -> u32 {
        self.began
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_carries_everything_before_it_and_waits_for_its_answer() {
        let mut traffic = Traffic::new(TrafficConfig { live: 1, ..TrafficConfig::default() });
        let first = traffic.next_turn().expect("it is ready");
        assert_eq!(traffic.next_turn(), None, "it waits for its answer");
        traffic.answered(0, &[7, 8]);
        let second = traffic.next_turn().expect("answered");
        assert!(second.prompt.starts_with(&[&first.prompt[..], &[7, 8]].concat()));
        let mut again = Traffic::new(TrafficConfig { live: 1, ..TrafficConfig::default() });
        assert_eq!(again.next_turn(), Some(first), "all of it follows from the seed");
    }

    #[test]
    fn conversations_share_a_groups_beginning_and_no_more() {
        let mut traffic = Traffic::new(TrafficConfig { live: 30, ..TrafficConfig::default() });
        let turns: Vec<_> = std::iter::from_fn(|| traffic.next_turn()).collect();
        assert_eq!(turns.len(), 30);
        for (nth, one) in turns.iter().enumerate() {
            for other in &turns[nth + 1..] {
                let shared = one.prompt.iter().zip(&other.prompt).take_while(|(one, other)| one == other).count();
                assert!(shared == 0 || shared == GROUP_TOKENS, "{shared}");
            }
        }
    }
}
