-- +goose Up

-- Questions of any domain in Approvals: whether a step may go on, what became of a call.
-- question holds text, choices and form; ref is what the domain calls the question, unique
-- within its run.
ALTER TABLE pending_approvals ADD COLUMN question TEXT CHECK (json_valid(question));
ALTER TABLE pending_approvals ADD COLUMN ref TEXT NOT NULL DEFAULT '';
CREATE INDEX pending_approvals_run ON pending_approvals (run_id, ref) WHERE status = 'pending' AND question IS NOT NULL;
