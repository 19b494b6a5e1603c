//! Index of the prompts in tool calls, to find the call that started a conversation.
//!
//! No harness or tool is known here. Any string in a call's input may be a prompt, and is one if a new
//! conversation opens with it.

use std::collections::HashMap;

use session::ToolCall;

use super::request::{digest, shortened};

/// Number of words from which an argument counts as a prompt under any name.
const PROMPT_WORDS: usize = 8;
/// Highest rank of a member name that says prompt.
const NAMED: u8 = 1;
/// Number of bytes at the start of a prompt that find it inside a longer text.
const ANCHOR: usize = 16;

/// Every string in the input of a call.
#[derive(Debug, Default)]
pub(super) struct PromptIndex {
    by_text: HashMap<u64, IndexedPrompt>,
    anchors: HashMap<u64, Vec<u64>>,
    /// Prompts that are too short for an anchor, from members with a prompt's name.
    short: Vec<u64>,
}

#[derive(Debug)]
struct IndexedPrompt {
    /// Beginning of the text.
    text: String,
    /// Length of the entire text.
    length: usize,
    /// Number of its words. Scripts without spaces count two characters as a word.
    words: usize,
    /// Lowest rank of its member names.
    rank: u8,
    /// Calls that contain it under a name of that rank, by number.
    calls: Vec<usize>,
}

/// Match of a conversation's opening with a string from calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptMatch {
    /// Digest of the string.
    pub(super) prompt: u64,
    /// True if an opening text equals the string.
    pub(super) exact: bool,
}

impl PromptIndex {
    /// Adds the strings of a call's input.
    pub(super) fn add(&mut self, number: usize, call: &ToolCall) {
        match serde_json::from_str::<serde_json::Value>(&call.input) {
            Ok(input) => self.leaves(number, "", &input),
            Err(_) => self.leaf(number, "", &call.input),
        }
    }

    fn leaves(&mut self, number: usize, key: &str, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(text) => self.leaf(number, key, text),
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.leaves(number, key, item)),
            serde_json::Value::Object(members) => {
                members.iter().for_each(|(key, value)| self.leaves(number, key, value));
            }
            _ => {}
        }
    }

    fn leaf(&mut self, number: usize, key: &str, text: &str) {
        let (text, rank) = (join_words(text), rank(key));
        if !(is_sentence(&text) || rank == 0 && !text.is_empty()) {
            return;
        }
        let id = digest(text.as_str());
        let prompt = self.by_text.entry(id).or_insert_with(|| {
            match text.as_bytes().get(..ANCHOR) {
                Some(anchor) if is_sentence(&text) => {
                    self.anchors.entry(digest(anchor)).or_default().push(id);
                }
                None if is_sentence(&text) && rank == 0 => self.short.push(id),
                _ => {}
            }
            IndexedPrompt {
                text: shortened(&text).to_owned(),
                length: text.len(),
                words: word_count(&text),
                rank,
                calls: Vec::new(),
            }
        });
        // A to-do list may repeat a prompt. Members named as prompts have priority.
        if rank < prompt.rank {
            (prompt.rank, prompt.calls) = (rank, Vec::new());
        }
        if rank == prompt.rank && prompt.calls.last() != Some(&number) {
            prompt.calls.push(number);
        }
    }

    /// Returns the longest prompt in the texts. One that equals an entire text has priority.
    ///
    /// An argument of few words is a prompt only if its name says so, or if it equals `first`, the first text of
    /// the user.
    pub(super) fn find_in<'t>(
        &self,
        texts: impl Iterator<Item = &'t str>,
        first: Option<&str>,
    ) -> Option<PromptMatch> {
        let texts: Vec<String> = texts.map(join_words).collect();
        let first = first.map(join_words);
        let is_whole = |text: &&String| {
            let indexed = self.by_text.get(&digest(text.as_str()));
            indexed.is_some_and(|prompt| prompt.is_prompt() || first.as_ref() == Some(*text))
        };
        if let Some(text) = texts.iter().filter(is_whole).max_by_key(|text| text.len()) {
            return Some(PromptMatch { prompt: digest(text.as_str()), exact: true });
        }
        let inside = texts.iter().flat_map(|text| self.inside(text).chain(self.short_inside(text)));
        let inside = inside.filter(|(_, prompt)| self.by_text[prompt].is_prompt());
        inside.max_by_key(|(length, _)| *length).map(|(_, prompt)| PromptMatch { prompt, exact: false })
    }

    /// Returns whether a text equals a string of a call's input.
    pub(super) fn is_known(&self, text: &str) -> bool {
        self.by_text.contains_key(&digest(join_words(text).as_str()))
    }

    /// Does the same for instructions, which are long: only members named as prompts count.
    pub(super) fn find_in_instructions<'t>(
        &self,
        texts: impl Iterator<Item = &'t str>,
    ) -> Option<PromptMatch> {
        let claim = self.find_in(texts, None)?;
        (self.by_text[&claim.prompt].rank == 0).then_some(PromptMatch { exact: false, ..claim })
    }

    /// Returns the calls that contain a string, in order.
    pub(super) fn calls(&self, prompt: u64) -> &[usize] {
        self.by_text.get(&prompt).map_or(&[], |prompt| &prompt.calls)
    }

    fn short_inside<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (usize, u64)> + 't {
        let bytes = text.as_bytes();
        let is_word =
            move |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
        let whole =
            move |at: usize, length: usize| !is_word(at.checked_sub(1)) && !is_word(Some(at + length));
        self.short.iter().filter_map(move |id| {
            let prompt = self.by_text[id].text.as_str();
            let found = text.match_indices(prompt).any(|(at, _)| whole(at, prompt.len()));
            found.then_some((prompt.len(), *id))
        })
    }

    fn inside<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (usize, u64)> + 't {
        let bytes = text.as_bytes();
        let is_word = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let starts = (0..(bytes.len() + 1).saturating_sub(ANCHOR))
            .filter(move |at| !bytes[*at].is_ascii_whitespace() && (*at == 0 || !is_word(at - 1)));
        let found = starts.flat_map(move |at| {
            let anchored = self.anchors.get(&digest(&bytes[at..at + ANCHOR]));
            anchored.into_iter().flatten().map(move |id| (at, *id))
        });
        found.filter_map(move |(at, id)| {
            let IndexedPrompt { text: prompt, length, .. } = &self.by_text[&id];
            let whole = || text.get(at..at + length).is_some_and(|part| digest(part) == id);
            let fits = bytes[at..].starts_with(prompt.as_bytes())
                && !is_word(at + length)
                && (prompt.len() == *length || whole());
            fits.then_some((*length, id))
        })
    }
}

impl IndexedPrompt {
    /// Returns whether the string is long enough for a prompt, or its name says that it is one.
    fn is_prompt(&self) -> bool {
        self.rank <= NAMED || self.words >= PROMPT_WORDS
    }
}

/// Returns whether a text has several words, unlike a path or a name. Some scripts have no spaces.
fn is_sentence(text: &str) -> bool {
    text.contains(' ') || text.chars().filter(|c| !c.is_ascii()).nth(3).is_some()
}

/// Reduces a text to its words, because harnesses indent, trim and fold lines.
fn join_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn word_count(text: &str) -> usize {
    text.split(' ').count() + text.chars().filter(|c| !c.is_ascii()).count() / 2
}

/// Returns the rank of a member name: the lower, the more likely it holds a prompt.
fn rank(key: &str) -> u8 {
    match key.to_ascii_lowercase().as_str() {
        "prompt" => 0,
        "task" | "instruction" | "instructions" => NAMED,
        "message" | "query" | "input" | "request" | "goal" | "question" => 2,
        "description" | "title" | "name" | "content" | "subject" | "label" => 4,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use session::CallId;

    use super::*;

    fn prompts(inputs: &[&str]) -> PromptIndex {
        let mut prompts = PromptIndex::default();
        for (number, input) in inputs.iter().enumerate() {
            let input = (*input).to_owned();
            let call = ToolCall { id: CallId::new("c"), name: "t".into(), input, server: false };
            prompts.add(number, &call);
        }
        prompts
    }

    fn found(prompts: &PromptIndex, text: &str) -> Option<(Vec<usize>, bool)> {
        let claim = prompts.find_in([text].into_iter(), None)?;
        Some((prompts.calls(claim.prompt).to_vec(), claim.exact))
    }

    #[test]
    fn any_opening_text_is_a_prompt() {
        let prompts = prompts(&[
            r#"{"description":"scan it","prompt":"List the root of the tree."}"#,
            r#"{"tasks":[{"prompt":"Count every line in it."},{"prompt":"List the root of the tree."}]}"#,
            r#"{"file_path":"/work/with/a/long/name.txt"}"#,
            r#"{"prompt":"go"}"#,
            "free text for a custom tool",
            r#"{"prompt":"scan src"}"#,
            r#"{"command":"git status"}"#,
            r#"{"todos":[{"content":"List the root of the tree."}]}"#,
        ]);
        assert_eq!(found(&prompts, "List the root of the tree."), Some((vec![0, 1], true)));
        assert_eq!(found(&prompts, "go\n"), Some((vec![3], true)), "a prompt may be one word");
        let wrapped = "<task>Count every line in it.</task> Be brief.";
        assert_eq!(found(&prompts, wrapped), Some((vec![1], false)));
        assert_eq!(found(&prompts, "Read /work/with/a/long/name.txt and more"), None, "a path is no prompt");
        assert_eq!(found(&prompts, "free text for a custom toolbox"), None, "words are whole");
        assert_eq!(found(&prompts, "Your task: scan src, and be brief."), Some((vec![5], false)));
        assert_eq!(found(&prompts, "scan srcs"), None);
        assert_eq!(found(&prompts, "this is the git status of it"), None, "a command is no prompt");
        assert_eq!(found(&prompts, "é"), None);
    }
}
