-- +goose Up

-- Tokens of other programs. Only the SHA-256 of a token is kept.
CREATE TABLE gateway_tokens (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    name         TEXT NOT NULL,
    token_hash   BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    scopes       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;

CREATE INDEX gateway_tokens_user ON gateway_tokens (user_id);

-- Calls that carry an idempotency key. response is NULL while the call runs (or when the
-- program died during it), empty when it was done and its answer is not kept.
CREATE TABLE rpc_idempotency (
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    key         BLOB NOT NULL CHECK (length(key) = 16),
    method      TEXT NOT NULL,
    params_hash BLOB NOT NULL CHECK (length(params_hash) = 32),
    response    BLOB,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX rpc_idempotency_created ON rpc_idempotency (created_at);
