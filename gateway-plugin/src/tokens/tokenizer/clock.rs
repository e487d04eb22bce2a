//! `strftime_now`: the date as templates write it into system prompts.
//!
//! UTC, because an engine's container has no other zone unless somebody gave it one; an engine with another zone renders
//! another prompt for the hours in which the dates differ. Not here: where templates use it (`template`).

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The present moment by `format`; `None` for a directive that is not known, because its text would be a guess.
pub(super) fn now(format: &str) -> Option<String> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    at(unix.as_secs(), format)
}

/// A moment in seconds since 1970 by `format`.
fn at(unix_s: u64, format: &str) -> Option<String> {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let (month_name, day_name) = (MONTHS[month - 1], DAYS[(days % 7) as usize]);
    let hour_12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let text = match chars.next()? {
            'Y' => year.to_string(),
            'y' => format!("{:02}", year % 100),
            'm' => format!("{month:02}"),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'd' => format!("{day:02}"),
            'e' => format!("{day:2}"),
            'j' => format!("{:03}", day_of_year(year, month, day)),
            'A' => day_name.to_owned(),
            'a' => day_name[..3].to_owned(),
            'H' => format!("{hour:02}"),
            'I' => format!("{hour_12:02}"),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'F' => format!("{year}-{month:02}-{day:02}"),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'Z' | 'z' => String::new(),
            '-' => match chars.next()? {
                'd' => day.to_string(),
                'm' => month.to_string(),
                'H' => hour.to_string(),
                'I' => hour_12.to_string(),
                _ => return None,
            },
            '%' => "%".to_owned(),
            _ => return None,
        };
        out.push_str(&text);
    }
    Some(out)
}

/// Year, month (1 to 12) and day (from 1) of a day counted from 1970-01-01.
fn date(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    while days >= days_in_year(year) {
        days -= days_in_year(year);
        year += 1;
    }
    let mut month = 1;
    while days >= days_in_month(year, month) {
        days -= days_in_month(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn day_of_year(year: u64, month: usize, day: u64) -> u64 {
    (1..month).map(|month| days_in_month(year, month)).sum::<u64>() + day
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn days_in_month(year: u64, month: usize) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let all = "%d %b %Y|%F %T|%A %a %j %y %e %I%p %-d %B %%";
        let leap = at(1_709_208_000, all).expect("known");
        assert_eq!(leap, "29 Feb 2024|2024-02-29 12:00:00|Thursday Thu 060 24 29 12PM 29 February %");
        assert_eq!(at(0, "%A %d %B %Y").as_deref(), Some("Thursday 01 January 1970"));
        assert_eq!(at(951_782_400, "%d %B %Y").as_deref(), Some("29 February 2000"));
        assert_eq!(at(0, "%Q"), None);
    }
}
