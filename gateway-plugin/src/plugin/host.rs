//! The plugin as the mesh driver's host: the feed behind the driver's trait.
//!
//! Not here: what the feed does (`feed`).

use std::sync::Arc;
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::net::{Host, MakeHost};
use covey_mesh::note::Note;

use super::Plugin;
use super::feed::Feed;

impl Host for Feed {
    fn changed(&mut self, change: Change) {
        Self::changed(self, change);
    }

    fn load(&mut self, life: LifeId, worker: &WorkerId, load: Load) {
        Self::load(self, life, worker, load);
    }

    fn note(&mut self, note: &Note) {
        Self::note(self, note);
    }

    fn publish(&mut self) -> Option<Duration> {
        Self::publish(self)
    }

    fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>) {
        Self::sample_load(self, out);
    }
}

impl Plugin {
    /// What the mesh driver needs to make the plugin's host for each life.
    #[must_use]
    pub fn make_host(self: &Arc<Self>) -> MakeHost {
        let plugin = Arc::clone(self);
        Arc::new(move |life| Box::new(plugin.feed(life)))
    }
}
