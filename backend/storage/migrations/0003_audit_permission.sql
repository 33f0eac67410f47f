-- +goose Up

-- What was asked, decided and done. Append only: one hash chain a device. seq counts this
-- device's entries from 1; hash covers every column before it.
CREATE TABLE audit_log (
    seq          INTEGER PRIMARY KEY,
    id           BLOB NOT NULL CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id    BLOB NOT NULL CHECK (length(device_id) = 16),
    at           INTEGER NOT NULL,
    actor_kind   TEXT NOT NULL,
    actor_id     TEXT NOT NULL,
    action       TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 64),
    subject_kind TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    outcome      TEXT NOT NULL,
    run_id       BLOB CHECK (length(run_id) = 16),
    details_hash BLOB NOT NULL CHECK (length(details_hash) = 32),
    prev_hash    BLOB NOT NULL CHECK (length(prev_hash) = 32),
    hash         BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
-- Each index ends in seq, so it also gives the newest entries first.
CREATE INDEX audit_log_user ON audit_log (user_id);
CREATE INDEX audit_log_action ON audit_log (action);
CREATE INDEX audit_log_subject ON audit_log (subject_id) WHERE subject_id <> '';
CREATE INDEX audit_log_run ON audit_log (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX audit_log_outcome ON audit_log (outcome) WHERE outcome <> 'ok';

-- The text of an entry; only its hash is chained, so it may be erased.
CREATE TABLE audit_details (
    seq     INTEGER PRIMARY KEY,
    details TEXT NOT NULL CHECK (json_valid(details) AND length(CAST(details AS BLOB)) <= 8192)
) STRICT;

-- Signed Merkle roots over runs of entries; they stay when the entries leave.
CREATE TABLE audit_segments (
    device_id  BLOB NOT NULL CHECK (length(device_id) = 16),
    no         INTEGER NOT NULL CHECK (no >= 1),
    first_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL CHECK (last_seq >= first_seq),
    count      INTEGER NOT NULL CHECK (count = last_seq - first_seq + 1),
    first_prev BLOB NOT NULL CHECK (length(first_prev) = 32),
    last_hash  BLOB NOT NULL CHECK (length(last_hash) = 32),
    root       BLOB NOT NULL CHECK (length(root) = 32),
    public_key BLOB NOT NULL CHECK (length(public_key) = 32),
    signature  BLOB NOT NULL CHECK (length(signature) = 64),
    signed_at  INTEGER NOT NULL,
    PRIMARY KEY (device_id, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_segments_last ON audit_segments (last_seq);

-- While retention removes entries, through is the last entry of the last segment that may
-- go; at any other time the table is empty.
CREATE TABLE audit_pruning (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    through INTEGER NOT NULL
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER audit_log_no_gap BEFORE INSERT ON audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_log WHERE seq = NEW.seq - 1) AND NEW.seq <> 1
BEGIN SELECT RAISE(ABORT, 'audit_log has no gaps'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'audit_log is append only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_pruning WHERE through >= OLD.seq)
BEGIN SELECT RAISE(ABORT, 'audit_log is append only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_details_no_update BEFORE UPDATE ON audit_details
BEGIN SELECT RAISE(ABORT, 'audit_details is append only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_segments_no_update BEFORE UPDATE ON audit_segments
BEGIN SELECT RAISE(ABORT, 'audit_segments is append only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_segments_no_delete BEFORE DELETE ON audit_segments
BEGIN SELECT RAISE(ABORT, 'audit_segments is append only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_pruning_whole_segments BEFORE INSERT ON audit_pruning
WHEN NOT EXISTS (SELECT 1 FROM audit_segments WHERE last_seq = NEW.through)
BEGIN SELECT RAISE(ABORT, 'only whole signed segments may leave'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_pruning_no_update BEFORE UPDATE ON audit_pruning
BEGIN SELECT RAISE(ABORT, 'only whole signed segments may leave'); END;
-- +goose StatementEnd

-- What the user allowed. A grant belongs to one definition of one subject on this device.
CREATE TABLE capability_grants (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id       BLOB NOT NULL CHECK (length(device_id) = 16),
    subject_kind    TEXT NOT NULL,
    subject_id      TEXT NOT NULL,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    capability      TEXT NOT NULL,
    resource        TEXT NOT NULL,
    scope           TEXT NOT NULL CHECK (scope IN ('once', 'run', 'session', 'always')),
    run_id          BLOB CHECK (length(run_id) = 16),
    session_id      BLOB CHECK (length(session_id) = 16),
    uses_left       INTEGER CHECK (uses_left >= 0),
    expires_at      INTEGER,
    origin          TEXT NOT NULL CHECK (origin IN ('user', 'preset', 'policy')),
    pending_id      BLOB CHECK (length(pending_id) = 16),
    created_at      INTEGER NOT NULL,
    last_used_at    INTEGER,
    revoked_at      INTEGER,
    revoke_reason   TEXT,
    suspended_at    INTEGER
) STRICT;
CREATE INDEX capability_grants_subject ON capability_grants (user_id, subject_kind, subject_id);
CREATE INDEX capability_grants_run ON capability_grants (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX capability_grants_session ON capability_grants (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX capability_grants_pending ON capability_grants (pending_id) WHERE pending_id IS NOT NULL;
CREATE INDEX capability_grants_expiry ON capability_grants (expires_at) WHERE expires_at IS NOT NULL AND revoked_at IS NULL;

-- What the user refused for good. It travels: a denial holds on every device.
CREATE TABLE capability_denials (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    subject_kind TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    capability   TEXT NOT NULL,
    resource     TEXT NOT NULL,
    reason       TEXT NOT NULL DEFAULT '',
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;
CREATE INDEX capability_denials_subject ON capability_denials (user_id, subject_kind, subject_id);

-- Every definition of a subject that was ever seen, and whether a person approved it.
CREATE TABLE definitions (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    subject_kind TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    hash         BLOB NOT NULL CHECK (length(hash) = 32),
    document     TEXT NOT NULL CHECK (json_valid(document)),
    first_seen   INTEGER NOT NULL,
    approved_at  INTEGER,
    approved_by  TEXT,
    UNIQUE (user_id, subject_kind, subject_id, hash)
) STRICT;

-- Questions to the user. dedupe_key joins identical ones.
CREATE TABLE pending_approvals (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    kind            TEXT NOT NULL CHECK (kind IN ('capability', 'definition', 'tier', 'command')),
    subject_kind    TEXT NOT NULL,
    subject_id      TEXT NOT NULL,
    subject_name    TEXT NOT NULL DEFAULT '',
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    tier            TEXT NOT NULL CHECK (tier IN ('read_only', 'side_effecting', 'privileged')),
    requested       TEXT NOT NULL CHECK (json_valid(requested)),
    run_kind        TEXT NOT NULL DEFAULT '',
    run_id          BLOB CHECK (length(run_id) = 16),
    session_id      BLOB CHECK (length(session_id) = 16),
    rerun           TEXT CHECK (json_valid(rerun)),
    status          TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'superseded')),
    dedupe_key      BLOB NOT NULL CHECK (length(dedupe_key) = 32),
    count           INTEGER NOT NULL DEFAULT 1 CHECK (count >= 1),
    created_at      INTEGER NOT NULL,
    last_at         INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    decided_at      INTEGER,
    decided_by      TEXT,
    decision        TEXT CHECK (json_valid(decision))
) STRICT;
CREATE UNIQUE INDEX pending_approvals_dedupe ON pending_approvals (user_id, dedupe_key) WHERE status = 'pending';
CREATE INDEX pending_approvals_user ON pending_approvals (user_id, status, last_at);
CREATE INDEX pending_approvals_subject ON pending_approvals (user_id, subject_kind, subject_id, created_at);
CREATE INDEX pending_approvals_expiry ON pending_approvals (expires_at) WHERE status = 'pending';
