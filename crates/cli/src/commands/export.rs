//! `offshoot export`: a recording in the form that other tools read.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use recording::normalize;
use recording::source::Source;
use report::{About, HarEntry, HarWriter, PageOf, RecordingPage};

use super::open;
use crate::failure::{Kind, OrFail};

/// Write a recording as a HAR file, as a session, or as a page to look at
///
/// Secrets are gone from a recording, and stay gone here.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot export hello-recording --format har --out hello.har
  offshoot export hello-recording --format html --out hello.html
  offshoot export hello-recording --format session | jq .lanes[0].final_text")]
pub(crate) struct Arguments {
    /// The recording's folder, or a folder of dumps
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
    let damage = source.recording().map(|recording| recording.damage()).transpose().or_fail(Kind::Outside)?;
    let damage = damage.unwrap_or_default();
    match &arguments.out {
        None => {
            // A reader that has seen enough, as `head` has, is no failure.
            let mut out = BufWriter::new(io::stdout().lock());
            match export(&source, &damage, arguments.format, &mut out).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    Err(error).or_fail(Kind::Outside)?
                }
                _ => {}
            }
        }
        Some(path) => {
            check_place(path, source.dir())?;
            let written = write(path, |out| export(&source, &damage, arguments.format, out));
            let context =
                |error| anyhow::Error::from(error).context(format!("cannot write `{}`", path.display()));
            written.map_err(context).or_fail(Kind::Outside)?;
        }
    }
    for file in &damage {
        eprintln!("damaged since it was sealed: {}", report::plain(file));
    }
    Ok(ExitCode::SUCCESS)
}

/// A file in a recording would be one that was not there when it was sealed.
fn check_place(path: &Path, recording: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = |path: &Path| path.canonicalize();
    let is_inside = real(folder).ok().zip(real(recording).ok()).is_some_and(|(it, rec)| it.starts_with(rec));
    let problem = match path {
        _ if path.is_dir() => format!("`{}` is a folder", path.display()),
        _ if is_inside => format!("`{}` is in the recording, which is never changed", path.display()),
        _ if !folder.is_dir() => format!("there is no folder `{}`", folder.display()),
        _ => return Ok(()),
    };
    Err(anyhow::anyhow!(problem)).or_fail_with(Kind::Usage, || "give another file with `--out`".to_owned())
}

/// Written beside and renamed over: the file is whole, or as it was.
fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = File::create(&beside).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        out.flush()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the error that matters is the one we return
    }
    written
}

fn export(source: &Source, damage: &[String], to: To, out: &mut dyn Write) -> io::Result<()> {
    let exported = harness::import::from_exports(source.dir());
    match to {
        To::Har => har(source, out),
        To::Session => out.write_all(&normalize::session(source, exported.as_ref()).1.to_json()),
        To::Html => {
            let (ordered, envelope) = normalize::session(source, exported.as_ref());
            let title = title(source);
            let about = About { recording: source.recording(), damage };
            let of = PageOf { title: &title, about, ordered: &ordered, envelope: &envelope };
            let mut page = RecordingPage::begin(out, &of)?;
            for n in 0..source.len() {
                // What cannot be read is among the problems, which the page names.
                if let Ok(asked) = source.asked(n) {
                    page.exchange(&asked, source.answered(n).ok().flatten().as_ref())?;
                }
            }
            page.end().map(drop)
        }
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

fn title(source: &Source) -> String {
    let harness = source.recording().and_then(|recording| recording.manifest()?.harness.as_ref());
    match harness {
        Some(harness) => {
            format!(
                "{} {}, {}",
                harness.name,
                harness.version.as_deref().unwrap_or_default(),
                harness.scenario
            )
        }
        None => {
            let real = source.dir().canonicalize().unwrap_or_else(|_| source.dir().to_owned());
            real.file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
    }
}
