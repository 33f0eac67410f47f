package tools

import (
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// toolKind describes tools.
func (s *Service) toolKind() *lifecycle.Kind {
	return &lifecycle.Kind{
		Table: "custom_tools", Versions: "custom_tool_versions", Parent: "custom_tool_id", Author: "author",
		Subject: subjectKind, Action: "tool", Noun: "tool", MaxName: lifecycle.MaxName, Rights: s.perm,
		Announce: func(tx *storage.Tx, it lifecycle.Item, change string) { s.announce(tx, it.ID, change) },
	}
}

func (t *Tool) item() lifecycle.Item {
	return lifecycle.Item{ID: t.ID, User: t.owner, Name: t.Name, Version: t.Version}
}

// errNotFound returns the same error for an unknown tool, a deleted one and a private one of another user.
func errNotFound() error { return fault.NotFoundf("Tool not found.") }

const toolColumns = `id, user_id, name, description, language, code, parameters, capabilities, sandbox_profile, limits,
	definition_hash, version, author, signature, samples, tags, icon, origin, clone_source_id, visibility, is_enabled,
	sync_state, usage_count, last_used, created_at, updated_at`

func scanTool(row storage.Row, user uuid.UUID) (*Tool, error) {
	t := &Tool{Capabilities: []string{}, Samples: []Sample{}, Tags: []string{}}
	var parameters string
	var limits, sig sql.NullString
	var hash []byte
	var source uuid.NullUUID
	err := row.Scan(&t.ID, &t.owner, &t.Name, &t.Description, &t.Language, &t.Code, &parameters, storage.JSON(&t.Capabilities),
		&t.SandboxProfile, &limits, &hash, &t.Version, &t.Author, &sig, storage.JSON(&t.Samples), storage.JSON(&t.Tags), &t.Icon,
		&t.Origin, &source, &t.Visibility, &t.IsEnabled, &t.SyncState, &t.UsageCount, storage.TimePtr(&t.LastUsed),
		storage.Time(&t.CreatedAt), storage.Time(&t.UpdatedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, err
	}
	t.Parameters = json.RawMessage(parameters)
	copy(t.hash[:], hash)
	t.DefinitionHash = hashText(t.hash)
	t.Mine = t.owner == user
	if source.Valid {
		t.CloneSourceID = &source.UUID
	}
	if limits.Valid {
		t.Limits = &Limits{}
		if err := json.Unmarshal([]byte(limits.String), t.Limits); err != nil {
			return nil, err
		}
	}
	if t.sig, err = lifecycle.ReadSignature(sig); err != nil {
		return nil, err
	}
	if !t.Mine {
		t.Samples = []Sample{}
		t.CloneSourceID, t.LastUsed = nil, nil
	}
	return t, nil
}

// ownTool loads a tool of the caller.
func ownTool(tx *storage.Tx, id uuid.UUID) (*Tool, error) {
	user := identity.UserID(tx.Context())
	return scanTool(tx.QueryRow(`SELECT `+toolColumns+` FROM custom_tools WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, user), user)
}

// visibleTool loads a tool of the caller, or a public one.
func visibleTool(tx *storage.Tx, id uuid.UUID) (*Tool, error) {
	user := identity.UserID(tx.Context())
	return scanTool(tx.QueryRow(`SELECT `+toolColumns+` FROM custom_tools
		WHERE id = ? AND deleted_at IS NULL AND (user_id = ? OR visibility = 'public')`, id, user), user)
}

// toolByRef finds a tool of the caller by name or id, as for helix.tool.
func toolByRef(tx *storage.Tx, ref string) (*Tool, error) {
	user := identity.UserID(tx.Context())
	if id, err := uuid.Parse(ref); err == nil {
		return ownTool(tx, id)
	}
	return scanTool(tx.QueryRow(`SELECT `+toolColumns+` FROM custom_tools WHERE user_id = ? AND lower(name) = lower(?) AND deleted_at IS NULL`, user, ref), user)
}

func nullJSON[T any](v *T) any {
	if v == nil {
		return nil
	}
	return lifecycle.Text(v)
}

func insertTool(tx *storage.Tx, t *Tool) error {
	sig, fp, at, err := t.sig.Columns()
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO custom_tools (id, user_id, name, description, language, code, parameters, capabilities,
		sandbox_profile, limits, definition_hash, version, author, signature, signer_fingerprint, signed_at, samples, tags, icon, origin,
		clone_source_id, visibility, is_enabled, sync_state, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.owner, t.Name, t.Description, string(t.Language), t.Code, t.Parameters, lifecycle.Text(t.Capabilities),
		string(t.SandboxProfile), nullJSON(t.Limits), t.hash, t.Version, t.Author, sig, fp, at, lifecycle.Text(t.Samples), lifecycle.Text(t.Tags), t.Icon,
		string(t.Origin), t.CloneSourceID, string(t.Visibility), t.IsEnabled, t.SyncState, t.CreatedAt, t.UpdatedAt)
	return err
}

func saveTool(tx *storage.Tx, t *Tool) error {
	sig, fp, at, err := t.sig.Columns()
	if err != nil {
		return err
	}
	t.UpdatedAt = tx.Now
	_, err = tx.Exec(`UPDATE custom_tools SET name = ?, description = ?, language = ?, code = ?, parameters = ?, capabilities = ?,
		sandbox_profile = ?, limits = ?, definition_hash = ?, version = ?, author = ?, signature = ?, signer_fingerprint = ?, signed_at = ?,
		samples = ?, tags = ?, icon = ?, origin = ?, visibility = ?, is_enabled = ?, sync_state = ?, updated_at = ?
		WHERE id = ? AND user_id = ?`,
		t.Name, t.Description, string(t.Language), t.Code, t.Parameters, lifecycle.Text(t.Capabilities),
		string(t.SandboxProfile), nullJSON(t.Limits), t.hash, t.Version, t.Author, sig, fp, at,
		lifecycle.Text(t.Samples), lifecycle.Text(t.Tags), t.Icon, string(t.Origin), string(t.Visibility), t.IsEnabled, t.SyncState, t.UpdatedAt,
		t.ID, t.owner)
	return err
}

// insertVersion adds the tool's current definition to its history.
func insertVersion(tx *storage.Tx, t *Tool, note string) error {
	_, err := tx.Exec(`INSERT INTO custom_tool_versions (id, custom_tool_id, user_id, version, definition_hash, language, code,
		parameters, capabilities, sandbox_profile, limits, description, note, author, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		storage.NewID(), t.ID, t.owner, t.Version, t.hash, string(t.Language), t.Code, t.Parameters, lifecycle.Text(t.Capabilities),
		string(t.SandboxProfile), nullJSON(t.Limits), t.Description, note, t.Author, tx.Now, tx.Now)
	if err != nil {
		return err
	}
	return dropOldVersions(tx, t)
}

// dropOldVersions deletes versions of a tool above maxVersions, except the current one and those
// pinned by a share. The deletion is not synced, because each device applies its own limit.
func dropOldVersions(tx *storage.Tx, t *Tool) error {
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM custom_tool_versions WHERE custom_tool_id = ?`, t.ID).Scan(&n); err != nil || n <= maxVersions {
		return err
	}
	return tx.WithoutCapture(func() error {
		_, err := tx.Exec(`DELETE FROM custom_tool_versions WHERE id IN (
			SELECT v.id FROM custom_tool_versions v WHERE v.custom_tool_id = ?1 AND v.version IS NOT ?2
			AND NOT EXISTS (SELECT 1 FROM custom_tool_shares s WHERE s.custom_tool_id = ?1 AND s.version = v.version AND s.revoked_at IS NULL)
			ORDER BY v.created_at, v.id LIMIT ?3)`, t.ID, t.Version, n-maxVersions)
		return err
	})
}

// storedVersion is a version in the history.
type storedVersion struct {
	VersionInfo
	def  definition
	hash [32]byte
}

const versionColumns = `version, definition_hash, language, code, parameters, capabilities, sandbox_profile, limits, description, note, author, created_at`

func scanVersion(row storage.Row) (*storedVersion, error) {
	v := &storedVersion{}
	var hash []byte
	var parameters string
	var limits sql.NullString
	err := row.Scan(&v.Version, &hash, &v.def.Language, &v.def.Code, &parameters, storage.JSON(&v.def.Capabilities), &v.def.SandboxProfile,
		&limits, &v.def.Description, &v.Note, &v.Author, storage.Time(&v.CreatedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFoundf("The tool has no such version.")
	}
	if err != nil {
		return nil, err
	}
	v.def.Parameters = json.RawMessage(parameters)
	copy(v.hash[:], hash)
	v.DefinitionHash = hashText(v.hash)
	if limits.Valid {
		v.def.Limits = &Limits{}
		if err := json.Unmarshal([]byte(limits.String), v.def.Limits); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// loadVersion loads the version with a label: the tool's current definition if it has the label,
// else the newest version that has. Two devices may have used one label for two definitions.
func loadVersion(tx *storage.Tx, tool uuid.UUID, version string) (*storedVersion, error) {
	return scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM custom_tool_versions v WHERE custom_tool_id = ? AND version = ?
		ORDER BY EXISTS (SELECT 1 FROM custom_tools t WHERE t.id = v.custom_tool_id AND t.version = v.version AND t.definition_hash = v.definition_hash) DESC,
		created_at DESC, id DESC LIMIT 1`, tool, version))
}

// loadDefinition loads the version with a label and a definition hash.
func loadDefinition(tx *storage.Tx, tool uuid.UUID, version string, hash []byte) (*storedVersion, error) {
	return scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM custom_tool_versions WHERE custom_tool_id = ? AND version = ? AND definition_hash = ?
		ORDER BY created_at DESC, id DESC LIMIT 1`, tool, version, hash))
}
