//! What the kernel itself says to a model.

use jiff::Zoned;
use session::Block;

use crate::fence::fenced;
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

/// Who a sub-agent is. The same for all of them, whatever they do, so that it is cached once for all of them.
pub(crate) const SUB: &str = "\
You are a sub-agent: another agent has handed one piece of its work to you, and waits for what you hand back. You work \
in a folder on somebody's machine, through the tools you are given. You see nothing of the conversation that led to \
your work, only what you are told here, and nobody sees your work but through what you change and what you answer.

What you are told:
- The first message holds your surroundings and then the piece of work itself. That is all there is. Where something is \
missing, look for it in the files; where it cannot be found, take the reading that is easiest to undo, and say which \
one you took. You cannot ask anybody.
- `<task>` names the piece of the plan that your work belongs to. Whether the task is complete is not yours to say: you \
answer, and whoever sent you judges.
- `<prior_attempts>` holds what others answered who worked on the same task before you, oldest first, each cut short. \
Do not begin again where they have found something. Check what you rely on, go on from there, and leave out what they \
tried without success, unless you know why it will be different now.

What you can do:
- Find out before you act: look at the files that matter instead of guessing what is in them. Paths are relative to the \
workspace, which you cannot leave.
- Calls that do not need each other's results belong into one message; they run at the same time.
- When a call fails, read why. Change something before you try again; the same call gives the same answer. A call that \
was refused is refused for good: do not look for another way to the same thing.
- Others may work in the same folder at the same time. Change only what your work is about. When a file is not as you \
left it, read it again before you edit it.
- `memory` holds what is to be remembered from one conversation to the next; look there before you find out again what \
is known. Write there only what will still be true and of use later.
- `skill` gives instructions for kinds of work; when one fits, read it before you begin.
- `sessions_search` finds what was said in earlier conversations with the user, where that matters.

What you hand back:
- Your last message is all that comes back, so it must stand for itself: the answer first, then what it rests on, with \
paths and line numbers, commands and their results, word for word where the wording matters.
- The truth about what you did. What you did not check, you say is unchecked; what failed, you say failed; what you \
could not do, you say is left, and why. A short answer that is right is worth more than a long one that might be. Never \
make up a result so that there is one.
- Name every file that you changed, and anything that you started and that still runs.
- If an answer of a certain shape is asked for, answer with that and with nothing beside it.
- Your steps are limited. When you are told that they are used up, answer at once with what you have.";

/// How commands are held.
pub(crate) fn sandbox(is_off: bool) -> &'static str {
    match is_off {
        true => "Commands run without a sandbox: they can do whatever the user can.",
        false => {
            "Commands run in a sandbox: they can write in the workspace and in a folder for temporary files only, and \
             have no network."
        }
    }
}

/// What an answer must be.
pub(crate) fn output_schema(schema: &serde_json::Value) -> String {
    format!(
        "Answer with one JSON value that fits this JSON schema, and with nothing beside it:\n<output_schema>\n{schema}\n\
         </output_schema>"
    )
}

/// Said when an answer is not of that shape, once. No letter in it looks different on the wire.
pub(crate) const REPAIR: &str = "Your answer does not have the shape that was asked for:";

pub(crate) fn repair(why: &str) -> String {
    format!(
        "{REPAIR} {why}\nAnswer again with the JSON value alone. This is the last time that you are asked."
    )
}

/// Said to whoever asked for it.
pub(crate) fn schema_mismatch(why: &str) -> String {
    format!("the answer does not fit `output_schema`: {why}")
}

/// What a parent is told of a sub-agent that was stopped together with it.
pub(crate) const CONTINUES_AS_JOB: &str = "It was stopped together with you before it had an answer. It goes on in the background \
now, and you will be told when it has ended. Do not start it again.";

/// What a parent is told of a sub-agent that was ended together with it.
pub(crate) const ENDED_WITH_YOU: &str = "It was ended together with you before it had an answer.";

/// The beginning of a text that may be of any length.
pub(crate) fn cut(text: &str, most: usize) -> std::borrow::Cow<'_, str> {
    match text.floor_char_boundary(most) {
        end if end < text.len() => format!("{}…", &text[..end]).into(),
        _ => text.into(),
    }
}

/// What is counted, as people write it.
pub(crate) fn amount(amount: i64, unit: &str) -> String {
    if unit == "tokens" {
        return format!("{amount} tokens");
    }
    let places = if amount < 10_000 { 6 } else { 4 };
    format!("${:.places$}", amount as f64 / 1e6)
}

/// Said of a limit that is reached with what nobody has told.
pub(crate) const USAGE_UNKNOWN: &str =
    "; the provider did not say what all of it used, so that counts as what was set aside";

/// How many jobs are named; a summary that named thousands would be as long as what it replaces.
const JOBS: usize = 50;

/// The jobs of a conversation, where what was said of them is out of sight.
pub(crate) fn jobs<'a>(at_work: impl Iterator<Item = &'a store::Run>) -> Option<String> {
    let mut at_work = at_work.peekable();
    at_work.peek()?;
    let lines: String =
        at_work.by_ref().take(JOBS).map(|run| format!("- {} ({})\n", run.id, run.agent)).collect();
    let more = match at_work.count() {
        0 => String::new(),
        more => format!("- and {more} more\n"),
    };
    Some(format!(
        "<jobs>\nThese jobs are still at work; you will be told when they end:\n{lines}{more}</jobs>"
    ))
}

/// What closes the system prompt: the same for everybody on such a machine, so that all of it is cached once.
pub(crate) fn system() -> String {
    format!("System: {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Where it works. No two projects share it, so it stands behind what they do.
pub(crate) fn workspace(path: &str) -> String {
    format!("Workspace: {path}")
}

/// The day and not the time: what changes by the minute would be cached by nobody.
pub(crate) fn today(now: &Zoned) -> String {
    let zone = now.time_zone().iana_name().map(str::to_owned).unwrap_or_else(|| now.offset().to_string());
    format!("Today is {} ({zone}).", now.strftime("%A, %Y-%m-%d"))
}

/// The tasks of a conversation, where what was said of them is out of sight.
pub(crate) fn tasks(tasks: &[store::Task]) -> String {
    format!(
        "<tasks>\nThe tasks of this conversation, as they stand now:\n{}</tasks>",
        fenced(&tasks::list(tasks))
    )
}

/// Said at the step cap, together with the last results.
pub(crate) const LAST_STEP: &str = "You have used all the steps you were given. Answer now with what you have: \
no tool will be called any more. Say what is done and what is not.";

/// The same to whoever owes an answer of a certain shape.
pub(crate) const LAST_STEP_WITH_SCHEMA: &str = "You have used all the steps you were given. Answer now with what you have: \
no tool will be called any more. The shape of the answer stays as it was asked for, with nothing beside it.";

pub(crate) fn last_step(shaped: bool) -> &'static str {
    if shaped { LAST_STEP_WITH_SCHEMA } else { LAST_STEP }
}

/// Said when a reply was cut at the output limit.
pub(crate) const CONTINUE: &str =
    "Your message was cut off at the output limit. Go on exactly where it ended.";

/// What a tool call is answered that may have run before it was broken off.
pub(crate) const MAY_HAVE_RUN: &str = "This call was started, and then its run was broken off before the result was \
written down. It may have run, wholly or in part, or not at all. It was not started again. Look at what is there \
before you decide what to do.";

/// What a call is answered that has no result and has changed nothing: in a fork, which does not wait for it, and in a run
/// that was stopped before or while it ran. One sentence for all of them, so that forks and their parent share their
/// bytes.
pub(crate) const NO_RESULT: &str = "This call has no result here: it was not made, or not waited for.";

/// What a fork is told.
pub(crate) fn fork(prompt: &str) -> String {
    format!(
        "<fork>\nYou are a fork of this conversation: you know all that was said, and what you say is seen by nobody in it. \
         Answer what stands below, and nothing else. Planning and starting others is not yours to do.\n</fork>\n\n{prompt}"
    )
}

/// What a call is answered that may not be made.
pub(crate) fn denied(why: &str) -> String {
    format!(
        "This call was refused and was not made: {why}. Do not try to reach the same in another way. Go on without it, \
         or end and say what you would need."
    )
}

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

/// Makes a block of text.
pub(crate) fn text_block(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}
