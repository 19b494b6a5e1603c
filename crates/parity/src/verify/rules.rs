//! `parity.toml`: exclusions and masks of a scenario, with their reasons.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use recording::scenario::VersionRange;
use regex::Regex;
use serde::Deserialize;
use thiserror::Error;

use super::compared::RecordingFacts;
use crate::verdict::{RuleUse, Surface};

/// The version of the file's format.
pub const RULES_FORMAT: u32 = 1;
/// The file's usual name.
pub const RULES_FILE: &str = "parity.toml";

/// The rules of a scenario.
#[derive(Clone, Debug, Default)]
pub struct ParityRules {
    rules: Vec<Rule>,
}

/// One rule: an exclusion or a mask.
#[derive(Clone, Debug)]
struct Rule {
    surface: Surface,
    pointer: String,
    reason: String,
    applies_to: Vec<AppliesTo>,
    effect: Effect,
}

/// Effect of a rule on a value that it covers.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// The value is not compared.
    Exclude,
    /// Both sides must have the value.
    MaskWhole,
    /// Matches of the pattern may differ.
    Mask(Regex),
}

/// An error in the rules.
#[derive(Debug, Error)]
pub enum ParityRulesError {
    /// The file cannot be read.
    #[error("cannot read the rules in `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file has a mistake.
    #[error("cannot use the rules in `{}`, line {line}: {why}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The mistake.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    /// Optional, so that a rule that `verify` suggests makes a complete file.
    format: Option<toml::Spanned<u32>>,
    #[serde(default)]
    exclude: Vec<toml::Spanned<RuleEntry>>,
    #[serde(default)]
    mask: Vec<toml::Spanned<RuleEntry>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    surface: Surface,
    pointer: String,
    reason: String,
    #[serde(default)]
    applies_to: Option<OneOrMore>,
    #[serde(default)]
    pattern: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(AppliesTo),
    More(Vec<AppliesTo>),
}

/// The harness and versions that a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AppliesTo {
    harness: String,
    #[serde(default)]
    versions: Option<VersionRange>,
}

impl ParityRules {
    /// Reads the rules of a golden: from the named file, or from `parity.toml` beside it. Without either there are none.
    pub fn find(golden: &Path, named: Option<&Path>) -> Result<Self, ParityRulesError> {
        if let Some(path) = named {
            return Self::load(path);
        }
        let beside = [golden.join(RULES_FILE), golden.join("../..").join(RULES_FILE)];
        match beside.iter().find(|path| path.is_file()) {
            Some(path) => Self::load(path),
            None => Ok(Self::default()),
        }
    }

    fn load(path: &Path) -> Result<Self, ParityRulesError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ParityRulesError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses rules. Errors name `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ParityRulesError> {
        let bad = |at: usize, why: String| {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            ParityRulesError::Bad { path: path.to_owned(), line, why }
        };
        let file: RulesFile = toml::from_str(text).map_err(|error| {
            bad(error.span().map_or(0, |span| span.start), error.message().trim().to_owned())
        })?;
        if let Some(format) = file.format.as_ref().filter(|format| *format.get_ref() != RULES_FORMAT) {
            let why = format!("unknown format {}; this version reads {RULES_FORMAT}", format.get_ref());
            return Err(bad(format.span().start, why));
        }
        let mut rules = Vec::new();
        for (is_mask, entry) in file
            .exclude
            .into_iter()
            .map(|entry| (false, entry))
            .chain(file.mask.into_iter().map(|entry| (true, entry)))
        {
            let at = entry.span().start;
            let rule = entry.into_inner().rule(is_mask).map_err(|why| bad(at, why))?;
            rules.push((at, rule));
        }
        rules.sort_by_key(|(at, _)| *at);
        let mut once: Vec<Rule> = Vec::new();
        for (_, rule) in rules {
            // A rule that was pasted twice would be stale the second time.
            if !once.iter().any(|it| it.does_the_same_as(&rule)) {
                once.push(rule);
            }
        }
        Ok(Self { rules: once })
    }

    /// Returns the rules with their scope for these harnesses, and without hits.
    pub(super) fn applied_to(&self, facts: [&RecordingFacts; 2]) -> AppliedRules {
        let is_for = |rule: &Rule| {
            rule.applies_to.is_empty()
                || rule.applies_to.iter().any(|to| facts.iter().any(|facts| to.includes(facts)))
        };
        let applied =
            |rule: &Rule| AppliedRule { rule: rule.clone(), is_applicable: is_for(rule), hits: Cell::new(0) };
        AppliedRules { rules: self.rules.iter().map(applied).collect() }
    }
}

impl Rule {
    /// Compares everything but the reasons.
    fn does_the_same_as(&self, other: &Self) -> bool {
        let effect = match (&self.effect, &other.effect) {
            (Effect::Exclude, Effect::Exclude) | (Effect::MaskWhole, Effect::MaskWhole) => true,
            (Effect::Mask(mine), Effect::Mask(theirs)) => mine.as_str() == theirs.as_str(),
            _ => false,
        };
        effect
            && (self.surface, &self.pointer, &self.applies_to)
                == (other.surface, &other.pointer, &other.applies_to)
    }
}

impl RuleEntry {
    fn rule(self, is_mask: bool) -> Result<Rule, String> {
        if self.reason.trim().is_empty() {
            return Err("a rule needs a `reason`".to_owned());
        }
        let is_place = |prefix: &str| self.pointer.starts_with(prefix);
        if !self.pointer.is_empty()
            && !["/", "header:", "url:", "method", "lane", "job", "answer:"].into_iter().any(is_place)
        {
            return Err(format!(
                "`{}` is not a pointer; write one as in `/system/0/text` or `header:user-agent`",
                self.pointer
            ));
        }
        let effect = match (is_mask, self.pattern) {
            (false, Some(_)) => return Err("an exclusion has no `pattern`; a mask may have one".to_owned()),
            (false, None) => Effect::Exclude,
            (true, None) => Effect::MaskWhole,
            (true, Some(pattern)) => match Regex::new(&pattern) {
                Ok(regex) => Effect::Mask(regex),
                Err(error) => return Err(format!("`pattern` is not a regular expression: {error}")),
            },
        };
        let applies_to = match self.applies_to {
            None => Vec::new(),
            Some(OneOrMore::One(one)) => vec![one],
            Some(OneOrMore::More(more)) => more,
        };
        Ok(Rule { surface: self.surface, pointer: self.pointer, reason: self.reason, applies_to, effect })
    }
}

impl AppliesTo {
    fn includes(&self, facts: &RecordingFacts) -> bool {
        let version = facts.version.as_deref().unwrap_or_default();
        facts.harness.as_ref() == Some(&self.harness)
            && self.versions.as_ref().is_none_or(|versions| versions.include(version))
    }
}

/// Rules during a comparison.
pub(super) struct AppliedRules {
    rules: Vec<AppliedRule>,
}

struct AppliedRule {
    rule: Rule,
    /// True if it is for one of the two harnesses.
    is_applicable: bool,
    hits: Cell<u64>,
}

impl AppliedRules {
    /// Returns whether any rule is for this surface.
    pub(super) fn has_any_for(&self, surface: Surface) -> bool {
        self.rules.iter().any(|it| it.is_applicable && it.rule.surface == surface)
    }

    /// Returns the rules that cover a value, by number.
    pub(super) fn covering(&self, surface: Surface, pointer: &str) -> Vec<(usize, &Effect)> {
        let covers = |it: &AppliedRule| {
            it.is_applicable && it.rule.surface == surface && matches_at_or_above(&it.rule.pointer, pointer)
        };
        let rules = self.rules.iter().enumerate().filter(|(_, it)| covers(it));
        rules.map(|(number, it)| (number, &it.rule.effect)).collect()
    }

    /// Counts a hit of a rule.
    pub(super) fn hit(&self, number: usize) {
        let hits = &self.rules[number].hits;
        hits.set(hits.get() + 1);
    }

    /// Returns whether a rule excludes a place, and counts its hit.
    pub(super) fn exclude(&self, surface: Surface, pointer: &str) -> bool {
        let covering = self.covering(surface, pointer);
        let rule = covering.iter().find(|(_, effect)| matches!(effect, Effect::Exclude));
        rule.inspect(|(number, _)| self.hit(*number)).is_some()
    }

    /// Returns all rules with their hits.
    pub(super) fn rule_uses(&self) -> Vec<RuleUse> {
        let used = self.rules.iter().map(|AppliedRule { rule, is_applicable, hits }| RuleUse {
            surface: rule.surface,
            pointer: rule.pointer.clone(),
            reason: rule.reason.clone(),
            hits: hits.get(),
            stale: *is_applicable && hits.get() == 0,
        });
        used.collect()
    }
}

/// Returns whether a pattern, with `*` for any one segment, names this place or one that contains it.
fn matches_at_or_above(pattern: &str, pointer: &str) -> bool {
    let mut segments = pointer.split('/');
    pattern.split('/').all(|wanted| {
        let segment = segments.next();
        segment.is_some_and(|segment| wanted == "*" || wanted == segment)
    })
}
