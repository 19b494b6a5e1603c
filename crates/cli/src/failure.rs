//! Failures of a command: the error, a hint to paste, and the exit code.

use std::fmt;
use std::process::ExitCode;

pub(crate) use crate::exit_kind::ExitKind;
use crate::terminal::{Label, message};

/// An error with its exit code and an optional hint.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: ExitKind,
    hint: Option<String>,
    error: anyhow::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Adds an exit code to the error of a result.
pub(crate) trait OrFail<T> {
    /// Adds the exit code.
    fn or_fail(self, kind: ExitKind) -> anyhow::Result<T>;
    /// Adds the exit code and a hint.
    fn or_fail_with(self, kind: ExitKind, hint: impl FnOnce() -> String) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrFail<T> for Result<T, E> {
    fn or_fail(self, kind: ExitKind) -> anyhow::Result<T> {
        self.map_err(|error| Failure { kind, hint: None, error: error.into() }.into())
    }

    fn or_fail_with(self, kind: ExitKind, hint: impl FnOnce() -> String) -> anyhow::Result<T> {
        self.map_err(|error| Failure { kind, hint: Some(hint()), error: error.into() }.into())
    }
}

/// Adds an exit code and an optional hint to an error.
pub(crate) fn classify(kind: ExitKind, hint: Option<String>, error: anyhow::Error) -> anyhow::Error {
    Failure { kind, hint, error }.into()
}

/// Chooses the exit code of a failed write. The user can choose another path; a full disk is outside.
pub(crate) fn write_error_kind(error: &std::io::Error) -> ExitKind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound
        | Io::PermissionDenied
        | Io::NotADirectory
        | Io::IsADirectory
        | Io::AlreadyExists
        | Io::ReadOnlyFilesystem
        | Io::InvalidFilename => ExitKind::Usage,
        _ => ExitKind::Outside,
    }
}

/// Returns the hint of an error.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&str> {
    error.downcast_ref::<Failure>()?.hint.as_deref()
}

/// Prints an error with its causes and its hint, and returns its exit code. An error without one is our bug.
pub(crate) fn print(error: &anyhow::Error) -> ExitCode {
    message(Some(Label::Error), &error.to_string());
    for cause in error.chain().skip(1) {
        message(None, &format!("  because: {cause}"));
    }
    if let Some(hint) = hint(error) {
        message(Some(Label::Hint), hint);
    }
    let failure = error.downcast_ref::<Failure>();
    ExitCode::from(failure.map_or(ExitKind::Bug, |failure| failure.kind) as u8)
}
