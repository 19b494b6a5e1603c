//! Dates and times in text.

/// Day: year, month, number.
type Day = (u32, u32, u32);

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Times that are common in examples.
const EXAMPLES: [&str; 5] = ["12:34:56", "01:23:45", "23:59:59", "12:34", "23:59"];
/// Words that announce the present time before a time with minutes.
const NOW: [&str; 9] = ["time", "now", "clock", "is", "current", "currently", "date", "today", "since"];
/// Words that announce a version before numbers with dots.
const VERSIONS: [&str; 3] = ["version", "release", "v"];
/// Years of dates without separators.
const COMPACT_YEARS: std::ops::Range<u32> = 2020..2036;
const DAY: i64 = 24 * 60 * 60;
/// Seconds of the years 2020 to 2034.
const THESE_YEARS: std::ops::Range<i64> = 1_577_836_800..2_051_222_400;

/// Returns the first date. If `day` is known, only that day counts, because dates in examples do not change.
pub(crate) fn date<'t>(text: &'t str, day: Option<&str>) -> Option<&'t str> {
    let day = day.and_then(|day| dates(day).next()).map(|(_, days)| days[0]);
    let all = dates(text).chain(compact_dates(text));
    let mut those = all.filter(|(_, days)| day.is_none_or(|day| days.contains(&day)));
    those.next().map(|(found, _)| found)
}

/// Finds dates such as `20261116`.
fn compact_dates(text: &str) -> impl Iterator<Item = (&str, Vec<Day>)> {
    words(text).into_iter().filter_map(move |(from, word)| {
        let (plain, _) = word.split_once('T').unwrap_or((word, ""));
        let all = number(plain).filter(|_| plain.len() == 8)?;
        let (year, month, last) = (all / 10_000, all / 100 % 100, all % 100);
        let is_part = text[..from].ends_with(['-', '_', '/', '.', ',', '$', '#'])
            || text[from + word.len()..].starts_with(['-', '_', '/', ','])
            || text[from + word.len()..]
                .strip_prefix('.')
                .is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        let found = day(Some(year), Some(month), Some(last)).filter(|_| COMPACT_YEARS.contains(&year))?;
        (!is_part).then(|| (plain, vec![found]))
    })
}

/// Returns the first time of day to the second, or to the minute if it is announced as the present time. Times
/// after another date than `day` are examples.
pub(crate) fn clock<'t>(text: &'t str, day: Option<&str>) -> Option<&'t str> {
    to_the_second(text, day).or_else(|| to_the_minute(text, day))
}

fn to_the_minute<'t>(text: &'t str, day: Option<&str>) -> Option<&'t str> {
    text.match_indices(':').find_map(|(colon, _)| {
        let hours = text[..colon].bytes().rev().take_while(u8::is_ascii_digit).count();
        let time = text.get(colon - hours..colon + 3)?;
        let (hour, minute) = time.split_once(':')?;
        let part = |digits: &str, most: u32| number(digits).is_some_and(|it| it < most);
        let is_time = (1..=2).contains(&hours) && part(hour, 24) && part(minute, 60);
        let (before, behind) = (&text[..colon - hours], &text[colon + 3..]);
        // A line number, a ratio or an address has more text at either end.
        let is_begun = before.ends_with(|c: char| c.is_whitespace() || "=(\"'`".contains(c))
            || before.is_empty()
            || before.strip_suffix('T').is_some_and(|day| date_ends(day).is_some());
        let is_ended = !behind.starts_with(|c: char| c.is_ascii_digit() || c == ':' || c == '%');
        // A full or half hour was hardly read from a clock.
        let is_round = minute == "00" || minute == "30" || EXAMPLES.contains(&time);
        let is_alone = is_time && is_begun && is_ended && !is_round;
        (is_alone && is_now(before) && !is_other_day(before, day)).then_some(time)
    })
}

/// Returns whether the words before a time announce the present time.
fn is_now(before: &str) -> bool {
    let line = end_of(before).rsplit('\n').next().unwrap_or_default();
    let says_so = |word: &str| NOW.contains(&word.to_ascii_lowercase().as_str());
    date_ends(line).is_some() || words(line).iter().rev().take(4).any(|(_, word)| says_so(word))
}

/// Returns the last words of a text, so that long texts are not read again for each number.
fn end_of(text: &str) -> &str {
    let from = (text.len().saturating_sub(60)..=text.len()).find(|at| text.is_char_boundary(*at));
    &text[from.unwrap_or_default()..]
}

fn to_the_second<'t>(text: &'t str, day: Option<&str>) -> Option<&'t str> {
    text.match_indices(':').find_map(|(colon, _)| {
        let from = colon.checked_sub(2)?;
        let time = text.get(from..from + 8)?;
        let part = |at: usize, most: u32| number(&time[at..at + 2]).is_some_and(|it| it < most);
        let is_time = time.is_ascii() && &time[5..6] == ":" && part(0, 24) && part(3, 60) && part(6, 60);
        let (before, behind) = (&text[..from], &text[from + 8..]);
        let goes_on = |c: char| c.is_ascii_digit() || c == ':';
        let is_alone = !before.ends_with(goes_on) && !behind.starts_with(goes_on);
        // Zero seconds were hardly read from a clock.
        let is_example = time.ends_with(":00") || EXAMPLES.contains(&time) || is_other_day(before, day);
        (is_time && is_alone && !is_example).then_some(time)
    })
}

/// Returns whether a text ends in a date other than `day`.
fn is_other_day(text: &str, day: Option<&str>) -> bool {
    day.is_some() && date_ends(text).is_some_and(|last| date(last, day).is_none())
}

/// Returns the end of a text if it is a date.
fn date_ends(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(['T', ' ', ',']);
    let last = text.get(text.len().saturating_sub(12)..).unwrap_or_default();
    date(last, None).map(|_| last)
}

/// Returns the first timestamp in seconds or milliseconds since 1970, near `day` if that is known.
pub(crate) fn timestamp<'t>(text: &'t str, day: Option<&str>) -> Option<&'t str> {
    let day = day.and_then(|day| dates(day).next()).map(|(_, days)| since_1970(days[0]) * DAY);
    let is_now = |seconds: i64| match day {
        Some(day) => (day - 2 * DAY..day + 3 * DAY).contains(&seconds),
        None => THESE_YEARS.contains(&seconds),
    };
    words(text).into_iter().find_map(|(from, word)| {
        let number: i64 = word.parse().ok()?;
        let (seconds, is_round) = match word.len() {
            10 => (number, number % 1_000 == 0 || number % 1_024 == 0),
            13 => (number / 1_000, number % 100_000 == 0),
            _ => return None,
        };
        let is_fraction = text[..from].ends_with('.');
        (is_now(seconds) && !is_fraction && (day.is_some() || !is_round)).then_some(word)
    })
}

/// Finds all dates, each with the days that it may mean.
fn dates(text: &str) -> impl Iterator<Item = (&str, Vec<Day>)> {
    let mut words = words(text);
    words.retain(|(_, word)| *word != "of");
    let mut three = 0;
    std::iter::from_fn(move || {
        while let Some(found) = words.get(three..three + 3) {
            three += 1;
            if let Some(date) = read(text, found) {
                return Some(date);
            }
        }
        None
    })
}

fn read<'t>(text: &'t str, words: &[(usize, &'t str)]) -> Option<(&'t str, Vec<Day>)> {
    let [(from, first), (_, second), (last, third)] = *words else { return None };
    // In a timestamp, the time follows the day directly.
    let third = third.split_once('T').map_or(third, |(day, _)| day);
    let whole = &text[from..last + third.len()];
    let gaps = (&whole[first.len()..words[1].0 - from], &text[words[1].0 + second.len()..last]);
    let days = match gaps {
        ("-", "-") | ("/", "/") if first.len() == 4 => {
            vec![day(number(first), digits(second), digits(third))]
        }
        (".", ".") if first.len() == 4 && !is_version(&text[..from]) => {
            vec![day(number(first), digits(second), digits(third))]
        }
        ("年", "月") if first.len() == 4 => vec![day(number(first), digits(second), digits(third))],
        ("-", "-") if digits(second).is_some() => in_either_order(first, second, third),
        ("/", "/") | (".", ".") => in_either_order(first, second, third),
        (" " | ". ", ", " | " ") if month(first).is_some() => {
            vec![day(year(third), month(first), digits(second))]
        }
        (" " | " of " | ". ", " ") | ("-", "-") => vec![day(year(third), month(second), digits(first))],
        _ => return None,
    };
    let days: Vec<Day> = days.into_iter().flatten().collect();
    // A part of a name, a path or a version is no date.
    let behind = &text[from + whole.len()..];
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let is_part = text[..from].ends_with(['-', '_', '/', '.'])
        || behind.starts_with(['-', '_', '/'])
        || behind.strip_prefix('.').is_some_and(goes_on);
    (!days.is_empty() && !is_part).then_some((whole, days))
}

/// Returns the days of a date with the year last: the month or the day may come first.
fn in_either_order(one: &str, other: &str, last: &str) -> Vec<Option<Day>> {
    let (one, other, year) = (digits(one), digits(other), year(last));
    vec![day(year, one, other), day(year, other, one)]
}

/// Returns whether the text before a number announces a version.
fn is_version(before: &str) -> bool {
    let last = words(end_of(before)).last().map(|(_, word)| word.to_ascii_lowercase());
    before.ends_with(['=', '@', '<', '>', '~', '^', '('])
        || last.is_some_and(|word| VERSIONS.contains(&word.as_str()) && !before.ends_with(['.', '\n']))
}

fn day(year: Option<u32>, month: Option<u32>, number: Option<u32>) -> Option<Day> {
    let day = (year?, month?, number?);
    ((1970..2100).contains(&day.0) && (1..=12).contains(&day.1) && (1..=31).contains(&day.2)).then_some(day)
}

fn number(word: &str) -> Option<u32> {
    word.parse().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()))
}

fn year(word: &str) -> Option<u32> {
    number(word).filter(|_| word.len() == 4)
}

/// Parses a number of one or two digits, possibly with an ending as in `16th`.
fn digits(word: &str) -> Option<u32> {
    let plain = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    number(plain).filter(|_| plain.len() <= 2)
}

/// Returns the number of a month by its name or an abbreviation.
fn month(word: &str) -> Option<u32> {
    let word = word.to_ascii_lowercase();
    let is_short = (3..=4).contains(&word.len());
    let at = MONTHS.iter().position(|name| *name == word || (is_short && name.starts_with(&word)))?;
    u32::try_from(at + 1).ok()
}

/// Splits a text into runs of letters and digits, with their offsets.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut at = 0;
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        if !word.is_empty() {
            words.push((at, word));
        }
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    words
}

/// Returns the days since 1970-01-01, after Howard Hinnant's `days_from_civil`.
fn since_1970((year, month, number): Day) -> i64 {
    let (year, month) = (i64::from(year) - i64::from(month <= 2), i64::from(month));
    let era = year / 400;
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(number) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: Option<&str> = Some("2026-11-16");

    #[test]
    fn dates_are_found_in_all_notations() {
        for written in [
            "2026-11-16",
            "2026/11/16",
            "2026.11.16",
            "20261116",
            "11/16/2026",
            "16/11/2026",
            "16.11.2026",
            "November 16, 2026",
            "Nov 16 2026",
            "16 Nov 2026",
            "16-Nov-2026",
            "16 november 2026",
            "November 16th, 2026",
            "16-11-2026",
            "11-16-2026",
            "Nov. 16, 2026",
            "16th of November 2026",
            "16. November 2026",
            "2026年11月16",
        ] {
            let text = format!("Today is Monday, {written}.");
            assert_eq!((date(&text, None), date(&text, TODAY)), (Some(written), Some(written)));
            assert_eq!(date(&text, Some("2026-11-17")), None, "{written}");
        }
        assert_eq!(date("at 2026-11-16T14:32:05Z", TODAY), Some("2026-11-16"));
        assert_eq!(date("as in 2024-01-02; now 2026-11-16", TODAY), Some("2026-11-16"));
    }

    #[test]
    fn other_numbers_are_no_dates() {
        for harmless in [
            "gpt-4o-2024-08-06",
            "claude-haiku-4-5-20251001",
            "version 3.12.2026.1 or 1.2.3",
            "/archive/11/16/2026/x",
            "between 3 and 2026 lines",
            "In May 2024 it was",
            "1024-2048-4096",
            "13/45/2026",
            "web_search_20250305 and text-20250305",
            "at most 20991345 bytes, 12345678 or 19840101",
            "release 2024.08.06, x==2024.08.06 and 2024.08.06.1",
            "$20261116 or 20261116,5",
        ] {
            assert_eq!(date(harmless, None), None, "{harmless}");
        }
    }

    #[test]
    fn a_time_is_to_the_second() {
        for (text, found) in [
            ("It is 14:32:05.", Some("14:32:05")),
            ("2026-11-16T14:32:05.123Z", Some("14:32:05")),
            ("at 9:30 or 14:32", None),
            ("It is 14:32.", Some("14:32")),
            ("It is 9:05 PM", Some("9:05")),
            ("time=2026-11-16T14:32Z", Some("14:32")),
            ("2026-11-16 14:32", Some("14:32")),
            ("2024-01-02 14:32", None),
            ("The build is daily at 14:30", None),
            ("the ratio is 16:9, or 4:3", None),
            ("the error is in src/lib.rs:14:32", None),
            ("the address is 10.0.0.1:80 or [::1]:8080", None),
            ("the map is {a:12, b:34}", None),
            ("every day at 09:00:00", None),
            ("as in 12:34:56", None),
            ("00:1A:2B:3C:4D:5E and 10:11:12:13", None),
            ("99:32:05", None),
            ("log: 2024-01-02 10:11:12", None),
        ] {
            assert_eq!(clock(text, TODAY), found, "{text}");
        }
        assert_eq!(clock("log: 2024-01-02 10:11:12", None), Some("10:11:12"));
    }

    #[test]
    fn a_timestamp_is_near_the_day() {
        assert_eq!(since_1970((2026, 11, 16)), 20_773);
        for (text, known, unknown) in [
            ("now: 1794839525123", true, true),
            ("now: 1794839525", true, true),
            ("then: 1714839525123", false, true),
            ("at most 1610612736 bytes", false, false),
            ("as in 1700000000000", false, false),
            ("0.1794839525", false, false),
            ("4294967295 or 9007199254740991", false, false),
            ("call 5551234567", false, false),
        ] {
            assert_eq!(timestamp(text, TODAY).is_some(), known, "{text}");
            assert_eq!(timestamp(text, None).is_some(), unknown, "{text}");
        }
    }
}
