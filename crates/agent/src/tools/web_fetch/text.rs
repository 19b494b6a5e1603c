//! Decoding of a body to text: applies its charset, and removes HTML markup.

use std::time::Duration;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use super::fetch::{FetchedPage, essence};
use super::html;

/// Time limit for reading HTML. Ordinary pages take milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Number of bytes at the start of a document that are searched for its charset.
const CHARSET_SEARCH: usize = 1024;

/// Returns the text of a page.
pub(super) fn page_text(page: &FetchedPage) -> String {
    let kind = essence(&page.content_type);
    let is_html = matches!(kind, "text/html" | "application/xhtml+xml");
    let (text, ..) = charset(page, is_html).decode(&page.body); // a byte order mark takes precedence
    match is_html {
        true => html::to_text(&text, &page.url, TIME_LIMIT),
        false => text.into_owned(),
    }
}

/// Determines the charset: from the header, else from the document, else UTF-8, or Windows-1252 for HTML that
/// is not UTF-8.
fn charset(page: &FetchedPage, is_html: bool) -> &'static Encoding {
    let label = |text: &str, key: &str| {
        let (_, rest) = text.split_once(key)?;
        let rest = rest.trim_start().strip_prefix('=').unwrap_or(rest).trim_start();
        let word = rest.trim_start_matches(['"', '\'']);
        let end = word
            .find(|c: char| c == '"' || c == '\'' || c == ';' || c == '>' || c == '?' || c.is_whitespace());
        Encoding::for_label(&word.as_bytes()[..end.unwrap_or(word.len())])
    };
    if let Some(told) = label(&page.content_type, "charset") {
        return told;
    }
    let start =
        String::from_utf8_lossy(&page.body[..page.body.len().min(CHARSET_SEARCH)]).to_ascii_lowercase();
    let own = match is_html {
        true => label(&start, "charset"),
        false if start.trim_start().starts_with("<?xml") => label(&start, "encoding"),
        false => None,
    };
    let is_utf8 = || std::str::from_utf8(&page.body).is_ok();
    own.unwrap_or_else(|| if is_html && !is_utf8() { WINDOWS_1252 } else { UTF_8 })
}
