//! Conversion of times to and from text.

use std::time::{Duration, SystemTime};

/// Formats a time as ISO 8601 in UTC with microseconds, as in `2026-11-15T06:03:05.000123Z`.
pub fn iso(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|timestamp| format!("{timestamp:.6}"))
        .unwrap_or_else(|_| "unknown".to_owned())
}

/// Parses a time that [`iso`] wrote.
pub fn parse(text: &str) -> Option<SystemTime> {
    text.parse::<jiff::Timestamp>().ok().map(SystemTime::from)
}

/// Parses the time of a dump into microseconds since 1970. It may be ISO 8601, seconds, milliseconds or
/// microseconds.
pub(crate) fn micros(timestamp: &str) -> Option<i128> {
    if let Ok(number) = timestamp.parse::<f64>() {
        let scale = [(1e14, 1.0), (1e11, 1e3)]
            .into_iter()
            .find(|(from, _)| number >= *from)
            .map_or(1e6, |(_, scale)| scale);
        // Times in the far future are invalid.
        return (0.0..1e18).contains(&(number * scale)).then_some((number * scale) as i128);
    }
    let since = parse(timestamp)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i128::try_from(since.as_micros()).ok()
}

/// Formats the time of a dump like [`iso`].
pub fn iso_of(timestamp: &str) -> Option<String> {
    let micros = u64::try_from(micros(timestamp)?).ok()?;
    Some(iso(SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros))?))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    #[test]
    fn times_of_all_spellings_become_one() {
        let same = Some("2026-11-15T10:00:00.000000Z".to_owned());
        for time in ["2026-11-15T10:00:00Z", "2026-11-15T11:00:00+01:00", "1794736800", "1794736800000"] {
            assert_eq!(super::iso_of(time), same, "{time}");
        }
        for none in ["", "yesterday", "NaN", "inf", "1e300", "-5"] {
            assert_eq!(super::iso_of(none), None, "{none}");
        }
    }

    #[test]
    fn microseconds_are_always_there() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(super::iso(time), "1970-01-01T00:00:01.000000Z");
        assert_eq!(super::parse(&super::iso(time)), Some(time));
    }
}
