//! Writes the Grafana dashboard to standard output: `make grafana` puts it into `gateway-plugin/ops/covey.grafana.json`,
//! and a test compares the two and looks up every metric on a running gateway.
//!
//! Not here: what the panels show (`panels`).

mod board;
mod panels;

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(panels::dashboard_text().as_bytes())
}
