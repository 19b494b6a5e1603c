//! A body as text: in its charset, and HTML without its markup.

use std::time::Duration;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use super::fetch::{Page, essence};
use super::html;

/// How long HTML may take to be read. A usual page takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// How far into a document its own word about its charset is looked for.
const LOOK: usize = 1024;

/// The words of a page.
pub(super) fn readable(page: &Page) -> String {
    let kind = essence(&page.content_type);
    let is_html = matches!(kind, "text/html" | "application/xhtml+xml");
    let (text, ..) = charset(page, is_html).decode(&page.body); // a byte order mark says more than anybody
    match is_html {
        true => html::to_text(&text, &page.url, PATIENCE),
        false => text.into_owned(),
    }
}

/// What the header says, else what the document says of itself, else UTF-8, and for old HTML that is none, Latin.
fn charset(page: &Page, is_html: bool) -> &'static Encoding {
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
    let start = String::from_utf8_lossy(&page.body[..page.body.len().min(LOOK)]).to_ascii_lowercase();
    let own = match is_html {
        true => label(&start, "charset"),
        false if start.trim_start().starts_with("<?xml") => label(&start, "encoding"),
        false => None,
    };
    let is_utf8 = || std::str::from_utf8(&page.body).is_ok();
    own.unwrap_or_else(|| if is_html && !is_utf8() { WINDOWS_1252 } else { UTF_8 })
}
