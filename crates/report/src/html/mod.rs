//! Pages that stand by themselves: no network, no fonts, nothing that is not in the one file.
//!
//! Whatever a recording holds is shown as text. Only [`text`] and [`line`] put it into a page, and a policy in the head
//! lets nothing run but what we wrote, by its digest.

mod agents;
mod value;
mod verdict;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::text::is_harmless;

pub use agents::{PageOf, RecordingPage};
pub use verdict::verdict_page;

/// Nobody reads a name that is longer.
const LONGEST_LINE: usize = 2_000;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("bodies.js");

/// Everything before a page's content. Without the script nothing may run at all.
fn head(title: &str, with_script: bool) -> String {
    let script = match with_script {
        true => format!("; script-src 'sha256-{}'", digest(SCRIPT)),
        false => String::new(),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'{script}; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        digest(STYLE),
        line(title),
    )
}

/// Everything behind it.
fn foot(with_script: bool) -> String {
    let script = if with_script { format!("<script>{SCRIPT}</script>\n") } else { String::new() };
    format!("{script}</body>\n</html>\n")
}

fn digest(text: &str) -> String {
    let hex = recording::sha256(text.as_bytes());
    let byte = |pair: &[u8]| {
        let digit = |c: u8| char::from(c).to_digit(16).unwrap_or_default() as u8;
        digit(pair[0]) * 16 + digit(pair[1])
    };
    STANDARD.encode(hex.as_bytes().chunks_exact(2).map(byte).collect::<Vec<_>>())
}

/// A text from elsewhere with its lines, for any place in a page, attributes too.
fn text(from: &str) -> String {
    let mut out = String::with_capacity(from.len() + from.len() / 8);
    for c in from.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if is_harmless(c) => out.push(c),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a string takes everything"),
        }
    }
    out
}

/// A text from elsewhere on one line: a name, an address, a sentence.
fn line(from: &str) -> String {
    let end = from.floor_char_boundary(LONGEST_LINE);
    let more = if end < from.len() { "…" } else { "" };
    text(&crate::text::plain(&from[..end])) + more
}

/// As much of a text as a page should hold, and a word on the rest.
fn excerpt(from: &str, most: usize) -> String {
    let end = from.floor_char_boundary(most);
    match from.len() - end {
        0 => text(from),
        more => format!("{}<span class=\"more\"> … {} more bytes</span>", text(&from[..end]), grouped(more)),
    }
}

/// As in `12,345`.
fn grouped(count: usize) -> String {
    cache::grouped(count as u64)
}

#[cfg(test)]
mod tests;
