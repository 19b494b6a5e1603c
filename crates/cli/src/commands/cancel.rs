//! `offshoot cancel`: a run is to end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use store::RunStatus;

use crate::failure::{Kind, OrFail, marked};
use crate::journal;

/// How long a run may take to notice.
const PATIENCE: Duration = Duration::from_secs(10);

/// End a run of our own and all below it
///
/// It may be in any process, and cannot be resumed.
#[derive(clap::Args)]
#[command(after_help = "Example:
  offshoot cancel 1m7g0c8g

`offshoot ps` lists the runs. To stop a run so that it can go on later, press
Ctrl-C once where it runs.")]
pub(crate) struct Arguments {
    /// The run; the beginning of its id is enough
    run: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let store = journal::open()?;
    let id = journal::find(&store, &arguments.run)?;
    journal::block_on(async {
        let now = journal::now();
        store
            .request_cancel(&id, RunStatus::CancelledByUser, now)
            .await
            .map_err(|error| marked(journal::kind(&error), None, error.into()))?;
        let asked = Instant::now();
        loop {
            let row = store.run(&id).row().or_fail(Kind::Outside)?;
            let left = store.run(&id).jobs().or_fail(Kind::Outside)?;
            if row.status.is_final() && left.iter().all(|job| job.ended_at.is_some()) {
                break;
            }
            // Nobody is at work on it: then it ends here.
            let root = store.run(&row.root).row().or_fail(Kind::Outside)?;
            if !root.writer.is_some_and(agent::is_lease_holder_alive) {
                agent::end_tree(&store, &id, journal::now()).await.or_fail(Kind::Outside)?;
                break;
            }
            if asked.elapsed() > PATIENCE {
                let error = anyhow::anyhow!(
                    "the run `{id}` was told to end and has not ended after {} s",
                    PATIENCE.as_secs()
                );
                return Err(error).or_fail_with(Kind::Outside, || "offshoot ps --live".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let status = store.run(&id).row().or_fail(Kind::Outside)?.status;
        eprintln!("the run `{id}` is {}", status.words());
        Ok(ExitCode::SUCCESS)
    })
}
