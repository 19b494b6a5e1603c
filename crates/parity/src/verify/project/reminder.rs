//! Reminders that a harness attaches to the results of tools.
//!
//! A harness attaches them to whichever result of a message is the last one. So they are judged apart from the results.

use wire::dialect::Part;

use super::unit::Unit;

const OPEN: &str = "<system-reminder>";
const CLOSE: &str = "</system-reminder>";
/// A line break inside a JSON string. At most two of them separate a reminder from what precedes it.
const BREAK: &str = "\\n";

/// The reminders at the end of a result.
#[derive(Debug, Default)]
pub(super) struct AttachedReminders<'b> {
    /// Each with the pointer of its text, and the text as it is written, without quotes.
    pub(super) reminders: Vec<(&'b str, &'b str)>,
    /// The bytes of the result that belong to the reminders, in the order of their ends, from the last.
    cuts: Vec<&'b str>,
}

impl<'b> AttachedReminders<'b> {
    /// Finds the reminders: blocks at the end of a result, and the end of the last other text.
    pub(super) fn find(part: &'b Part, body: &'b str) -> Self {
        let mut found = Self::default();
        if !body[part.place.span.clone()].contains(OPEN) {
            return found;
        }
        let mut rest = &part.parts[..];
        while let [.., before, last] = rest {
            let Some((pointer, text)) = text_of(last, body) else { break };
            let (said, reminders) = split(text);
            if !said.is_empty() || reminders.is_empty() || last.marker.is_some() {
                break;
            }
            found.cuts.push(&body[before.place.span.end..last.place.span.end]);
            found.reminders.splice(0..0, reminders.into_iter().map(|reminder| (pointer, reminder)));
            rest = &rest[..rest.len() - 1];
        }
        if let Some((pointer, text)) = text_of(rest.last().unwrap_or(part), body) {
            let (said, reminders) = split(text);
            // A line break separates the text from a block with a reminder.
            let is_before_block = !found.cuts.is_empty();
            let said = if is_before_block { said.strip_suffix(BREAK).unwrap_or(said) } else { said };
            found.cuts.push(&text[said.len()..]);
            found.reminders.splice(0..0, reminders.into_iter().map(|reminder| (pointer, reminder)));
        }
        found
    }

    /// Returns the JSON of a result without its reminders.
    pub(super) fn cut_from(&self, result: &mut Unit) {
        for cut in self.cuts.iter().filter(|cut| !cut.is_empty()) {
            if let Some(at) = result.json.rfind(cut) {
                result.json.replace_range(at..at + cut.len(), "");
            }
        }
        result.hash = super::unit::digest(&result.json);
    }
}

/// Returns the pointer of a text, and its characters as they are written between the quotes.
fn text_of<'b>(part: &'b Part, body: &'b str) -> Option<(&'b str, &'b str)> {
    let content = part.content.as_ref()?;
    let inside = body[content.span.clone()].strip_prefix('"')?.strip_suffix('"')?;
    Some((&content.pointer, inside))
}

/// Divides a text into what precedes the reminders at its end, and these reminders.
fn split(text: &str) -> (&str, Vec<&str>) {
    let mut said = text;
    let mut reminders = Vec::new();
    while let Some(inside) = without_breaks(said).strip_suffix(CLOSE) {
        let Some(start) = inside.rfind(OPEN) else { break };
        reminders.insert(0, &said[start..inside.len() + CLOSE.len()]);
        said = without_breaks(&said[..start]);
    }
    (said, reminders)
}

fn without_breaks(text: &str) -> &str {
    let once = text.strip_suffix(BREAK).unwrap_or(text);
    once.strip_suffix(BREAK).unwrap_or(once)
}
