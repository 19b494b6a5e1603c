//! One file per command.

pub(crate) mod accept;
pub(crate) mod agents;
pub(crate) mod cache;
pub(crate) mod cancel;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod cost;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod journal;
pub(crate) mod man;
pub(crate) mod normalize;
pub(crate) mod proxy;
pub(crate) mod ps;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod tasks;
pub(crate) mod verify;

/// Output format of a command.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: stable and versioned
    Json,
}
