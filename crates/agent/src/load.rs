//! Loads a run's conversation from the journal. A killed run is loaded in the same way as a new one.

use store::{Head, Origin};

use crate::conversation::{Conversation, is_repair, resets_steps};
use crate::error::RunError;
use crate::final_text::FinalText;
use crate::head;
use crate::run::Run;
use crate::settings_fallback;

/// Loads the conversation of a run.
pub(crate) fn load(run: &Run) -> Result<Conversation, RunError> {
    let reads = run.kernel.store.run(run.id());
    let journal = reads.snapshot()?;
    if let Some(call) = &journal.last_call {
        run.set_last_request_len(usize::try_from(call.request_len).unwrap_or(usize::MAX));
    }
    // The head that was sent first is used again, even if this version would build another one. Later requests may have
    // a lower output limit than the first.
    let sent = reads.first_head()?;
    let fork = reads.fork()?;
    let inherited = match (&sent, &fork) {
        (None, Some(fork)) => reads.head(fork.head)?,
        _ => None,
    };
    let head = match (sent, inherited) {
        (Some(bytes), _) => Head::new(bytes),
        (None, Some(bytes)) => fork_head(run, bytes)?,
        (None, None) => run.kernel.head(run.row.kind, &run.row.model, &run.settings)?,
    };
    let head = settings_fallback::head_of(run, &journal, head, fork.is_some())?;
    let mut conversation = Conversation::of(journal, run.settings.dialect(), head);
    let writes_cache = run.settings.fork.as_ref().is_none_or(|fork| fork.write_cache);
    if let Some(fork) = fork.as_ref().filter(|_| conversation.step == 0 && conversation.context_tokens == 0) {
        // A fork starts with the context of its parent.
        conversation.context_tokens = run.kernel.store.run(&fork.of).context_tokens(fork.to)?;
    }
    if let Some(fork) = fork {
        let own = reads.messages()?;
        conversation.final_text = FinalText::of(&own); // without its parent's text
        let results = own.first().filter(|message| message.origin == Origin::Results);
        let shared_to = results.map_or(fork.to, |results| results.seq);
        (conversation.cache.mark_up_to, conversation.cache.shared_to) =
            if writes_cache { (None, Some(shared_to)) } else { (Some(fork.to), None) };
    }
    if conversation.step > 0 {
        let all = reads.messages()?; // including those before a summary
        let since = all.iter().rev().take_while(|message| !resets_steps(message.origin));
        let replies = since.filter(|message| message.origin == Origin::Reply).count();
        conversation.steps_since_prompt = u32::try_from(replies).unwrap_or(u32::MAX);
        conversation.repaired = all.iter().any(|message| is_repair(message.origin, &message.bytes));
        conversation.final_text = FinalText::of(&all);
    }
    Ok(conversation)
}

/// Returns the head of a fork's requests: its parent's, or that of its own agent, with the fork's output limit.
fn fork_head(run: &Run, inherited: Vec<u8>) -> Result<Head, RunError> {
    let agent = run.settings.fork.as_ref().and_then(|fork| fork.agent.as_ref());
    let own = match agent.filter(|agent| !agent.differs.is_empty()) {
        Some(agent) => run.kernel.head_of_fork_agent(agent, &run.row.model, &run.settings, &inherited)?,
        None => inherited,
    };
    head::fork_head(&run.settings, own)
}
