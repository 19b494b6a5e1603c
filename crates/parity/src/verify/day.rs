//! Days in texts and on the clock of a recording.

use std::sync::LazyLock;

use regex::Regex;

/// Distance in days within which a date may come from the clock of a recording. A session may last for days, and files
/// are as old as their workspace.
const NEAR: i64 = 31;

/// A day, or a year if a text names no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    year: i64,
    /// Approximate number of days since the first of January of the year 0.
    number: Option<i64>,
}

impl Day {
    /// Parses the day at the start of a text, as in `2026-11-15T12:00:00Z`.
    pub(super) fn of_timestamp(text: &str) -> Option<Self> {
        let mut numbers = text.get(..10)?.split('-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
        // Months count 31 days. The error of a few days does not matter here.
        Some(Self { year, number: Some(year * 372 + month * 31 + day) })
    }

    /// Parses the day or the year of a date.
    pub(super) fn in_text(date: &str) -> Option<Self> {
        static YEAR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d{4}\b").expect("it is fixed"));
        let year = YEAR.find(date)?;
        // A weekday may precede it.
        let day = Self::of_timestamp(&date[year.start()..]);
        day.or_else(|| Some(Self { year: year.as_str().parse().ok()?, number: None }))
    }

    /// Converts a count since 1970, in seconds or in any smaller unit. Seconds have ten digits since 2001.
    pub(super) fn of_epoch(count: &str) -> Option<Self> {
        const SECONDS: usize = 10;
        if !(SECONDS..=19).contains(&count.len()) || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let days = count[..SECONDS].parse::<i64>().ok()? / 86_400;
        // 400 years have 146 097 days. Months count 31 days as above.
        let number = 1970 * 372 + 31 + 1 + days * 372 * 400 / 146_097;
        Some(Self { year: number / 372, number: Some(number) })
    }

    /// Returns whether two days are too far apart to come from the same clock.
    pub(super) fn is_far_from(self, other: Self) -> bool {
        match (self.number, other.number) {
            (Some(mine), Some(theirs)) => (mine - theirs).abs() > NEAR,
            _ => (self.year - other.year).abs() > 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_near_by_its_day_or_by_its_year() {
        let today = Day::of_timestamp("2026-11-15T12:00:00Z").expect("a day");
        let far = |date: &str| Day::in_text(date).map(|day| today.is_far_from(day));
        for date in [
            "2026-11-16",
            "2026-10-31 10:00",
            "2026-12-01T00:00:00Z",
            "Nov 3, 2025",
            "1/2/2027",
            "Monday, 2026-11-16",
        ] {
            assert_eq!(far(date), Some(false), "{date}");
        }
        for date in ["2020-01-01", "2026-01-01", "Friday, 2020-05-01", "May 10, 2020", "1/1/1999"] {
            assert_eq!(far(date), Some(true), "{date}");
        }
        assert_eq!((far("12:30:01"), far("Mon Nov 16")), (None, None));
    }

    #[test]
    fn a_clocks_count_is_a_day_in_any_unit() {
        let today = Day::of_timestamp("2026-11-15T12:00:00Z").expect("a day");
        let far = |count: &str| Day::of_epoch(count).map(|day| today.is_far_from(day));
        for count in ["1794744000", "1794744000123", "1794744000123456", "1794744000123456789", "1793534400"]
        {
            assert_eq!(far(count), Some(false), "{count}");
        }
        for count in ["1700000000", "1234567890", "9999999999999"] {
            assert_eq!(far(count), Some(true), "{count}");
        }
        for count in ["179474400", "17947440001234567890", "1794744000.5", "-1794744000"] {
            assert_eq!(far(count), None, "{count}");
        }
    }
}
