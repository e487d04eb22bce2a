//! What a run is told besides its workload, its fleet and its arm.
//!
//! Not here: what arms make of it.

use covey_gateway_plugin::policy::Tuning;

/// What a run is told besides the fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// Gateways.
    pub gateways: usize,
    /// What befalls the first gateway.
    pub trouble: Option<Trouble>,
    /// Covey's policy's numbers.
    pub tuning: Tuning,
}

/// What befalls a gateway between two times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What.
    pub what: Harm,
    /// When it begins.
    pub from_us: u64,
    /// Until when requests are looked at apart, and when a cut ends.
    pub to_us: u64,
}

/// How a gateway is troubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It hears no other gateway, and clients go on coming.
    Cut,
    /// Its process is replaced by one that knows nothing, and clients come again when it is ready.
    Cold,
}
