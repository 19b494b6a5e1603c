//! Messages: appended, numbered, never changed.

use rusqlite::{Connection, OptionalExtension, params};
use session::{Role, RunId};

use super::state;
use crate::{ModelCallId, NewMessage, RunKind, Seq, Store, StoreError};

impl Store {
    /// Appends messages to a run. Returns the number of each.
    pub async fn append(&self, run: &RunId, messages: Vec<NewMessage>) -> Result<Vec<Seq>, StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let kind = state(conn, &run)?.kind;
            append_all(conn, &run, kind, &messages)
        })
        .await
    }

    /// Appends the result of a compaction and moves the start of the model's context to it.
    ///
    /// The messages are the summary, then copies of the messages that stay in the context, with
    /// [`Origin::Carried`](crate::Origin::Carried). Earlier messages remain for users and for search. Returns
    /// the number of the first.
    pub async fn compact_messages(&self, run: &RunId, messages: Vec<NewMessage>) -> Result<Seq, StoreError> {
        let run = run.clone();
        self.write(move |conn| {
            let kind = state(conn, &run)?.kind;
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

/// Appends one message after the last. There is one writer, so the next number is free.
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

/// Returns the number of a run's last message; 0 if there is none.
pub(super) fn last_seq(conn: &Connection, run: &RunId) -> Result<Seq, StoreError> {
    let mut find =
        conn.prepare_cached("SELECT seq FROM messages WHERE run = ?1 ORDER BY seq DESC LIMIT 1")?;
    if let Some(last) = find.query_row([run.as_str()], |row| row.get(0)).optional()? {
        return Ok(last);
    }
    // A fork's messages are numbered from its parent's reply on.
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
