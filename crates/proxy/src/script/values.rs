//! Values that turns capture from requests.

use std::collections::HashMap;

use session::CallId;
use wire::dialect::Prompt;

use super::ask;
use super::format::Capture;

/// Captured values by name; where there was none to be found, what was looked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(HashMap<String, Result<String, String>>);

impl Values {
    /// Keeps what was found. Finding nothing does not undo what was found before.
    pub(super) fn keep(&mut self, name: &str, found: Result<String, String>) {
        if found.is_ok() || !matches!(self.0.get(name), Some(Ok(_))) {
            self.0.insert(name.to_owned(), found);
        }
    }

    /// The value, or what was looked for in vain; `None` where nobody looked.
    pub(super) fn get(&self, name: &str) -> Option<Result<&str, &str>> {
        self.0.get(name).map(|found| found.as_deref().map_err(String::as_str))
    }
}

/// Looks for a value in a request. `calls` has the ids that the script's calls went out with.
pub(super) fn look(
    capture: &Capture,
    calls: &HashMap<String, CallId>,
    prompt: &Prompt,
) -> Result<String, String> {
    let pattern = &capture.regex.0;
    let (found, place) = match (&capture.result_of, capture.within) {
        (Some(id), _) => {
            let found = calls.get(id).and_then(|call| ask::find_in_result(prompt, call, pattern));
            (found, format!("the result of `{id}`"))
        }
        (None, Some(within)) => (ask::find(prompt, within, pattern), format!("the request's {within}")),
        (None, None) => (None, "nothing".to_owned()),
    };
    found.ok_or_else(|| format!("found no `{pattern}` in {place}"))
}
