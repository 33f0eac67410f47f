package discovery

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// The states of a tool.
const (
	StatusPending  = "pending_approval"
	StatusApproved = "approved" // not yet verified
	StatusActive   = "active"
	StatusDisabled = "disabled"
	StatusRevoked  = "revoked"
)

// Tool is a tool as stored.
type Tool struct {
	ID             uuid.UUID  `json:"manifestId"`
	Name           string     `json:"name"`
	Version        string     `json:"version"`
	Description    string     `json:"description"`
	SourceType     string     `json:"sourceType"` // local or openapi_url
	SourceLocation string     `json:"sourceLocation"`
	Status         string     `json:"status"`       // on this device
	InstallState   string     `json:"installState"` // on this device: none, installing, ready or failed
	Type           string     `json:"type"`         // http
	DefinitionHash string     `json:"definitionHash"`
	Hosts          []string   `json:"hosts"`
	Operations     int        `json:"operations"`
	CreatedAt      time.Time  `json:"createdAt"`
	UpdatedAt      time.Time  `json:"updatedAt"`
	ApprovedAt     *time.Time `json:"approvedAt,omitempty"`
	RevokedAt      *time.Time `json:"revokedAt,omitempty"`
	LastRunAt      *time.Time `json:"lastRunAt,omitempty"`

	manifest Manifest
	spec     string // sha256:…
	hash     [32]byte
	user     uuid.UUID

	shared     string   // the state in the row, which syncs: of an approval elsewhere it says nothing about this device
	active     bool     // its samples passed once on this device, or it has none
	seen       [32]byte // the definition and the state that this device has acted on
	seenStatus string

	verifying bool // its samples are being tried, which an approved tool that isn't ready may
	again     bool // its samples passed before; a server that does not answer changes nothing
}

// fromTools joins tools with the approvals of their definitions on this device.
const fromTools = ` FROM tool_manifest t LEFT JOIN tool_install i ON i.tool_id = t.id AND i.definition_hash = t.definition_hash `

// Approvals stay on their device, and what denies one counts on all: sharedStatus is what devices have in
// common, statusHere is the state on this device.
const (
	sharedStatus = `CASE WHEN t.deleted_at IS NULL THEN t.status ELSE 'revoked' END`
	statusHere   = `CASE WHEN t.status = 'revoked' OR t.deleted_at IS NOT NULL THEN 'revoked' WHEN i.tool_id IS NULL THEN 'pending_approval' WHEN t.status = 'disabled' THEN 'disabled' WHEN i.active THEN 'active' ELSE 'approved' END`
)

const toolColumns = `t.id, t.user_id, t.name, t.version, t.description, t.source_type, t.source_location, ` + sharedStatus + `, ` + statusHere + `, coalesce(i.active, 0), t.execution_type, coalesce(t.openapi_spec, ''), t.manifest, t.definition_hash,
	t.seen_hash, coalesce(t.seen_status, ''), coalesce(i.state, 'none'), t.created_at, t.updated_at, i.approved_at, t.revoked_at, (SELECT max(started_at) FROM tool_execution_log l WHERE l.tool_id = t.id)`

func scanTool(row storage.Row) (*Tool, error) {
	t := &Tool{}
	var hash, seen []byte
	var manifest string
	err := row.Scan(&t.ID, &t.user, &t.Name, &t.Version, &t.Description, &t.SourceType, &t.SourceLocation, &t.shared, &t.Status, &t.active, &t.Type, &t.spec, &manifest, &hash,
		&seen, &t.seenStatus, &t.InstallState, storage.Time(&t.CreatedAt), storage.Time(&t.UpdatedAt), storage.TimePtr(&t.ApprovedAt), storage.TimePtr(&t.RevokedAt), storage.TimePtr(&t.LastRunAt))
	if json.Unmarshal([]byte(manifest), &t.manifest) != nil {
		t.manifest = Manifest{} // it isn't intact, so nothing runs
	}
	copy(t.hash[:], hash)
	copy(t.seen[:], seen)
	t.DefinitionHash, t.Hosts, t.Operations = hex.EncodeToString(t.hash[:]), orEmpty(t.manifest.Permissions.Network.Hosts), len(t.manifest.Capabilities)
	return t, err
}

// loadTool returns a tool of the user of the transaction.
func loadTool(tx *storage.Tx, id uuid.UUID) (*Tool, error) {
	t, err := scanTool(tx.QueryRow(`SELECT `+toolColumns+fromTools+`WHERE t.id = ? AND t.user_id = ?`, id, identity.UserID(tx.Context())))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoTool()
	}
	return t, err
}

// toolNamed returns the tool with a name that is not revoked, or nil.
func toolNamed(tx *storage.Tx, name string) (*Tool, error) {
	t, err := scanTool(tx.QueryRow(`SELECT `+toolColumns+fromTools+`WHERE t.user_id = ? AND t.name = ? AND t.status <> 'revoked' AND t.deleted_at IS NULL`, identity.UserID(tx.Context()), name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return t, err
}

func (s *Service) load(ctx context.Context, id uuid.UUID) (t *Tool, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*Tool, error) { return loadTool(tx, id) })
}

// insert stores a new tool.
func (t *Tool) insert(tx *storage.Tx) error {
	raw, err := json.Marshal(t.manifest)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO tool_manifest (id, user_id, name, version, description, source_type, source_location, status, seen_status, execution_type, execution_timeout, openapi_spec, manifest, definition_hash, seen_hash, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?14)`,
		t.ID, t.user, t.Name, t.Version, t.Description, t.SourceType, t.SourceLocation, t.shared, t.Type, t.manifest.Execution.TimeoutSeconds, t.spec, json.RawMessage(raw), t.hash, tx.Now)
	return err
}

// replace stores another definition of a tool.
func (t *Tool) replace(tx *storage.Tx) error {
	raw, err := json.Marshal(t.manifest)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE tool_manifest SET version = ?1, description = ?2, source_type = ?3, source_location = ?4, status = ?5, seen_status = ?5, execution_timeout = ?6, openapi_spec = ?7, manifest = ?8, definition_hash = ?9, seen_hash = ?9, updated_at = ?10 WHERE id = ?11 AND user_id = ?12`,
		t.Version, t.Description, t.SourceType, t.SourceLocation, t.shared, t.manifest.Execution.TimeoutSeconds, t.spec, json.RawMessage(raw), t.hash, tx.Now, t.ID, t.user)
	return err
}

// setSharedStatus stores a state of a tool, which other devices get too.
func (t *Tool) setSharedStatus(tx *storage.Tx, status string) error {
	revoked := any(nil)
	if status == StatusRevoked {
		revoked = tx.Now
	}
	_, err := tx.Exec(`UPDATE tool_manifest SET status = ?1, seen_status = ?1, revoked_at = ?2, updated_at = ?3 WHERE id = ?4`, status, revoked, tx.Now, t.ID)
	return err
}

// checkIntact refuses a tool whose stored definition doesn't have the stored hash.
func (t *Tool) checkIntact() error {
	if sum, err := t.manifest.hash(); err != nil || sum != t.hash {
		return fault.Deniedf("The stored definition of %s isn't the approved one. Import it again.", t.Name).WithDetails(callable.Refusal{Reason: callable.ReasonChanged})
	}
	return nil
}

// ListParams filter tools.
type ListParams struct {
	Status string `json:"status,omitempty"` // absent: all but revoked
	Query  string `json:"query,omitempty"`
	Limit  int    `json:"limit,omitempty"` // 1..100, default 50
	Offset int    `json:"offset,omitempty"`
}

// ListResult is one page of tools, by name.
type ListResult struct {
	Tools []*Tool `json:"tools"`
	Total int     `json:"total"`
}

// List returns the user's tools from API descriptions.
func (s *Service) List(ctx context.Context, p ListParams) (ListResult, error) {
	out := ListResult{Tools: []*Tool{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	const where = fromTools + `WHERE t.user_id = ?1 AND (?2 = ` + statusHere + ` OR ?2 = '' AND t.status <> 'revoked' AND t.deleted_at IS NULL) AND (?3 = '' OR instr(lower(t.name || ' ' || t.description), ?3) > 0)`
	query := strings.ToLower(p.Query)
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		user := identity.UserID(ctx)
		if err := tx.QueryRow(`SELECT count(*)`+where, user, p.Status, query).Scan(&out.Total); err != nil {
			return err
		}
		out.Tools, err = storage.Collect(tx.Select(`SELECT `+toolColumns+where+` ORDER BY t.name, t.id LIMIT ?4 OFFSET ?5`, user, p.Status, query, p.Limit, p.Offset), scanTool)
		return err
	})
}

// ToolParams name a tool.
type ToolParams struct {
	ManifestID uuid.UUID `json:"manifestId"`
}

// ToolResult is a tool with everything that a person needs to judge it.
type ToolResult struct {
	Tool
	Manifest    Manifest     `json:"manifest"`
	Credentials []Credential `json:"credentials"` // of every scheme that its operations use
	// Verification is the last result of its samples on this device; absent: they were not tried.
	Verification *Verification `json:"verification,omitempty"`
}

// Get returns a tool with its definition and which of its credentials are set up.
func (s *Service) Get(ctx context.Context, p ToolParams) (ToolResult, error) {
	t, err := s.load(ctx, p.ManifestID)
	if err != nil {
		return ToolResult{}, err
	}
	out := ToolResult{Tool: *t, Manifest: t.manifest, Credentials: []Credential{}}
	if out.Credentials, err = s.credentials(ctx, t); err != nil {
		return ToolResult{}, err
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		out.Verification, err = verification(tx, t)
		return err
	})
}

// Subject implements permission.Source.
func (s *Service) Subject(ctx context.Context, _, id string) (permission.SubjectInfo, error) {
	key, err := uuid.Parse(id)
	if err != nil {
		return permission.SubjectInfo{}, errNoTool()
	}
	var info permission.SubjectInfo
	var hash []byte
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT t.name, `+statusHere+`, t.definition_hash`+fromTools+`WHERE t.id = ? AND t.user_id = ?`, key, identity.UserID(ctx)).Scan(&info.Name, &info.State, &hash)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoTool()
	}
	if err != nil {
		return permission.SubjectInfo{}, err
	}
	copy(info.DefinitionHash[:], hash)
	if info.State == StatusApproved { // its samples run with the permissions that were given; prepare refuses everything else
		info.State = permission.Active
	}
	if l, ok := s.loaded.Get(loadedKey{key, info.DefinitionHash}); ok {
		info.Declared, info.Definition = l.wants, l.document
		return info, nil
	}
	t, err := s.load(ctx, key)
	if err != nil {
		return info, err
	}
	info.DefinitionHash = t.hash
	if info.Declared, err = t.manifest.wants(); err != nil {
		return info, err
	}
	info.Definition, err = t.manifest.document()
	return info, err
}

// NameOf returns the name of a tool of the user, or "".
func (s *Service) NameOf(ctx context.Context, id string) string {
	info, err := s.Subject(ctx, string(Kind), id)
	if fault.Is(err, fault.NotFound) {
		return ""
	}
	return info.Name
}
