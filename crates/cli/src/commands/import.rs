//! `offshoot import`: makes a session from the transcripts of a harness.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use harness::import::{ImportSource, ImportedSession, import};
use recording::load_or_create_key;
use recording::normalize::ENVELOPE;
use redact::Redactor;
use serde_json::json;

use super::Format;
use super::capture::explain;
use crate::failure::{ExitKind, OrFail};
use crate::paths;
use crate::progress::Progress;
use crate::terminal::print_text;

/// Maximum number of redaction passes. A pass is repeated if it found a new secret.
const MAX_PASSES: usize = 4;

/// Make a session from the transcripts of a harness
///
/// The session is written to DIR/replay_session.json. `claude-transcript` reads the .jsonl of a session and of its
/// sub-agents, or all sessions in a folder. `opencode-export` reads the output of `opencode export` for a session and its
/// children, as files or as a folder. Records of unknown kinds are skipped and listed. Secrets are removed as in a
/// recording.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot import claude-transcript ~/.claude/projects/-home-me/SESSION.jsonl \\
                  --out session
  offshoot import opencode-export main.json child-1.json --out session")]
pub(crate) struct Args {
    /// Format of the transcripts
    #[arg(value_name = "SOURCE", value_enum)]
    source: TranscriptFormat,
    /// Files, or folders of files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Folder for the session; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum TranscriptFormat {
    /// Output of `opencode export`
    OpencodeExport,
    /// Transcripts of Claude Code, in ~/.claude/projects
    ClaudeTranscript,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let source = match args.source {
        TranscriptFormat::OpencodeExport => ImportSource::OpencodeExport,
        TranscriptFormat::ClaudeTranscript => ImportSource::ClaudeTranscript,
    };
    let progress = Progress::step("reading the transcripts");
    let imported = import(source, &args.paths).map_err(explain)?;
    progress.set_step("searching for secrets");
    let path = write(&args.out, &redact_secrets(imported.envelope.to_json())?)?;
    drop(progress);
    print_text(&match args.format {
        Format::Text => text(&imported, &path),
        Format::Json => {
            let (lanes, side, turns) = counts(&imported);
            let done = json!({
                "format": 1, "source": source.name(), "lanes": lanes, "side": side, "turns": turns,
                "skipped": imported.skipped, "bookkeeping": imported.bookkeeping, "session": path,
            });
            format!("{}\n", report::harmless_json(&done))
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Redacts secrets. A secret that a later line reveals is removed from earlier lines, too.
fn redact_secrets(mut json: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let data_dir = paths::data_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())?;
    let key = load_or_create_key(&data_dir)
        .or_fail_with(ExitKind::Usage, || "set OFFSHOOT_DATA_DIR to a writable folder".into())?;
    let mut redactor = Redactor::new(key);
    for _ in 0..MAX_PASSES {
        let known = redactor.generation();
        json = redactor.redact_text(ENVELOPE, &json).bytes.into_owned();
        if redactor.generation() == known {
            break;
        }
    }
    Ok(json)
}

fn write(dir: &Path, json: &[u8]) -> anyhow::Result<PathBuf> {
    let hint = || "give an empty folder with `--out`".to_owned();
    let is_taken = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if is_taken {
        let error = anyhow::anyhow!("`{}` exists and is not an empty folder", dir.display());
        return Err(error).or_fail_with(ExitKind::Usage, hint);
    }
    let path = dir.join(ENVELOPE);
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, json));
    let written = written
        .map_err(|error| anyhow::Error::from(error).context(format!("cannot write `{}`", path.display())));
    written.or_fail(ExitKind::Outside)?;
    Ok(path)
}

/// Counts lanes, side lanes, and the turns of both.
fn counts(imported: &ImportedSession) -> (usize, usize, usize) {
    let agents = imported.envelope.agents();
    let turns = agents.iter().copied().chain(&imported.envelope.side).map(|lane| lane.turns.len());
    (agents.len(), imported.envelope.side.len(), turns.sum())
}

fn text(imported: &ImportedSession, path: &Path) -> String {
    let skipped = imported.skipped.iter().map(|skipped| {
        let (what, first) = (report::plain(&skipped.what), report::plain(&skipped.first));
        format!("skipped {what}: {}, first in {first}\n", skipped.count)
    });
    let skipped: String = skipped.collect();
    let (lanes, side, turns) = counts(imported);
    let side = match side {
        0 => String::new(),
        side => format!(" and {}", report::counted(side as u64, "side lane")),
    };
    let (turns, lanes) = (report::counted(turns as u64, "turn"), report::counted(lanes as u64, "lane"));
    format!("{skipped}{turns} in {lanes}{side}: `{}`\n", path.display())
}
