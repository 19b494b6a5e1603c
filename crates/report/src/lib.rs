//! Renders values as text for people, programs and browsers.
//!
//! Start at [`show_text`] for terminals, at [`har_entry`] for programs, and at [`Page`] for browsers. Nothing
//! here reads a file or makes a decision.

mod cache;
mod check;
mod diff;
mod difference;
mod har;
mod junit;
mod markdown;
mod page;
mod place;
mod runs;
mod show;
mod style;
mod table;
mod terminal;
mod text;
mod tree;
mod url;
mod verdict;

pub use self::cache::{CacheView, UnexplainedRequests, cache_json, cache_text, lint_json, lint_text};
pub use check::check_text;
pub use difference::difference_text;
pub use har::{HarEntry, HarWriter, har_entry};
pub use junit::junit;
pub use markdown::MarkdownStream;
pub use page::{
    BadgeTone, BodySizes, GoldenMatch, Measurements, Page, PageContent, PageExchange, PageKind,
    RunsAsRecording, ToolSpan, runs_as_recording,
};
pub use place::{ExchangePosition, exchange_positions};
pub use runs::{
    DeliveredJob, OneRun, cost_json, cost_text, ps_json, ps_text, run_json, run_text, search_json,
    search_text,
};
pub use show::{FolderInfo, show_json, show_text};
pub use style::Tone;
pub use terminal::terminal_text;
pub use text::{columns, counted, duration, fit, harmless_json, plain, readable, tokens, visible};
pub use tree::tree;
pub use verdict::{verdict_line, verdict_text};

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
