//! Hazards of names and settings: twins, restarts, other clusters, other block sizes.

use super::*;
use crate::note::Refusal;

const fn taken(note: &Note) -> bool {
    matches!(note, Note::Refused { why: Refusal::NameTaken { .. }, .. })
}

#[test]
fn a_twin_is_refused_while_the_first_is_alive_and_never_founds() {
    let mut net = Net::mesh(&["a", "b"]);
    let twin = net.add(config("b"));
    for _ in 0..4 {
        net.link(0, twin);
        net.link(1, twin);
        net.run(5_000);
    }
    assert!(net.noted(0, taken) > 0, "the mesh names the twin");
    assert!(net.noted(1, taken) > 0);
    assert!(net.noted(twin, |note| matches!(note, Note::RefusedBy { .. })) > 0);
    assert_eq!(net.nodes[twin].phase(), Phase::Joining);
    assert_eq!(net.noted(twin, |note| *note == Note::Founded), 0);
    assert!(net.is_equal(0, 1), "the first two go on");
    assert!(net.nodes[0].peers.get(&net.life(1)).is_some_and(|peer| peer.admitted));
}

#[test]
fn a_restarted_gateway_is_admitted_within_a_second_although_its_old_link_still_stands() {
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "t");
    net.run(300);
    net.freeze(1);
    let again = net.add(config("b"));
    net.link(0, again);
    net.run(1_000);
    assert!(net.nodes[0].peers.get(&net.life(again)).is_some_and(|peer| peer.admitted));
    assert_eq!(net.noted(0, taken), 0);
    net.run(1_000);
    assert!(net.is_equal(0, again));
}

#[test]
fn another_cluster_or_block_size_is_refused_by_name_on_both_sides() {
    let mut net = Net::mesh(&["a", "b"]);
    let foreign = net.add(NodeConfig { cluster: "prod".to_owned(), ..config("c") });
    net.link(0, foreign);
    net.run(500);
    let cluster =
        |note: &Note| matches!(note, Note::Refused { why: Refusal::Cluster { theirs }, .. } if theirs == "prod");
    assert_eq!(net.noted(0, cluster), 1);
    let told =
        |note: &Note| matches!(note, Note::RefusedBy { why, .. } if why.contains("prod") && why.contains("test"));
    assert!(net.noted(foreign, told) > 0);
    let blocks = net.add(NodeConfig { block_bytes: 512, ..config("d") });
    net.link(0, blocks);
    net.run(500);
    let size = |note: &Note| matches!(note, Note::Refused { why: Refusal::BlockBytes { theirs: 512 }, .. });
    assert_eq!(net.noted(0, size), 1);
    let told = |note: &Note| matches!(note, Note::RefusedBy { why, .. } if why.contains("512") && why.contains("256"));
    assert!(net.noted(blocks, told) > 0);
    for stranger in [foreign, blocks] {
        assert!(net.nodes[0].peers.get(&net.life(stranger)).is_none_or(|peer| !peer.linked), "the link is closed");
        assert_eq!(net.seq(0, stranger), 0);
    }
}
