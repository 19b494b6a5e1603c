-- Version 1 of the journal. A shipped version is never edited: a change is a new step.
--
-- Long values are the last columns of their rows, so that reading short ones does not skip over them.
-- SQLite builds a table for a list of more than two words after IN each time it checks a row. With OR it does not.

CREATE TABLE threads (
    id         TEXT PRIMARY KEY,
    title      TEXT NOT NULL,
    workspace  TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX threads_by_update ON threads (updated_at);

CREATE TABLE tasks (
    id          TEXT PRIMARY KEY,
    thread      TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    subject     TEXT NOT NULL,
    description TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status = 'pending' OR status = 'in_progress' OR status = 'complete' OR status = 'failed'
                    OR status = 'cancelled'),
    result      TEXT,
    position    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX tasks_by_thread ON tasks (thread, position);

CREATE TABLE runs (
    id           TEXT PRIMARY KEY,
    thread       TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    kind         TEXT NOT NULL CHECK (kind = 'main' OR kind = 'sub' OR kind = 'fork'),
    root         TEXT NOT NULL,
    parent       TEXT REFERENCES runs (id) ON DELETE CASCADE,
    task         TEXT REFERENCES tasks (id) ON DELETE SET NULL,
    spawned_by   TEXT,
    agent        TEXT NOT NULL,
    model        TEXT NOT NULL,
    provider     TEXT NOT NULL,
    status       TEXT NOT NULL CHECK (status = 'running' OR status = 'waiting' OR status = 'paused' OR status = 'completed'
                     OR status = 'failed' OR status = 'cancelled_by_user' OR status = 'cancelled_by_parent'
                     OR status = 'interrupted' OR status = 'stalled' OR status = 'budget' OR status = 'step_cap'),
    chain        TEXT NOT NULL,
    depth        INTEGER NOT NULL,
    context_from INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    writer_pid   INTEGER,
    writer_start INTEGER,
    updated_at   INTEGER NOT NULL,
    settings     BLOB NOT NULL,
    error        TEXT,
    final_text   TEXT,
    CHECK ((kind = 'main') = (parent IS NULL)),
    CHECK ((writer_pid IS NULL) = (writer_start IS NULL))
) STRICT;
CREATE INDEX runs_by_thread ON runs (thread, kind, created_at);
CREATE INDEX runs_by_parent ON runs (parent);
CREATE INDEX runs_by_task ON runs (task) WHERE task IS NOT NULL;
CREATE INDEX runs_by_creation ON runs (created_at);
CREATE INDEX live_runs ON runs (root) WHERE status IN ('running', 'waiting');

CREATE TABLE heads (
    hash  BLOB PRIMARY KEY CHECK (length(hash) = 32),
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE model_calls (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    run               TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    kind              TEXT NOT NULL,
    step              INTEGER NOT NULL,
    purpose           TEXT NOT NULL CHECK (purpose IN ('turn', 'summary')),
    head              BLOB NOT NULL REFERENCES heads (hash),
    from_seq          INTEGER NOT NULL,
    to_seq            INTEGER NOT NULL,
    marks             TEXT NOT NULL,
    request_sha256    BLOB NOT NULL CHECK (length(request_sha256) = 32),
    request_len       INTEGER NOT NULL,
    model             TEXT NOT NULL,
    provider          TEXT NOT NULL,
    status            TEXT NOT NULL CHECK (status = 'asked' OR status = 'answered' OR status = 'failed'),
    input             INTEGER NOT NULL DEFAULT 0,
    output            INTEGER NOT NULL DEFAULT 0,
    cache_read        INTEGER NOT NULL DEFAULT 0,
    cache_write_5m    INTEGER NOT NULL DEFAULT 0,
    cache_write_1h    INTEGER NOT NULL DEFAULT 0,
    reasoning         INTEGER NOT NULL DEFAULT 0,
    cost_microusd     INTEGER,
    reserved_microusd INTEGER NOT NULL,
    asked_at          INTEGER NOT NULL,
    first_byte_at     INTEGER,
    ended_at          INTEGER,
    error             TEXT,
    reply             BLOB
) STRICT;
CREATE INDEX model_calls_by_run ON model_calls (run);
CREATE INDEX model_calls_by_head ON model_calls (head);

CREATE TABLE messages (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run        TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    role       TEXT NOT NULL,
    origin     TEXT NOT NULL,
    model_call INTEGER, -- of the same run, so it goes when the message goes
    created_at INTEGER NOT NULL,
    text       TEXT,
    bytes      BLOB NOT NULL,
    UNIQUE (run, seq)
) STRICT;

CREATE TABLE attempts (
    model_call     INTEGER NOT NULL REFERENCES model_calls (id) ON DELETE CASCADE,
    n              INTEGER NOT NULL,
    status         INTEGER,
    ending         TEXT NOT NULL,
    error          TEXT,
    retry_after_ms INTEGER,
    started_at     INTEGER NOT NULL,
    first_byte_at  INTEGER,
    ended_at       INTEGER NOT NULL,
    response       BLOB NOT NULL,
    PRIMARY KEY (model_call, n)
) STRICT;

CREATE TABLE tool_calls (
    run         TEXT NOT NULL,
    kind        TEXT NOT NULL,
    message_seq INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    call_id     TEXT NOT NULL,
    name        TEXT NOT NULL,
    policy      TEXT NOT NULL CHECK (policy = 'pure' OR policy = 'idempotent' OR policy = 'unsafe'),
    status      TEXT NOT NULL CHECK (status = 'planned' OR status = 'running' OR status = 'done' OR status = 'failed'
                    OR status = 'denied' OR status = 'may_have_run'),
    started_at  INTEGER,
    ended_at    INTEGER,
    input       BLOB NOT NULL,
    preview     TEXT,
    result      BLOB,
    PRIMARY KEY (run, message_seq, position),
    FOREIGN KEY (run, message_seq) REFERENCES messages (run, seq) ON DELETE CASCADE,
    CHECK ((status IN ('planned', 'running')) = (result IS NULL))
) STRICT;

-- The status of a job is the status of its run. It owes its parent a result until `ended_at`.
CREATE TABLE jobs (
    run        TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    parent     TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    call       TEXT,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT;
CREATE INDEX jobs_by_parent ON jobs (parent);

CREATE TABLE inbox (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run           TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    kind          TEXT NOT NULL CHECK (kind = 'job' OR kind = 'message' OR kind = 'cancel'),
    job           TEXT REFERENCES runs (id) ON DELETE CASCADE,
    created_at    INTEGER NOT NULL,
    delivered_seq INTEGER,
    consumed_at   INTEGER,
    body          BLOB NOT NULL,
    CHECK (delivered_seq IS NULL OR consumed_at IS NULL)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (run, kind) WHERE delivered_seq IS NULL AND consumed_at IS NULL;
CREATE INDEX inbox_by_run ON inbox (run);
CREATE UNIQUE INDEX inbox_by_job ON inbox (job) WHERE job IS NOT NULL;

CREATE TABLE memory (
    id         INTEGER PRIMARY KEY,
    thread     TEXT REFERENCES threads (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    text       TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX memory_by_name ON memory (coalesce(thread, ''), name);
CREATE INDEX memory_by_thread ON memory (thread) WHERE thread IS NOT NULL;

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- The views of the user and the main agent. Their reads may name only these and the tables without rows of runs;
-- their connections refuse anything else.
CREATE VIEW main_runs AS SELECT * FROM runs WHERE kind = 'main';

CREATE VIEW main_messages AS
    SELECT m.id, r.thread, m.run, m.seq, m.role, m.origin, m.model_call, m.created_at, m.text, m.bytes
    FROM messages m JOIN runs r ON r.id = m.run
    WHERE m.kind = 'main' AND m.origin <> 'carried';

CREATE VIEW main_tool_calls AS
    SELECT r.thread, c.* FROM tool_calls c JOIN runs r ON r.id = c.run WHERE c.kind = 'main';

CREATE VIEW main_model_calls AS
    SELECT r.thread, c.* FROM model_calls c JOIN runs r ON r.id = c.run WHERE c.kind = 'main';

-- The search index is derived. It is updated when the writer is idle and before every search. Rows up to `upto` are in it.
CREATE VIRTUAL TABLE message_search USING fts5 (text, content = 'main_messages', content_rowid = 'id',
    tokenize = "unicode61 remove_diacritics 2");
CREATE TABLE message_search_state (upto INTEGER NOT NULL) STRICT;
INSERT INTO message_search_state VALUES (0);
CREATE TRIGGER message_search_forgets AFTER DELETE ON messages
WHEN old.kind = 'main' AND old.origin <> 'carried' AND old.text IS NOT NULL
    AND old.id <= (SELECT upto FROM message_search_state)
BEGIN
    INSERT INTO message_search (message_search, rowid, text) VALUES ('delete', old.id, old.text);
END;
