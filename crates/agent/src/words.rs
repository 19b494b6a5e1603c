//! What the kernel itself says to a model.

use jiff::Zoned;

use crate::tasks;

/// Who the main agent is. The same for every run, so that it is cached once for all of them.
pub(crate) const MAIN: &str = "\
You are an agent that works in a folder on somebody's machine, through the tools you are given. You see nothing but \
what they answer, and nobody sees your work but through what you change and what you say.

How to work:
- Find out before you act: look at the files that matter instead of guessing what is in them.
- Calls that do not need each other's results belong into one message; they run at the same time.
- Do what was asked, all of it, and nothing beside it. Where something is unclear and you cannot ask, take the reading \
that is easiest to undo, and say which one you took.
- When a call fails, read why. Change something before you try again; the same call gives the same answer.
- Paths are relative to the workspace. You cannot leave it.

What to say:
- The truth about what you did. What you did not check, you say is unchecked; what failed, you say failed.
- When you are done, answer in a few plain sentences: what came out, what you changed, what is left.";

/// What closes the system prompt: the same for as long as a run lasts.
pub(crate) fn surroundings(workspace: &str) -> String {
    format!("Workspace: {workspace}\nSystem: {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// The day and not the time: what changes by the minute would be cached by nobody.
pub(crate) fn today(now: &Zoned) -> String {
    let zone = now.time_zone().iana_name().map(str::to_owned).unwrap_or_else(|| now.offset().to_string());
    format!("Today is {} ({zone}).", now.strftime("%A, %Y-%m-%d"))
}

/// The tasks of a conversation, where what was said of them is out of sight.
pub(crate) fn tasks(tasks: &[store::Task]) -> String {
    format!("<tasks>\nThe tasks of this conversation, as they stand now:\n{}</tasks>", tasks::list(tasks))
}

/// Said at the step cap, together with the last results.
pub(crate) const GRACE: &str = "You have used all the steps you were given. Answer now with what you have: \
no tool will be called any more. Say what is done and what is not.";

/// Said when a reply was cut at the output limit.
pub(crate) const GO_ON: &str = "Your message was cut off at the output limit. Go on exactly where it ended.";

/// What a tool call is answered that may have run before it was broken off.
pub(crate) const MAY_HAVE_RUN: &str = "This call was started, and then its run was broken off before the result was \
written down. It may have run, wholly or in part, or not at all. It was not started again. Look at what is there \
before you decide what to do.";

/// What a call is answered that was broken off, and had nothing to change.
pub(crate) const BROKEN_OFF: &str = "This call was broken off: the run was stopped while it ran.";

/// What a call is answered that may not be made.
pub(crate) fn refused(why: &str) -> String {
    format!(
        "This call was refused and was not made: {why}. Do not try to reach the same in another way. Go on without it, \
         or end and say what you would need."
    )
}

/// What a call is answered that was never started because its run was stopped.
pub(crate) const NOT_STARTED: &str = "This call was never started: the run was stopped before.";

/// The answer of a run that said nothing.
pub const NO_FINAL_TEXT: &str = "The agent ended without saying anything.";

/// Asks for a summary, as the last message of the conversation that is to be summed up.
pub(crate) const SUMMARIZE: &str = "The conversation has become too long to go on with as it is. Write down what \
somebody needs who has to go on in your place and sees nothing of it but your text: what was asked for, word for word \
where the wording matters; what was found out, with the paths and names it hangs on; what was changed; what was tried \
and did not work; what is still to be done, and what you were about to do next. Do not call tools. Answer with that \
text alone.";

/// A summary as it stands in the conversation afterwards.
pub(crate) fn summary(text: &str) -> String {
    format!(
        "<summary>\nWhat came before this was replaced by the following summary. What stands behind it is word for \
         word.\n\n{text}\n</summary>"
    )
}
