-- Version 6: texts of runs without an answer, requests that were open when a process was killed, and messages to runs.

-- The last text of a run that has ended or is paused without an answer.
ALTER TABLE runs ADD COLUMN partial_text TEXT;
UPDATE runs SET partial_text = final_text, final_text = NULL
WHERE final_text IS NOT NULL AND status <> 'completed'
    AND (status <> 'step_cap' OR EXISTS (
        SELECT 1 FROM tool_calls c WHERE c.run = runs.id AND c.message_seq =
            (SELECT max(seq) FROM messages m WHERE m.run = runs.id AND m.origin = 'reply')));

-- An attempt without an end was open when its process was killed.
CREATE TABLE attempts_v6 (
    model_call     INTEGER NOT NULL REFERENCES model_calls (id) ON DELETE CASCADE,
    n              INTEGER NOT NULL,
    status         INTEGER,
    ending         TEXT NOT NULL,
    error          TEXT,
    retry_after_ms INTEGER,
    started_at     INTEGER NOT NULL,
    first_byte_at  INTEGER,
    ended_at       INTEGER,
    response       BLOB NOT NULL,
    PRIMARY KEY (model_call, n)
) STRICT;
INSERT INTO attempts_v6 SELECT * FROM attempts;
DROP TABLE attempts;
ALTER TABLE attempts_v6 RENAME TO attempts;
CREATE INDEX attempts_without_end ON attempts (model_call) WHERE ended_at IS NULL;

-- The times at which a run went on after a pause or a killed process, with its status before.
CREATE TABLE resumptions (
    run    TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    at     INTEGER NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (run, at)
) STRICT, WITHOUT ROWID;

-- The tool call that sent a message. A call that is repeated sends nothing twice.
ALTER TABLE inbox ADD COLUMN sent_by TEXT;
CREATE UNIQUE INDEX inbox_by_sender ON inbox (sent_by) WHERE sent_by IS NOT NULL;
-- A job that is continued ends more than once.
DROP INDEX inbox_by_job;
CREATE INDEX inbox_by_job ON inbox (job) WHERE job IS NOT NULL;
