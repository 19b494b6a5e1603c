//! Checks a script beyond its grammar: names must be defined, and waits must be able to end.

use std::collections::HashSet;

use serde_json::Value;
use serde_saphyr::Spanned;

use super::format::{Capture, Lane, Match, ReplyItem, ScriptFile, Turn, Wait, When};
use super::mistake::{CheckResult, ScriptMistake};
use super::template::{Template, is_name};

/// Names of values that always exist.
pub(super) const BUILT_IN: &[&str] = &["workspace", "lane", "turn"];

/// Returns the first mistake.
pub(super) fn check(file: &ScriptFile) -> CheckResult {
    if file.lanes.value.is_empty() {
        return Err(ScriptMistake::at(&file.lanes, "`lanes` is empty, expected at least one lane"));
    }
    let captured: HashSet<&str> =
        turns(file).flat_map(|turn| turn.capture.keys().map(String::as_str)).collect();
    for (index, lane) in file.lanes.value.iter().enumerate() {
        check_name(lane, &file.lanes.value[..index])?;
        check_match(lane, &file.lanes.value[..index])?;
        if lane.turns.value.is_empty() {
            let what = format!("lane `{}` has no turns, expected at least one", lane.lane.value);
            return Err(ScriptMistake::at(&lane.turns, what));
        }
        for number in 0..lane.turns.value.len() {
            TurnCheck { file, lane, index: number }.check(&captured)?;
        }
    }
    super::wait_cycles::check(file)
}

fn turns(file: &ScriptFile) -> impl Iterator<Item = &Turn> {
    file.lanes.value.iter().flat_map(|lane| &lane.turns.value).map(|turn| &turn.value)
}

fn check_name(lane: &Lane, before: &[Lane]) -> CheckResult {
    let name = &lane.lane.value;
    if name.trim().is_empty() {
        return Err(ScriptMistake::at(&lane.lane, "a lane without a name"));
    }
    match before.iter().find(|other| other.lane.value == *name) {
        Some(other) => {
            let line = other.lane.referenced.line();
            Err(ScriptMistake::at(
                &lane.lane,
                format!("lane `{name}` is defined twice, first in line {line}"),
            ))
        }
        None => Ok(()),
    }
}

fn check_match(lane: &Lane, before: &[Lane]) -> CheckResult {
    let (name, matching) = (&lane.lane.value, &lane.matching.value);
    let all = Match { any: true, ..Match::default() };
    if *matching == Match::default() {
        let what = format!("lane `{name}` has an empty `match`; write `any: true` to match all requests");
        return Err(ScriptMistake::at(&lane.matching, what));
    }
    if matching.no_tools && !matching.tools_include.0.is_empty() {
        let what = format!("lane `{name}` has both `tools_include` and `no_tools`");
        return Err(ScriptMistake::at(&lane.matching, what));
    }
    match before.iter().find(|other| other.matching.value == all) {
        Some(other) => {
            let other = &other.lane.value;
            let what =
                format!("lane `{name}` is never reached: lane `{other}` before it matches all requests");
            Err(ScriptMistake::at(&lane.lane, what))
        }
        None => Ok(()),
    }
}

/// The check of one turn.
struct TurnCheck<'f> {
    file: &'f ScriptFile,
    lane: &'f Lane,
    index: usize,
}

impl<'f> TurnCheck<'f> {
    fn turn(&self) -> &'f Spanned<Turn> {
        &self.lane.turns.value[self.index]
    }

    /// Returns a name such as ``turn 2 of lane `main` ``.
    fn name(&self) -> String {
        format!("turn {} of lane `{}`", self.index + 1, self.lane.lane.value)
    }

    fn check(&self, captured: &HashSet<&str>) -> CheckResult {
        let turn = &self.turn().value;
        let has = match (&turn.reply, &turn.error) {
            (Some(_), Some(_)) => Some("both `reply` and `error`"),
            (None, None) => Some("neither `reply` nor `error`"),
            _ => None,
        };
        if let Some(has) = has {
            return Err(ScriptMistake::at(
                self.turn(),
                format!("{} has {has}, expected one of them", self.name()),
            ));
        }
        if let Some(when) = turn.when.as_ref().filter(|when| when.value == When::default()) {
            let what = "an empty `when`, expected `results_contain`, `text_contains`, `messages_contain`, `tools_include` or `tools_exclude`";
            return Err(ScriptMistake::at(when, what));
        }
        for (name, capture) in &turn.capture {
            self.check_capture(name, capture)?;
        }
        for wait in &turn.wait_for {
            self.check_wait(wait)?;
        }
        let known = |name: &str| BUILT_IN.contains(&name) || captured.contains(name);
        let unknown = |name: &str| {
            format!(
                "{} uses `${{{name}}}`, which no turn captures; write `$${{` for a plain `${{`",
                self.name()
            )
        };
        for item in turn.reply.iter().flatten() {
            let names = names(&item.value).map_err(|what| ScriptMistake::at(item, what))?;
            if let Some(name) = names.iter().find(|name| !known(name)) {
                return Err(ScriptMistake::at(item, unknown(name)));
            }
        }
        let message = turn.error.as_ref().and_then(|error| error.message.as_ref());
        match message.and_then(|message| message.names().find(|name| !known(name))) {
            Some(name) => Err(ScriptMistake::at(self.turn(), unknown(name))),
            None => Ok(()),
        }
    }

    fn check_capture(&self, name: &str, capture: &Spanned<Capture>) -> CheckResult {
        if !is_name(name) || BUILT_IN.contains(&name) {
            let why = match is_name(name) {
                true => "the name is built in",
                false => "a name has only letters, digits, `_` and `-`",
            };
            return Err(ScriptMistake::at(capture, format!("cannot capture `{name}`: {why}")));
        }
        match (&capture.value.result_of, capture.value.within) {
            (Some(id), None) if self.is_called_before(id) => Ok(()),
            (Some(id), None) => {
                let what = format!("no turn before {} makes a call with `id: {id}`", self.name());
                Err(ScriptMistake::at(capture, what))
            }
            (None, Some(_)) => Ok(()),
            _ => {
                let what = format!("expected either `result_of` or `in` for `{name}`");
                Err(ScriptMistake::at(capture, what))
            }
        }
    }

    /// Returns whether a call with this id comes before. A turn that repeats may refer to its own calls.
    fn is_called_before(&self, id: &str) -> bool {
        let end = self.index + usize::from(self.turn().value.times() > 1);
        let before = self.lane.turns.value[..end].iter();
        before.flat_map(|turn| turn.value.calls()).any(|call| call.id.as_deref() == Some(id))
    }

    fn check_wait(&self, wait: &Spanned<Wait>) -> CheckResult {
        let Wait { lane, finished, turn, count, .. } = &wait.value;
        let refuse = |what: String| Err(ScriptMistake::at(wait, what));
        let Some(awaited) = self.file.lanes.value.iter().find(|other| other.lane.value == *lane) else {
            let names: Vec<_> =
                self.file.lanes.value.iter().map(|lane| format!("`{}`", lane.lane.value)).collect();
            return refuse(format!(
                "{} waits for lane `{lane}`, expected one of {}",
                self.name(),
                names.join(", ")
            ));
        };
        let length = awaited.turns.value.len();
        let own = *lane == self.lane.lane.value;
        match (finished, turn.map(|turn| turn.get() as usize)) {
            (Some(true), None) if own => refuse(format!("{} waits for the end of its own lane", self.name())),
            (None, Some(turn)) if own && turn > self.index => refuse(format!(
                "{} waits for turn {turn} of its own lane, expected an earlier one",
                self.name()
            )),
            (None, Some(turn)) if turn > length => {
                refuse(format!("{} waits for turn {turn} of lane `{lane}`, which has {length}", self.name()))
            }
            (Some(true), None) | (None, Some(_)) => Ok(()),
            (None, None) if count.is_some() => Ok(()),
            _ => refuse(format!(
                "expected either `finished: true` or `turn` of lane `{lane}`, or only `count`"
            )),
        }
    }
}

/// Returns the placeholders in a part of a reply.
fn names(item: &ReplyItem) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    match item {
        ReplyItem::Text(text) | ReplyItem::Thinking(text) => found.extend(text.names().map(str::to_owned)),
        ReplyItem::Call(alternatives) => {
            for call in &alternatives.0 {
                if !matches!(call.input, Value::Object(_) | Value::String(_) | Value::Null) {
                    let what = "`input` must be a mapping, or a text for a tool with free text";
                    return Err(what.to_owned());
                }
                names_in(&call.input, &mut found)?;
            }
        }
    }
    Ok(found)
}

fn names_in(value: &Value, found: &mut Vec<String>) -> Result<(), String> {
    match value {
        Value::String(text) => found.extend(Template::parse(text)?.names().map(str::to_owned)),
        Value::Array(list) => list.iter().try_for_each(|value| names_in(value, found))?,
        Value::Object(object) => object.values().try_for_each(|value| names_in(value, found))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}
