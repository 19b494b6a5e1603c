//! Days, as texts name them and as a recording's clock has them.

use std::sync::LazyLock;

use regex::Regex;

/// A clock's days are this near to the day on which a recording began: a session may go on for days, and files are as
/// old as their workspace.
const NEAR: i64 = 31;

/// A day, or a year where a text names no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    year: i64,
    /// Since the first of January of the year 0, about.
    number: Option<i64>,
}

impl Day {
    /// The day that a text begins with, as in `2026-11-15T12:00:00Z`.
    pub(super) fn of_timestamp(text: &str) -> Option<Self> {
        let mut numbers = text.get(..10)?.split('-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
        // Months of 31 days: a distance is a few days off, which is near enough.
        Some(Self { year, number: Some(year * 372 + month * 31 + day) })
    }

    /// The day or the year that a date names.
    pub(super) fn in_text(date: &str) -> Option<Self> {
        static YEAR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d{4}\b").expect("it is fixed"));
        let year = YEAR.find(date)?;
        // A weekday may stand before it.
        let day = Self::of_timestamp(&date[year.start()..]);
        day.or_else(|| Some(Self { year: year.as_str().parse().ok()?, number: None }))
    }

    /// The day of a clock's count since 1970, in seconds or in any smaller unit: seconds have ten digits from 2001 on.
    pub(super) fn of_epoch(count: &str) -> Option<Self> {
        const SECONDS: usize = 10;
        if !(SECONDS..=19).contains(&count.len()) || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let days = count[..SECONDS].parse::<i64>().ok()? / 86_400;
        // Of the 146 097 days of 400 years, in months of 31 days as above.
        let number = 1970 * 372 + 31 + 1 + days * 372 * 400 / 146_097;
        Some(Self { year: number / 372, number: Some(number) })
    }

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
