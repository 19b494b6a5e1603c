//! Options of a side question, and the fork that they request.

use agent::{ForkPermissions, ForkRequest, Toolbox};

use super::Args;
use super::selection::AgentSelection;
use crate::failure::{ExitKind, OrFail};

/// Options of a side question.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of --fork-of")]
pub(super) struct ForkArgs {
    /// Name of the fork in output, events and the journal [default: side question]
    #[arg(long, value_name = "TEXT", requires = "fork_of")]
    label: Option<String>,
    /// Name of the program that asks, for events and the journal [default: run --fork-of]
    #[arg(long, value_name = "TEXT", requires = "fork_of")]
    source: Option<String>,
    /// Output limit of each reply
    #[arg(long, value_name = "N", requires = "fork_of", value_parser = clap::value_parser!(u64).range(1..))]
    max_output_tokens: Option<u64>,
    /// Keep only the fork's usage in the journal, not its messages; it cannot be resumed
    #[arg(long, requires = "fork_of")]
    no_transcript: bool,
    /// Write nothing of the fork into the prompt cache; it still reads its parent's entry
    #[arg(long, requires = "fork_of")]
    no_cache_write: bool,
    /// Forget which files the parent has read, so that the fork reads a file before it edits it
    #[arg(long, requires = "fork_of")]
    fresh_files: bool,
    /// Text at the end of every message to the fork
    #[arg(long, value_name = "TEXT", requires = "fork_of")]
    reminder: Option<String>,
    /// Ask before every tool call, even if a rule allows it; without a terminal, deny every call
    #[arg(long, requires = "fork_of", conflicts_with = "allow")]
    require_permission: bool,
}

impl ForkArgs {
    /// Checks the texts, and that there is a fork: with `--resume`, the parser does not.
    pub(super) fn check(&self, is_fork: bool) -> anyhow::Result<()> {
        let Self { no_transcript, no_cache_write, fresh_files, require_permission, .. } = self;
        let is_any = self.label.is_some()
            || self.source.is_some()
            || self.reminder.is_some()
            || self.max_output_tokens.is_some()
            || *no_transcript
            || *no_cache_write
            || *fresh_files
            || *require_permission;
        if is_any && !is_fork {
            let error = anyhow::anyhow!("options of a fork need `--fork-of`");
            return Err(error)
                .or_fail_with(ExitKind::Usage, || "offshoot run --fork-of RUN 'prompt'".to_owned());
        }
        let texts = [("--label", &self.label), ("--source", &self.source), ("--reminder", &self.reminder)];
        for (flag, text) in texts {
            if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                let error = anyhow::anyhow!("{flag}: the text is empty");
                return Err(error)
                    .or_fail_with(ExitKind::Usage, || format!("omit {flag}, or give it a text"));
            }
        }
        Ok(())
    }
}

/// Returns the fork that the arguments request, or a slash command with `context: fork`.
pub(super) fn fork_request(args: &Args, agent: &AgentSelection, tools: &Toolbox) -> ForkRequest {
    let fork = &args.fork;
    let command = agent.fork_command();
    let label = fork.label.clone().or_else(|| command.map(|name| format!("/{name}")));
    let label = label.unwrap_or_else(|| "side question".to_owned());
    let usual_source = if args.fork_of.is_some() { "run --fork-of" } else { "slash command" };
    let source = fork.source.as_deref().unwrap_or(usual_source);
    let prompt = agent.prompt.clone().unwrap_or_default();
    ForkRequest {
        agent: agent.fork_agent(),
        max_turns: args.limits.max_steps,
        max_output_tokens: fork.max_output_tokens,
        keep_transcript: !fork.no_transcript,
        write_cache: !fork.no_cache_write,
        share_known_files: !fork.fresh_files,
        reminder: fork.reminder.clone(),
        permissions: ForkPermissions {
            deny: args.permissions.deny.clone(),
            rules: agent.command_rules(tools),
            always_ask: fork.require_permission,
            ..ForkPermissions::default()
        },
        ..ForkRequest::new(prompt, label, source)
    }
}
