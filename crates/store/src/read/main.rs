//! Reads of what the user and the main agent may see: main runs only.
//!
//! This file names only the `main_…` views. The connections of [`Store::read_main`] refuse the tables.

use rusqlite::{Connection, OptionalExtension, Row, params};
use session::{RunId, TaskId, ThreadId};

use super::columns::{self, MESSAGE, RUN, TOOL_CALL};
use super::search;
use crate::{
    Cursor, MainMessage, Memory, SaidMessage, SearchHit, SessionInfo, Store, StoreError, StoredToolCall,
    Task, Thread, ThreadPage,
};

/// Reads of what the user may see.
#[derive(Clone, Debug)]
pub struct MainReads<'a> {
    store: &'a Store,
}

impl<'a> MainReads<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store }
    }

    /// Lists conversations, the last changed first.
    pub fn threads(&self, limit: usize) -> Result<Vec<Thread>, StoreError> {
        self.store.read_main(|conn| {
            let sql =
                format!("SELECT {THREAD} FROM threads t ORDER BY updated_at DESC, t.rowid DESC LIMIT ?1");
            let mut find = conn.prepare_cached(&sql)?;
            let found = find.query_map([at_most(limit)], thread)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Lists the conversations of a folder, the last changed first.
    pub fn threads_in(&self, workspace: &str, limit: usize) -> Result<Vec<Thread>, StoreError> {
        self.store.read_main(|conn| {
            let sql = format!(
                "SELECT {THREAD} FROM threads t WHERE workspace = ?1
                 ORDER BY updated_at DESC, t.rowid DESC LIMIT ?2"
            );
            let mut find = conn.prepare_cached(&sql)?;
            let found = find.query_map(params![workspace, at_most(limit)], thread)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns all messages of a conversation, oldest first.
    pub fn history(&self, thread: &ThreadId) -> Result<Vec<MainMessage>, StoreError> {
        self.live_messages(thread, Cursor::default())
    }

    /// Returns the messages of a conversation since `after`, oldest first.
    pub fn live_messages(&self, thread: &ThreadId, after: Cursor) -> Result<Vec<MainMessage>, StoreError> {
        self.store.read_main(|conn| {
            let sql = format!(
                "SELECT id, run, {MESSAGE} FROM main_messages WHERE thread = ?1 AND id > ?2 ORDER BY id"
            );
            let mut find = conn.prepare_cached(&sql)?;
            let found = find.query_map(params![thread.as_str(), after], |row| {
                Ok(MainMessage {
                    cursor: row.get(0)?,
                    run: RunId::new(columns::text(row, 1)?),
                    message: columns::message(row, 2)?,
                })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the tool calls of a conversation's main runs, in the order of the messages that asked for
    /// them.
    pub fn tool_calls(&self, thread: &ThreadId) -> Result<Vec<StoredToolCall>, StoreError> {
        self.store.read_main(|conn| {
            let sql = format!(
                "SELECT {TOOL_CALL} FROM main_tool_calls WHERE thread = ?1 ORDER BY run, message_seq, position"
            );
            conn.prepare_cached(&sql)?.query_and_then([thread.as_str()], columns::tool_call)?.collect()
        })
    }

    /// Returns a conversation with its main runs and their usage.
    pub fn session_info(&self, thread: &ThreadId) -> Result<SessionInfo, StoreError> {
        self.store.read_main(|conn| session_info(conn, thread))
    }

    /// Returns what was said in a conversation, from the message with that number on.
    pub fn read_thread(&self, thread: &ThreadId, from: u64, limit: usize) -> Result<ThreadPage, StoreError> {
        self.store.read_main(|conn| thread_page(conn, thread, from, at_most(limit)))
    }

    /// Returns prompts and replies that contain words or phrases of the query, best match first. A word also matches the
    /// beginning of one, a phrase is in quotes. Any text is a valid query.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, StoreError> {
        self.store.index_all()?;
        self.store.read_main(|conn| search::find(conn, query, at_most(limit)))
    }

    /// Lists the tasks of a conversation in their order.
    pub fn tasks(&self, thread: &ThreadId) -> Result<Vec<Task>, StoreError> {
        self.store.read_main(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT id, thread, subject, description, status, result, position, created_at, updated_at
                 FROM tasks WHERE thread = ?1 ORDER BY position, created_at, id",
            )?;
            let found = find.query_map([thread.as_str()], task)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Lists the memories of a conversation and those for all conversations, by name.
    pub fn memory(&self, thread: Option<&ThreadId>) -> Result<Vec<Memory>, StoreError> {
        self.store.read_main(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT thread, name, text, updated_at FROM memory WHERE thread IS NULL OR thread = ?1
                 ORDER BY name, thread",
            )?;
            let found = find.query_map([thread.map(ThreadId::as_str)], |row| {
                Ok(Memory {
                    thread: row.get::<_, Option<String>>(0)?.map(ThreadId::new),
                    name: row.get(1)?,
                    text: row.get(2)?,
                    updated_at: row.get(3)?,
                })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns a setting.
    pub fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.store.read_main(|conn| {
            let mut find = conn.prepare_cached("SELECT value FROM settings WHERE name = ?1")?;
            Ok(find.query_row([name], |row| row.get(0)).optional()?)
        })
    }
}

const THREAD: &str = "t.id, t.title, t.workspace, t.created_at, t.updated_at,
    (SELECT id FROM main_runs WHERE thread = t.id ORDER BY created_at DESC, id DESC LIMIT 1),
    (SELECT status FROM main_runs WHERE thread = t.id ORDER BY created_at DESC, id DESC LIMIT 1),
    (SELECT count(*) FROM main_said WHERE thread = t.id),
    (SELECT substr(text, 1, 400) FROM main_said WHERE thread = t.id AND role = 'assistant' ORDER BY id DESC LIMIT 1)";

fn thread(row: &Row<'_>) -> rusqlite::Result<Thread> {
    Ok(Thread {
        id: ThreadId::new(columns::text(row, 0)?),
        title: row.get(1)?,
        workspace: row.get(2)?,
        created_at: row.get(3)?,
        updated_at: row.get(4)?,
        last_run: row.get::<_, Option<String>>(5)?.map(RunId::new).zip(row.get(6)?),
        messages: columns::count(row, 7)?,
        preview: row.get(8)?,
    })
}

fn task(row: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: TaskId::new(columns::text(row, 0)?),
        thread: ThreadId::new(columns::text(row, 1)?),
        subject: row.get(2)?,
        description: row.get(3)?,
        status: row.get(4)?,
        result: row.get(5)?,
        position: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

fn session_info(conn: &Connection, id: &ThreadId) -> Result<SessionInfo, StoreError> {
    let mut find = conn.prepare_cached(&format!("SELECT {THREAD} FROM threads t WHERE id = ?1"))?;
    let found = find.query_row([id.as_str()], thread).optional()?;
    let thread = found.ok_or_else(|| StoreError::NoThread(id.clone()))?;
    let sql = format!("SELECT {RUN} FROM main_runs WHERE thread = ?1 ORDER BY created_at, id");
    let runs =
        conn.prepare_cached(&sql)?.query_map([id.as_str()], columns::run)?.collect::<Result<_, _>>()?;
    let messages = conn
        .prepare_cached("SELECT count(*) FROM main_said WHERE thread = ?1")?
        .query_row([id.as_str()], |row| columns::count(row, 0))?;
    let totals = conn
        .prepare_cached(&format!(
            "SELECT {} FROM main_model_calls WHERE thread = ?1",
            columns::totals_sql("0", "0")
        ))?
        .query_row([id.as_str()], |row| columns::totals(row, 0))?;
    Ok(SessionInfo { thread, runs, messages, totals })
}

fn thread_page(conn: &Connection, id: &ThreadId, from: u64, limit: i64) -> Result<ThreadPage, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT title, (SELECT count(*) FROM main_said WHERE thread = ?1) FROM threads WHERE id = ?1",
    )?;
    let found = find.query_row([id.as_str()], |row| Ok((row.get(0)?, columns::count(row, 1)?))).optional()?;
    let (title, total) = found.ok_or_else(|| StoreError::NoThread(id.clone()))?;
    let skipped = i64::try_from(from.saturating_sub(1)).unwrap_or(i64::MAX);
    let mut find = conn.prepare_cached(
        "SELECT role, created_at, text FROM main_said WHERE thread = ?1 ORDER BY id LIMIT ?3 OFFSET ?2",
    )?;
    let found = find.query_map(params![id.as_str(), skipped, limit], |row| {
        Ok((columns::role(row, 0)?, row.get(1)?, row.get(2)?))
    })?;
    let mut messages = Vec::new();
    for (number, message) in (from.max(1)..).zip(found) {
        let (role, at, text) = message?;
        messages.push(SaidMessage { number, role, at, text });
    }
    Ok(ThreadPage { title, total, messages })
}

fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
