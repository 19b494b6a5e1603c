//! CapturedValues that turns capture from requests.

use std::collections::HashMap;

use session::CallId;
use wire::dialect::Prompt;

use super::format::Capture;
use super::prompt_text;

/// Captured values by name; for values that were not found, the reason.
#[derive(Clone, Debug, Default)]
pub(super) struct CapturedValues(HashMap<String, Result<String, String>>);

impl CapturedValues {
    /// Stores the outcome of a capture. A failure does not replace an earlier value.
    pub(super) fn insert(&mut self, name: &str, found: Result<String, String>) {
        if found.is_ok() || !matches!(self.0.get(name), Some(Ok(_))) {
            self.0.insert(name.to_owned(), found);
        }
    }

    /// Returns the value, or the reason why it was not found; `None` if it was never captured.
    pub(super) fn get(&self, name: &str) -> Option<Result<&str, &str>> {
        self.0.get(name).map(|found| found.as_deref().map_err(String::as_str))
    }
}

/// Searches a request for a value. `calls` maps ids of calls in the script to those that were sent.
pub(super) fn capture(
    rule: &Capture,
    calls: &HashMap<String, CallId>,
    prompt: &Prompt,
) -> Result<String, String> {
    let pattern = &rule.regex.0;
    let (found, searched) = match (&rule.result_of, rule.within) {
        (Some(id), _) => {
            let found = calls.get(id).and_then(|call| prompt_text::find_in_result(prompt, call, pattern));
            (found, format!("the result of `{id}`"))
        }
        (None, Some(within)) => {
            (prompt_text::find(prompt, within, pattern), format!("the request's {within}"))
        }
        (None, None) => (None, "nothing".to_owned()),
    };
    found.ok_or_else(|| format!("found no `{pattern}` in {searched}"))
}
