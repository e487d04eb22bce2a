//! I4: floor and capacity within an incarnation, the incarnation, and the applied vector never regress in one life.

use std::collections::BTreeMap;

use covey_crdt::change::HolderKey;
use covey_crdt::id::{Incarnation, LifeId, WorkerId};
use covey_crdt::lane::LaneId;
use covey_crdt::stamp::Floor;
use covey_mesh::node::Node;

use super::Violation;

/// The highest values seen in one life.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    vector: BTreeMap<LifeId, u64>,
    records: BTreeMap<WorkerId, (Incarnation, Option<u64>)>,
    floors: BTreeMap<HolderKey, Floor>,
}

impl Marks {
    /// Looks at the node again and says what went back since.
    pub fn advance(&mut self, name: &str, node: &Node) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut wrong = |what: String| found.push(Violation::new("I4", format!("{name}: {what}")));
        for (life, seq) in &self.vector {
            let known = node.replica().lives().contains_key(life);
            if node.vector().head(*life).seq < *seq && (known || node.vector().head(*life).seq > 0) {
                wrong(format!("the vector of {life:?} went back from {seq}"));
            }
        }
        self.vector = node.vector().lives().map(|(life, head)| (life, head.seq)).collect();
        let records: BTreeMap<_, _> = node
            .replica()
            .records()
            .map(|(id, record)| (id.clone(), (record.incarnation.clone(), record.capacity_tokens)))
            .collect();
        for (worker, (incarnation, capacity)) in &self.records {
            match records.get(worker) {
                Some((now, _)) if now < incarnation => wrong(format!("the incarnation of {worker} went back")),
                Some((now, grown)) if now == incarnation && grows(*capacity, *grown) => {
                    wrong(format!("the capacity of {worker} grew in place"));
                }
                Some(_) => {}
                None => wrong(format!("{worker} was forgotten")),
            }
        }
        let mut floors = BTreeMap::new();
        for (worker, keyspace, placed) in node.replica().holders() {
            let keyspace = std::sync::Arc::clone(keyspace);
            let key = HolderKey { worker: worker.clone(), keyspace, lane: LaneId::PLAIN };
            let same = self.records.get(worker).map(|(incarnation, _)| incarnation)
                == records.get(worker).map(|(incarnation, _)| incarnation);
            if same && self.floors.get(&key).is_some_and(|floor| *floor > placed.floor()) {
                wrong(format!("the floor of {worker} went back"));
            }
            floors.insert(key, placed.floor());
        }
        self.floors = floors;
        self.records = records;
        found
    }
}

const fn grows(before: Option<u64>, after: Option<u64>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => after > before,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::made;

    /// What is said about a node that was as `before` and is as `after`, one after the other under one name.
    fn between(before: &Node, after: &Node) -> String {
        let mut marks = Marks::default();
        assert_eq!(marks.advance("gw-0", before), []);
        let found = marks.advance("gw-0", after);
        assert!(found.iter().all(|violation| violation.invariant == "I4"));
        found.into_iter().map(|violation| violation.what + "; ").collect()
    }

    #[test]
    fn growth_is_no_violation() {
        let mut made = made::lone();
        let before = made.node.clone();
        made.probe(0, "boot", 256);
        made.place(1, 5, 2);
        made.probe(1, "reboot", 64_000);
        assert_eq!(between(&before, &made.node), "");
    }

    #[test]
    fn everything_that_goes_back_is_found() {
        let mut made = made::lone();
        let early = made.node.clone();
        made.probe(0, "boot", 256);
        let shrunk = made.node.clone();
        let said = between(&shrunk, &early);
        assert!(
            said.contains("vector of") && said.contains("capacity of worker-0") && said.contains("floor of worker-0")
        );
        made.probe(0, "reboot", 256);
        assert!(between(&made.node, &shrunk).contains("incarnation of worker-0 went back"));
        assert!(between(&early, &made::empty(1).node).contains("worker-0 was forgotten"));
    }
}
