//! Reads: the user's, those of one run, and the list of all runs.

mod columns;
mod main;
pub(crate) mod overview;
mod run;
mod search;

pub(crate) use columns::lease;
pub use main::MainReads;
pub use overview::Filter;
pub(crate) use overview::inclusive;
pub use run::RunReads;
pub(crate) use run::{above, cancel_requested};
