//! `offshoot journal`: maintenance of the journal of our own runs.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use store::{Options, Store, StoreError};

use crate::failure::{ExitKind, OrFail, classify};
use crate::journal;
use crate::terminal::print_text;

/// Check the journal of our own runs
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot journal check
  offshoot journal check --journal copy/store.db")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(CheckArgs),
}

/// Check the journal for damage and lost data
///
/// A damaged journal is left unchanged, and the exit code is 3.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot journal check
  offshoot journal check --journal copy/store.db")]
struct CheckArgs {
    /// The journal; by default `store.db` in the data folder
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Command::Check(args) = &args.command;
    let path = match &args.journal {
        Some(path) => path.clone(),
        None => journal::default_path()?,
    };
    let log = PathBuf::from(format!("{}-wal", path.display()));
    if !path.exists() && !log.exists() {
        return Err(anyhow!("no journal `{}`", path.display()))
            .or_fail_with(ExitKind::Usage, || "offshoot journal check --journal FILE".to_owned());
    }
    if args.journal.is_some() && !is_journal(&path, &log) {
        return Err(anyhow!("`{}` is not a journal", path.display()))
            .or_fail_with(ExitKind::Usage, || "offshoot journal check --journal DIR/store.db".to_owned());
    }
    let store = Store::open(&path, Options::default()).map_err(|error| explain(error, &path))?;
    let health = store.check().map_err(|error| explain(error, &path))?;
    if health.problems.is_empty() {
        let (version, sqlite) = (health.version, health.sqlite);
        print_text(&format!("PASS  `{}`: version {version}, SQLite {sqlite}\n", path.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let error = anyhow!("the journal `{}` is damaged: {}", path.display(), health.problems.join("; "));
    Err(classify(ExitKind::Outside, Some(journal::move_away(&path)), error))
}

/// Returns whether a file may be a journal, even a damaged one: by its first bytes, by a log beside it, or by its name.
/// Any other file that a user names by mistake must not be moved away.
fn is_journal(path: &Path, log: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let begins = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    (begins && magic == *MAGIC) || log.is_file() || (path.is_file() && path.ends_with(journal::FILE_NAME))
}

/// First bytes of each SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Adds the exit code, and the command that moves a damaged journal away.
fn explain(error: StoreError, path: &Path) -> anyhow::Error {
    let hint = match error {
        StoreError::Emptied { .. } | StoreError::LogDamaged { .. } => Some(journal::move_away(path)),
        _ => journal::hint(&error, path),
    };
    classify(journal::exit_kind(&error), hint, error.into())
}
