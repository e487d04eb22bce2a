//! The laws of the replicated state, as properties over generated histories.
//!
//! The fast replica is compared with a reference that keeps every op and recomputes (`reference`). Not here: tests of one
//! file's inner workings (they stand beside the code), and protocols over several replicas (`covey-sim`).

mod changes;
mod codec;
mod codec_outlines;
mod feeds;
mod generate;
mod hazards;
mod laws;
mod outlines;
mod reference;
mod run;
mod slices;
