//! What is too long for one text: printed piece by piece, or written to a file that is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::failure::{Kind, OrFail, marked, of_writing};
use crate::progress::Progress;

/// Prints something long. A reader that has seen enough, as `head` has, is no failure.
pub(crate) fn print(fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).or_fail(Kind::Outside),
        _ => Ok(()),
    }
}

/// A file in a recording would be one that was not there when it was sealed; and what is read is never written over.
pub(crate) fn check_place(path: &Path, read: &[&Path]) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = |path: &Path| path.canonicalize().ok();
    let place = real(path).or_else(|| real(folder));
    let is_in = |read: &&&Path| place.as_ref().zip(real(read)).is_some_and(|(it, read)| it.starts_with(read));
    let problem = match read.iter().find(is_in) {
        _ if path.is_dir() => format!("`{}` is a folder", path.display()),
        Some(read) if read.is_dir() => {
            format!("`{}` is in the recording, which is never changed", path.display())
        }
        Some(_) => format!("`{}` is what is read", path.display()),
        None if !folder.is_dir() => format!("there is no folder `{}`", folder.display()),
        None => return Ok(()),
    };
    Err(anyhow::anyhow!(problem)).or_fail_with(Kind::Usage, || "give another file with `--out`".to_owned())
}

/// Written beside and renamed over: the file is whole, or as it was. What is no file, a pipe for example, is written to.
pub(crate) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let _shown = Progress::of(&format!("writing `{}`", path.display()));
    // A link stays one: what it leads to is written.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_special = fs::metadata(&real).is_ok_and(|found| !found.is_file());
    let written = match is_special {
        true => OpenOptions::new().write(true).open(&real).and_then(|file| filled(file, fill)),
        false => write_beside(&real, fill),
    };
    written.map_err(|error| {
        let kind = of_writing(&error);
        let error = anyhow::Error::from(error).context(format!("cannot write `{}`", path.display()));
        marked(kind, Some("give another file with `--out`".to_owned()), error)
    })
}

fn write_beside(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600) // a run's page says what its journal says, and that is nobody else's to read
        .open(&beside)
        .and_then(|file| filled(file, fill))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the error that matters is the one we return
    }
    written
}

fn filled(file: File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    out.flush()
}
