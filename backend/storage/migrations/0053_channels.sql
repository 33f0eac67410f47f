-- +goose Up

-- Channels through which people on an allow-list reach the agent from outside. A channel runs on one
-- device, so no table here syncs.
CREATE TABLE channels (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    kind         TEXT NOT NULL CHECK (kind IN ('telegram', 'webhook')),
    name         TEXT NOT NULL,
    config       TEXT NOT NULL CHECK (json_valid(config)),
    secret_name  TEXT NOT NULL, -- of the sealed token or signing secret
    enabled      INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    cursor       TEXT NOT NULL DEFAULT '', -- position in the service's updates
    last_error   TEXT NOT NULL DEFAULT '',
    pair_hash    BLOB CHECK (length(pair_hash) = 32), -- of the live pairing code
    pair_expires INTEGER,
    pair_tries   INTEGER NOT NULL DEFAULT 0, -- wrong codes since the last correct one
    pair_locked  INTEGER, -- until when no code is accepted
    device_id    BLOB NOT NULL CHECK (length(device_id) = 16),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (user_id, name)
) STRICT;

CREATE TABLE channel_senders (
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id  BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    sender_id   TEXT NOT NULL,
    label       TEXT NOT NULL,
    context_ids TEXT NOT NULL CHECK (json_valid(context_ids)), -- groups in which the sender is allowed too
    role        TEXT NOT NULL CHECK (role IN ('chat', 'notify')),
    added_by    TEXT NOT NULL CHECK (added_by IN ('user', 'pairing')),
    added_at    INTEGER NOT NULL,
    last_seen   INTEGER,
    PRIMARY KEY (channel_id, sender_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel_sessions (
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    context_id TEXT NOT NULL,
    session_id BLOB NOT NULL CHECK (length(session_id) = 16),
    created_at INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (channel_id, context_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel_inbox (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16), -- also the id of the turn
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id  BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    external_id TEXT NOT NULL,
    context_id  TEXT NOT NULL,
    sender_id   TEXT NOT NULL,
    payload     ANY NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('received', 'submitted', 'done', 'failed')),
    session_id  BLOB CHECK (length(session_id) = 16), -- set before it is submitted
    received_at INTEGER NOT NULL,
    done_at     INTEGER,
    UNIQUE (channel_id, external_id)
) STRICT;
CREATE INDEX channel_inbox_open ON channel_inbox (state, id) WHERE state IN ('received', 'submitted');
CREATE INDEX channel_inbox_user ON channel_inbox (user_id, received_at);

CREATE TABLE channel_outbox (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id   BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    context_id   TEXT NOT NULL,
    dedupe_key   TEXT NOT NULL,
    reply        INTEGER NOT NULL CHECK (reply IN (0, 1)), -- 0: a notification
    payload      ANY NOT NULL,
    repeated     INTEGER NOT NULL DEFAULT 0 CHECK (repeated IN (0, 1)), -- it may have been sent before
    state        TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'unknown', 'failed', 'dropped')),
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    external_ref TEXT NOT NULL DEFAULT '',
    last_error   TEXT NOT NULL DEFAULT '',
    created_at   INTEGER NOT NULL,
    sent_at      INTEGER,
    UNIQUE (channel_id, dedupe_key)
) STRICT;
CREATE INDEX channel_outbox_open ON channel_outbox (channel_id, id) WHERE state IN ('queued', 'sending');
CREATE INDEX channel_outbox_user ON channel_outbox (user_id, created_at);

-- What was refused: identifiers and numbers only, never a text.
CREATE TABLE channel_rejections (
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    sender_id  TEXT NOT NULL,
    context_id TEXT NOT NULL,
    reason     TEXT NOT NULL CHECK (reason IN ('not_allowed', 'context', 'rate', 'size', 'signature', 'replay', 'pairing')),
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    logged_at  INTEGER NOT NULL, -- of the last audit entry
    count      INTEGER NOT NULL,
    PRIMARY KEY (channel_id, sender_id, context_id, reason)
) STRICT, WITHOUT ROWID;

CREATE INDEX channel_senders_user ON channel_senders (user_id);
CREATE INDEX channel_sessions_user ON channel_sessions (user_id);
CREATE INDEX channel_rejections_user ON channel_rejections (user_id, last_at);
