-- Version 5: answers of hooks, instructions of folders, and a view of what was said.

-- What hooks have answered, so that a resumed run does not ask them again. `position` is that of the tool call, or -1 for the
-- end of a turn. A hook that changes the input of a call changes it in `tool_calls`, too.
CREATE TABLE hook_answers (
    run         TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    message_seq INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    event       TEXT NOT NULL CHECK (event IN ('pre_tool_use', 'post_tool_use', 'stop')),
    at          INTEGER NOT NULL,
    answer      BLOB NOT NULL,
    PRIMARY KEY (run, message_seq, position, event)
) STRICT, WITHOUT ROWID;

-- The instructions of folders that a run has got, each with the call that first read a file there. `folder` is a path within the
-- workspace, in bytes.
CREATE TABLE folder_notes (
    run         TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    folder      BLOB NOT NULL,
    message_seq INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (run, folder)
) STRICT, WITHOUT ROWID;

-- What the user and main agents have said: their prompts and replies, never a message that may quote another agent.
CREATE VIEW main_said AS
    SELECT id, thread, run, seq, role, created_at, text FROM main_messages
    WHERE origin IN ('prompt', 'reply') AND text IS NOT NULL;
