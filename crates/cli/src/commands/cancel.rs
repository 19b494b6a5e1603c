//! `offshoot cancel`: ends a run.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use store::RunStatus;

use crate::failure::{ExitKind, OrFail, classify};
use crate::journal;

/// Maximum wait for a run to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// End a run and its descendants
///
/// The run may be in any process. It cannot be resumed.
#[derive(clap::Args)]
#[command(after_help = "Example:
  offshoot cancel 1m7g0c8g

`offshoot ps` lists the runs. To pause a run instead, press Ctrl-C once in its
terminal.")]
pub(crate) struct Args {
    /// Run to end; the beginning of its id is enough
    run: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let id = journal::find_run(&store, &args.run)?;
    journal::block_on(async {
        let now = journal::now();
        store
            .request_cancel(&id, RunStatus::CancelledByUser, now)
            .await
            .map_err(|error| classify(journal::exit_kind(&error), None, error.into()))?;
        let requested = Instant::now();
        loop {
            let row = store.run(&id).row().or_fail(ExitKind::Outside)?;
            let left = store.run(&id).jobs().or_fail(ExitKind::Outside)?;
            if row.status.is_final() && left.iter().all(|job| job.ended_at.is_some()) {
                break;
            }
            // Without a live process, this process ends the run.
            let root = store.run(&row.root).row().or_fail(ExitKind::Outside)?;
            if !root.writer.is_some_and(agent::is_lease_holder_alive) {
                agent::end_tree(&store, &id, journal::now()).await.or_fail(ExitKind::Outside)?;
                break;
            }
            if requested.elapsed() > TIMEOUT {
                let error = anyhow::anyhow!("the run `{id}` did not end within {} s", TIMEOUT.as_secs());
                return Err(error).or_fail_with(ExitKind::Outside, || "offshoot ps --live".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let status = store.run(&id).row().or_fail(ExitKind::Outside)?.status;
        status!("run `{id}` is {}", status.words());
        Ok(ExitCode::SUCCESS)
    })
}
