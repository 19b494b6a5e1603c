//! `offshoot export`: writes a recording in a format of other tools.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use recording::normalize;
use recording::source::Source;
use report::{HarEntry, HarWriter};

use crate::recordings::{damage, open};
use crate::{output, page};

/// Write a recording as a HAR file, a session, or a page
///
/// Secrets were removed when the recording was made, so no export contains them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot export hello-recording --format har --out hello.har
  offshoot export hello-recording --format html --out hello.html
  offshoot export hello-recording --format session | jq .lanes[0].final_text")]
pub(crate) struct Args {
    /// Folder of the recording, or a folder of dumps
    #[arg(value_parser = crate::recordings::recording_at())]
    recording: PathBuf,
    /// Format to write
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// File to write; standard output if omitted or `-`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// HAR 1.2: all exchanges in order of arrival
    Har,
    /// The session as one tree, as in replay_session.json of `normalize`
    Session,
    /// A self-contained page with agents, turns, calls, and all bodies
    Html,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let source = open(&args.recording)?;
    let damage = damage(&source)?;
    match args.out.as_deref().filter(|path| *path != Path::new("-")) {
        None => output::print(|out| export(&source, &damage, args.format, out))?,
        Some(path) => {
            output::check_target(path, &[source.dir()])?;
            output::write(path, |out| export(&source, &damage, args.format, out))?;
        }
    }
    for file in &damage {
        warning!("changed since it was sealed: {}", report::plain(file));
    }
    Ok(ExitCode::SUCCESS)
}

fn export(source: &Source, damage: &[String], format: ExportFormat, out: &mut dyn Write) -> io::Result<()> {
    let exported = harness::import::from_exports(source.dir());
    match format {
        ExportFormat::Har => har(source, out),
        ExportFormat::Session => out.write_all(&normalize::session(source, exported.as_ref()).1.to_json()),
        ExportFormat::Html => page::recording(source, damage, out),
    }
}

fn har(source: &Source, out: &mut dyn Write) -> io::Result<()> {
    let ordered = source.order();
    let places = report::exchange_positions(&ordered);
    let recording = source.recording();
    let mut har = HarWriter::begin(out, env!("CARGO_PKG_VERSION"))?;
    for n in 0..source.len() {
        let Ok(asked) = source.request(n) else { continue };
        har.entry(&HarEntry {
            asked: &asked,
            answered: source.response(n).ok().flatten().as_ref(),
            place: places.get(asked.id.as_str()).copied(),
            sending_us: recording.and_then(|recording| recording.sending(n)),
            // Our proxy uses HTTP/1.1 to all providers.
            http: recording.map(|_| "HTTP/1.1"),
        })?;
    }
    for problem in &ordered.problems {
        status!("{}: {}", report::plain(&problem.what), report::plain(&problem.why));
    }
    har.end().map(drop)
}
