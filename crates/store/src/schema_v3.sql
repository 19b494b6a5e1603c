-- Version 3: trees of runs that may use so many tokens.

-- What an open question may use at most, where somebody counts tokens.
CREATE TABLE reserved_tokens (
    model_call INTEGER PRIMARY KEY REFERENCES model_calls (id) ON DELETE CASCADE,
    tokens     INTEGER NOT NULL
) STRICT;
