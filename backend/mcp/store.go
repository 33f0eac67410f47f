package mcp

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// serverRow is a row of mcp_servers.
type serverRow struct {
	Server
	id          uuid.UUID
	user        uuid.UUID
	source      string
	hash        [32]byte
	approved    [32]byte // zero: none
	version     string
	protocol    string
	listedAt    time.Time
	lastError   string
	lastStarted time.Time
	deletedAt   time.Time
}

const serverColumns = `id, user_id, entry, enabled, source, definition_hash, approved_hash, version, protocol, listed_at, last_error, last_started, deleted_at`

func scanServer(row storage.Row) (r serverRow, err error) {
	var hash, approved []byte
	var enabled bool
	err = row.Scan(&r.id, &r.user, storage.JSON(&r.Server), &enabled, &r.source, &hash, &approved, &r.version, &r.protocol, storage.Time(&r.listedAt), &r.lastError, storage.Time(&r.lastStarted), storage.Time(&r.deletedAt))
	copy(r.hash[:], hash)
	copy(r.approved[:], approved)
	r.Enabled = &enabled
	return r, err
}

func (r *serverRow) isApproved() bool { return r.approved == r.hash }

func (r *serverRow) subject() permission.Subject {
	return permission.Subject{Kind: string(Kind), ID: r.Name, DefinitionHash: r.hash}
}

func (r *serverRow) approvalDocument() json.RawMessage {
	b, _ := json.Marshal(r.Server.document()) // texts only
	return b
}

// loadServer returns a server of the caller by name.
func loadServer(tx *storage.Tx, name string) (serverRow, error) {
	r, err := oneServer(tx, `user_id = ? AND name = ? AND deleted_at IS NULL`, identity.UserID(tx.Context()), name)
	if errors.Is(err, sql.ErrNoRows) {
		return r, errNoServer(name)
	}
	return r, err
}

func oneServer(tx *storage.Tx, where string, args ...any) (serverRow, error) {
	list, err := storage.Collect(tx.Select(`SELECT `+serverColumns+` FROM mcp_servers WHERE `+where, args...), scanServer)
	if err == nil && len(list) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return serverRow{}, err
	}
	return list[0], nil
}

func loadServers(tx *storage.Tx) ([]serverRow, error) {
	return storage.Collect(tx.Select(`SELECT `+serverColumns+` FROM mcp_servers WHERE user_id = ? AND deleted_at IS NULL ORDER BY name`, identity.UserID(tx.Context())), scanServer)
}

// saveEntry stores the entry of a server without its members that have columns of their own.
func entryText(e Server) (json.RawMessage, error) {
	e.Enabled = nil
	return json.Marshal(e)
}

// The states of a tool.
const (
	ToolApproved = "approved"
	ToolNew      = "new"
	ToolChanged  = "changed"
	ToolRemoved  = "removed"
	ToolDenied   = "denied"
)

// toolRow is a row of mcp_tools with the name and state of its server.
type toolRow struct {
	id       uuid.UUID
	name     string
	function string
	document json.RawMessage
	hash     [32]byte
	approved [32]byte
	tier     string
	state    string
	problem  string
	tokens   int
}

const toolColumns = `t.id, t.name, t.function_name, t.document, t.definition_hash, t.approved_hash, t.tier, t.state, t.problem, t.tokens`

func scanTool(row storage.Row) (t toolRow, err error) {
	var document string
	var hash, approved []byte
	err = row.Scan(&t.id, &t.name, &t.function, &document, &hash, &approved, &t.tier, &t.state, &t.problem, &t.tokens)
	t.document = json.RawMessage(document)
	copy(t.hash[:], hash)
	copy(t.approved[:], approved)
	return t, err
}

func (t *toolRow) definition() (d toolDocument) {
	_ = json.Unmarshal(t.document, &d) // our own text
	return d
}

func (t *toolRow) permissionTier() permission.Tier {
	switch t.tier {
	case permission.ReadOnly.String():
		return permission.ReadOnly
	case permission.SideEffecting.String():
		return permission.SideEffecting
	}
	return permission.Privileged
}

func (t *toolRow) subject(server string) permission.Subject {
	return permission.Subject{Kind: string(Kind), ID: toolID(server, t.name), DefinitionHash: t.hash}
}

func loadTools(tx *storage.Tx, server uuid.UUID) ([]toolRow, error) {
	return storage.Collect(tx.Select(`SELECT `+toolColumns+` FROM mcp_tools t WHERE t.server_id = ? ORDER BY t.name`, server), scanTool)
}

// loadToolStates is loadTools without the documents.
func loadToolStates(tx *storage.Tx, server uuid.UUID) ([]toolRow, error) {
	return storage.Collect(tx.Select(`SELECT `+strings.Replace(toolColumns, "t.document", "''", 1)+` FROM mcp_tools t WHERE t.server_id = ? ORDER BY t.name`, server), scanTool)
}

// toolKey names a tool by its user and its id.
type toolKey struct {
	user uuid.UUID
	id   string
}

// storedTool is a tool with its server, as they were stored, and what calls need of them. It is never modified.
type storedTool struct {
	row      serverRow
	tool     toolRow
	info     callable.Info
	document json.RawMessage // that an approval shows
	write    int64           // Service.writes when it was read
}

func (t *storedTool) size() int64 { return int64(2*len(t.tool.document) + len(t.document)) }

// stored returns the tool with the id server.tool. ok is false if its server has no such tool; the
// error is NotFound if there is no such server.
func (s *Service) stored(ctx context.Context, id string) (t *storedTool, ok bool, err error) {
	server, name, _ := strings.Cut(id, ".")
	key := toolKey{identity.UserID(ctx), id}
	now := s.writes.Load()
	if t, ok := s.tools.Get(key); ok && t.write == now {
		return t, true, nil
	}
	t = &storedTool{write: now}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if t.row, err = loadServer(tx, server); err != nil {
			return err
		}
		t.tool, ok, err = loadTool(tx, t.row.id, name)
		return err
	})
	if err != nil || !ok {
		return nil, false, err
	}
	t.info, t.document = t.tool.info(&t.row), approvalDocument(t.row.Name, t.tool.document)
	s.tools.Put(key, t)
	return t, true, nil
}

func loadTool(tx *storage.Tx, server uuid.UUID, name string) (toolRow, bool, error) {
	list, err := storage.Collect(tx.Select(`SELECT `+toolColumns+` FROM mcp_tools t WHERE t.server_id = ? AND t.name = ?`, server, name), scanTool)
	if err != nil || len(list) == 0 {
		return toolRow{}, false, err
	}
	return list[0], true, nil
}

// Retention returns how long calls are kept: as all runs.
func Retention() storage.Retention {
	return storage.Retention{Table: "mcp_calls", Time: "created_at", Payloads: []string{"arguments", "output"}}
}
