//! The gateway's counters and the mesh's state as OpenMetrics text.
//!
//! Not here: names (`names`). What is unknown is left out, never written as 0 (I12).

mod driver;
mod gateway;
mod mesh;
mod page;
mod peers;
mod process;

use std::collections::BTreeSet;
use std::fmt::{self, Error};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text::encode};
use prometheus_client::registry::Registry;

use self::page::Page;
use super::names;
use crate::server::Gateway;

/// Everything, as OpenMetrics text.
pub(super) fn text(gateway: &Arc<Gateway>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(Arc::clone(gateway))));
    let mut out = String::new();
    encode(&mut out, &registry).expect("writing to a string cannot fail");
    out
}

/// OpenMetrics text in the older text format of Prometheus, where the lines about a counter carry its full name.
pub(super) fn classic(open: &str) -> String {
    let words = |line: &str| line.split(' ').skip(2).take(2).map(str::to_owned).collect::<Vec<_>>();
    let types = open.lines().filter(|line| line.starts_with("# TYPE ")).map(words);
    let counters: BTreeSet<String> = types.filter(|of| of[1] == "counter").map(|mut of| of.swap_remove(0)).collect();
    let mut out = String::with_capacity(open.len() + 1_024);
    for line in open.lines().filter(|line| *line != "# EOF") {
        let about = line.starts_with("# ").then(|| words(line).swap_remove(0));
        match about.filter(|name| counters.contains(name)) {
            Some(name) => out.push_str(&line.replacen(&name, &format!("{name}_total"), 1)),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

struct Scrape(Arc<Gateway>);

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let gateway = &self.0;
        // The age first: a status is never older than it is said to be.
        let (silent, status, net) = (gateway.mesh().silent_for(), gateway.mesh().status(), gateway.mesh().metrics());
        let mut page = Page::new(encoder);
        gateway::write(&mut page, gateway)?;
        page.gauge(names::ENABLED, page::flag(gateway.config().mesh.net.is_some()))?;
        mesh::write(&mut page, &status, silent, gateway.converged_unix_ms())?;
        peers::write(&mut page, &status, &net.links, silent)?;
        mesh::observed(&mut page, &gateway.plugin().notes())?;
        driver::write(&mut page, &net)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_counters_in_full_and_alters_no_sample() {
        let open = "# HELP a_b What.\n# TYPE a_b counter\na_b_total{c=\"a_b\"} 1\n# HELP a Other.\n# TYPE a gauge\na 2\n# EOF\n";
        let classic = classic(open);
        let expected = "# HELP a_b_total What.\n# TYPE a_b_total counter\na_b_total{c=\"a_b\"} 1\n# HELP a Other.\n# TYPE a gauge\na 2\n";
        assert_eq!(classic, expected);
    }
}
