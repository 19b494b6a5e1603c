//! The HTML around the page's data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::text::{fit, harmless_json, plain};

/// Maximum length of the title.
const MAX_TITLE: usize = 200;

const STYLE: &str = include_str!("style.css");
/// Joined to one script, because a page from a file cannot load others.
const SCRIPT: &str = concat!(
    include_str!("text.js"),
    include_str!("data.js"),
    include_str!("dom.js"),
    include_str!("longtext.js"),
    include_str!("diff.js"),
    include_str!("compare.js"),
    include_str!("timeline.js"),
    include_str!("chart.js"),
    include_str!("lanes.js"),
    include_str!("turn.js"),
    include_str!("cache.js"),
    include_str!("verdict.js"),
    include_str!("search.js"),
    include_str!("app.js"),
);

/// Returns everything before the blocks, so that the page is visible while they load.
pub(super) fn head(title: &str, index: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; \
         script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <noscript><p>This report needs JavaScript, which is turned off.</p></noscript>\n\
         <div id=\"app\"></div>\n\
         <script type=\"application/json\" id=\"index\">{index}</script>\n\
         <script>{SCRIPT}</script>\n",
        digest(STYLE),
        digest(SCRIPT),
        escaped(&fit(&plain(title), MAX_TITLE)),
    )
}

/// Everything after the blocks.
pub(super) const FOOT: &str = "</body>\n</html>\n";

fn digest(text: &str) -> String {
    let hex = recording::sha256(text.as_bytes());
    let byte = |pair: &[u8]| {
        let digit = |c: u8| char::from(c).to_digit(16).unwrap_or_default() as u8;
        digit(pair[0]) * 16 + digit(pair[1])
    };
    STANDARD.encode(hex.as_bytes().chunks_exact(2).map(byte).collect::<Vec<_>>())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Serializes JSON that can neither end its block nor start a comment, without bidirectional overrides. These
/// characters occur only in strings, where they can be escaped.
pub(super) fn inert(value: &Value) -> String {
    harmless_json(value).replace('<', "\\u003c")
}
