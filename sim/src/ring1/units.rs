//! Times and ranges as people write them on the command line.
//!
//! Not here: plans, whose fields carry their unit in their name.

use std::ops::Range;
use std::time::Duration;

/// A duration with its unit: `41.2s`, `900ms`, `2m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_s = units.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| *seconds);
    let unit_s = unit_s.ok_or_else(|| format!("{text:?} needs a unit: us, ms, s, m or h, for example 41.2s"))?;
    let number: f64 = number.parse().map_err(|_| format!("{number:?} in {text:?} is no number"))?;
    if !(0.0..=1e9).contains(&(number * unit_s)) {
        return Err(format!("{text:?} is not a time between 0 and 30 years"));
    }
    Ok(Duration::from_secs_f64(number * unit_s))
}

/// Virtual microseconds, written as a duration.
pub(super) fn moment_us(text: &str) -> Result<u64, String> {
    duration(text).map(|time| time.as_micros() as u64)
}

/// Seeds, `FROM..TO`.
pub(super) fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO, for example 0..300")?;
    let number = |text: &str| text.parse::<u64>().map_err(|why| format!("{text:?} is no number: {why}"));
    let (from, to) = (number(from)?, number(to)?);
    if from < to { Ok(from..to) } else { Err(format!("{from}..{to} holds no seed: FROM must be below TO")) }
}

/// The number of a node, written `gw-3` or `3`.
pub(super) fn node(text: &str) -> Result<usize, String> {
    text.strip_prefix("gw-").unwrap_or(text).parse().map_err(|_| format!("{text:?} is no node: write gw-3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_a_unit() {
        assert_eq!(moment_us("41.2s"), Ok(41_200_000));
        assert_eq!(moment_us("900ms"), Ok(900_000));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["12", "s", "1.2.3s", "5 parsecs", "-1s", "1e300h", "NaNs"] {
            assert!(duration(wrong).is_err_and(|why| why.contains('"')), "{wrong}");
        }
    }

    #[test]
    fn nodes_and_seeds_are_named_as_reports_name_them() {
        assert_eq!((node("gw-3"), node("12")), (Ok(3), Ok(12)));
        assert!(node("worker-3").is_err());
        assert_eq!(seeds("3..7"), Ok(3..7));
        assert!(seeds("7..7").is_err() && seeds("7").is_err() && seeds("a..9").is_err());
    }
}
