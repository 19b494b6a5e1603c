//! `offshoot import`: a session from what a harness left behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use harness::import::{Imported, Leaving, import};
use recording::load_or_create_key;
use recording::normalize::ENVELOPE;
use redact::Redactor;
use serde_json::json;

use super::Format;
use super::capture::explain;
use crate::failure::{Kind, OrFail};
use crate::paths;
use crate::progress::Progress;
use crate::terminal::counted;
use crate::terminal::print;

/// How often it is searched anew because the last pass taught something.
const MOST_PASSES: usize = 4;

/// Make a session of what a harness left behind
///
/// It is written to DIR/replay_session.json. `claude-transcript` reads a session's .jsonl and those of its sub-agents, or all sessions in a folder.
/// `opencode-export` reads what `opencode export` printed, the session and its children, as files or as a folder of
/// them. What is not understood is skipped and named, and secrets are taken out as in a recording.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot import claude-transcript ~/.claude/projects/-home-me/SESSION.jsonl \\
                  --out session
  offshoot import opencode-export main.json child-1.json --out session")]
pub(crate) struct Arguments {
    /// What it was left as
    #[arg(value_name = "SOURCE", value_enum)]
    source: From,
    /// Files, or folders of them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Where the session goes; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How to print what was done
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum From {
    /// What `opencode export` prints
    OpencodeExport,
    /// What Claude Code keeps below ~/.claude/projects
    ClaudeTranscript,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let source = match arguments.source {
        From::OpencodeExport => Leaving::OpencodeExport,
        From::ClaudeTranscript => Leaving::ClaudeTranscript,
    };
    let progress = Progress::of("reading what was left");
    let imported = import(source, &arguments.paths).map_err(explain)?;
    progress.say("searching for secrets");
    let path = write(&arguments.out, &without_secrets(imported.envelope.to_json())?)?;
    drop(progress);
    print(&match arguments.format {
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

/// What a later line teaches is removed from the lines before it, too.
fn without_secrets(mut json: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let data_dir = paths::data_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())?;
    let key = load_or_create_key(&data_dir)
        .or_fail_with(Kind::Usage, || "set OFFSHOOT_DATA_DIR to a folder that you can write".into())?;
    let mut redactor = Redactor::new(key);
    for _ in 0..MOST_PASSES {
        let known = redactor.generation();
        json = redactor.redact_text(ENVELOPE, &json).bytes.into_owned();
        if redactor.generation() == known {
            break;
        }
    }
    Ok(json)
}

fn write(dir: &Path, json: &[u8]) -> anyhow::Result<PathBuf> {
    let hint = || "give another folder with `--out`".to_owned();
    let is_taken = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if is_taken {
        let error = anyhow::anyhow!("`{}` exists and is not an empty folder", dir.display());
        return Err(error).or_fail_with(Kind::Usage, hint);
    }
    let path = dir.join(ENVELOPE);
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&path, json));
    let written = written
        .map_err(|error| anyhow::Error::from(error).context(format!("cannot write `{}`", path.display())));
    written.or_fail(Kind::Outside)?;
    Ok(path)
}

/// Lanes, side lanes, and the turns of both.
fn counts(imported: &Imported) -> (usize, usize, usize) {
    let agents = imported.envelope.agents();
    let turns = agents.iter().copied().chain(&imported.envelope.side).map(|lane| lane.turns.len());
    (agents.len(), imported.envelope.side.len(), turns.sum())
}

fn text(imported: &Imported, path: &Path) -> String {
    let skipped = imported.skipped.iter().map(|skipped| {
        let (what, first) = (report::plain(&skipped.what), report::plain(&skipped.first));
        format!("skipped {what}: {}, first in {first}\n", skipped.count)
    });
    let skipped: String = skipped.collect();
    let (lanes, side, turns) = counts(imported);
    let side = match side {
        0 => String::new(),
        side => format!(" and {}", counted(side as u64, "side lane")),
    };
    let (turns, lanes) = (counted(turns as u64, "turn"), counted(lanes as u64, "lane"));
    format!("{skipped}{turns} in {lanes}{side}: `{}`\n", path.display())
}
