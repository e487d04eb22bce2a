//! What the system says of this process: CPU time, memory, files, start.
//!
//! Not here: CPU time of one thread (`server::cpu`). Where there is no `/proc`, only CPU time is known.

use std::fs::{read_dir, read_to_string};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of all threads, user and system, seconds.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory that is resident, bytes.
pub(super) fn resident_bytes() -> Option<f64> {
    resident(&read_to_string("/proc/self/status").ok()?)
}

/// File descriptors open, the one that this takes included.
pub(super) fn open_fds() -> Option<f64> {
    Some(read_dir("/proc/self/fd").ok()?.count() as f64)
}

/// When the process was started, seconds since 1970 as the system reckons boot time now.
pub(super) fn start_unix_seconds() -> Option<f64> {
    let ticks = start_ticks(&read_to_string("/proc/self/stat").ok()?)?;
    let boot = boot_unix_seconds(&read_to_string("/proc/stat").ok()?)?;
    Some(boot + ticks / clock_ticks_per_second() as f64)
}

fn resident(status: &str) -> Option<f64> {
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
    Some(kib.trim().parse::<f64>().ok()? * 1024.0)
}

/// Field 22; counted from behind the program's name, which may hold spaces and parentheses.
fn start_ticks(stat: &str) -> Option<f64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn boot_unix_seconds(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_start() {
        let fields: Vec<String> = (3..=30).map(|i| i.to_string()).collect();
        let stat = format!("7 (a) b) {}", fields.join(" "));
        assert_eq!(start_ticks(&stat), Some(22.0));
        assert_eq!(start_ticks("nonsense"), None);
    }

    #[test]
    fn memory_is_in_bytes_and_what_is_not_said_is_unknown() {
        assert_eq!(resident("VmPeak:\t 9 kB\nVmRSS:\t   12 kB\n"), Some(12_288.0));
        assert_eq!((resident("VmPeak:\t 9 kB\n"), boot_unix_seconds("cpu 1\n")), (None, None));
        assert_eq!(boot_unix_seconds("cpu 1\nbtime 17\n"), Some(17.0));
    }

    #[test]
    fn this_process_began_before_now_and_uses_something() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let start = start_unix_seconds().expect("Linux says");
        assert!(start <= now + 1.0 && now - start < 86_400.0, "{start} {now}");
        assert!(resident_bytes().expect("Linux says") > 1e6 && open_fds().expect("Linux says") >= 3.0);
        assert!(cpu_seconds() > 0.0);
    }
}
