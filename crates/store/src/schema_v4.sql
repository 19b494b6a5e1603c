-- Version 4: sums for those whose use is limited.

-- What a run and all below it have used, and have set aside for open questions. Derived: a row is made by adding up when
-- a limit is looked at first, and from then on whatever changes what it adds up changes it in the same commit.
CREATE TABLE spent (
    run            TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    used_microusd  INTEGER NOT NULL,
    used_tokens    INTEGER NOT NULL,
    aside_microusd INTEGER NOT NULL,
    aside_tokens   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
