//! Values in, text out: what people read.
//!
//! Start at [`show_text`]. Nothing here reads a file or decides anything.

mod check;
mod har;
mod place;
mod show;
mod text;
mod tree;
mod url;

pub use check::check_text;
pub use har::{HarEntry, HarWriter, har_entry};
pub use place::{Place, places};
pub use show::{About, show_json, show_text};
pub use text::{duration, fit, plain, tokens, visible};
pub use tree::tree;

#[cfg(test)]
mod tests;
