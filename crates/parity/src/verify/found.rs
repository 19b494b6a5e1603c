//! A difference, put into words: what it is, what both sides have, and the rule that would cover it.

use super::judge::Leaf;
use super::unit::{Kind, Unit};
use crate::verdict::{Level, Surface, VerdictDifference};

/// Values longer than this are shown around the place where they part.
const LONG: usize = 2000;
/// How much is shown before that place.
const BEFORE: usize = 200;

/// Where a difference is.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) surface: Surface,
    pub(super) lane: &'a str,
    pub(super) turn: u32,
}

impl Spot<'_> {
    /// A difference of place or order, which only an exclusion covers.
    pub(super) fn structural(
        &self,
        holds: Option<Level>,
        pointer: &str,
        what: impl Into<String>,
        golden: Option<&str>,
        candidate: Option<&str>,
    ) -> VerdictDifference {
        let difference = self.difference(holds, pointer, what, golden, candidate);
        let rule = mask(self.surface, pointer, None, None);
        // Nothing excuses a run that came to another end.
        VerdictDifference { suggested_rule: holds.map(|_| rule), ..difference }
    }

    /// A difference between two values, given as JSON or as words.
    pub(super) fn difference(
        &self,
        holds: Option<Level>,
        pointer: &str,
        what: impl Into<String>,
        golden: Option<&str>,
        candidate: Option<&str>,
    ) -> VerdictDifference {
        let (golden, candidate) = (golden.map(plain), candidate.map(plain));
        let mask = mask(self.surface, pointer, golden.as_deref(), candidate.as_deref());
        let (golden, candidate) = shown(golden, candidate);
        VerdictDifference {
            surface: self.surface,
            level: holds,
            lane: self.lane.to_owned(),
            turn: self.turn,
            pointer: pointer.to_owned(),
            description: what.into(),
            golden,
            candidate,
            suggested_rule: Some(mask),
            race: None,
        }
    }
}

/// What a value that differs is, in a few words.
pub(super) fn what(unit: &Unit, surface: Surface, leaf: &Leaf) -> String {
    let thing = match unit.kind {
        Kind::System => "the instructions".to_owned(),
        Kind::Said if surface == Surface::Jobs => "what is announced".to_owned(),
        Kind::Said => "a text".to_owned(),
        Kind::Reply => format!("the {} carried back", unit.key),
        Kind::Call => format!("the call of `{}`", unit.key),
        Kind::Result if surface == Surface::Jobs => "what is said of a job".to_owned(),
        Kind::Result => "a result".to_owned(),
        Kind::Tool => format!("the tool `{}`", unit.key),
        Kind::Model => "the model".to_owned(),
        Kind::Setting => format!("the setting `{}`", unit.key),
        Kind::Header => format!("the header `{}`", unit.key),
        Kind::Line => format!("the request's {}", unit.key),
        Kind::Identity => format!("the id in `{}`", unit.key),
    };
    let differ = if unit.kind == Kind::System { "differ" } else { "differs" };
    match (&leaf.golden, &leaf.candidate) {
        (Some(_), None) => format!("{thing} lacks it"),
        (None, Some(_)) => format!("{thing} has it, the golden's has not"),
        _ if leaf.masked => format!("{thing} {differ} under a mask"),
        _ => format!("{thing} {differ}"),
    }
}

/// A unit that only one side has, in a few words.
pub(super) fn unpaired(unit: &Unit, surface: Surface, of_golden: bool) -> String {
    let thing = match unit.kind {
        Kind::System => "a block of the instructions".to_owned(),
        Kind::Said if surface == Surface::Jobs => "an announcement".to_owned(),
        Kind::Said => "a text".to_owned(),
        Kind::Reply => format!("{} in the model's name", unit.key),
        Kind::Call => format!("a call of `{}`", unit.key),
        Kind::Result if surface == Surface::Jobs => "an answer about a job".to_owned(),
        Kind::Result => "a result".to_owned(),
        Kind::Tool => format!("the tool `{}`", unit.key),
        Kind::Header => format!("the header `{}`", unit.key),
        _ => format!("the setting `{}`", unit.key),
    };
    match of_golden {
        true => format!("{thing} is gone"),
        false => format!("{thing} is new"),
    }
}

/// The beginning of a value.
pub(super) fn short(value: &str) -> String {
    let text = plain(value);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A JSON string as its text, anything else as it is.
fn plain(value: &str) -> String {
    let inside = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.map_or_else(|| value.to_owned(), |inside| wire::json::unescape(inside).into_owned())
}

/// Both values, long ones around the place where they part.
fn shown(golden: Option<String>, candidate: Option<String>) -> (Option<String>, Option<String>) {
    let longest = golden.iter().chain(&candidate).map(String::len).max().unwrap_or_default();
    if longest <= LONG {
        return (golden, candidate);
    }
    let shared = match (&golden, &candidate) {
        (Some(golden), Some(candidate)) => {
            golden.bytes().zip(candidate.bytes()).take_while(|(g, c)| g == c).count()
        }
        _ => 0,
    };
    let around = |text: String| {
        let from = text.floor_char_boundary(shared.saturating_sub(BEFORE));
        let to = text.floor_char_boundary((from + LONG).min(text.len()));
        let dots = |cut: bool| if cut { "…" } else { "" };
        format!("{}{}{}", dots(from > 0), &text[from..to], dots(to < text.len()))
    };
    (golden.map(around), candidate.map(around))
}

/// The rule for `parity.toml` that would cover a difference.
fn mask(surface: Surface, pointer: &str, golden: Option<&str>, candidate: Option<&str>) -> String {
    let (table, pattern) = match (golden, candidate) {
        (Some(golden), Some(candidate)) => ("mask", pattern(golden, candidate)),
        // What is not there cannot be masked.
        _ => ("exclude", None),
    };
    let pattern = pattern.map_or(String::new(), |pattern| format!("pattern = {}\n", quoted(&pattern)));
    format!(
        "[[{table}]]\nsurface = \"{}\"\npointer = {}\n{pattern}reason = \"say why\"\n",
        surface.name(),
        quoted(pointer)
    )
}

/// The rule that covers the same to the byte: what a mask covers need only be alike.
pub(super) fn to_the_byte(rule: &str) -> String {
    let lines = rule.lines().filter(|line| !line.starts_with("pattern = "));
    let lines = lines.map(|line| if line == "[[mask]]" { "[[exclude]]" } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}

/// A text as a TOML string on one line, with nothing in it that could move a cursor.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || ('\u{200b}'..='\u{206f}').contains(&c) => {
                out.push_str(&format!("\\u{:04X}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A pattern for the one stretch in which two longer texts differ; nothing where the whole value is as good.
fn pattern(golden: &str, candidate: &str) -> Option<String> {
    const CONTEXT: usize = 24;
    if golden.len().max(candidate.len()) < 2 * CONTEXT {
        return None;
    }
    let head = golden.bytes().zip(candidate.bytes()).take_while(|(g, c)| g == c).count();
    let head = (0..=head).rev().find(|at| golden.is_char_boundary(*at) && candidate.is_char_boundary(*at))?;
    let (g_rest, c_rest) = (&golden[head..], &candidate[head..]);
    let tail = g_rest.bytes().rev().zip(c_rest.bytes().rev()).take_while(|(g, c)| g == c).count();
    let fits = |back: &usize| {
        g_rest.is_char_boundary(g_rest.len() - back) && c_rest.is_char_boundary(c_rest.len() - back)
    };
    let tail = (0..=tail).rev().find(fits)?;
    let from = golden.floor_char_boundary(head.saturating_sub(CONTEXT));
    let behind = &g_rest[g_rest.len() - tail..];
    let to = behind.floor_char_boundary(CONTEXT.min(behind.len()));
    if g_rest.len() - tail > golden.len() / 2 {
        return None;
    }
    let (before, behind) = (regex::escape(&golden[from..head]), regex::escape(&behind[..to]));
    let (start, end) = (if from == 0 { "^" } else { "" }, if to == tail { "$" } else { "" });
    Some(format!("(?s){start}{before}.*?{behind}{end}"))
}
