//! The convergence dashboard over HTTP: the page, the plain page, and the frames they show. The admin port of a gateway
//! serves it live; `covey-sim serve` plays a recording back.
//!
//! Not here: what is in a frame (`frame`), the page's own code (`dashboard/` beside `src/`, built with npm and embedded
//! when it was built; see `build.rs`).

mod assets;
mod plain;
mod reel;
mod routes;

pub use assets::is_built;
pub use plain::render as render_plain;
pub use reel::{CLIENTS_MAX, Reel};
pub use routes::{Info, Recording, router};
