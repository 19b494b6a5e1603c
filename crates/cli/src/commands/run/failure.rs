//! Exit codes and hints of errors before or at the start of a run.

use agent::RunError;
use store::{RunStatus, StoreError};

use crate::failure::{ExitKind, classify};
use crate::journal;

/// Adds the exit code and the hint to an error before or at the start of a run.
pub(super) fn failure(error: RunError) -> anyhow::Error {
    let (kind, hint) = match &error {
        RunError::Store(error @ StoreError::Held { run, .. }) => (
            journal::exit_kind(error),
            Some(format!("wait for it (`offshoot ps --live`), or end it: `offshoot cancel {run}`")),
        ),
        RunError::Store(error @ StoreError::Exists { .. })
            if std::env::var_os("OFFSHOOT_RUN_ID").is_some() =>
        {
            (journal::exit_kind(error), Some("unset OFFSHOOT_RUN_ID".into()))
        }
        RunError::Store(error) => (journal::exit_kind(error), None),
        RunError::Finished { run, status: RunStatus::Completed } => {
            (ExitKind::Usage, Some(format!("offshoot run --resume {run} 'what to do next'")))
        }
        RunError::Finished { .. } => {
            (ExitKind::Usage, Some("start a new run: `offshoot run 'what to do'`".into()))
        }
        RunError::UnknownPrice(_) => {
            (ExitKind::Usage, Some("omit `--max-budget-usd`, or choose a model with a known price".into()))
        }
        RunError::DialectMismatch { .. } => {
            (ExitKind::Usage, Some("choose the provider of the run: `--model PROVIDER/ID`".into()))
        }
        RunError::NoForkPoint(run) => {
            (ExitKind::Usage, Some(format!("complete a turn first: `offshoot run --resume {run}`")))
        }
        RunError::CacheLost(_) | RunError::ForkRefused(_) => (ExitKind::Usage, None),
        RunError::TranscriptNotKept(_) => {
            (ExitKind::Usage, Some("fork its parent again: `offshoot run --fork-of RUN 'prompt'`".into()))
        }
        RunError::NotMain { root, .. } => (ExitKind::Usage, Some(format!("offshoot run --resume {root}"))),
        RunError::NoSummary => (ExitKind::Outside, None),
        _ => (ExitKind::Bug, None),
    };
    classify(kind, hint, error.into())
}
