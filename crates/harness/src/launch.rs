//! The command that starts a harness.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;

/// The command that starts a program. Its working folder is the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables in addition to those of [`Sandbox::env`](crate::Sandbox::env).
    pub env: BTreeMap<String, String>,
}

/// A boxed future, so that adapters can be trait objects.
pub type HarnessFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
