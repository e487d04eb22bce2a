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
use covey_mesh::output::FeedOrder;

use super::Plugin;
use super::feed::Feed;

impl Host for Feed {
    fn changed(&mut self, change: Change) {
        Self::changed(self, change);
    }

    fn load(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>) {
        Self::load(self, life, worker, load);
    }

    fn note(&mut self, note: &Note) {
        Self::note(self, note);
    }

    fn feed(&mut self, order: FeedOrder) {
        self.order(order);
    }

    fn publish(&mut self) -> Option<Duration> {
        Self::publish(self)
    }

    fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>) {
        Self::sample_load(self, out);
    }
}

impl Plugin {
    /// What the mesh driver needs to make the plugin's host for each life. It does not keep the plugin alive, which may
    /// itself hold the mesh as its sink.
    #[must_use]
    pub fn make_host(&self) -> MakeHost {
        let parts = self.parts.clone();
        Arc::new(move |life| Box::new(Feed::new(&parts, life)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use covey_crdt::hash::HashKey;
    use covey_crdt::id::{GatewayName, ModelName, Token};
    use covey_crdt::keyspace::{Keyspace, Unit};
    use covey_mesh::net::{MeshConfig, start};
    use covey_mesh::node::NodeConfig;

    use super::*;
    use crate::plugin::{End, Hints, Outcome, PluginConfig, RequestKey};

    fn within_ten_seconds(what: &str, mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(10), "never: {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_plugin_on_the_real_driver_hits_and_both_go_away_together() {
        let plugin = Plugin::new(&PluginConfig::default());
        let node = NodeConfig {
            name: GatewayName::new("g").expect("a name"),
            cluster: "c".into(),
            key_id: HashKey::ZERO.id(),
            block_bytes: 16,
            placement_idle_ms: 900_000,
            expect_peers: false,
        };
        let mesh = start(MeshConfig::new(node, None, plugin.make_host())).expect("a mesh of one");
        plugin.connect(mesh);
        let worker = WorkerId::new("w", 0).expect("a name");
        plugin.worker_seen(&worker);
        within_ten_seconds("a clean view", || !plugin.is_stale());
        plugin.worker_probed(&worker, plugin.incarnation(&worker), Token::new("boot").expect("a token"), Some(1_000));
        within_ten_seconds("a record", || plugin.incarnation(&worker).counter == 1);
        let model = ModelName::new("m").expect("a name");
        let keyspace = Arc::new(Keyspace::new(model, Unit::Bytes, 16, HashKey::ZERO.id()).expect("a block size"));
        let key = RequestKey::of_bytes(&keyspace, &HashKey::ZERO, b"", &[7; 200]);
        let mut routed = plugin.route(&key, &Hints::default()).expect("the worker is up");
        plugin.accepted(&mut routed.ticket, &key);
        plugin.ended(routed.ticket, &key, b"", End::Completed);
        let outcome = || plugin.route(&key, &Hints::default()).expect("the worker is up").outcome;
        within_ten_seconds("a hit", || outcome() == Outcome::Hit);
        let index = Arc::downgrade(&plugin.parts.index);
        drop(plugin);
        within_ten_seconds("the mesh thread lets go of the index", || index.strong_count() == 0);
    }
}
