//! Long output: printed piece by piece, or written to a file atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::failure::{ExitKind, OrFail, classify, write_error_kind};
use crate::progress::Progress;
use crate::terminal::print_text;

/// Prints what `fill` writes: unchanged in a pipe, escaped on a terminal. A closed pipe (`head`) is no failure.
pub(crate) fn print(fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        let mut bytes = Vec::new();
        fill(&mut bytes).or_fail(ExitKind::Outside)?;
        print_text(&String::from_utf8_lossy(&bytes));
        return Ok(());
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).or_fail(ExitKind::Outside),
        _ => Ok(()),
    }
}

/// Refuses a target inside a recording, which is sealed, and a target that is also an input.
pub(crate) fn check_target(path: &Path, read: &[&Path]) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = |path: &Path| path.canonicalize().ok();
    let target = real(path).or_else(|| real(folder));
    let is_in =
        |read: &&&Path| target.as_ref().zip(real(read)).is_some_and(|(it, read)| it.starts_with(read));
    let problem = match read.iter().find(is_in) {
        _ if path.is_dir() => format!("`{}` is a folder", path.display()),
        Some(read) if read.is_dir() => {
            format!("`{}` is inside the recording, which must not change", path.display())
        }
        Some(_) => format!("`{}` is an input of this command", path.display()),
        None if !folder.is_dir() => format!("no folder `{}`", folder.display()),
        None => return Ok(()),
    };
    Err(anyhow::anyhow!(problem))
        .or_fail_with(ExitKind::Usage, || "give another file with `--out`".to_owned())
}

/// Writes a file atomically: under a temporary name, then renamed. A pipe or device is written directly.
pub(crate) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let _progress = Progress::step(&format!("writing `{}`", path.display()));
    // A link stays a link: its target is written.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_special = fs::metadata(&real).is_ok_and(|found| !found.is_file());
    let written = match is_special {
        true => OpenOptions::new().write(true).open(&real).and_then(|file| fill_file(file, fill)),
        false => write_and_rename(&real, fill),
    };
    written.map_err(|error| {
        let kind = write_error_kind(&error);
        let error = anyhow::Error::from(error).context(format!("cannot write `{}`", path.display()));
        classify(kind, Some("give another file with `--out`".to_owned()), error)
    })
}

fn write_and_rename(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600) // a page of a run quotes its journal, which only the user may read
        .open(&temporary)
        .and_then(|file| fill_file(file, fill))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // the first error is the one to report
    }
    written
}

fn fill_file(file: File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    out.flush()
}
