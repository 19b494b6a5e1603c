//! Output of `offshoot search`.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use store::{Millis, SearchHit};

use super::FORMAT;
use crate::text::{fit, plain};

/// Renders each hit in two lines, with the date of the message.
pub fn search_text(hits: &[SearchHit], width: usize) -> String {
    if hits.is_empty() {
        return "no matches\n".to_owned();
    }
    let mut out = String::new();
    for hit in hits {
        let title = plain(&hit.title);
        out.push_str(&fit(&format!("{}  {}  {title}", hit.run, date(hit.at)), width));
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

/// Formats the day in UTC, as in `2026-11-19`.
fn date(at: Millis) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or_default());
    recording::iso(time).chars().take("2026-11-19".len()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_of_a_message_is_in_utc() {
        assert_eq!(date(Millis(0)), "1970-01-01");
        assert_eq!(date(Millis(1_795_132_799_000)), "2026-11-19");
        assert_eq!(date(Millis(-1)), "1970-01-01");
    }
}
