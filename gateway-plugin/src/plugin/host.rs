//! The plugin's side of the mesh thread.
//!
//! Not here: what is done with changes (`index`).

use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::net::{Host, MakeHost};
use covey_mesh::note::Note;

use std::sync::Arc;

use super::Plugin;

struct PluginHost {
    plugin: Arc<Plugin>,
}

impl Host for PluginHost {
    fn changed(&mut self, _change: Change) {}

    fn load(&mut self, _life: LifeId, _worker: &WorkerId, _load: Load) {}

    fn note(&mut self, _note: &Note) {}

    fn publish(&mut self) -> Option<Duration> {
        None
    }

    fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>) {
        self.plugin.workers.sample(out);
    }
}

impl Plugin {
    /// What the mesh driver needs to make the plugin's host for each life.
    #[must_use]
    pub fn make_host(self: &Arc<Self>) -> MakeHost {
        let plugin = Arc::clone(self);
        Arc::new(move |_life| Box::new(PluginHost { plugin: Arc::clone(&plugin) }))
    }
}
