//! The donor's side of repair sessions: answering from its state, few receivers at once, within a budget.
//!
//! Answers depend on the question alone; what is remembered of a receiver is its permit. Not here: the receiver's side
//! (`repair`), what is answered (`covey_crdt::slice`). Upholds P5 and I9.

use covey_crdt::codec::{DecodeError, decode_cursor, decode_holder_asks, decode_window, encode_outcome, encode_slice};
use covey_crdt::id::LifeId;
use covey_crdt::outline::{Grain, Window};
use covey_crdt::plant::{Plant, planted};
use covey_crdt::slice::{Cursor, Piece, Request};
use covey_crdt::walk::Ask;
use serde_bytes::ByteBuf;

use super::Node;
use crate::limits::{BURST_SLICES, PERMIT_IDLE_MS, PERMIT_RETRY_MS};
use crate::output::Class;
use crate::session::Admission;
use crate::status::Phase;
use crate::vector::{write_ends, write_seqs, write_stamp};
use crate::wire::{Message, SliceAsk, SliceRefused, SliceReply};

fn read_question(ask: &SliceAsk) -> Result<Ask, DecodeError> {
    let cursor = if ask.cursor.is_empty() { None } else { Some(decode_cursor(&ask.cursor)?) };
    let window = if ask.window.is_empty() { Window::default() } else { decode_window(&ask.window)? };
    let holders = if ask.holders.is_empty() { Vec::new() } else { decode_holder_asks(&ask.holders)? };
    Ok(Ask { holders, cursor, window })
}

impl Node {
    pub(super) fn on_slice_ask(&mut self, from: LifeId, ask: &SliceAsk) {
        let Ok(question) = read_question(ask) else { return self.malformed(from, 0) };
        if !self.joined {
            return self.refuse_slice(from, ask.session, "joining", 0, false);
        }
        let idle_ms = self.peers.get(&from).map_or(PERMIT_IDLE_MS, |peer| peer.patience_ms(PERMIT_IDLE_MS, 8));
        let times = (self.now, self.now.plus_ms(idle_ms));
        match self.permits.admit(from, ask.session, self.knobs.permits, times) {
            Admission::Served => {}
            Admission::Full => return self.refuse_slice(from, ask.session, "busy", PERMIT_RETRY_MS, false),
            Admission::Over => return,
        }
        let wait_ms = self.budget.wait_ms(self.now, self.knobs.repair_bytes_per_s);
        if wait_ms > 0 {
            return self.refuse_slice(from, ask.session, "over budget", wait_ms, true);
        }
        self.answer(from, ask, question);
    }

    /// `kept`: the receiver has its permit all the same, and goes on where it is.
    fn refuse_slice(&mut self, to: LifeId, session: u64, why: &str, retry_after_ms: u64, kept: bool) {
        let refused = SliceRefused { session, why: why.to_owned(), retry_after_ms, kept };
        self.send(to, Class::Control, &Message::SliceRefused(refused));
    }

    /// Answers in several parts when there is much to say.
    fn answer(&mut self, to: LifeId, ask: &SliceAsk, mut question: Ask) {
        let slot = self.peers.get(&to).and_then(|peer| peer.slot);
        if let Some(slot) = slot.filter(|_| ask.whole) {
            self.masks.forget(slot);
        }
        self.pass_changes();
        let answer = self.permits.number();
        for part in 0..BURST_SLICES {
            if !self.answer_part(to, slot, (ask, answer, part), &mut question) {
                break;
            }
        }
    }

    /// Sends one part of an answer; whether another one follows.
    fn answer_part(
        &mut self,
        to: LifeId,
        slot: Option<u8>,
        (ask, number, part): (&SliceAsk, u32, u32),
        question: &mut Ask,
    ) -> bool {
        let masks = &self.masks;
        let request = Request {
            salt: ask.session,
            holders: &question.holders,
            cursor: question.cursor.as_ref(),
            window: Some(&question.window),
            grain: Grain { bucket_segments: self.knobs.bucket_segments, buckets: self.knobs.buckets },
        };
        let first = part == 0 && question.cursor == Some(Cursor::Start);
        let answer = self.replica.answer(&request, self.knobs.slice_bytes, &|run| masks.has(slot, run));
        let more = question.advance(answer.piece.slice.next.as_ref(), &answer.outcome) && part + 1 < BURST_SLICES;
        let slice = encode_slice(&answer.piece.slice);
        let content_bytes = self.send_piece_content(to, slot, answer.piece);
        let tells = first && !planted(Plant::RetiredUntold);
        let vector = if first || planted(Plant::AdoptsVEnd) { self.vector.rows() } else { Vec::new() };
        let reply = SliceReply {
            session: ask.session,
            nth: ask.nth,
            answer: number,
            part,
            vector: ByteBuf::from(vector),
            target: ByteBuf::from(self.donor_target()),
            ends: ByteBuf::from(if tells { write_ends(self.replica.retired()) } else { Vec::new() }),
            forgotten: ByteBuf::from(if first { write_stamp(self.replica.forgotten()) } else { Vec::new() }),
            mesh: self.mesh.into(),
            slice: ByteBuf::from(slice),
            outcome: ByteBuf::from(encode_outcome(&answer.outcome)),
            more,
            dirty: self.phase() == Phase::Dirty,
        };
        self.budget.spend(content_bytes + reply.slice.len() + reply.outcome.len());
        self.send(to, Class::Repair, &Message::SliceReply(Box::new(reply)));
        more
    }

    /// Sends the content that goes ahead of a slice; how many bytes it takes.
    fn send_piece_content(&mut self, to: LifeId, slot: Option<u8>, piece: Piece) -> usize {
        let (mut chains, mut bytes, mut all) = (Vec::new(), 0, 0);
        for (end, content) in piece.ends.into_iter().zip(piece.chains) {
            if self.replica.chains().is_end(end) {
                self.masks.set(slot, end.run);
            }
            bytes += 24 + 8 * content.hashes.len();
            chains.push(content);
            if bytes >= self.knobs.frame_bytes {
                self.send_content(to, Class::Repair, &mut chains);
                all += bytes;
                bytes = 0;
            }
        }
        self.send_content(to, Class::Repair, &mut chains);
        all + bytes
    }

    /// What a receiver of this state must reach before it is clean: the own vector, and what the own replica waits for (P5).
    fn donor_target(&self) -> Vec<u8> {
        let targets = self.targets.iter().map(|(life, seq)| (*life, (*seq).max(self.vector.head(*life).seq)));
        let own = self.vector.lives().filter(|(life, _)| !self.targets.contains_key(life));
        let targets = targets.filter(|_| !planted(Plant::PieceWithoutTarget));
        let own = own.map(|(life, head)| (life, head.seq));
        write_seqs(targets.chain(own).chain(self.retired_seqs()))
    }
}
