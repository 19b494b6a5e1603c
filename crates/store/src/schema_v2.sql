-- Version 2: known files and background processes.

-- The files that a run has read or written, with their digests at that time. A path is the resolved one within the workspace, in
-- bytes: names need not be text.
CREATE TABLE seen_files (
    run    TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    path   BLOB NOT NULL,
    sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

-- Processes that outlive the call that started them. They end with the root of their tree, at the latest when
-- it is resumed. The start time tells a process from a later one with the same number.
CREATE TABLE processes (
    root       TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    pid        INTEGER NOT NULL,
    start      INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    PRIMARY KEY (root, pid, start)
) STRICT, WITHOUT ROWID;
