//! Text that is another one tomorrow, in the next session or on the next machine.

use crate::explanation::Opening;
use crate::lint::{Finding, Rule};
use crate::prompt::Section;

/// What is known of where and when a recording was made; without it, whatever looks like it counts.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The day, as in `2026-11-15`.
    pub day: Option<String>,
    /// The folders of the harness: where it worked, its HOME.
    pub folders: Vec<String>,
}

/// Folders that differ from one user or machine to the next.
const PERSONAL: [&str; 6] = ["/home/", "/Users/", "/root/", "/tmp/", "/private/", "C:\\\\Users\\\\"];
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
/// What `git` says of a folder.
const GIT: [&str; 5] =
    ["On branch ", "Current branch:", "Recent commits:", "nothing to commit", "Changes not staged"];

/// The volatile texts among the tools and instructions of a lane, as far as they are marked: the first of each kind.
pub fn volatile(opening: &Opening, body: &[u8], around: &Around) -> Vec<Finding> {
    let Some(last) = opening.prompt.marks.last() else { return Vec::new() };
    let mut findings: Vec<(&str, Finding)> = Vec::new();
    let blocks = opening.prompt.blocks[..=last.block].iter();
    for block in blocks.filter(|block| block.section != Section::Messages) {
        let text = body.get(block.span.clone()).map(String::from_utf8_lossy).unwrap_or_default();
        for (kind, found) in kinds(&text, around) {
            if findings.iter().any(|(known, _)| *known == kind) {
                continue;
            }
            let finding = Finding {
                rule: Rule::Volatile,
                lane: opening.lane.clone(),
                pointer: block.pointer.clone(),
                what: format!("{kind} before the last marker: `{found}`"),
            };
            findings.push((kind, finding));
        }
    }
    findings.into_iter().map(|(_, finding)| finding).collect()
}

fn kinds(text: &str, around: &Around) -> Vec<(&'static str, String)> {
    let all = [
        ("a date", date(text, around.day.as_deref())),
        ("an id", text.split(is_border).find(|word| is_id(word)).map(str::to_owned)),
        ("a path", path(text, &around.folders)),
        ("the state of git", GIT.iter().find_map(|words| line_from(text, words))),
    ];
    all.into_iter().filter_map(|(kind, found)| Some((kind, found?))).collect()
}

fn is_border(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// A date in digits or in words; the recording's own where that is known, for examples in a text stay as they are.
fn date(text: &str, day: Option<&str>) -> Option<String> {
    if let Some(day) = day {
        let mut parts = day.split('-');
        let (year, month, number) = (parts.next()?, parts.next()?, parts.next()?);
        let name = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let number = number.trim_start_matches('0');
        let short = &name[..3];
        let spelled = [
            day.to_owned(),
            format!("{name} {number}, {year}"),
            format!("{number} {name} {year}"),
            format!("{short} {number} {year}"),
        ];
        return spelled.into_iter().find(|date| text.contains(date.as_str()));
    }
    text.split(is_border).find(|word| is_iso_date(word)).map(str::to_owned)
}

fn is_iso_date(word: &str) -> bool {
    let shape = word.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    let shape: Vec<u8> = shape.take(10).collect();
    shape == b"0000-00-00" && (word.len() == 10 || word.as_bytes()[10] == b'T')
}

/// A UUID, a long number in hex, or a name with random letters behind it.
fn is_id(word: &str) -> bool {
    let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_both = |part: &str| {
        part.bytes().any(|byte| byte.is_ascii_digit()) && part.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    let is_uuid = lengths == [8, 4, 4, 4, 12] && word.split('-').all(is_hex);
    let is_digest = word.len() >= 16 && is_hex(word) && has_both(word);
    let is_named = word.split_once('_').is_some_and(|(name, rest)| {
        let random =
            rest.len() >= 16 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) && has_both(rest);
        random && name.bytes().all(|byte| byte.is_ascii_lowercase())
    });
    is_uuid || is_digest || is_named
}

fn path(text: &str, folders: &[String]) -> Option<String> {
    let known = folders.iter().map(String::as_str).find(|folder| text.contains(folder));
    let begins = known
        .or_else(|| PERSONAL.into_iter().find(|begin| text.contains(begin)).filter(|_| folders.is_empty()))?;
    let from = text.find(begins)?;
    let rest = &text[from..];
    let is_end = |c: char| c.is_whitespace() || ['"', '\'', '`', '<', '>', ')', ','].contains(&c);
    let end = rest.find(is_end).unwrap_or(rest.len());
    // What ends a line in JSON is two characters.
    let path = rest[..end].split("\\n").next().unwrap_or_default();
    Some(path.chars().take(60).collect())
}

/// From these words to the end of their line.
fn line_from(text: &str, words: &str) -> Option<String> {
    let rest = &text[text.find(words)?..];
    let line = rest.split("\\n").next().unwrap_or(rest);
    Some(line.chars().take(60).collect())
}
