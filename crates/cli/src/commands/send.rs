//! `offshoot send`: sends a message to a run.

use std::io::Read as _;
use std::process::ExitCode;

use store::{Run, StoreError};

use crate::failure::{ExitKind, OrFail, classify};
use crate::{journal, paths};

/// Send a message to a run that has not ended
///
/// The agent reads it with its next turn. A run without a process reads it when it is resumed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot send 1m7g0c8g 'Leave out the tests'
  offshoot send 1m7g0c8gs8ytqbbb-2-0 'The parser moved to src/read.rs'

`offshoot ps` lists the runs. To go on with a run that has ended, use
`offshoot run --resume RUN 'TEXT'`.")]
pub(crate) struct Args {
    /// Main run or sub-agent; the beginning of its id is enough
    run: String,
    /// Message for the agent; `-` reads it from stdin
    text: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut text = args.text.clone();
    if text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).or_fail(ExitKind::Usage)?;
    }
    if text.trim().is_empty() {
        let error = anyhow::anyhow!("the message is empty");
        return Err(error).or_fail_with(ExitKind::Usage, || format!("offshoot send {} 'TEXT'", args.run));
    }
    let store = journal::open()?;
    let id = journal::find_run(&store, &args.run)?;
    let row = store.run(&id).row().or_fail(ExitKind::Outside)?;
    let message = agent::user_message(&id, &text, journal::now());
    journal::block_on(async {
        store.send(message).await.map_err(|error| {
            let hint = matches!(error, StoreError::Over { .. }).then(|| continue_command(&row, &text));
            classify(journal::exit_kind(&error), hint, error.into())
        })
    })?;
    let root = store.run(&row.root).row().or_fail(ExitKind::Outside)?;
    match root.writer.is_some_and(agent::is_lease_holder_alive) {
        true => status!("run `{id}` gets the message with its next turn"),
        false => {
            status!("run `{id}` gets the message when it is resumed: `offshoot run --resume {}`", row.root)
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the command that continues a run that has ended.
fn continue_command(row: &Run, text: &str) -> String {
    let text = match row.root == row.id {
        true => text.to_owned(),
        false => format!("Continue the sub-agent {}: {text}", row.id),
    };
    format!("offshoot run --resume {} {}", row.root, paths::shell_word(&text))
}
