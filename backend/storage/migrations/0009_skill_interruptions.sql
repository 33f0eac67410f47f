-- +goose Up

-- Runs that were at work when the process ended unexpectedly. Local to the device: it is about
-- its process. A row goes when its run makes progress.
CREATE TABLE composite_skill_interruptions (
    execution_id   BLOB PRIMARY KEY REFERENCES composite_skill_executions (id) ON DELETE CASCADE,
    times          INTEGER NOT NULL,
    stopped        INTEGER NOT NULL DEFAULT 0 CHECK (stopped IN (0, 1)), -- the last end of the process was in order
    quarantined_at INTEGER
) STRICT, WITHOUT ROWID;
