//! What a person or an agent types for a point in time: a time, or how long ago.

use holm_core::config::parse_duration;
use holm_core::{Code, Fault};
use jiff::{SignedDuration, Timestamp};

/// A time as the API has it.
pub fn since(text: &str) -> Result<String, Fault> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.to_string());
    }
    let ago = parse_duration(text).ok();
    let ago = ago.and_then(|ago| SignedDuration::try_from(ago).ok());
    let time = ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    time.map(|time| time.to_string()).ok_or_else(|| {
        Fault::new(
            Code::Usage,
            format!("`{}` is not a time", text.escape_debug()),
            "write `--since 10m`, or `--since 2026-11-15T20:00:00Z`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_times_ago() {
        assert_eq!(
            since("2026-11-15T20:00:00Z").unwrap(),
            "2026-11-15T20:00:00Z"
        );
        assert!(since("10m").unwrap().ends_with('Z'));
        for wrong in ["", "yesterday", "-5m", "10"] {
            assert_eq!(since(wrong).unwrap_err().code, Code::Usage, "{wrong}");
        }
    }
}
