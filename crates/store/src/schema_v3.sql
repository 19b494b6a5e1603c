-- Version 3: token limits and forks.

-- The tokens reserved for an open model call, if a token limit applies.
CREATE TABLE reserved_tokens (
    model_call INTEGER PRIMARY KEY REFERENCES model_calls (id) ON DELETE CASCADE,
    tokens     INTEGER NOT NULL
) STRICT;

-- Fork points: a fork starts with the messages of another run up to its reply `to_seq`, and with the same head. They
-- are not copied; its own messages are numbered from there on. `ended` is its outcome as JSON.
CREATE TABLE forks (
    run      TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    of_run   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    head     BLOB NOT NULL CHECK (length(head) = 32),
    from_seq INTEGER NOT NULL,
    to_seq   INTEGER NOT NULL,
    label    TEXT NOT NULL,
    source   TEXT NOT NULL,
    ended    TEXT
) STRICT;
CREATE INDEX forks_by_run ON forks (of_run);
