-- +goose Up

-- A credential can be a sign-in with OAuth too. Its tokens are in secrets.
CREATE TABLE tool_credential_new (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id      BLOB NOT NULL CHECK (length(tool_id) = 16),
    scheme       TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('apiKey', 'basic', 'bearer', 'oauth2', 'clientCredentials')),
    hosts        TEXT NOT NULL CHECK (json_valid(hosts)),
    account_hint TEXT NOT NULL, -- user name of basic, client ID of OAuth
    scopes       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(scopes)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (user_id, tool_id, scheme)
) STRICT;
INSERT INTO tool_credential_new (id, user_id, tool_id, scheme, kind, hosts, account_hint, created_at, updated_at)
SELECT id, user_id, tool_id, scheme, kind, hosts, account_hint, created_at, updated_at FROM tool_credential;
DROP TABLE tool_credential;
ALTER TABLE tool_credential_new RENAME TO tool_credential;
