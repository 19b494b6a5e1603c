//! Times as people read them.

use std::time::SystemTime;

/// ISO 8601 in UTC with microseconds, as in `2026-11-15T06:03:05.000123Z`.
pub fn iso(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|timestamp| format!("{timestamp:.6}"))
        .unwrap_or_else(|_| "unknown".to_owned())
}

/// The time that [`iso`] wrote.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    text.parse::<jiff::Timestamp>().ok().map(SystemTime::from)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    #[test]
    fn microseconds_are_always_there() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(super::iso(time), "1970-01-01T00:00:01.000000Z");
        assert_eq!(super::parse(&super::iso(time)), Some(time));
    }
}
