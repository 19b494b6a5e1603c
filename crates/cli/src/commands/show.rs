//! `offshoot show`: prints the lanes of a recording, or the steps of a run.

use std::path::Path;
use std::process::ExitCode;

use recording::source::Source;
use report::FolderInfo;
use session::RunId;
use store::Store;

use super::Format;
use crate::events;
use crate::failure::{ExitKind, OrFail};
use crate::journal;
use crate::recordings::{damage, open};
use crate::run_tree::load_run_tree;
use crate::terminal::print_text;

/// Show the lanes of a recording, or the steps of a run
///
/// Each turn is listed with its calls, results, tokens and time.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot show recordings/claude-code/2.1.325/wakeup
  offshoot show 1m7g0c8g
  offshoot show 1m7g0c8g --events --after 120")]
pub(crate) struct Args {
    /// Folder of a recording or of dumps, or a run; the beginning of an id is enough
    #[arg(value_name = "RECORDING|RUN", value_parser = crate::recordings::recording_or_run)]
    what: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print the stored events of `offshoot run --json` instead
    #[arg(long, conflicts_with = "format")]
    events: bool,
    /// Print only events after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0, requires = "events")]
    after: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = Path::new(&args.what);
    // Run ids have no slash. An existing folder takes precedence.
    if !path.exists() && !args.what.contains('/') {
        let store = journal::open()?;
        let run = crate::recordings::run_or_folder(&store, &args.what)?;
        return match args.events {
            true => show_events(&store, &run, args.after),
            false => show_run(&store, &run, args.format),
        };
    }
    if args.events {
        let error = anyhow::anyhow!("`{}` is a folder, but only runs have events", args.what);
        return Err(error).or_fail_with(ExitKind::Usage, || "offshoot ps".to_owned());
    }
    let source = open(path)?;
    let damage = damage(&source)?;
    let about =
        FolderInfo { recording: source.recording(), damage: &damage, imported_from: source.imported_from() };
    print_text(&recording_text(&source, &about, args.format));
    Ok(ExitCode::from(if damage.is_empty() { 0 } else { ExitKind::Verdict as u8 }))
}

fn show_run(store: &Store, run: &RunId, format: Format) -> anyhow::Result<ExitCode> {
    let runs = load_run_tree(store, run)?;
    let Some(first) = runs.iter().find(|one| one.run.id == *run) else {
        return Err(anyhow::anyhow!("run `{run}` was deleted")).or_fail(ExitKind::Usage);
    };
    print_text(&match format {
        Format::Text => report::run_text(first, crate::terminal::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::run_json(first, &runs))),
    });
    Ok(ExitCode::SUCCESS)
}

fn show_events(store: &Store, run: &RunId, after: u64) -> anyhow::Result<ExitCode> {
    let root = store.run(run).row().or_fail(ExitKind::Outside)?.root;
    let Some(lines) = events::read(&root, run, after).or_fail(ExitKind::Outside)? else {
        let error = anyhow::anyhow!("run `{run}` has no stored events");
        return Err(error).or_fail_with(ExitKind::Usage, || {
            format!("only `offshoot run --json` stores events; see `offshoot show {run}`")
        });
    };
    print_text(&lines);
    Ok(ExitCode::SUCCESS)
}

fn recording_text(source: &Source, about: &FolderInfo<'_>, format: Format) -> String {
    let ordered = source.order();
    match format {
        Format::Text => report::show_text(&ordered, about, crate::terminal::width()),
        Format::Json => format!("{}\n", report::harmless_json(&report::show_json(&ordered, about))),
    }
}
