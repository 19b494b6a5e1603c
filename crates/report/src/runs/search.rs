//! Output of `offshoot search`.

use serde_json::{Value, json};
use store::SearchHit;

use super::FORMAT;
use crate::text::{fit, plain};

/// Renders each hit in two lines.
pub fn search_text(hits: &[SearchHit], width: usize) -> String {
    if hits.is_empty() {
        return "no matches\n".to_owned();
    }
    let mut out = String::new();
    for hit in hits {
        let title = plain(&hit.title);
        out.push_str(&fit(&format!("{}  {title}", hit.run), width));
        out.push('\n');
        let snippet = plain(&hit.snippet);
        out.push_str(&fit(&format!("  {}: {snippet}", author(hit)), width));
        out.push('\n');
    }
    out
}

/// Renders the hits as JSON.
pub fn search_json(hits: &[SearchHit]) -> Value {
    let one = |hit: &SearchHit| {
        json!({
            "thread": hit.thread,
            "run": hit.run,
            "message": hit.seq.0,
            "number": hit.number,
            "role": author(hit),
            "title": hit.title,
            "snippet": hit.snippet,
            "at_ms": hit.at.0,
        })
    };
    json!({ "format": FORMAT, "hits": hits.iter().map(one).collect::<Vec<_>>() })
}

fn author(hit: &SearchHit) -> &'static str {
    match hit.role {
        session::Role::Assistant => "assistant",
        session::Role::User => "user",
        session::Role::System => "system",
        session::Role::Developer => "developer",
        session::Role::Tool => "tool",
    }
}
