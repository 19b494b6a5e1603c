//! `offshoot export`: a recording in the form that other tools read.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use recording::normalize;
use recording::source::Source;
use report::{HarEntry, HarWriter};

use crate::recordings::{damage, open};
use crate::{output, page};

/// Write a recording as a HAR file, a session, or a page
///
/// Secrets are gone from a recording, and stay gone here.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot export hello-recording --format har --out hello.har
  offshoot export hello-recording --format html --out hello.html
  offshoot export hello-recording --format session | jq .lanes[0].final_text")]
pub(crate) struct Arguments {
    /// The recording's folder, or a folder of dumps
    #[arg(value_parser = crate::recordings::recording_at())]
    recording: PathBuf,
    /// What to make of it
    #[arg(long, value_enum)]
    format: To,
    /// The file to write; without it, it is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// HAR 1.2: every exchange in order of arrival
    Har,
    /// The whole session as one tree, as `normalize` writes it to replay_session.json
    Session,
    /// One page that needs nothing else: agents, turns, calls, and every body
    Html,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let source = open(&arguments.recording)?;
    let damage = damage(&source)?;
    match &arguments.out {
        None => output::print(|out| export(&source, &damage, arguments.format, out))?,
        Some(path) => {
            output::check_place(path, &[source.dir()])?;
            output::write(path, |out| export(&source, &damage, arguments.format, out))?;
        }
    }
    for file in &damage {
        eprintln!("damaged since it was sealed: {}", report::plain(file));
    }
    Ok(ExitCode::SUCCESS)
}

fn export(source: &Source, damage: &[String], to: To, out: &mut dyn Write) -> io::Result<()> {
    let exported = harness::import::from_exports(source.dir());
    match to {
        To::Har => har(source, out),
        To::Session => out.write_all(&normalize::session(source, exported.as_ref()).1.to_json()),
        To::Html => page::recording(source, damage, out),
    }
}

fn har(source: &Source, out: &mut dyn Write) -> io::Result<()> {
    let ordered = source.order();
    let places = report::places(&ordered);
    let recording = source.recording();
    let mut har = HarWriter::begin(out, env!("CARGO_PKG_VERSION"))?;
    for n in 0..source.len() {
        let Ok(asked) = source.asked(n) else { continue };
        har.entry(&HarEntry {
            asked: &asked,
            answered: source.answered(n).ok().flatten().as_ref(),
            place: places.get(asked.id.as_str()).copied(),
            sending_us: recording.and_then(|recording| recording.sending(n)),
            // Our proxy speaks nothing else to a provider.
            http: recording.map(|_| "HTTP/1.1"),
        })?;
    }
    for problem in &ordered.problems {
        eprintln!("{}: {}", report::plain(&problem.what), report::plain(&problem.why));
    }
    har.end().map(drop)
}
