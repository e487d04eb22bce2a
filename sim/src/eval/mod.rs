//! Does Covey route better, and by how much: workloads replayed against every way to route, in virtual time.
//!
//! The model is the published yardstick's: workers with a prefix cache and a FIFO queue in front of a constant prefill rate,
//! prompt blocks only, no decode. Covey's arms are the real core, index and policy behind the plugin's seam.
//!
//! Not here: sockets, processes (`demo`), faults of the network (`ring1`). Upholds: same settings, same figures.

mod args;
mod arms;
mod figures;
mod fleet;
mod generate;
mod lru;
mod play;
mod read;
mod report;
mod run;
mod suite;
mod sweep;
mod trace;

pub use args::{EvalArgs, SuiteName};
pub use arms::{Arm, Harm, MeshFigures, Setting, Trouble};
pub use figures::{Figures, Interval, Sample};
pub use fleet::{Fleet, FleetConfig};
pub use generate::{Shape, sessions};
pub use lru::{Lru, Touched};
pub use play::play;
pub use read::read;
pub use run::run;
pub use sweep::{Knob, Sweep};
pub use trace::{Ask, Trace};
