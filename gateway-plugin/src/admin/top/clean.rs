//! A frame's texts made fit for a terminal.
//!
//! Not here: which characters are (`printable`). What is compared and not shown (lives, digests) stays as it came.

use crate::admin::printable::print_soundly;
use crate::frame::MeshFrame;

/// Every text of the frame that is drawn, printable and of bounded length.
pub(super) fn clean(frame: &mut MeshFrame) {
    let (verdict, source) = (&mut frame.verdict, &mut frame.source);
    let told = [&mut verdict.word, &mut verdict.why, &mut source.kind, &mut source.cluster];
    told.into_iter().chain(source.viewer.as_mut()).for_each(print_soundly);
    for gateway in &mut frame.gateways {
        print_soundly(&mut gateway.name);
        gateway.clock.iter_mut().for_each(print_soundly);
    }
    for worker in &mut frame.workers {
        print_soundly(&mut worker.id);
        let names = worker.feed.iter_mut().flat_map(|feed| feed.publishers.iter_mut().chain(&mut feed.standbys));
        names.for_each(print_soundly);
    }
    for event in &mut frame.events {
        [&mut event.level, &mut event.text].into_iter().chain(event.gateway.as_mut()).for_each(print_soundly);
    }
}
