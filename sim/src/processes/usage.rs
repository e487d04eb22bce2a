//! What a process and its children took of the machine, read from `/proc`.
//!
//! Not here: what its threads did with it. Upholds: a child that ended is counted as soon as its parent waited for it.

use std::collections::BTreeSet;
use std::fs;

/// CPU time and memory of a process with its children.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU time since the start, user and system, in seconds.
    pub(crate) cpu_s: f64,
    /// Most memory that was resident at a time, in bytes; of several processes the sum of each one's most.
    pub(crate) peak_rss_bytes: u64,
}

impl Usage {
    /// Reads it.
    ///
    /// # Errors
    /// When `/proc` does not say, because the process is gone or this is no Linux.
    pub(crate) fn of(pid: u32) -> Result<Self, String> {
        let mut all = Self::default();
        let mut ticks = 0;
        for pid in tree(pid)? {
            let read = |what: &str| {
                let path = format!("/proc/{pid}/{what}");
                fs::read_to_string(&path).map_err(|why| format!("{path} cannot be read: {why}"))
            };
            let stat = Stat::read(&read("stat")?).ok_or_else(|| format!("/proc/{pid}/stat has another form"))?;
            ticks += stat.ticks;
            all.peak_rss_bytes += peak_rss_bytes(&read("status")?).unwrap_or_default();
        }
        all.cpu_s = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        Ok(all)
    }
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// CPU time, that of children which were waited for included.
    ticks: u64,
}

impl Stat {
    fn read(stat: &str) -> Option<Self> {
        // The name before may have spaces and brackets in it.
        let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let parent = u32::try_from(number(1)?).ok()?;
        Some(Self { parent, ticks: number(11)? + number(12)? + number(13)? + number(14)? })
    }
}

fn peak_rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1_024)
}

/// A process, its children, theirs, and so on.
fn tree(root: u32) -> Result<BTreeSet<u32>, String> {
    let entries = fs::read_dir("/proc").map_err(|why| format!("/proc cannot be read: {why}"))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stat = |pid: u32| Stat::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    let parents: Vec<_> = pids.filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        for (pid, parent) in &parents {
            if found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 4 0 99 1000 5";
        assert_eq!(Stat::read(stat), Some(Stat { parent: 3, ticks: 110 }));
        assert_eq!(Stat::read("7 (a) S 3"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(peak_rss_bytes("Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t 1 kB\n"), Some(2 * 1_024 * 1_024));
        assert_eq!(peak_rss_bytes("Name:\tx\n"), None);
    }

    #[test]
    fn a_child_counts_for_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().expect("it starts");
        let tree = tree(std::process::id()).expect("/proc");
        let alone = Usage::of(child.id()).expect("it runs");
        let both = Usage::of(std::process::id()).expect("this runs");
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        assert!(tree.contains(&child.id()));
        assert!(both.peak_rss_bytes > alone.peak_rss_bytes && alone.peak_rss_bytes > 0);
    }
}
