//! Prompts of side work, and how their answers are read.

use session::RunId;

use crate::fence;

pub(crate) const TURN_SUMMARY: &str = "\
Sum up the last turn of this conversation for its user, in one or two sentences: what was asked, what was done, and what is \
left. Answer with these sentences only.";

pub(crate) const PROMPT_SUGGESTION: &str = "\
Write what the user will most likely ask for next, in the user's words, as one line of at most 15 words. Answer with that \
line only. If nothing is likely, answer `NONE`.";

pub(crate) const SESSION_MEMORY: &str = "\
Write notes that help to continue this conversation later: the goal, decisions with their reasons, important files, and open \
points. Use plain text of at most 3000 bytes. Never include a password or a key. Your notes replace earlier ones of the same \
kind, so repeat what is still true. Answer with the notes only.";

/// Returns the prompt of a supervisor.
pub(crate) fn supervisor(question: &str) -> String {
    format!(
        "{question}\n\nJudge this conversation as its supervisor; do not continue it. If the agent can go on as it does, begin \
         with `OK`. If the agent should be reminded of something, begin with `REMIND:` and write that for the agent, in at \
         most three sentences."
    )
}

/// Returns the reminder in the answer of a supervisor.
pub(super) fn reminder_of(answer: &str) -> Option<&str> {
    let rest = answer.trim_start().strip_prefix("REMIND:")?.trim();
    (!rest.is_empty()).then_some(rest)
}

/// Returns whether there is a suggestion.
pub(super) fn is_suggestion(answer: &str) -> bool {
    answer.trim().trim_matches(['`', '.']) != "NONE"
}

/// Returns the message that delivers a reminder to the agent. The fork's id makes it unique.
pub(super) fn reminder(fork: &RunId, text: &str) -> String {
    let text = fence::without_control_tags(text).unwrap_or_else(|| text.to_owned());
    format!(
        "<supervisor run_id=\"{fork}\">\nA supervisor who reads this conversation says: {text}\n</supervisor>"
    )
}
