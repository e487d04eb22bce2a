//! Looking into a replica that the mesh thread owns: asks go through a small queue of their own, and the loop answers
//! one of them at the end of a turn. A turn grows by one page at most, whoever asks how much.
//!
//! Not here: what is asked and answered (`crate::inspect`, `node::inspect`). Upholds I9 (queue and pages are bounded) and
//! I11: who asks waits, but not for longer than [`INSPECT_WAIT`], and the mesh thread waits for nobody.

use std::fmt;
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use tokio::sync::oneshot;

use super::Mesh;
use crate::inspect::{Answer, Ask};
use crate::node::Node;

/// How long an answer is waited for; a healthy mesh thread gives it within milliseconds.
pub const INSPECT_WAIT: Duration = Duration::from_secs(2);
/// Asks that may wait at once.
const WAITING_MAX: usize = 8;

/// Why an inspection was not answered. The node is untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectError {
    /// Too many others are asking. Ask again in a moment.
    Busy,
    /// The mesh thread did not finish a turn in time: it is stalled, or restarting under a new life. Look at its status,
    /// and ask again.
    Silent,
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => write!(f, "{WAITING_MAX} inspections are waiting already; ask again in a moment"),
            Self::Silent => write!(
                f,
                "the mesh thread did not answer within {} s: it is stalled or starting a new life; see `covey status`",
                INSPECT_WAIT.as_secs()
            ),
        }
    }
}

impl std::error::Error for InspectError {}

#[derive(Debug)]
enum Waiting {
    Inspect(Ask, oneshot::Sender<Answer>),
    LosePlacements,
}

/// Asks on their way to the mesh thread. They outlive lives: the next life answers what the last one did not.
#[derive(Debug)]
pub(super) struct Inspections(ArrayQueue<Waiting>);

impl Default for Inspections {
    fn default() -> Self {
        Self(ArrayQueue::new(WAITING_MAX))
    }
}

impl Inspections {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Answers the next ask that somebody still waits for.
    pub(super) fn answer_one(&self, node: &mut Node) {
        while let Some(waiting) = self.0.pop() {
            match waiting {
                Waiting::LosePlacements => node.lose_placements(),
                Waiting::Inspect(_, reply) if reply.is_closed() => {}
                Waiting::Inspect(ask, reply) => {
                    // Who gave up meanwhile is not missed.
                    let _ = reply.send(node.inspect(&ask));
                    return;
                }
            }
        }
    }
}

impl Mesh {
    /// Asks the mesh thread for one page of its replica; it answers between two turns.
    ///
    /// # Errors
    /// [`InspectError`] when it does not.
    pub async fn inspect(&self, ask: Ask) -> Result<Answer, InspectError> {
        let (reply, answer) = oneshot::channel();
        self.hand_in(Waiting::Inspect(ask, reply))?;
        match tokio::time::timeout(INSPECT_WAIT, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(InspectError::Silent),
        }
    }

    /// Makes the node of the present life lose every placement from now on, for tests on real processes alone.
    ///
    /// # Errors
    /// [`InspectError::Busy`] when the queue is full.
    pub fn lose_placements(&self) -> Result<(), InspectError> {
        self.hand_in(Waiting::LosePlacements)
    }

    fn hand_in(&self, waiting: Waiting) -> Result<(), InspectError> {
        let shared = self.shared();
        shared.inspections.0.push(waiting).map_err(|_| InspectError::Busy)?;
        shared.wake.notify_one();
        Ok(())
    }
}
