//! Failures as people see them: what, why, a hint that can be pasted, and the exit code.

use std::fmt;
use std::process::ExitCode;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The verdict is no.
    Verdict = 1,
    /// The user can fix it.
    Usage = 2,
    /// The outside world failed.
    Outside = 3,
    /// We have a bug.
    Bug = 4,
}

/// Marks an error with its kind and, where there is one, a hint.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
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

/// Says whose turn it is, and what to do.
pub(crate) trait OrFail<T> {
    /// Fails with this kind.
    fn or_fail(self, kind: Kind) -> anyhow::Result<T>;
    /// Fails with this kind and a hint.
    fn or_fail_with(self, kind: Kind, hint: impl FnOnce() -> String) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrFail<T> for Result<T, E> {
    fn or_fail(self, kind: Kind) -> anyhow::Result<T> {
        self.map_err(|error| Failure { kind, hint: None, error: error.into() }.into())
    }

    fn or_fail_with(self, kind: Kind, hint: impl FnOnce() -> String) -> anyhow::Result<T> {
        self.map_err(|error| Failure { kind, hint: Some(hint()), error: error.into() }.into())
    }
}

/// An error with its kind and hint.
pub(crate) fn marked(kind: Kind, hint: Option<String>, error: anyhow::Error) -> anyhow::Error {
    Failure { kind, hint, error }.into()
}

/// Whose turn it is where something cannot be written: a place that takes no file is the user's to change, as everywhere;
/// a disk that is full is not.
pub(crate) fn of_writing(error: &std::io::Error) -> Kind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound
        | Io::PermissionDenied
        | Io::NotADirectory
        | Io::IsADirectory
        | Io::AlreadyExists
        | Io::ReadOnlyFilesystem
        | Io::InvalidFilename => Kind::Usage,
        _ => Kind::Outside,
    }
}

/// What to do about an error, where somebody knows.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&str> {
    error.downcast_ref::<Failure>()?.hint.as_deref()
}

/// Prints an error with its causes and its hint; an error that nobody marked is our bug.
pub(crate) fn print(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", harmless(&error.to_string()));
    for cause in error.chain().skip(1) {
        eprintln!("  because: {}", harmless(&cause.to_string()));
    }
    let failure = error.downcast_ref::<Failure>();
    if let Some(hint) = hint(error) {
        eprintln!("hint: {}", harmless(hint));
    }
    ExitCode::from(failure.map_or(Kind::Bug, |failure| failure.kind) as u8)
}

/// An error may quote what a file says; only its line breaks reach the terminal as they are.
fn harmless(text: &str) -> String {
    text.split('\n').map(report::visible).collect::<Vec<_>>().join("\n")
}
