//! `offshoot report`: writes a self-contained page for a browser.

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

/// Program that opens a page.
pub(crate) const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Maximum size of a verdict file. Longer files are not verdicts.
const LONGEST_VERDICT: u64 = 1 << 30;

/// Make one page of a recording, a run or a verdict, for a browser
///
/// The page is self-contained and needs no network. It shows a timeline of all agents, every turn with its prompt, tools,
/// calls, results and raw bytes, the prompt cache, and the verdict.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot report recordings/claude-code/2.1.325/wakeup --open
  offshoot report 1m7g0c8g --out run.html
  offshoot report rec --golden accepted-rec --out compared.html
  offshoot verify golden rec --format json > verdict.json
  offshoot report verdict.json")]
pub(crate) struct Args {
    /// Folder of a recording or of dumps, a run, or the output of `verify --format json`
    #[arg(value_name = "RECORDING|RUN|VERDICT", value_parser = crate::recordings::recording_or_run)]
    what: String,
    /// Golden to compare the recording with
    #[arg(long, value_name = "DIR", value_parser = crate::recordings::recording_at())]
    golden: Option<PathBuf>,
    /// Required level, from E0 (same outcome) to E4 (byte-equal)
    #[arg(long, value_name = "LEVEL", default_value_t = Level::E3, requires = "golden")]
    level: Level,
    /// File with exclusions and masks [default: parity.toml beside the golden]
    #[arg(long, value_name = "FILE", requires = "golden")]
    rules: Option<PathBuf>,
    /// File to write; `-` means standard output
    #[arg(long, value_name = "FILE", default_value = "offshoot-report.html")]
    out: PathBuf,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.open && args.out == Path::new("-") {
        let error = anyhow::anyhow!("cannot open a page that is printed");
        return Err(error).or_fail_with(ExitKind::Usage, || "omit `--out -` or `--open`".to_owned());
    }
    let path = Path::new(&args.what);
    let is_run = !path.exists() && !args.what.contains('/');
    if let Some(golden) = args.golden.as_ref().filter(|_| is_run || path.is_file()) {
        let error = anyhow::anyhow!("`{}` is not a recording and cannot be compared", args.what);
        let hint = || format!("offshoot report RECORDING --golden {}", golden.display());
        return Err(error).or_fail_with(ExitKind::Usage, hint);
    }
    match path {
        _ if is_run => of_run(args)?,
        file if file.is_file() => of_verdict(args, file)?,
        folder => of_recording(args, folder)?,
    }
    if args.out != Path::new("-") {
        print(&format!("{}\n", args.out.display()));
    }
    if args.open {
        show(&args.out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_run(args: &Args) -> anyhow::Result<()> {
    let store = journal::open()?;
    let run = run_or_folder(&store, &args.what)?;
    // An error of the journal is reported instead of the write error that it causes.
    let mut trouble = None;
    write(args, &[], |out| {
        page::run(&store, &run, out).map_err(|error| {
            trouble = Some(error);
            io::Error::other("the run cannot be read")
        })
    })
    .map_err(|error| trouble.unwrap_or(error))
}

fn of_recording(args: &Args, folder: &Path) -> anyhow::Result<()> {
    let source = open(folder)?;
    let Some(golden) = &args.golden else {
        let damage = damage(&source)?;
        return write(args, &[folder], |out| page::recording(&source, &damage, out));
    };
    let rules = rules(golden, args.rules.as_deref())?;
    let golden = open(golden)?;
    let verdict = parity::verify(&golden, &source, &rules, args.level);
    let page =
        page::VerdictPage { verdict: &verdict, both: Some((&golden, &source)), damage: &damage(&source)? };
    write(args, &[folder, golden.dir()], |out| page.write(out))
}

fn of_verdict(args: &Args, file: &Path) -> anyhow::Result<()> {
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
            VerdictFileError::Malformed(_) => anyhow::anyhow!("`{file}` is not a verdict"),
        }
    });
    let verdict = verdict.or_fail_with(ExitKind::Usage, hint)?;
    // The verdict names its folders, which may be gone by now.
    let side = |dir: &str| open(Path::new(dir)).ok();
    let both = side(&verdict.golden).zip(side(&verdict.candidate));
    if both.is_none() {
        warning!("cannot find the recordings of the verdict; the page shows only the verdict");
    }
    let both = both.as_ref().map(|(golden, candidate)| (golden, candidate));
    let read: Vec<&Path> = both
        .into_iter()
        .flat_map(|(golden, candidate)| [golden.dir(), candidate.dir()])
        .chain([file])
        .collect();
    let damage = both.map(|(_, candidate)| damage(candidate)).transpose()?.unwrap_or_default();
    let page = page::VerdictPage { verdict: &verdict, both, damage: &damage };
    write(args, &read, |out| page.write(out))
}

fn write(
    args: &Args,
    read: &[&Path],
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if args.out == Path::new("-") {
        return output::print(fill);
    }
    output::check_target(&args.out, read)?;
    output::write(&args.out, fill)
}

/// Opens the file with the default program of the system.
fn show(path: &Path) -> anyhow::Result<()> {
    let file = path.canonicalize().or_fail(ExitKind::Outside)?;
    let started = Command::new(OPENER)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let failed = || {
        let error = anyhow::anyhow!("cannot start a browser with `{OPENER}`");
        Err(error).or_fail_with(ExitKind::Outside, || format!("open file://{}", file.display()))
    };
    let Ok(mut child) = started else { return failed() };
    // A failure is reported within a second. A program that stays open is not waited for.
    for _ in 0..20 {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            _ => return failed(),
        }
    }
    Ok(())
}
