-- +goose Up

-- What came of the scenarios of evaluations, to compare the next run with.
CREATE TABLE eval_runs (
    id       BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id  BLOB NOT NULL CHECK (length(user_id) = 16),
    eval_id  BLOB NOT NULL CHECK (length(eval_id) = 16),
    scenario TEXT NOT NULL,
    live     INTEGER NOT NULL CHECK (live IN (0, 1)),
    passed   INTEGER NOT NULL CHECK (passed IN (0, 1)),
    problems TEXT NOT NULL CHECK (json_valid(problems)),
    metrics  TEXT NOT NULL CHECK (json_valid(metrics)),
    build    TEXT NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

CREATE INDEX eval_runs_scenario ON eval_runs (user_id, scenario, live, at);
CREATE INDEX eval_runs_eval ON eval_runs (eval_id);
