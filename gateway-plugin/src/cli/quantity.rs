//! Durations and byte counts as people write them.

use std::time::Duration;

/// Reads a positive duration: a number of seconds, or a number and `ms`, `s`, `m` or `h`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, scale) = units
        .iter()
        .find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)))
        .unwrap_or((text, 1.0));
    let seconds = number.trim().parse::<f64>().map_err(|_| advice(text))? * scale;
    if !(0.001..=1e9).contains(&seconds) {
        return Err(advice(text));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn advice(text: &str) -> String {
    format!("{text:?} is not a time above 0; write seconds (2.5) or a number and a unit (500ms, 30s, 10m, 1h)")
}

/// Reads a positive byte count: a number, or a number and `KiB` or `MiB`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let (number, scale) = units
        .iter()
        .find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)))
        .unwrap_or((text, 1));
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    bytes.filter(|bytes| (1..=1 << 40).contains(bytes)).ok_or_else(|| {
        format!("{text:?} is not a size above 0; write bytes (65536) or a number and a unit (64KiB, 16MiB)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_units() {
        assert_eq!(parse_duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        for bad in ["0", "-1", "", "s", "1d", "NaN", "inf", "1e30"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_carry_units() {
        assert_eq!(parse_bytes("10"), Ok(10));
        assert_eq!(parse_bytes("2MiB"), Ok(2 << 20));
        for bad in ["0", "-1", "MiB", "1MB", "99999999999999999999", "99999999GiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
