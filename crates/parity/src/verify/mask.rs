//! The built-in masks: what differs between two runs of the same thing, and means nothing.
//!
//! A mask is a named rule. Both sides are normalised by the same rules, and what a rule covered is replaced by its
//! mark, so that two texts agree where everything else does. Ids are not masked but paired: see `ids`.

use std::ops::Range;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::day::Day;
use super::side::RecordingFacts;
use crate::verdict::{MaskUse, Surface};

/// A built-in mask, by its place in [`MASKS`].
pub(super) type MaskNumber = usize;

/// A built-in mask.
struct Mask {
    name: &'static str,
    covers: &'static str,
    /// Where it applies; a pattern in `pattern` is searched for there.
    surfaces: &'static [Surface],
    pattern: Option<&'static str>,
}

use Surface::{Calls, Jobs, Prompt, Results, Routing, Settings, Tools};

const WORDS: &[Surface] = &[Prompt, Results, Jobs];
const EVERYWHERE: &[Surface] = &[Prompt, Tools, Settings, Calls, Results, Jobs, Routing];

/// In the order in which they are tried at one place.
const MASKS: &[Mask] = &[
    Mask { name: "cwd", covers: "the folder the harness worked in", surfaces: EVERYWHERE, pattern: None },
    Mask { name: "home", covers: "the HOME of the harness", surfaces: EVERYWHERE, pattern: None },
    Mask { name: "tmpdir", covers: "its folder for temporary files", surfaces: EVERYWHERE, pattern: None },
    Mask {
        name: "version",
        covers: "the version of the harness, as its recording names it",
        surfaces: &[Prompt, Tools, Settings, Results, Jobs],
        pattern: None,
    },
    Mask {
        name: "port",
        covers: "the port of an address on loopback",
        surfaces: EVERYWHERE,
        pattern: Some(r"(?:127\.0\.0\.1|localhost|\[::1\]):\d{2,5}\b"),
    },
    Mask {
        name: "duration",
        covers: "how long something took",
        surfaces: WORDS,
        pattern: Some(
            r#"(?ix)\b(?:duration|elapsed)_?ms\b [\s"':=>*|]{0,8} \d+(?:\.\d+)?\b
               |\b(?:duration|elapsed|took|(?:finished|completed|done|ended|failed)\s(?:in|after))\b
               [\s"':=>*|]{0,8} \d+(?:\.\d+)?
               \s?(?:ms|s|m|h|msecs?|milliseconds?|secs?|seconds?|mins?|minutes?|hrs?|hours?)\b (?:\s\d+(?:ms|s|m)\b)*"#,
        ),
    },
    Mask {
        name: "tokens",
        covers: "token counts, which depend on timing",
        surfaces: WORDS,
        pattern: Some(
            r#"(?i)\b(?:(?:cached?|completion|input|output|prompt|reasoning|subagent|total|used)_)*tokens(?:_(?:left|remaining|used))?["':=>\s]{1,4}\d[\d,]*|\btoken\susage:\s\d[\d,]*|\b\d[\d,]*\stokens\s(?:left|used|remaining)\b"#,
        ),
    },
    Mask {
        name: "date",
        covers: "dates and times of day",
        surfaces: WORDS,
        pattern: Some(
            r"(?ix)(?:\b(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s)?
               \b\d{4}-\d{2}-\d{2}(?:[T\s]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?(?:Z\b|\s?[+-]\d{2}:?\d{2}\b)?(?:\[[\w/+-]+\])?
               (?:,?\s\(?(?:mon|tues|wednes|thurs|fri|satur|sun)day\b\)?)?
              |\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,?\s
               (?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)
               \.?\s\d{1,2}(?:,?\s\d{4})?\b
              |\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)
               \.?\s\d{1,2},?\s\d{4}\b
              |\b\d{1,2}/\d{1,2}/\d{4}\b
              |\b\d{1,2}:\d{2}:\d{2}(?:\.\d+)?(?:\s?[ap]m)?\b",
        ),
    },
];

/// Masks that cover something else than a part of a text; they are hit where it is compared.
const OTHERS: &[(&str, &str)] = &[
    ("id", "ids of sessions, agents, jobs, messages and calls: one stands for one"),
    ("secret", "values that redaction took out: one placeholder stands for one"),
    ("host", "the address that a request went to, and the header that names it"),
    ("content-length", "the length of a body, which its bytes have told already"),
    ("line order", "the order of lines that a search brings, which no harness promises"),
];

/// The number of a mask that covers parts of texts.
pub(super) fn built_in(name: &str) -> MaskNumber {
    MASKS.iter().position(|mask| mask.name == name).expect("a mask is asked for by its name in the table")
}

/// The number of a mask that covers something else than a part of a text.
pub(super) fn other(name: &str) -> MaskNumber {
    let at = OTHERS.iter().position(|(known, _)| *known == name);
    MASKS.len() + at.expect("a mask is asked for by its name in the table")
}

/// The masks of one side: patterns are the same for both, folders and versions are its own.
pub(super) struct Masks {
    /// For each surface one pattern of all masks that apply there, and the masks of its groups.
    by_surface: Vec<Arc<(Regex, Vec<MaskNumber>)>>,
    /// The day on which the recording began.
    pub(super) day: Option<Day>,
}

/// A text with its marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Masked {
    /// The text; a mask's mark stands where it was hit.
    pub(super) text: String,
    /// What was hit, in order.
    pub(super) hits: Vec<(MaskNumber, Range<usize>)>,
}

impl Masks {
    pub(super) fn of(facts: &RecordingFacts) -> Self {
        let own = |mask: &Mask| -> Option<String> {
            let alternatives = match mask.name {
                "version" => [&facts.version, &facts.host_version]
                    .into_iter()
                    .flatten()
                    .filter(|version| version.contains('.'))
                    .map(|version| format!(r"\b{}\b", regex::escape(version)))
                    .collect::<Vec<_>>(),
                name => {
                    let folders = facts.folders.iter().filter(|(of, _)| *of == name);
                    folders.flat_map(|(_, folder)| spellings(folder)).collect()
                }
            };
            (!alternatives.is_empty()).then(|| alternatives.join("|"))
        };
        let mut by_surface: Vec<Arc<(Regex, Vec<MaskNumber>)>> = Vec::new();
        for surface in Surface::ALL {
            let applying = MASKS.iter().enumerate().filter(|(_, mask)| mask.surfaces.contains(&surface));
            let patterns = applying.filter_map(|(number, mask)| {
                Some((number, mask.pattern.map(str::to_owned).or_else(|| own(mask))?))
            });
            let (of_surface, groups): (Vec<MaskNumber>, Vec<String>) =
                patterns.map(|(number, pattern)| (number, format!("({pattern})"))).unzip();
            // Making a pattern is dear, and several surfaces have the same.
            let known = by_surface.iter().find(|known| known.1 == of_surface).cloned();
            by_surface.push(known.unwrap_or_else(|| Arc::new((pattern(&groups.join("|")), of_surface))));
        }
        Self { by_surface, day: facts.day }
    }

    /// Puts marks where masks are hit.
    pub(super) fn apply(&self, surface: Surface, text: &str) -> Masked {
        let (pattern, numbers) = &*self.by_surface[surface as usize];
        let mut masked = Masked::default();
        let mut end = 0;
        // Searching is far cheaper than telling which of the groups it was.
        let mut from = 0;
        while let Some(found) = pattern.find_at(text, from) {
            let captures = pattern.captures_at(text, found.start()).expect("it was just found");
            let group = (1..captures.len()).find(|group| captures.get(*group).is_some());
            let number = numbers[group.expect("every alternative is a group") - 1];
            let is_far = number == built_in("date") && self.is_far(found.as_str());
            if !is_far {
                push_plain(&mut masked.text, &text[end..found.start()]);
                masked.text.push_str(mark(number));
                masked.hits.push((number, found.range()));
                end = found.end();
            }
            from = found.end().max(from + 1);
            if from > text.len() || !text.is_char_boundary(from) {
                break;
            }
        }
        push_plain(&mut masked.text, &text[end..]);
        masked
    }

    /// Whether a date is none of a clock at work: somebody chose it.
    fn is_far(&self, date: &str) -> bool {
        self.day.zip(Day::in_text(date)).is_some_and(|(today, day)| today.is_far_from(day))
    }
}

/// A text that is not covered. What would be a mark in it is none.
fn push_plain(text: &mut String, plain: &str) {
    match plain.contains(MARK) {
        true => text.push_str(&plain.replace(MARK, "\u{1}\u{1}")),
        false => text.push_str(plain),
    }
}

/// All that is searched for is ASCII, but for folders, which are taken literally.
fn pattern(text: &str) -> Regex {
    RegexBuilder::new(text).unicode(false).build().expect("the patterns are fixed, and folders escaped")
}

/// What every mark begins with.
const MARK: char = '\u{1}';

/// What stands where a mask was hit.
fn mark(number: MaskNumber) -> &'static str {
    const MARKS: &[&str] =
        &["\u{1}a", "\u{1}b", "\u{1}c", "\u{1}d", "\u{1}e", "\u{1}f", "\u{1}g", "\u{1}h", "\u{1}i"];
    MARKS[number]
}

/// A folder as a path, and as the one word that harnesses make of it.
fn spellings(folder: &str) -> Vec<String> {
    let slug: String = folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    vec![regex::escape(folder), regex::escape(&slug)]
}

/// How often each mask was hit.
#[derive(Clone, Debug, Default)]
pub(super) struct MaskTally {
    counts: Vec<(u64, u64)>,
}

impl MaskTally {
    /// One more hit, in values that differed or did not.
    pub(super) fn hit(&mut self, number: MaskNumber, differed: bool) {
        self.counts.resize(MASKS.len() + OTHERS.len(), (0, 0));
        self.counts[number].0 += 1;
        self.counts[number].1 += u64::from(differed);
    }

    /// Every mask, hit or not.
    pub(super) fn uses(mut self) -> Vec<MaskUse> {
        self.counts.resize(MASKS.len() + OTHERS.len(), (0, 0));
        let named = MASKS.iter().map(|mask| (mask.name, mask.covers)).chain(OTHERS.iter().copied());
        let used = named.zip(self.counts);
        used.map(|((name, covers), (hits, differed))| MaskUse {
            name: name.to_owned(),
            covers: covers.to_owned(),
            hits,
            differed,
        })
        .collect()
    }
}
