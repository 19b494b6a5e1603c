//! `parity.toml`: what a scenario leaves out or masks, and why.

use std::fs;
use std::path::{Path, PathBuf};

use recording::scenario::Versions;
use regex::Regex;
use serde::Deserialize;
use thiserror::Error;

use super::side::RecordingFacts;
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

/// What a rule does to the value it covers.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// It is not compared.
    Exclude,
    /// It need only be there.
    MaskWhole,
    /// What matches may differ.
    Mask(Regex),
}

/// ParityRules that cannot be used.
#[derive(Debug, Error)]
pub enum ParityRulesError {
    /// The file cannot be read.
    #[error("cannot read the rules in `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("cannot use the rules in `{}`, line {line}: {why}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The newest where nothing is said: what `verify` suggests can be pasted as it is.
    format: Option<toml::Spanned<u32>>,
    #[serde(default)]
    exclude: Vec<toml::Spanned<Entry>>,
    #[serde(default)]
    mask: Vec<toml::Spanned<Entry>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
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

/// The harness that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AppliesTo {
    harness: String,
    #[serde(default)]
    versions: Option<Versions>,
}

impl ParityRules {
    /// Reads the rules of a golden: those of the file that is named, else those beside it, else none.
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

    /// Reads rules from a text; `path` is named where something is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ParityRulesError> {
        let bad = |at: usize, why: String| {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            ParityRulesError::Bad { path: path.to_owned(), line, why }
        };
        let file: File = toml::from_str(text).map_err(|error| {
            bad(error.span().map_or(0, |span| span.start), error.message().trim().to_owned())
        })?;
        if let Some(format) = file.format.as_ref().filter(|format| *format.get_ref() != RULES_FORMAT) {
            let why = format!("format {} is not known; this version knows {RULES_FORMAT}", format.get_ref());
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
            // Whoever pastes a rule twice means it once; else the second would cover nothing.
            if !once.iter().any(|it| it.does_the_same_as(&rule)) {
                once.push(rule);
            }
        }
        Ok(Self { rules: once })
    }

    /// The rules that are for these harnesses, with nothing hit yet.
    pub(super) fn applied_to(&self, facts: [&RecordingFacts; 2]) -> Applied {
        let is_for = |rule: &Rule| {
            rule.applies_to.is_empty()
                || rule.applies_to.iter().any(|to| facts.iter().any(|facts| to.includes(facts)))
        };
        let rules = self.rules.iter().map(|rule| (rule.clone(), is_for(rule), 0));
        Applied { rules: rules.collect() }
    }
}

impl Rule {
    /// Whatever reason is given for it.
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

impl Entry {
    fn rule(self, is_mask: bool) -> Result<Rule, String> {
        if self.reason.trim().is_empty() {
            return Err("a rule needs a `reason`".to_owned());
        }
        let is_place = |prefix: &str| self.pointer.starts_with(prefix);
        if !self.pointer.is_empty()
            && !["/", "header:", "url:", "method", "lane", "job"].into_iter().any(is_place)
        {
            return Err(format!(
                "`{}` is no pointer; write one as in `/system/0/text` or `header:user-agent`",
                self.pointer
            ));
        }
        let effect = match (is_mask, self.pattern) {
            (false, Some(_)) => return Err("an exclusion has no `pattern`; a mask may have one".to_owned()),
            (false, None) => Effect::Exclude,
            (true, None) => Effect::MaskWhole,
            (true, Some(pattern)) => match Regex::new(&pattern) {
                Ok(regex) => Effect::Mask(regex),
                Err(error) => return Err(format!("`pattern` is no regular expression: {error}")),
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

/// ParityRules at work: each with whether it is for these harnesses, and how often it was hit.
pub(super) struct Applied {
    rules: Vec<(Rule, bool, u64)>,
}

impl Applied {
    /// Whether any rule is for this surface.
    pub(super) fn concern(&self, surface: Surface) -> bool {
        self.rules.iter().any(|(rule, is_for, _)| *is_for && rule.surface == surface)
    }

    /// The rules that cover a value, by number.
    pub(super) fn covering(&self, surface: Surface, pointer: &str) -> Vec<(usize, Effect)> {
        let covers = |rule: &Rule| rule.surface == surface && matches_at_or_above(&rule.pointer, pointer);
        let rules = self.rules.iter().enumerate().filter(|(_, (rule, is_for, _))| *is_for && covers(rule));
        rules.map(|(number, (rule, _, _))| (number, rule.effect.clone())).collect()
    }

    /// A rule applied.
    pub(super) fn hit(&mut self, number: usize) {
        self.rules[number].2 += 1;
    }

    pub(super) fn uses(self) -> Vec<RuleUse> {
        let used = self.rules.into_iter().map(|(rule, is_for, hits)| RuleUse {
            surface: rule.surface,
            pointer: rule.pointer,
            reason: rule.reason,
            hits,
            stale: is_for && hits == 0,
        });
        used.collect()
    }
}

/// Whether a pattern with `*` for any one segment names this place, or one that holds it.
fn matches_at_or_above(pattern: &str, pointer: &str) -> bool {
    let mut segments = pointer.split('/');
    pattern.split('/').all(|wanted| {
        let segment = segments.next();
        segment.is_some_and(|segment| wanted == "*" || wanted == segment)
    })
}
