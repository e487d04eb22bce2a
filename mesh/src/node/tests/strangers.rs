//! Hazards of frames: newer versions, damage, numbers nobody can have.

use serde_bytes::ByteBuf;

use super::*;
use crate::limits::{SEQ_MAX, WIRE_VERSION};
use crate::vector::write_seqs;
use crate::wire::{Exchange, Pull};

#[test]
fn a_newer_wire_version_is_named_and_the_link_kept() {
    let mut net = Net::mesh(&["a", "b"]);
    let mut bytes = (WIRE_VERSION + 1).to_le_bytes().to_vec();
    bytes.extend_from_slice(b"something of the future");
    net.input(0, Input::Received { from: net.life(1), bytes: bytes.into() });
    assert_eq!(net.noted(0, |note| matches!(note, Note::NewerVersion { got, .. } if *got == WIRE_VERSION + 1)), 1);
    assert!(net.closed.is_empty());
    net.run(500);
    assert!(net.is_equal(0, 1));
}

#[test]
fn a_malformed_frame_closes_its_link_and_changes_nothing() {
    let good = Message::Pull(Pull { wants: ByteBuf::from(vec![0; 32]) }).encode();
    let mut trailing = good.to_vec();
    trailing.push(0);
    let half_a_row = Message::Pull(Pull { wants: ByteBuf::from(vec![0; 31]) }).encode().to_vec();
    for frame in [vec![], vec![1], good[..good.len() - 1].to_vec(), trailing, half_a_row] {
        let mut net = Net::mesh(&["a", "b"]);
        let before = net.nodes[0].replica().digest();
        net.input(0, Input::Received { from: net.life(1), bytes: frame.into() });
        assert_eq!(net.closed, [(0, net.life(1))]);
        assert_eq!(net.noted(0, |note| matches!(note, Note::Malformed { .. })), 1);
        assert_eq!(net.nodes[0].replica().digest(), before);
    }
}

#[test]
fn a_sequence_number_that_no_log_reaches_is_malformed() {
    let mut net = Net::mesh(&["a", "b"]);
    let exchange = Exchange {
        name: "b".to_owned(),
        cluster: "test".to_owned(),
        block_bytes: 256,
        phase: 1,
        held: ByteBuf::from(write_seqs([(LifeId(9), SEQ_MAX + 1)].into_iter())),
        ..Exchange::default()
    };
    let bytes = Message::Exchange(Box::new(exchange)).encode();
    net.input(0, Input::Received { from: net.life(1), bytes });
    assert_eq!(net.closed, [(0, net.life(1))]);
}

#[test]
fn frames_of_lives_that_are_not_linked_or_not_admitted_are_ignored() {
    let mut net = Net::mesh(&["a", "b"]);
    let stranger = net.add(config("c"));
    let bytes = Message::Pull(Pull { wants: ByteBuf::from(vec![0; 31]) }).encode();
    net.notes[0].clear();
    net.input(0, Input::Received { from: net.life(stranger), bytes: bytes.clone() });
    net.input(0, Input::Link(Link::Up(net.life(stranger))));
    net.input(0, Input::Received { from: net.life(stranger), bytes });
    assert_eq!(net.noted(0, |note| matches!(note, Note::Malformed { .. })), 0);
}
