//! Reads of one run of any kind. This is the only file that reads text from the tables of all runs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use rusqlite::{Connection, OptionalExtension, Row, params};
use session::{CallId, RunId};

use super::columns::{self, MESSAGE, MODEL_CALL, RUN, TOOL_CALL};
use crate::{
    Attempt, CallKey, Child, Digest, FolderNote, Fork, HookAnswer, InboxEntry, InboxKind, Job, Lease, Millis,
    ModelCall, ModelCallId, Resumption, Run, RunSnapshot, RunStatus, SeenFile, Seq, Store, StoreError,
    StoredMessage, StoredToolCall, UsageTotals,
};

/// Reads of one run.
#[derive(Clone, Debug)]
pub struct RunReads<'a> {
    store: &'a Store,
    run: RunId,
}

impl<'a> RunReads<'a> {
    pub(crate) fn new(store: &'a Store, run: RunId) -> Self {
        Self { store, run }
    }

    /// Returns the run's row.
    pub fn row(&self) -> Result<Run, StoreError> {
        self.store.read_all(|conn| row(conn, &self.run))
    }

    /// Returns all its messages, oldest first.
    pub fn messages(&self) -> Result<Vec<StoredMessage>, StoreError> {
        self.store.read_all(|conn| messages(conn, &self.run, Seq::FIRST))
    }

    /// Returns the messages in its model's context, oldest first. A fork's context starts with messages of
    /// its parent.
    pub fn context(&self) -> Result<Vec<StoredMessage>, StoreError> {
        let all = Seq(i64::MAX);
        self.store.read_all(|conn| between(conn, &self.run, row(conn, &self.run)?.context_from, all))
    }

    /// Returns the messages of a request, from the first to the last.
    pub fn messages_between(&self, from: Seq, to: Seq) -> Result<Vec<StoredMessage>, StoreError> {
        self.store.read_all(|conn| between(conn, &self.run, from, to))
    }

    /// Returns the fork point if the run is a fork.
    pub fn fork(&self) -> Result<Option<Fork>, StoreError> {
        self.store.read_all(|conn| fork(conn, &self.run))
    }

    /// Returns the newest fork with this label and source that starts from one of its replies.
    pub fn fork_at(&self, reply: Seq, label: &str, source: &str) -> Result<Option<RunId>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT run FROM forks WHERE of_run = ?1 AND to_seq = ?2 AND label = ?3 AND source = ?4
                 ORDER BY rowid DESC LIMIT 1",
            )?;
            let found = find.query_row(params![self.run.as_str(), reply, label, source], |row| {
                Ok(RunId::new(columns::text(row, 0)?))
            });
            Ok(found.optional()?)
        })
    }

    /// Returns its last answered turn, the number of the reply, and the tool calls in it. A fork starts from
    /// there.
    pub fn last_turn(&self) -> Result<Option<(ModelCall, Seq, Vec<StoredToolCall>)>, StoreError> {
        self.store.read_all(|conn| {
            let sql = format!(
                "SELECT {MODEL_CALL} FROM model_calls WHERE run = ?1 AND purpose = 'turn' AND status = 'answered'
                 ORDER BY id DESC LIMIT 1"
            );
            let call = conn.prepare_cached(&sql)?.query_row([self.run.as_str()], columns::model_call).optional()?;
            let Some(call) = call else { return Ok(None) };
            let mut find = conn.prepare_cached("SELECT seq FROM messages WHERE run = ?1 AND model_call = ?2")?;
            let reply = find.query_row(params![self.run.as_str(), call.id], |row| row.get(0)).optional()?;
            let Some(reply) = reply else { return Ok(None) };
            let calls = tool_calls(conn, &self.run, Some(reply))?;
            Ok(Some((call, reply, calls)))
        })
    }

    /// Returns all its tool calls, in order.
    pub fn tool_calls(&self) -> Result<Vec<StoredToolCall>, StoreError> {
        self.store.read_all(|conn| tool_calls(conn, &self.run, None))
    }

    /// Returns the inputs of successful calls of a tool since the last prompt, in order.
    pub fn inputs_since_prompt(&self, tool: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT input FROM tool_calls WHERE run = ?1 AND name = ?2 AND status = 'done' AND message_seq >
                 (SELECT COALESCE(MAX(seq), 0) FROM messages WHERE run = ?1 AND origin = 'prompt')
                 ORDER BY message_seq, position",
            )?;
            let found = find.query_map(params![self.run.as_str(), tool], |row| row.get(0))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns all its model calls, in order.
    pub fn model_calls(&self) -> Result<Vec<ModelCall>, StoreError> {
        self.store.read_all(|conn| {
            let sql = format!("SELECT {MODEL_CALL} FROM model_calls WHERE run = ?1 ORDER BY id");
            let mut find = conn.prepare_cached(&sql)?;
            let found = find.query_map([self.run.as_str()], columns::model_call)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the attempts of one of its model calls, in order, with the received bytes. The open request of a
    /// live run is an attempt without an end.
    pub fn attempts(&self, call: ModelCallId) -> Result<Vec<Attempt>, StoreError> {
        self.store.read_all(|conn| attempts(conn, &self.run, call))
    }

    /// Returns a head that this run's requests had, by its digest.
    pub fn head(&self, hash: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT bytes FROM heads WHERE hash = ?2
                 AND (EXISTS (SELECT 1 FROM model_calls WHERE head = ?2 AND run = ?1)
                     OR EXISTS (SELECT 1 FROM forks WHERE head = ?2 AND run = ?1))",
            )?;
            Ok(find.query_row(params![self.run.as_str(), hash], |row| row.get(0)).optional()?)
        })
    }

    /// Returns the tokens of the request and reply of a message; 0 if the provider did not report them.
    pub fn context_tokens(&self, reply: Seq) -> Result<u64, StoreError> {
        self.store.read_all(|conn| {
            let sql = format!(
                "SELECT {MODEL_CALL} FROM model_calls
                 WHERE id = (SELECT model_call FROM messages WHERE run = ?1 AND seq = ?2)"
            );
            let mut find = conn.prepare_cached(&sql)?;
            let call = find.query_row(params![self.run.as_str(), reply], columns::model_call).optional()?;
            Ok(call.map_or(0, |call| call.usage.input_total().saturating_add(call.usage.output)))
        })
    }

    /// Returns the head of its first request.
    pub fn first_head(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT h.bytes FROM model_calls c JOIN heads h ON h.hash = c.head WHERE c.run = ?1 ORDER BY c.id LIMIT 1",
            )?;
            Ok(find.query_row([self.run.as_str()], |row| row.get(0)).optional()?)
        })
    }

    /// Returns its known files.
    pub fn seen_files(&self) -> Result<Vec<SeenFile>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached("SELECT path, sha256 FROM seen_files WHERE run = ?1")?;
            let found = find.query_map([self.run.as_str()], |row| {
                let path = OsString::from_vec(row.get(0)?).into();
                Ok(SeenFile { path, sha256: row.get(1)? })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the answers of hooks about the calls of a message, or about the end of the turn with that message.
    pub fn hook_answers(&self, message: Seq) -> Result<Vec<HookAnswer>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT message_seq, position, event, answer, at FROM hook_answers
                 WHERE run = ?1 AND message_seq = ?2 ORDER BY position, at, event",
            )?;
            let found = find.query_map(params![self.run.as_str(), message], hook_answer)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns all answers of hooks, in the order of its messages.
    pub fn all_hook_answers(&self) -> Result<Vec<HookAnswer>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT message_seq, position, event, answer, at FROM hook_answers
                 WHERE run = ?1 ORDER BY message_seq, position, at, event",
            )?;
            let found = find.query_map([self.run.as_str()], hook_answer)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the instructions of folders that its model has got, in order. A fork starts with those of its parent.
    pub fn folder_notes(&self) -> Result<Vec<FolderNote>, StoreError> {
        self.store.read_all(|conn| folder_notes(conn, &self.run, Seq(i64::MAX)))
    }

    /// Returns the processes that were started for its tree and are not known to have ended. Only a root has
    /// any.
    pub fn processes(&self) -> Result<Vec<Lease>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT pid, start FROM processes WHERE root = ?1 ORDER BY started_at, pid",
            )?;
            let found = find.query_map([self.run.as_str()], |row| {
                Ok(Lease { pid: row.get(0)?, start: row.get::<_, i64>(1)?.cast_unsigned() })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the entries that wait for its next turn, oldest first.
    pub fn inbox(&self) -> Result<Vec<InboxEntry>, StoreError> {
        self.store.read_all(|conn| inbox(conn, &self.run, u32::MAX))
    }

    /// Returns at most `most` of these entries, the oldest.
    pub fn first_in_inbox(&self, most: u32) -> Result<Vec<InboxEntry>, StoreError> {
        self.store.read_all(|conn| inbox(conn, &self.run, most))
    }

    /// Returns the delivered entries with the message that delivered each, oldest first.
    pub fn delivered(&self) -> Result<Vec<(Seq, InboxEntry)>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT id, kind, job, body, created_at, delivered_seq FROM inbox
                 WHERE run = ?1 AND delivered_seq IS NOT NULL ORDER BY delivered_seq, id",
            )?;
            let found = find.query_map([self.run.as_str()], |row| Ok((row.get(5)?, entry(row)?)))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the jobs it started, oldest first.
    pub fn jobs(&self) -> Result<Vec<Job>, StoreError> {
        self.store.read_all(|conn| jobs(conn, &self.run))
    }

    /// Returns whether that job, where it started it, still owes its result.
    pub fn job_owes_result(&self, job: &RunId) -> Result<Option<bool>, StoreError> {
        self.store.read_all(|conn| {
            let mut find =
                conn.prepare_cached("SELECT ended_at IS NULL FROM jobs WHERE run = ?2 AND parent = ?1")?;
            Ok(find.query_row([self.run.as_str(), job.as_str()], |row| row.get(0)).optional()?)
        })
    }

    /// Returns the times at which it went on after a pause or a killed process, in order.
    pub fn resumptions(&self) -> Result<Vec<Resumption>, StoreError> {
        self.store.read_all(|conn| {
            let mut find =
                conn.prepare_cached("SELECT at, status FROM resumptions WHERE run = ?1 ORDER BY at")?;
            let found = find.query_map([self.run.as_str()], |row| {
                Ok(Resumption { at: row.get(0)?, status: row.get(1)? })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns its first prompt: what a sub-agent was asked.
    pub fn first_prompt(&self) -> Result<Option<String>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT text FROM messages WHERE run = ?1 AND origin = 'prompt' ORDER BY seq LIMIT 1",
            )?;
            Ok(find.query_row([self.run.as_str()], |row| row.get(0)).optional()?.flatten())
        })
    }

    /// Returns the run that a call of this run sent a message to.
    pub fn addressee(&self, call: &CallKey) -> Result<Option<RunId>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached("SELECT run FROM inbox WHERE sent_by = ?1")?;
            let found = find.query_row([call.to_string()], |row| columns::text(row, 0)).optional()?;
            Ok(found.map(RunId::new))
        })
    }

    /// Returns whether a message waits for a run of its tree. Only a root has any.
    pub fn tree_has_message(&self) -> Result<bool, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT 1 FROM inbox i INDEXED BY inbox_waiting CROSS JOIN runs r ON r.id = i.run
                 WHERE i.kind = 'message' AND i.delivered_seq IS NULL AND i.consumed_at IS NULL AND r.root = ?1
                 LIMIT 1",
            )?;
            Ok(find.exists([self.run.as_str()])?)
        })
    }

    /// Returns the number of its calls that were denied.
    pub fn denied_calls(&self) -> Result<u64, StoreError> {
        self.store.read_all(|conn| {
            let mut find =
                conn.prepare_cached("SELECT count(*) FROM tool_calls WHERE run = ?1 AND status = 'denied'")?;
            Ok(find.query_row([self.run.as_str()], |row| columns::count(row, 0))?)
        })
    }

    /// Returns the usage of the run and all runs below it.
    pub fn totals(&self) -> Result<UsageTotals, StoreError> {
        self.store.read_all(|conn| Ok(super::inclusive(conn, &self.run)?))
    }

    /// Returns whether something waits for its next turn.
    pub fn has_waiting_input(&self) -> Result<bool, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT 1 FROM inbox INDEXED BY inbox_waiting
                 WHERE run = ?1 AND kind <> 'cancel' AND delivered_seq IS NULL AND consumed_at IS NULL LIMIT 1",
            )?;
            Ok(find.exists([self.run.as_str()])?)
        })
    }

    /// Returns the runs that it started, oldest first.
    pub fn children(&self) -> Result<Vec<Child>, StoreError> {
        self.store.read_all(|conn| {
            let sql = format!(
                "SELECT {RUN}, (SELECT ended_at IS NULL FROM jobs WHERE run = runs.id)
                 FROM runs WHERE parent = ?1 AND root <> id ORDER BY created_at, rowid"
            );
            let mut find = conn.prepare_cached(&sql)?;
            let found = find.query_map([self.run.as_str()], |row| {
                Ok(Child { run: columns::run(row)?, owes: row.get(columns::RUN_COLUMNS)? })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the number of runs that it started.
    pub fn child_count(&self) -> Result<u64, StoreError> {
        self.store.read_all(|conn| {
            let mut find =
                conn.prepare_cached("SELECT count(*) FROM runs WHERE parent = ?1 AND root <> id")?;
            Ok(find.query_row([self.run.as_str()], |row| columns::count(row, 0))?)
        })
    }

    /// Returns the status that a request to stop asks for, if this run itself has one.
    pub fn cancel_status(&self) -> Result<Option<RunStatus>, StoreError> {
        let waiting = self.inbox()?;
        let asked = waiting.iter().find(|entry| entry.kind == InboxKind::Cancel);
        let word = |entry: &InboxEntry| RunStatus::from_word(&String::from_utf8_lossy(&entry.body));
        Ok(asked.map(|entry| word(entry).unwrap_or(RunStatus::CancelledByUser)))
    }

    /// Returns the runs of its tree that were asked to stop. Only a root has any.
    pub fn runs_to_cancel(&self) -> Result<Vec<RunId>, StoreError> {
        self.store.read_all(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT i.run FROM inbox i INDEXED BY inbox_waiting CROSS JOIN runs r ON r.id = i.run
                 WHERE i.kind = 'cancel' AND i.delivered_seq IS NULL AND i.consumed_at IS NULL AND r.root = ?1",
            )?;
            let found = find.query_map([self.run.as_str()], |row| Ok(RunId::new(columns::text(row, 0)?)))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    /// Returns whether it, or a run above it, was asked to stop.
    pub fn cancel_requested(&self) -> Result<bool, StoreError> {
        self.store.read_all(|conn| cancel_requested(conn, &self.run, above(conn, &self.run)?))
    }

    /// Returns the state that a resumed loop starts from, read in one transaction.
    pub fn snapshot(&self) -> Result<RunSnapshot, StoreError> {
        self.store.read_all(|conn| {
            let run = row(conn, &self.run)?;
            let messages = between(conn, &run.id, run.context_from, Seq(i64::MAX))?;
            let last_reply = last_reply(conn, &run.id)?;
            let calls = last_reply.map(|seq| tool_calls(conn, &run.id, Some(seq))).transpose()?;
            Ok(RunSnapshot {
                last_seq: messages.last().map(|message| message.seq),
                last_call: last_call(conn, &run.id)?,
                calls: calls.unwrap_or_default(),
                messages,
                run,
            })
        })
    }
}

/// Returns whether a run, or one above it, was asked to stop; `above` is the first of those.
pub(crate) fn cancel_requested(
    conn: &Connection,
    run: &RunId,
    above: Option<RunId>,
) -> Result<bool, StoreError> {
    // Run by run: a recursive query would build two tables for what is almost always one row.
    let mut asked = conn.prepare_cached(
        "SELECT 1 FROM inbox WHERE run = ?1 AND kind = 'cancel' AND delivered_seq IS NULL AND consumed_at IS NULL",
    )?;
    let mut next = above;
    let mut found = asked.exists([run.as_str()])?;
    while let Some(run) = next.filter(|_| !found) {
        found = asked.exists([run.as_str()])?;
        next = self::above(conn, &run)?;
    }
    Ok(found)
}

/// Returns the run above another in its tree. A fork with its own tree has none: it has its own budget and
/// cancellation.
pub(crate) fn above(conn: &Connection, run: &RunId) -> Result<Option<RunId>, StoreError> {
    let mut find =
        conn.prepare_cached("SELECT CASE WHEN root = id THEN NULL ELSE parent END FROM runs WHERE id = ?1")?;
    let found: Option<Option<String>> = find.query_row([run.as_str()], |row| row.get(0)).optional()?;
    Ok(found.flatten().map(RunId::new))
}

fn row(conn: &Connection, run: &RunId) -> Result<Run, StoreError> {
    let mut find = conn.prepare_cached(&format!("SELECT {RUN} FROM runs WHERE id = ?1"))?;
    let found = find.query_row([run.as_str()], columns::run).optional()?;
    found.ok_or_else(|| StoreError::NoRun(run.clone()))
}

fn messages(conn: &Connection, run: &RunId, from: Seq) -> Result<Vec<StoredMessage>, StoreError> {
    let sql = format!("SELECT {MESSAGE} FROM messages WHERE run = ?1 AND seq >= ?2 ORDER BY seq");
    let mut find = conn.prepare_cached(&sql)?;
    let found = find.query_map(params![run.as_str(), from], |row| columns::message(row, 0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns messages by number, including those that a fork inherits.
fn between(conn: &Connection, run: &RunId, from: Seq, to: Seq) -> Result<Vec<StoredMessage>, StoreError> {
    let mut all = match fork(conn, run)? {
        Some(fork) if from <= fork.to => between(conn, &fork.of, from.max(fork.from), to.min(fork.to))?,
        _ => Vec::new(),
    };
    let sql = format!("SELECT {MESSAGE} FROM messages WHERE run = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq");
    let mut find = conn.prepare_cached(&sql)?;
    for own in find.query_map(params![run.as_str(), from, to], |row| columns::message(row, 0))? {
        all.push(own?);
    }
    Ok(all)
}

fn fork(conn: &Connection, run: &RunId) -> Result<Option<Fork>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT of_run, head, from_seq, to_seq, label, source, ended FROM forks WHERE run = ?1",
    )?;
    let found = find.query_row([run.as_str()], |row| {
        Ok(Fork {
            of: RunId::new(columns::text(row, 0)?),
            head: row.get(1)?,
            from: row.get(2)?,
            to: row.get(3)?,
            label: row.get(4)?,
            source: row.get(5)?,
            ended: row.get(6)?,
        })
    });
    Ok(found.optional()?)
}

fn hook_answer(row: &Row<'_>) -> rusqlite::Result<HookAnswer> {
    let position: i64 = row.get(1)?;
    Ok(HookAnswer {
        message: row.get(0)?,
        position: u32::try_from(position).ok(),
        event: row.get(2)?,
        answer: row.get(3)?,
        at: row.get(4)?,
    })
}

/// Returns the notes of the calls in messages before `before`. The notes of a call come with the message after it.
fn folder_notes(conn: &Connection, run: &RunId, before: Seq) -> Result<Vec<FolderNote>, StoreError> {
    let mut notes = match fork(conn, run)? {
        Some(fork) => folder_notes(conn, &fork.of, before.min(fork.to))?,
        None => Vec::new(),
    };
    // Not by position: of two calls at once, either may be the first to reach a folder.
    let mut find = conn.prepare_cached(
        "SELECT message_seq, position, folder, text FROM folder_notes WHERE run = ?1 AND message_seq < ?2
         ORDER BY message_seq, folder",
    )?;
    let own = find.query_map(params![run.as_str(), before], |row| {
        Ok(FolderNote {
            call: CallKey { run: run.clone(), message: row.get(0)?, position: row.get(1)? },
            folder: OsString::from_vec(row.get(2)?).into(),
            text: row.get(3)?,
        })
    })?;
    for note in own {
        notes.push(note?);
    }
    Ok(notes)
}

fn last_reply(conn: &Connection, run: &RunId) -> Result<Option<Seq>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT seq FROM messages WHERE run = ?1 AND origin = 'reply' ORDER BY seq DESC LIMIT 1",
    )?;
    Ok(find.query_row([run.as_str()], |row| row.get(0)).optional()?)
}

fn last_call(conn: &Connection, run: &RunId) -> Result<Option<ModelCall>, StoreError> {
    let sql = format!("SELECT {MODEL_CALL} FROM model_calls WHERE run = ?1 ORDER BY id DESC LIMIT 1");
    Ok(conn.prepare_cached(&sql)?.query_row([run.as_str()], columns::model_call).optional()?)
}

/// Returns the calls of one message, or all calls.
fn tool_calls(
    conn: &Connection,
    run: &RunId,
    message: Option<Seq>,
) -> Result<Vec<StoredToolCall>, StoreError> {
    let sql = format!(
        "SELECT {TOOL_CALL} FROM tool_calls WHERE run = ?1 AND message_seq BETWEEN ?2 AND ?3
         ORDER BY message_seq, position"
    );
    let mut find = conn.prepare_cached(&sql)?;
    let (from, to) = message.map_or((Seq::FIRST, Seq(i64::MAX)), |seq| (seq, seq));
    find.query_and_then(params![run.as_str(), from, to], columns::tool_call)?.collect()
}

fn attempts(conn: &Connection, run: &RunId, call: ModelCallId) -> Result<Vec<Attempt>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT n, status, ending, error, retry_after_ms, started_at, first_byte_at, ended_at, response
         FROM attempts
         WHERE model_call = (SELECT id FROM model_calls WHERE id = ?2 AND run = ?1) ORDER BY n",
    )?;
    let found = find.query_map(params![run.as_str(), call], |row| {
        Ok(Attempt {
            n: row.get(0)?,
            status: row.get(1)?,
            ending: row.get(2)?,
            error: row.get(3)?,
            retry_after_ms: row.get(4)?,
            started_at: row.get(5)?,
            first_byte_at: row.get(6)?,
            ended_at: row.get(7)?,
            response: row.get(8)?,
        })
    })?;
    let mut attempts = found.collect::<Result<Vec<_>, _>>()?;
    attempts.extend(open_attempt(conn, run, call, &attempts)?);
    Ok(attempts)
}

/// Returns the open request of a live run as an attempt after those that are stored.
fn open_attempt(
    conn: &Connection,
    run: &RunId,
    call: ModelCallId,
    stored: &[Attempt],
) -> Result<Option<Attempt>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT max(asked_at, coalesce((SELECT max(at) FROM resumptions WHERE run = ?1), 0)) FROM model_calls
         WHERE id = ?2 AND run = ?1 AND status = 'asked'
             AND EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND status IN ('running', 'waiting'))",
    )?;
    let since: Option<Millis> = find.query_row(params![run.as_str(), call], |row| row.get(0)).optional()?;
    let before = stored.iter().filter_map(|attempt| attempt.ended_at).max().unwrap_or_default();
    Ok(since.map(|since| Attempt {
        n: stored.last().map_or(1, |last| last.n + 1),
        status: None,
        ending: "open".to_owned(),
        error: None,
        retry_after_ms: None,
        started_at: since.max(before),
        first_byte_at: None,
        ended_at: None,
        response: Vec::new(),
    }))
}

fn inbox(conn: &Connection, run: &RunId, most: u32) -> Result<Vec<InboxEntry>, StoreError> {
    let mut find = conn.prepare_cached(
        // This index skips delivered entries, so their number does not matter.
        "SELECT id, kind, job, body, created_at FROM inbox INDEXED BY inbox_waiting
         WHERE run = ?1 AND delivered_seq IS NULL AND consumed_at IS NULL ORDER BY id LIMIT ?2",
    )?;
    let found = find.query_map(params![run.as_str(), most], entry)?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<InboxEntry> {
    Ok(InboxEntry {
        id: row.get(0)?,
        kind: row.get(1)?,
        job: row.get::<_, Option<String>>(2)?.map(RunId::new),
        body: row.get(3)?,
        at: row.get(4)?,
    })
}

fn jobs(conn: &Connection, parent: &RunId) -> Result<Vec<Job>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT j.run, j.parent, j.call, r.status, j.created_at, j.ended_at
         FROM jobs j JOIN runs r ON r.id = j.run WHERE j.parent = ?1 ORDER BY j.created_at, j.rowid",
    )?;
    let found = find.query_map([parent.as_str()], |row| {
        Ok(Job {
            run: RunId::new(columns::text(row, 0)?),
            parent: RunId::new(columns::text(row, 1)?),
            call: row.get::<_, Option<String>>(2)?.map(CallId::new),
            status: row.get(3)?,
            created_at: row.get(4)?,
            ended_at: row.get(5)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
