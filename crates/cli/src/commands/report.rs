//! `offshoot report`: one page with everything, for a browser.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use parity::{Level, VERDICT_FORMAT, Verdict, VerdictFileError};

use crate::failure::{ExitKind, OrFail};
use crate::recordings::{damage, open, rules, run_or_folder};
use crate::terminal::print;
use crate::{journal, output, page};

/// What a page is handed to.
pub(crate) const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// A verdict is text; one that is longer was not written by us.
const LONGEST_VERDICT: u64 = 1 << 30;

/// Make one page of a recording, a run or a verdict, for a browser
///
/// The page has everything in it and needs no network: a timeline of all agents, every turn with its prompt, tools,
/// calls, results and raw bytes, what the prompt cache did, and the verdict. It can be kept as an artefact of a build.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot report goldens/claude-code/2.1.325/wakeup/runs/RUN --open
  offshoot report 1m7g0c8g --out run.html
  offshoot report rec --golden accepted-rec --out compared.html
  offshoot verify golden rec --format json > verdict.json
  offshoot report verdict.json")]
pub(crate) struct Args {
    /// A recording's folder, a folder of dumps, a run, or the file that `verify --format json` wrote
    #[arg(value_name = "RECORDING|RUN|VERDICT", value_parser = crate::recordings::recording_or_run)]
    what: String,
    /// Compare the recording with this one, and show the verdict too
    #[arg(long, value_name = "DIR", value_parser = crate::recordings::recording_at())]
    golden: Option<PathBuf>,
    /// How far they must agree for the verdict to be a match
    #[arg(long, value_name = "LEVEL", default_value_t = Level::E3, requires = "golden")]
    level: Level,
    /// Exclusions and masks; usually found beside the golden as `parity.toml`
    #[arg(long, value_name = "FILE", requires = "golden")]
    rules: Option<PathBuf>,
    /// The file to write; `-` prints it
    #[arg(long, value_name = "FILE", default_value = "offshoot-report.html")]
    out: PathBuf,
    /// Show it in the browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(arguments: &Args) -> anyhow::Result<ExitCode> {
    if arguments.open && arguments.out == Path::new("-") {
        let error = anyhow::anyhow!("what is printed cannot be opened");
        return Err(error).or_fail_with(ExitKind::Usage, || "leave out `--out -`, or `--open`".to_owned());
    }
    let path = Path::new(&arguments.what);
    let is_run = !path.exists() && !arguments.what.contains('/');
    if let Some(golden) = arguments.golden.as_ref().filter(|_| is_run || path.is_file()) {
        let error = anyhow::anyhow!("`{}` is no recording: it cannot be compared", arguments.what);
        let hint = || format!("offshoot report RECORDING --golden {}", golden.display());
        return Err(error).or_fail_with(ExitKind::Usage, hint);
    }
    match path {
        _ if is_run => of_run(arguments)?,
        file if file.is_file() => of_verdict(arguments, file)?,
        folder => of_recording(arguments, folder)?,
    }
    if arguments.out != Path::new("-") {
        print(&format!("{}\n", arguments.out.display()));
    }
    if arguments.open {
        show(&arguments.out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_run(arguments: &Args) -> anyhow::Result<()> {
    let store = journal::open()?;
    let run = run_or_folder(&store, &arguments.what)?;
    // What goes wrong while a run is read is not the page's fault, and is told as it is.
    let mut trouble = None;
    write(arguments, &[], |out| {
        page::run(&store, &run, out).map_err(|error| {
            trouble = Some(error);
            io::Error::other("the run cannot be read")
        })
    })
    .map_err(|error| trouble.unwrap_or(error))
}

fn of_recording(arguments: &Args, folder: &Path) -> anyhow::Result<()> {
    let source = open(folder)?;
    let Some(golden) = &arguments.golden else {
        let damage = damage(&source)?;
        return write(arguments, &[folder], |out| page::recording(&source, &damage, out));
    };
    let rules = rules(golden, arguments.rules.as_deref())?;
    let golden = open(golden)?;
    let verdict = parity::verify(&golden, &source, &rules, arguments.level);
    let page =
        page::VerdictPage { verdict: &verdict, both: Some((&golden, &source)), damage: &damage(&source)? };
    write(arguments, &[folder, golden.dir()], |out| page.write(out))
}

fn of_verdict(arguments: &Args, file: &Path) -> anyhow::Result<()> {
    let hint = || "offshoot verify GOLDEN CANDIDATE --format json > verdict.json".to_owned();
    let length = fs::metadata(file).or_fail(ExitKind::Outside)?.len();
    let read = match length <= LONGEST_VERDICT {
        true => fs::read(file).or_fail(ExitKind::Outside)?,
        false => Vec::new(),
    };
    let verdict = Verdict::from_json(&read).map_err(|error| {
        let file = file.display();
        match error {
            VerdictFileError::UnknownFormat(format) => anyhow::anyhow!(
                "`{file}` is a verdict of format {format}, and this version knows {VERDICT_FORMAT}"
            ),
            VerdictFileError::Malformed(_) => anyhow::anyhow!("`{file}` is no verdict"),
        }
    });
    let verdict = verdict.or_fail_with(ExitKind::Usage, hint)?;
    // The verdict names its folders, which may be gone by now.
    let side = |dir: &str| open(Path::new(dir)).ok();
    let both = side(&verdict.golden).zip(side(&verdict.candidate));
    if both.is_none() {
        status!("the recordings are not where the verdict names them: the page has the verdict alone");
    }
    let both = both.as_ref().map(|(golden, candidate)| (golden, candidate));
    let read: Vec<&Path> = both
        .into_iter()
        .flat_map(|(golden, candidate)| [golden.dir(), candidate.dir()])
        .chain([file])
        .collect();
    let damage = both.map(|(_, candidate)| damage(candidate)).transpose()?.unwrap_or_default();
    let page = page::VerdictPage { verdict: &verdict, both, damage: &damage };
    write(arguments, &read, |out| page.write(out))
}

fn write(
    arguments: &Args,
    read: &[&Path],
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if arguments.out == Path::new("-") {
        return output::print(fill);
    }
    output::check_target(&arguments.out, read)?;
    output::write(&arguments.out, fill)
}

/// Hands the file to whatever the system opens pages with.
fn show(path: &Path) -> anyhow::Result<()> {
    let file = path.canonicalize().or_fail(ExitKind::Outside)?;
    let started = Command::new(OPENER)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let failed = || {
        let error = anyhow::anyhow!("no browser could be started with `{OPENER}`");
        Err(error).or_fail_with(ExitKind::Outside, || format!("open file://{} yourself", file.display()))
    };
    let Ok(mut child) = started else { return failed() };
    // One that cannot show it says so at once; one that stays while it is looked at is not waited for.
    for _ in 0..20 {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            _ => return failed(),
        }
    }
    Ok(())
}
