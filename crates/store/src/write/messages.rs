//! Messages: appended, numbered, never changed.

use rusqlite::{Connection, OptionalExtension, params};
use session::{Role, RunId};

use super::standing;
use crate::{ModelCallId, NewMessage, RunKind, Seq, Store, StoreError};

impl Store {
    /// Appends messages to a run; returns the number of each.
    pub async fn append(&self, run: &RunId, messages: Vec<NewMessage>) -> Result<Vec<Seq>, StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let kind = standing(conn, &run)?.kind;
            append_all(conn, &run, kind, &messages)
        })
        .await
    }

    /// Appends what a compaction leaves of a run's messages, and lets the model see from there on.
    ///
    /// That is the summary, then, as [`Origin::Carried`](crate::Origin::Carried), a copy of each message that
    /// the context is to go on with. What came before stays, for people and for search. Returns the number of
    /// the first.
    pub async fn compacted(&self, run: &RunId, messages: Vec<NewMessage>) -> Result<Seq, StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let kind = standing(conn, &run)?.kind;
            let appended = append_all(conn, &run, kind, &messages)?;
            let from =
                *appended.first().ok_or(StoreError::Misuse("a compaction leaves at least a summary"))?;
            let mut update = conn.prepare_cached("UPDATE runs SET context_from = ?2 WHERE id = ?1")?;
            update.execute(params![run.as_str(), from])?;
            Ok(from)
        })
        .await
    }
}

pub(super) fn append_all(
    conn: &Connection,
    run: &RunId,
    kind: RunKind,
    messages: &[NewMessage],
) -> Result<Vec<Seq>, StoreError> {
    messages.iter().map(|message| append_one(conn, run, kind, message, None)).collect()
}

/// Appends one message behind the last; the writer is alone, so the number is free.
pub(super) fn append_one(
    conn: &Connection,
    run: &RunId,
    kind: RunKind,
    message: &NewMessage,
    call: Option<ModelCallId>,
) -> Result<Seq, StoreError> {
    let seq = Seq(last_seq(conn, run)?.0 + 1);
    let mut insert = conn.prepare_cached(
        "INSERT INTO messages (run, kind, seq, role, origin, model_call, created_at, text, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    insert.execute(params![
        run.as_str(),
        kind,
        seq,
        role_word(message.role),
        message.origin,
        call,
        message.at,
        message.text,
        message.bytes,
    ])?;
    Ok(seq)
}

/// The number of a run's last message; 0 when there is none.
pub(super) fn last_seq(conn: &Connection, run: &RunId) -> Result<Seq, StoreError> {
    let mut find =
        conn.prepare_cached("SELECT seq FROM messages WHERE run = ?1 ORDER BY seq DESC LIMIT 1")?;
    if let Some(last) = find.query_row([run.as_str()], |row| row.get(0)).optional()? {
        return Ok(last);
    }
    // A fork goes on where what it began with ends.
    let mut find = conn.prepare_cached("SELECT to_seq FROM forks WHERE run = ?1")?;
    Ok(find.query_row([run.as_str()], |row| row.get(0)).optional()?.unwrap_or_default())
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}
