//! What was sent lately, for those who missed it, and the frames in which it is told.
//!
//! As engines do it: whoever asks for more than is left gets what is left, and no error.
//!
//! Not here: sockets (`publisher`).

use std::collections::VecDeque;

use bytes::Bytes;

use super::fault::{Fault, FaultKind};
use super::line::Message;
use super::wire::Wire;

/// The number that says that nothing follows: −1, signed.
const END: [u8; 8] = [0xff; 8];

/// The last batches of one life.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    steps: usize,
    kept: VecDeque<Message>,
    lost: u64,
    cut: u64,
}

impl Replay {
    /// A replay of at most `steps` batches.
    pub(super) fn new(steps: usize) -> Self {
        Self { steps, kept: VecDeque::new(), lost: 0, cut: 0 }
    }

    pub(super) fn fault(&mut self, fault: &Fault) {
        match fault.kind {
            FaultKind::LoseReplay => {
                self.kept.clear();
                self.lost = fault.batches();
            }
            FaultKind::TruncateReplay => self.cut = fault.batches(),
            FaultKind::Drop
            | FaultKind::Delay
            | FaultKind::Reorder
            | FaultKind::Duplicate
            | FaultKind::Pause
            | FaultKind::Restart
            | FaultKind::Reset => {}
        }
    }

    pub(super) fn keep(&mut self, message: Message) {
        if self.lost > 0 {
            self.lost -= 1;
            return;
        }
        self.kept.push_back(message);
        if self.kept.len() > self.steps {
            self.kept.pop_front();
        }
    }

    /// The answer to who asks for `start` and what follows: messages, each of them frames, the end marker last.
    pub(super) fn answer(&mut self, start: u64, wire: Wire, topic: &Bytes) -> Vec<Vec<Bytes>> {
        let begin = self.kept.partition_point(|message| message.seq < start);
        let found = self.kept.range(begin..);
        let message = |topic: &Bytes, seq: [u8; 8], payload: Bytes| {
            let topic = (wire == Wire::VllmMap).then(|| topic.clone());
            let seq = Bytes::copy_from_slice(&seq);
            std::iter::once(Bytes::new()).chain(topic).chain([seq, payload]).collect()
        };
        let batch = |kept: &Message| message(topic, kept.seq.to_be_bytes(), kept.payload.clone());
        if self.cut > 0 {
            self.cut -= 1;
            let half = found.len() / 2;
            return found.take(half).map(batch).collect();
        }
        let end = message(&Bytes::new(), END, Bytes::new());
        found.map(batch).chain([end]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(steps: usize, batches: u64) -> Replay {
        let mut replay = Replay::new(steps);
        for seq in 0..batches {
            replay.keep(Message { seq, payload: Bytes::from(vec![seq as u8]) });
        }
        replay
    }

    fn fault(json: &str) -> Fault {
        serde_json::from_str(json).expect("a fault")
    }

    /// Numbers of the batches in an answer, and whether it ends.
    fn numbers(answer: &[Vec<Bytes>]) -> (Vec<u64>, bool) {
        let seq = |frames: &Vec<Bytes>| u64::from_be_bytes(frames[frames.len() - 2][..].try_into().expect("8 bytes"));
        let mut numbers: Vec<_> = answer.iter().map(seq).collect();
        let ends = numbers.pop_if(|last| *last == u64::MAX).is_some();
        (numbers, ends)
    }

    fn asked(replay: &mut Replay, start: u64) -> (Vec<u64>, bool) {
        numbers(&replay.answer(start, Wire::VllmMap, &Bytes::new()))
    }

    #[test]
    fn what_is_left_is_told_without_an_error() {
        let mut replay = replay(3, 5);
        assert_eq!(asked(&mut replay, 0), (vec![2, 3, 4], true));
        assert_eq!(asked(&mut replay, 4), (vec![4], true));
        assert_eq!(asked(&mut replay, 9), (vec![], true));
    }

    #[test]
    fn frames_have_a_topic_since_vllm_0_26_and_the_end_an_empty_one() {
        let topic = Bytes::from_static(b"kv");
        let newer = replay(9, 1).answer(0, Wire::VllmMap, &topic);
        assert_eq!(newer[0], [&b""[..], b"kv", &[0; 8], &[0]]);
        assert_eq!(newer[1], [&b""[..], b"", &[0xff; 8], b""]);
        for wire in [Wire::VllmArray, Wire::Sglang] {
            let older = replay(9, 1).answer(0, wire, &topic);
            assert_eq!(older[0], [&b""[..], &[0; 8], &[0]]);
            assert_eq!(older[1], [&b""[..], &[0xff; 8], b""]);
        }
    }

    #[test]
    fn a_lost_replay_forgets_and_skips() {
        let mut replay = replay(9, 5);
        replay.fault(&fault(r#"{"kind":"lose_replay","batches":1}"#));
        for seq in 5..7 {
            replay.keep(Message { seq, payload: Bytes::new() });
        }
        assert_eq!(asked(&mut replay, 0), (vec![6], true));
        replay.fault(&fault(r#"{"kind":"lose_replay"}"#));
        replay.keep(Message { seq: 7, payload: Bytes::new() });
        assert_eq!(asked(&mut replay, 0), (vec![7], true), "only what it had, unless more is said");
    }

    #[test]
    fn a_truncated_replay_stops_halfway_once() {
        let mut replay = replay(9, 5);
        replay.fault(&fault(r#"{"kind":"truncate_replay"}"#));
        assert_eq!(asked(&mut replay, 1), (vec![1, 2], false));
        assert_eq!(asked(&mut replay, 1), (vec![1, 2, 3, 4], true));
    }
}
