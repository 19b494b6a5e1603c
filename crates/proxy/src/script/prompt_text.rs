//! The texts of a request that conditions and captures of a script search.

use regex::Regex;
use session::{Block, CallId, Role};
use wire::dialect::{Prompt, PromptMessage, ToolDefinition};

use super::format::{Match, OneOrMore, When, Within};

impl Match {
    /// Returns whether all conditions hold for the request.
    pub(super) fn matches(&self, prompt: &Prompt) -> bool {
        (!self.no_tools || prompt.tools.is_empty())
            && is_any_offered(&self.tools_include, prompt)
            && are_none_offered(&self.tools_exclude, prompt)
            && is_any_in(&self.system_contains, || system(prompt))
            && is_any_in(&self.prompt_contains, || prompts(opening(prompt)))
            && is_any_in(&self.text_contains, || prompts(newest(prompt)))
            && (self.model.0.is_empty() || prompt.model.as_ref().is_some_and(|m| self.model.0.contains(m)))
    }
}

impl When {
    pub(super) fn holds(&self, prompt: &Prompt) -> bool {
        is_any_offered(&self.tools_include, prompt)
            && are_none_offered(&self.tools_exclude, prompt)
            && is_any_in(&self.results_contain, || results(newest(prompt), None))
            && is_any_in(&self.text_contains, || prompts(newest(prompt)))
            && is_any_in(&self.messages_contain, || messages(prompt))
    }
}

/// Returns the offered tool with this name.
pub(super) fn offered_tool<'p>(prompt: &'p Prompt, name: &str) -> Option<&'p ToolDefinition> {
    prompt.tools.iter().find(|tool| tool.name == name)
}

/// Returns the first group of the pattern, or the whole match if it has no group, in the newest text that matches.
pub(super) fn find(prompt: &Prompt, within: Within, pattern: &Regex) -> Option<String> {
    let texts = match within {
        Within::Results => results(&prompt.messages, None),
        Within::System => system(prompt),
        Within::Messages => messages(prompt),
    };
    newest_match(&texts, pattern)
}

/// Searches the result of one call in the same way.
pub(super) fn find_in_result(prompt: &Prompt, call: &CallId, pattern: &Regex) -> Option<String> {
    newest_match(&results(&prompt.messages, Some(call)), pattern)
}

/// Returns the reply that the request names instead of sending its history.
pub(super) fn continued(prompt: &Prompt, body: &[u8]) -> Option<String> {
    let place = prompt.setting("previous_response_id")?;
    serde_json::from_slice(body.get(place.span.clone())?).ok()
}

fn newest_match(texts: &[String], pattern: &Regex) -> Option<String> {
    let found = texts.iter().rev().find_map(|text| pattern.captures(text))?;
    found.get(1).or_else(|| found.get(0)).map(|found| found.as_str().to_owned())
}

fn is_any_offered(names: &OneOrMore<String>, prompt: &Prompt) -> bool {
    names.0.is_empty() || names.0.iter().any(|name| offered_tool(prompt, name).is_some())
}

fn are_none_offered(names: &OneOrMore<String>, prompt: &Prompt) -> bool {
    !names.0.iter().any(|name| offered_tool(prompt, name).is_some())
}

fn is_any_in(wanted: &OneOrMore<String>, texts: impl FnOnce() -> Vec<String>) -> bool {
    if wanted.0.is_empty() {
        return true;
    }
    let texts = texts();
    wanted.0.iter().any(|wanted| texts.iter().any(|text| text.contains(wanted.as_str())))
}

/// Returns the messages before the first reply. Some harnesses send several.
fn opening(prompt: &Prompt) -> &[PromptMessage] {
    let all = prompt.conversation();
    let end = all.iter().position(|message| message.role == Role::Assistant).unwrap_or(all.len());
    &all[..end]
}

/// Returns the messages after the last reply.
fn newest(prompt: &Prompt) -> &[PromptMessage] {
    let all = prompt.conversation();
    let start = all.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |last| last + 1);
    &all[start..]
}

fn system(prompt: &Prompt) -> Vec<String> {
    prompt.instructions().filter_map(|part| text(&part.block)).collect()
}

/// Returns the texts of the harness without tool results. Blocks of one message count as one text.
fn harness_texts(messages: &[PromptMessage]) -> Vec<String> {
    let own = messages.iter().filter(|message| message.role != Role::Assistant);
    own.map(|message| joined(message.parts.iter().map(|part| &part.block))).collect()
}

/// Returns the texts of the harness without the context that our agent puts before a prompt. It quotes earlier prompts.
fn prompts(messages: &[PromptMessage]) -> Vec<String> {
    let own = messages.iter().filter(|message| message.role != Role::Assistant);
    own.map(|message| {
        let texts: Vec<String> = message.parts.iter().filter_map(|part| text(&part.block)).collect();
        let last = texts.len().saturating_sub(1);
        let said = texts.iter().enumerate().map(|(at, text)| match at < last {
            true => without_context(text),
            false => text,
        });
        said.collect::<Vec<_>>().join("\n")
    })
    .collect()
}

/// Returns a text without its first part `<context>…</context>`.
fn without_context(text: &str) -> &str {
    let inside = text.strip_prefix("<context>\n").and_then(|rest| rest.split_once("\n</context>"));
    inside.map_or(text, |(_, after)| after)
}

/// Returns the tool results, or the result of one call.
fn results(messages: &[PromptMessage], of: Option<&CallId>) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.parts).map(|part| &part.block);
    let results = blocks.filter_map(|block| match block {
        Block::ToolResult(result) if of.is_none_or(|call| *call == result.call) => Some(result),
        _ => None,
    });
    results.map(|result| joined(result.blocks.iter())).collect()
}

/// Returns the texts and results of the whole conversation, without the replies.
fn messages(prompt: &Prompt) -> Vec<String> {
    prompt.conversation().iter().flat_map(all_texts).collect()
}

fn all_texts(message: &PromptMessage) -> Vec<String> {
    let one = std::slice::from_ref(message);
    [results(one, None), harness_texts(one)].concat()
}

fn joined<'b>(blocks: impl Iterator<Item = &'b Block>) -> String {
    blocks.filter_map(text).collect::<Vec<_>>().join("\n")
}

fn text(block: &Block) -> Option<String> {
    match block {
        Block::Text { text } => Some(text.clone()),
        _ => None,
    }
}
