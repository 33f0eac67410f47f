package tools

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// VersionsParams requests the history of a tool, newest first.
type VersionsParams struct {
	ToolID uuid.UUID  `json:"toolId"`
	Limit  int        `json:"limit,omitempty"`  // 1..100, default 50
	Before *time.Time `json:"before,omitempty"` // createdAt of the last one seen
}

// VersionInfo is one version of a tool.
type VersionInfo struct {
	Version        string    `json:"version"`
	DefinitionHash string    `json:"definitionHash"`
	Note           string    `json:"note"`
	Author         string    `json:"author"`
	CreatedAt      time.Time `json:"createdAt"`
	Current        bool      `json:"current"`
}

// VersionsResult is one page of the history. Total counts all versions.
type VersionsResult struct {
	Versions []VersionInfo `json:"versions"`
	Total    int           `json:"total"`
}

// DiffParams identifies two versions of a tool.
type DiffParams struct {
	ToolID uuid.UUID `json:"toolId"`
	From   string    `json:"from"`
	To     string    `json:"to"`
}

// FieldChange is one field of the definition that differs.
type FieldChange struct {
	Name string          `json:"name"`
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`
}

// CapabilityChange lists added and removed capabilities.
type CapabilityChange struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

// DiffResult is the difference between two versions. Code is a unified diff, "" if equal.
type DiffResult struct {
	Fields       []FieldChange    `json:"fields"`
	Code         string           `json:"code"`
	Capabilities CapabilityChange `json:"capabilities"`
}

// RollbackParams identifies the version whose definition becomes current again.
type RollbackParams struct {
	ToolID  uuid.UUID `json:"toolId"`
	Version string    `json:"version"`
}

// RollbackResult contains the tool at its new version and the suspended grants.
type RollbackResult struct {
	Tool            Tool        `json:"tool"`
	SuspendedGrants []uuid.UUID `json:"suspendedGrants"`
}

// Versions returns a page of a tool's history, newest first.
func (s *Service) Versions(ctx context.Context, p VersionsParams) (VersionsResult, error) {
	out := VersionsResult{Versions: []VersionInfo{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return out, err
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(`SELECT count(*) FROM custom_tool_versions WHERE custom_tool_id = ?`, t.ID).Scan(&out.Total); err != nil {
			return err
		}
		list, err := s.kind.History(tx, t.ID, p.Before, p.Limit)
		for _, v := range list {
			out.Versions = append(out.Versions, VersionInfo{
				Version: v.Label, DefinitionHash: hashText(v.Hash), Note: v.Note, Author: v.Author, CreatedAt: v.CreatedAt,
				Current: v.Label == t.Version && hashText(v.Hash) == t.DefinitionHash,
			})
		}
		return err
	})
	return out, err
}

// Diff compares two versions of a tool.
func (s *Service) Diff(ctx context.Context, p DiffParams) (DiffResult, error) {
	var out DiffResult
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		t, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		from, err := loadVersion(tx, t.ID, p.From)
		if err != nil {
			return err
		}
		to, err := loadVersion(tx, t.ID, p.To)
		if err != nil {
			return err
		}
		out = compare(from.def, to.def, p.From, p.To)
		return nil
	})
	return out, err
}

// compare lists what differs between two definitions.
func compare(from, to definition, fromName, toName string) DiffResult {
	from, to = from.normalize(), to.normalize()
	out := DiffResult{Fields: []FieldChange{}, Capabilities: CapabilityChange{Added: []string{}, Removed: []string{}}}
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"description", from.Description, to.Description}, {"language", from.Language, to.Language},
		{"parameters", from.Parameters, to.Parameters}, {"capabilities", from.Capabilities, to.Capabilities},
		{"sandboxProfile", from.SandboxProfile, to.SandboxProfile}, {"limits", from.Limits, to.Limits},
	} {
		a, b := lifecycle.Text(f.a), lifecycle.Text(f.b)
		if string(a) != string(b) {
			out.Fields = append(out.Fields, FieldChange{f.name, a, b})
		}
	}
	for _, c := range to.Capabilities {
		if !slices.Contains(from.Capabilities, c) {
			out.Capabilities.Added = append(out.Capabilities.Added, c)
		}
	}
	for _, c := range from.Capabilities {
		if !slices.Contains(to.Capabilities, c) {
			out.Capabilities.Removed = append(out.Capabilities.Removed, c)
		}
	}
	out.Code = unifiedDiff(from.Code, to.Code, fromName, toName)
	return out
}

// Rollback creates a new version with the definition of an earlier one. Grants that were bound to
// that definition and have neither been revoked nor expired become active again.
func (s *Service) Rollback(ctx context.Context, p RollbackParams) (RollbackResult, error) {
	out := RollbackResult{SuspendedGrants: []uuid.UUID{}}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		old, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		v, err := loadVersion(tx, old.ID, p.Version)
		if err != nil {
			return err
		}
		t := *old
		t.setDefinition(v.def)
		if v.hash == old.hash { // the definition is already current
			if err := s.complete(tx, old); err != nil {
				return err
			}
			out.Tool = *old
			return nil
		}
		suspended, err := s.commitDefinition(tx, old, &t, v.hash, "rolled back to "+v.Version)
		if err != nil {
			return err
		}
		out.SuspendedGrants = orEmpty(suspended)
		s.announce(tx, t.ID, "updated")
		if err := s.complete(tx, &t); err != nil {
			return err
		}
		out.Tool = t
		return nil
	})
	return out, err
}
