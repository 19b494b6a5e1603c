//! Exit codes of failures.

/// Exit code of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitKind {
    /// The verdict is negative.
    Verdict = 1,
    /// The user can fix it.
    Usage = 2,
    /// The outside world failed.
    Outside = 3,
    /// offshoot has a bug.
    Bug = 4,
}
