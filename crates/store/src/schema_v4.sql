-- Version 4: sums of usage for runs with limits.

-- What a run and all runs below it have used, and have reserved for open model calls. Derived: a row is computed at the
-- first check of a limit, and updated in the same transaction as every later change.
CREATE TABLE spent (
    run            TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    used_microusd  INTEGER NOT NULL,
    used_tokens    INTEGER NOT NULL,
    aside_microusd INTEGER NOT NULL,
    aside_tokens   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
