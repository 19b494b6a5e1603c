//! Values in, text out: what people read.
//!
//! Start at [`show_text`]. Nothing here reads a file or decides anything.

mod check;
mod show;
mod text;
mod tree;
mod verdict;
mod words;

pub use check::check_text;
pub use show::{About, show_json, show_text};
pub use text::{duration, fit, plain, tokens};
pub use tree::tree;
pub use verdict::verdict_text;
pub use words::{Change, word_diff};

#[cfg(test)]
mod tests;
