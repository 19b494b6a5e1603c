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
}
