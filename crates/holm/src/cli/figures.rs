//! Numbers, times and ages as people read them. Used wherever a command prints for people.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// How long something took: `31 ms`, `1.8 s`, `38 s`, `4 min 12 s`, `2 h 5 min`.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..10_000 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10_000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A time limit in the largest unit that says it exactly: `5 min`, `90 s`, `1 h`.
pub fn limit(ms: u64) -> String {
    match ms {
        ms if ms % 3_600_000 == 0 => format!("{} h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{} min", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => duration(ms),
    }
}

/// How long ago a time of the API was: `now`, `3 min`, `2 h`, `5 d`; `–` for an invalid time.
pub fn age(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(then) => match (now.as_second() - then.as_second()).max(0) {
            0..60 => "now".to_owned(),
            seconds => span(seconds),
        },
        Err(_) => "–".to_owned(),
    }
}

/// A duration in the largest whole unit: `40 s`, `3 min`, `2 h`, `5 d`.
pub fn span(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A time of the API on the clock of this machine: `14:19` today, `Fri 14:19` within a week, else
/// `2026-11-02`.
pub fn clock(time: &str, now: &Zoned) -> String {
    let Ok(then) = time.parse::<Timestamp>() else {
        return "–".to_owned();
    };
    let then = then.to_zoned(now.time_zone().clone());
    let days = (now.date() - then.date()).get_days();
    match days {
        0 => then.strftime("%H:%M").to_string(),
        1..7 => then.strftime("%a %H:%M").to_string(),
        _ => then.strftime("%Y-%m-%d").to_string(),
    }
}

/// The day of a time of the API on this machine's calendar: `23 Nov`.
pub fn day(time: &str) -> Option<String> {
    let then = time.parse::<Timestamp>().ok()?;
    let then = then.to_zoned(TimeZone::system());
    Some(then.strftime("%-d %b").to_string())
}

/// Now, in the time zone of the person who reads.
pub fn here_and_now() -> Zoned {
    Timestamp::now().to_zoned(TimeZone::system())
}

/// `1 file`, `7 files`, `2 140 files`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A number with a blank between each three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A path of this machine, with `~` for the user's home.
pub fn place(path: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    match path.strip_prefix(&home) {
        Some("") if !home.is_empty() => "~".to_owned(),
        Some(rest) if !home.is_empty() && rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

/// Cuts a text to a number of columns, the last of which is `…`.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_of_their_size() {
        let check = |ms: u64, expect: &str| assert_eq!(duration(ms), expect);
        check(31, "31 ms");
        check(999, "999 ms");
        check(1840, "1.8 s");
        check(38_400, "38 s");
        check(203_000, "3 min 23 s");
        check(7_500_000, "2 h 5 min");
    }

    #[test]
    fn limits_are_exact() {
        let check = |ms: u64, expect: &str| assert_eq!(limit(ms), expect);
        check(300_000, "5 min");
        check(90_000, "90 s");
        check(7_200_000, "2 h");
        check(1500, "1.5 s");
    }

    #[test]
    fn ages_and_clock_times() {
        let now: Timestamp = "2026-11-17T14:20:00Z".parse().unwrap();
        let check = |time: &str, old: &str, at: &str| {
            assert_eq!(age(time, now), old, "{time}");
            assert_eq!(clock(time, &now.to_zoned(TimeZone::UTC)), at, "{time}");
        };
        check("2026-11-17T14:19:30Z", "now", "14:19");
        check("2026-11-17T14:17:00Z", "3 min", "14:17");
        check("2026-11-17T12:00:00Z", "2 h", "12:00");
        check("2026-11-13T14:19:00Z", "4 d", "Fri 14:19");
        check("2026-11-02T14:19:00Z", "15 d", "2026-11-02");
        check("x", "–", "–");
    }

    #[test]
    fn numbers_and_texts() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(2140, "file"), "2 140 files");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(cut("Is tax computed before", 10), "Is tax co…");
        assert_eq!(cut("short", 10), "short");
    }
}
