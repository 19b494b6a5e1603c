//! Search in what the user and main agents have said.

use rusqlite::{Connection, params};
use session::{RunId, ThreadId};

use super::columns;
use crate::{SearchHit, StoreError};

/// Maximum number of words and phrases of a query, and the length of each in characters. What is longer is left out.
const MAX_TERMS: usize = 32;
const MAX_TERM: usize = 200;

pub(super) fn find(conn: &Connection, query: &str, limit: i64) -> Result<Vec<SearchHit>, StoreError> {
    let Some(query) = match_expression(query) else { return Ok(Vec::new()) };
    let mut find = conn.prepare_cached(
        "SELECT m.thread, t.title, m.run, m.seq, m.role, m.created_at,
             snippet(message_search, 0, '[', ']', '…', 16),
             (SELECT count(*) FROM main_said earlier WHERE earlier.thread = m.thread AND earlier.id <= m.id)
         FROM message_search JOIN main_said m ON m.id = message_search.rowid JOIN threads t ON t.id = m.thread
         WHERE message_search MATCH ?1 ORDER BY bm25(message_search), m.id DESC LIMIT ?2",
    )?;
    let found = find.query_map(params![query, limit], |row| {
        Ok(SearchHit {
            thread: ThreadId::new(columns::text(row, 0)?),
            title: row.get(1)?,
            run: RunId::new(columns::text(row, 2)?),
            seq: row.get(3)?,
            role: columns::role(row, 4)?,
            at: row.get(5)?,
            snippet: row.get(6)?,
            number: columns::count(row, 7)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// A part of a query.
#[derive(Debug, PartialEq)]
enum Term {
    /// A word, or the beginning of one.
    Word(String),
    /// Words that follow each other. The last may be the beginning of one if a `*` follows.
    Phrase { words: String, is_prefix: bool },
}

/// Returns the query in the language of SQLite: any term may match. Every term is quoted, so that the query contains no
/// operators. Returns `None` if there is no word.
fn match_expression(query: &str) -> Option<String> {
    let quoted = |words: &str| format!("\"{}\"", words.replace('"', " "));
    let terms: Vec<String> = terms(query)
        .into_iter()
        .map(|term| match term {
            // Also without the `*`, so that a whole word counts more than the beginning of one.
            Term::Word(word) => format!("{0} OR {0} *", quoted(&word)),
            Term::Phrase { words, is_prefix: false } => quoted(&words),
            Term::Phrase { words, is_prefix: true } => format!("{} *", quoted(&words)),
        })
        .collect();
    (!terms.is_empty()).then(|| terms.join(" OR "))
}

/// Splits a query into words and quoted phrases. A quote that is not closed ends with the query.
fn terms(query: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let parts: Vec<&str> = query.split(['"', '“', '”', '„']).collect();
    for (at, part) in parts.iter().enumerate() {
        let has_word = |text: &&str| text.chars().any(char::is_alphanumeric);
        let words = part.split(|c: char| c.is_whitespace() || c.is_control()).filter(has_word);
        if at % 2 == 0 {
            terms.extend(words.map(|word| Term::Word(shortened(word))));
            continue;
        }
        let words = shortened(&words.collect::<Vec<_>>().join(" "));
        let is_prefix = parts.get(at + 1).is_some_and(|rest| rest.starts_with('*'));
        terms.extend((!words.is_empty()).then_some(Term::Phrase { words, is_prefix }));
    }
    terms.truncate(MAX_TERMS);
    terms
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TERM).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_words_and_phrases() {
        for (query, expected) in [
            ("parser bug", Some(r#""parser" OR "parser" * OR "bug" OR "bug" *"#)),
            (r#"fix "parser bug""#, Some(r#""fix" OR "fix" * OR "parser bug""#)),
            (r#""parser bu"* x"#, Some(r#""parser bu" * OR "x" OR "x" *"#)),
            (r#""not closed"#, Some(r#""not closed""#)),
            ("“as typed”", Some(r#""as typed""#)),
            ("pars*", Some(r#""pars*" OR "pars*" *"#)),
            ("\" \" * ()", None),
            ("", None),
        ] {
            assert_eq!(match_expression(query).as_deref(), expected, "{query}");
        }
        assert_eq!(terms(&"word ".repeat(10_000)).len(), MAX_TERMS);
        assert_eq!(terms(&"x".repeat(10_000)), [Term::Word("x".repeat(MAX_TERM))]);
    }
}
