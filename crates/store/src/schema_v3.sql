-- Version 3: trees of runs that may use so many tokens, and forks.

-- What an open question may use at most, where somebody counts tokens.
CREATE TABLE reserved_tokens (
    model_call INTEGER PRIMARY KEY REFERENCES model_calls (id) ON DELETE CASCADE,
    tokens     INTEGER NOT NULL
) STRICT;

-- Where forks begin: with the messages of another run, up to its reply `to_seq`, behind the same head. They are not
-- copied; a fork's own messages are numbered from there on. `ended` says in JSON what it came to.
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
