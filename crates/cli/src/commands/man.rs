//! `offshoot man`: prints manual pages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;

use crate::failure::{ExitKind, OrFail, classify, write_error_kind};
use crate::terminal::ColorMode;

/// Print the manual page, or write one for each command
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot man | man -l -
  offshoot man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Folder for the pages of all commands; existing pages are replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let command = crate::help::command(ColorMode::Never);
    match &args.out {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page).or_fail(ExitKind::Bug)?;
            crate::terminal::print(&String::from_utf8_lossy(&page));
        }
        Some(dir) => {
            let count = write(command, dir).map_err(|error| {
                let kind = write_error_kind(&error);
                let error = anyhow::Error::new(error).context(format!("cannot write to `{}`", dir.display()));
                classify(kind, Some("give a writable folder with `--out`".to_owned()), error)
            })?;
            let first = dir.join("offshoot.1");
            status!("wrote {count} pages; `man -l {}` shows the first", first.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(command: clap::Command, dir: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(command.clone(), dir)?;
    Ok(count(&command))
}

fn count(command: &clap::Command) -> usize {
    1 + command.get_subcommands().map(count).sum::<usize>()
}
