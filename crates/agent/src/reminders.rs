//! Blocks that repeat to a model what it can no longer see in its conversation.

use session::Block;
use store::{Origin, RunKind};

use crate::context;
use crate::error::RunError;
use crate::prompts::{self, text_block};
use crate::run::Run;

/// Returns the tasks of the thread, for the main agent.
pub(crate) fn tasks(run: &Run) -> Result<Option<Block>, RunError> {
    if run.row.kind != RunKind::Main {
        return Ok(None);
    }
    let tasks = run.kernel.store.main().tasks(&run.row.thread)?;
    Ok((!tasks.is_empty()).then(|| text_block(&prompts::tasks(&tasks))))
}

/// Returns the jobs of the run that are at work.
pub(crate) fn jobs(run: &Run) -> Result<Option<Block>, RunError> {
    if run.tree.count_below(run.id()) == 0 {
        return Ok(None);
    }
    let children = run.kernel.store.run(run.id()).children()?;
    let at_work = children.iter().filter(|child| child.owes == Some(true)).map(|child| &child.run);
    Ok(prompts::jobs(at_work).map(|text| text_block(&text)))
}

/// Returns the memory of the thread, for a run at the top of a tree.
pub(crate) fn thread_memory(run: &Run) -> Result<Option<Block>, RunError> {
    if run.row.parent.is_some() {
        return Ok(None); // its conversation is not the thread's
    }
    let memory = run.kernel.store.main().memory(Some(&run.row.thread))?;
    let own: Vec<_> = memory.into_iter().filter(|entry| entry.thread.is_some()).collect();
    Ok(context::memory_list(&own).map(|listed| text_block(&listed)))
}

/// Returns the prompt of a fork.
pub(crate) fn fork_prompt(run: &Run) -> Result<Option<Block>, RunError> {
    if run.settings.fork.is_none() {
        return Ok(None);
    }
    let messages = run.kernel.store.run(run.id()).messages()?;
    let prompt = messages.into_iter().find(|message| message.origin == Origin::Prompt);
    Ok(prompt.and_then(|prompt| prompt.text).map(|prompt| text_block(&prompts::fork(&prompt))))
}
