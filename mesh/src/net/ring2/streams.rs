//! What goes wrong within a connection that stays up: streams reset in the middle of a frame, streams whose reader goes
//! away, a peer that reads nothing.
//!
//! Not here: connections that end (`hazards`), frames that are too long and streams of no class (`hostile`).

use std::time::Duration;

use quinn::VarInt;
use tokio::time::timeout;

use super::network::Paths;
use super::rogue::Rogue;
use super::run;
use super::world::{World, address};
use crate::net::framing::{class_byte, prefix};
use crate::net::metrics::LinkFailure;
use crate::net::transport::failure;
use crate::output::Class;

const SOON: Duration = Duration::from_secs(5);

/// Two gateways, and a rogue linked with the first.
async fn with_rogue() -> (World, Rogue) {
    let mut world = World::of(1, Paths::calm(), 2);
    world.until("linked and clean", SOON, World::agrees).await;
    let rogue = Rogue::link(&world, address(0)).await;
    world.until("the rogue has a link", SOON, |world| world.process(0).linked().len() == 2).await;
    (world, rogue)
}

/// The rogue lost its link for what it did, once, and the mesh goes on.
async fn cost_the_link(world: &mut World, rogue: &Rogue) {
    let error = timeout(SOON, rogue.connection.closed()).await.expect("the link is closed");
    assert_eq!(failure(&error), LinkFailure::Protocol, "{error}");
    world.until("the link is gone", SOON, |world| world.process(0).linked().len() == 1).await;
    assert_eq!(world.process(0).mesh.metrics().frames_malformed, 1);
    assert!(world.place(1, 5));
    world.until("whole", SOON, World::is_whole).await;
}

#[test]
fn a_stream_reset_in_the_middle_of_a_frame_costs_the_link_and_is_not_silence_for_ever() {
    for class in Class::ALL {
        run(async {
            let (mut world, mut rogue) = with_rogue().await;
            let mut opened = None;
            let stream = if class == Class::Control {
                &mut rogue.control_out
            } else {
                opened.insert(rogue.connection.open_uni().await.expect("opens"))
            };
            if class != Class::Control {
                stream.write_all(&[class_byte(class)]).await.expect("writes");
            }
            stream.write_all(&prefix(&[0; 1_000])).await.expect("writes");
            stream.write_all(&[0; 300]).await.expect("writes");
            world.pass(Duration::from_millis(200)).await;
            stream.reset(VarInt::from_u32(0)).expect("it is open");
            cost_the_link(&mut world, &rogue).await;
        });
    }
}

#[test]
fn a_stream_that_ends_in_the_middle_of_a_frame_costs_the_link() {
    run(async {
        let (mut world, mut rogue) = with_rogue().await;
        rogue.control_out.write_all(&prefix(&[0; 1_000])).await.expect("writes");
        rogue.control_out.finish().expect("it is open");
        cost_the_link(&mut world, &rogue).await;
    });
}

#[test]
fn a_peer_that_stops_reading_a_stream_loses_the_link() {
    run(async {
        let (mut world, mut rogue) = with_rogue().await;
        rogue.control_in.stop(VarInt::from_u32(0)).expect("it is open");
        cost_the_link(&mut world, &rogue).await;
    });
}

#[test]
fn a_membership_tunnel_that_is_reset_costs_the_link() {
    run(async {
        let (mut world, rogue) = with_rogue().await;
        let (mut send, _recv) = rogue.connection.open_bi().await.expect("opens");
        send.write_all(&prefix(&[])).await.expect("writes");
        world.pass(Duration::from_millis(200)).await;
        send.reset(VarInt::from_u32(0)).expect("it is open");
        cost_the_link(&mut world, &rogue).await;
    });
}

#[test]
fn a_stream_that_ends_between_frames_costs_nothing() {
    run(async {
        let (mut world, mut rogue) = with_rogue().await;
        rogue.control_out.finish().expect("it is open");
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(rogue.connection.close_reason(), None);
        assert_eq!(world.process(0).linked().len(), 2);
        assert_eq!(world.process(0).mesh.metrics().frames_malformed, 0);
    });
}

#[test]
fn a_peer_that_reads_nothing_holds_a_bounded_queue_and_delays_nobody_else() {
    run(async {
        let (mut world, rogue) = with_rogue().await;
        // Ten minutes of exchanges that nobody takes out of the stream.
        for round in 0..600 {
            if round % 20 == 0 {
                assert!(world.place(1, 5));
            }
            world.pass(Duration::from_secs(1)).await;
        }
        assert_eq!(rogue.connection.close_reason(), None);
        world.pass(Duration::from_millis(300)).await;
        assert!(world.has_placed());
        let links = world.process(0).mesh.metrics().links;
        assert!(links.iter().all(|link| link.queued_bytes <= 768 << 10), "{links:?}");
    });
}
