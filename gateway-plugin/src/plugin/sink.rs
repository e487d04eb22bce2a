//! Where the plugin puts what its gateway did: the mesh in a gateway, a list in tests and the simulator.
//!
//! Not here: what becomes of it (`covey-mesh`).

use std::time::Duration;

use covey_mesh::input::Local;

/// Takes local ops. Called on request threads: must not block, must not fail. A closure is one.
pub trait Sink: Send + Sync {
    /// Hands one op over. `false`: it was dropped (the queue is full); the plugin counts it.
    fn submit(&self, local: Local) -> bool;

    /// What this gateway has outstanding changed: look at it soon. A sink that looks often enough by itself does nothing.
    fn load_changed(&self) {}

    /// How long ago whoever feeds the index last did a turn. Past [`VIEW_AGE_MAX`](super::view::VIEW_AGE_MAX) the view is
    /// stale. A sink that cannot be silent keeps the zero.
    fn silent_for(&self) -> Duration {
        Duration::ZERO
    }
}

impl<F: Fn(Local) -> bool + Send + Sync> Sink for F {
    fn submit(&self, local: Local) -> bool {
        self(local)
    }
}

#[cfg(feature = "server")]
impl Sink for covey_mesh::net::Mesh {
    fn submit(&self, local: Local) -> bool {
        Self::submit(self, local)
    }

    fn load_changed(&self) {
        Self::load_changed(self);
    }

    fn silent_for(&self) -> Duration {
        Self::silent_for(self)
    }
}
