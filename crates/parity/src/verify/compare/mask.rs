//! Built-in masks for values that differ between two runs without meaning.
//!
//! A mask is a named rule. Both sides are normalised by the same rules: a masked value is replaced by the mark of its
//! mask. Two texts agree if they are equal after that. Ids are not masked but paired: see `ids`.

use std::ops::Range;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::verdict::{MaskUse, Surface};
use crate::verify::compared::RecordingFacts;
use crate::verify::day::Day;

/// Index of a mask in [`MASKS`], followed by [`OTHERS`].
pub(super) type MaskNumber = usize;

/// A built-in mask.
struct Mask {
    name: &'static str,
    covers: &'static str,
    scope: MaskScope,
    /// Pattern of its values. Without one, the values come from the manifest.
    pattern: Option<&'static str>,
}

/// The surfaces on which a mask applies.
#[derive(Clone, Copy)]
enum MaskScope {
    Everywhere,
    /// Surfaces with text of the harness.
    Versions,
    /// Surfaces with prose.
    Prose,
}

impl MaskScope {
    fn includes(self, surface: Surface) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Versions => surface.definition().has_versions,
            Self::Prose => surface.definition().has_prose,
        }
    }
}

use MaskScope::{Everywhere, Prose, Versions};

/// The masks for parts of texts, in the order in which they are tried at one place.
const MASKS: &[Mask] = &[
    Mask { name: "cwd", covers: "the working folder of the harness", scope: Everywhere, pattern: None },
    Mask { name: "home", covers: "the HOME of the harness", scope: Everywhere, pattern: None },
    Mask { name: "tmpdir", covers: "the folder for temporary files", scope: Everywhere, pattern: None },
    Mask { name: "version", covers: "the recorded version of the harness", scope: Versions, pattern: None },
    Mask {
        name: "port",
        covers: "the port of an address on loopback",
        scope: Everywhere,
        pattern: Some(r"(?:127\.0\.0\.1|localhost|\[::1\]):\d{2,5}\b"),
    },
    Mask {
        name: "duration",
        covers: "how long something took",
        scope: Prose,
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
        scope: Prose,
        pattern: Some(
            r#"(?i)\b(?:(?:cached?|completion|input|output|prompt|reasoning|subagent|total|used)_)*tokens(?:_(?:left|remaining|used))?["':=>\s]{1,4}\d[\d,]*|\btoken\susage:\s\d[\d,]*|\b\d[\d,]*\stokens\s(?:left|used|remaining)\b"#,
        ),
    },
    Mask {
        name: "checksum",
        covers: "a checksum of the request in its own first line",
        scope: Prose,
        pattern: Some(r"\bcch=[0-9a-f]{5};"),
    },
    Mask {
        name: "date",
        covers: "dates and times of day",
        scope: Prose,
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

/// The masks for other values. The code that compares such a value counts their hits.
const OTHERS: &[(&str, &str)] = &[
    ("id", "ids of sessions, agents, jobs and calls"),
    ("secret", "placeholders of redacted values"),
    ("host", "the address of the provider"),
    ("content-length", "the length of a body"),
    ("line order", "the order of lines in search results"),
    ("session name", "the random name of the session in a transcript"),
];

/// Returns the number of a mask for parts of texts.
pub(super) fn text_mask(name: &str) -> MaskNumber {
    MASKS.iter().position(|mask| mask.name == name).expect("the caller names a mask of the table")
}

/// Returns the number of a mask for other values.
pub(super) fn other_mask(name: &str) -> MaskNumber {
    let at = OTHERS.iter().position(|(known, _)| *known == name);
    MASKS.len() + at.expect("the caller names a mask of the table")
}

/// The masks of one side. Patterns are the same for both sides, folders and versions are not.
pub(super) struct Masks {
    /// For each surface, one pattern of all masks that apply there, and the masks of its groups.
    by_surface: Vec<Arc<(Regex, Vec<MaskNumber>)>>,
    /// The first day of the recording.
    pub(super) day: Option<Day>,
}

/// A text with marks in place of masked values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MaskedText {
    pub(super) text: String,
    /// The masks that were hit, with the ranges in the original text.
    pub(super) hits: Vec<(MaskNumber, Range<usize>)>,
}

impl Masks {
    /// Compiles the masks for a recording.
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
            let applying = MASKS.iter().enumerate().filter(|(_, mask)| mask.scope.includes(surface));
            let patterns = applying.filter_map(|(number, mask)| {
                Some((number, mask.pattern.map(str::to_owned).or_else(|| own(mask))?))
            });
            let (of_surface, groups): (Vec<MaskNumber>, Vec<String>) =
                patterns.map(|(number, pattern)| (number, format!("({pattern})"))).unzip();
            // Compiling a pattern is slow, and several surfaces share one.
            let known = by_surface.iter().find(|known| known.1 == of_surface).cloned();
            by_surface.push(known.unwrap_or_else(|| Arc::new((pattern(&groups.join("|")), of_surface))));
        }
        Self { by_surface, day: facts.day }
    }

    /// Replaces masked values by marks.
    pub(super) fn apply(&self, surface: Surface, text: &str) -> MaskedText {
        let (pattern, numbers) = &*self.by_surface[surface as usize];
        let mut masked = MaskedText::default();
        let mut end = 0;
        // A search is far cheaper than finding out which group matched.
        let mut from = 0;
        while let Some(found) = pattern.find_at(text, from) {
            let captures = pattern.captures_at(text, found.start()).expect("it was just found");
            let group = (1..captures.len()).find(|group| captures.get(*group).is_some());
            let number = numbers[group.expect("every alternative is a group") - 1];
            let is_far = number == text_mask("date") && self.is_far(found.as_str());
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

    /// Returns whether a date is too far from the recording to come from its clock.
    fn is_far(&self, date: &str) -> bool {
        self.day.zip(Day::in_text(date)).is_some_and(|(today, day)| today.is_far_from(day))
    }
}

/// Appends text that is not masked. A mark in the original text is escaped.
fn push_plain(text: &mut String, plain: &str) {
    match plain.contains(MARK) {
        true => text.push_str(&plain.replace(MARK, "\u{1}\u{1}")),
        false => text.push_str(plain),
    }
}

/// Compiles a pattern. All patterns are ASCII, and folders are literals.
fn pattern(text: &str) -> Regex {
    RegexBuilder::new(text).unicode(false).build().expect("the patterns are fixed, and folders escaped")
}

/// First character of each mark.
const MARK: char = '\u{1}';

/// Returns the replacement of a masked value.
fn mark(number: MaskNumber) -> &'static str {
    const MARKS: &[&str] =
        &["\u{1}a", "\u{1}b", "\u{1}c", "\u{1}d", "\u{1}e", "\u{1}f", "\u{1}g", "\u{1}h", "\u{1}i"];
    MARKS[number]
}

/// Returns patterns for a folder as a path, and as the single word that harnesses make of it.
fn spellings(folder: &str) -> Vec<String> {
    let slug: String = folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    vec![regex::escape(folder), regex::escape(&slug)]
}

/// Hits of each mask.
#[derive(Clone, Debug, Default)]
pub(super) struct MaskTally {
    counts: Vec<(u64, u64)>,
}

impl MaskTally {
    /// Counts a hit in two values, which may differ.
    pub(super) fn hit(&mut self, number: MaskNumber, differed: bool) {
        self.counts.resize(MASKS.len() + OTHERS.len(), (0, 0));
        self.counts[number].0 += 1;
        self.counts[number].1 += u64::from(differed);
    }

    /// Returns all masks with their hits.
    pub(super) fn mask_uses(mut self) -> Vec<MaskUse> {
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
