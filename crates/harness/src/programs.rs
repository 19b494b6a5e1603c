//! Finds programs by name or path.

use std::path::{Path, PathBuf};

use crate::error::HarnessError;

/// Finds a program on the PATH.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// Finds the program after `--`, by its path or on the PATH.
pub(crate) fn given_program(arguments: &[String]) -> Result<PathBuf, HarnessError> {
    let Some(program) = arguments.first() else {
        return Err(HarnessError::usage(
            "no command to capture",
            "append it after `--`, such as `offshoot capture command --scenario S -- ./agent {prompt}`",
        ));
    };
    let found = match program.contains('/') {
        true => Path::new(program).canonicalize().ok().filter(|path| path.is_file()),
        false => on_path(program),
    };
    found.ok_or_else(|| {
        HarnessError::usage(
            format!("cannot find the command `{program}`"),
            format!("try `command -v {program}`"),
        )
    })
}
