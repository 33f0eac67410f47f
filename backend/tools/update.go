package tools

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// UpdateParams changes a tool. BaseVersion is the version that the edit is based on. If the tool
// has changed since, the error is a conflict whose details contain the current tool.
type UpdateParams struct {
	ToolID      uuid.UUID `json:"toolId"`
	BaseVersion string    `json:"baseVersion"`
	Patch       Patch     `json:"patch"`
	Note        string    `json:"note,omitempty"` // reason, stored with the new version
}

// Patch contains the fields to change. An absent field is left unchanged; null or "" resets it to
// its default. name and code cannot be reset.
type Patch struct {
	Name           *string         `json:"name,omitempty"`
	Description    *string         `json:"description,omitempty"`
	Code           *string         `json:"code,omitempty"`
	Language       *Language       `json:"language,omitempty"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Capabilities   *[]string       `json:"capabilities,omitempty"`
	SandboxProfile *Profile        `json:"sandboxProfile,omitempty"`
	Limits         *Limits         `json:"limits,omitempty"`
	Samples        *[]Sample       `json:"samples,omitempty"`
	Tags           *[]string       `json:"tags,omitempty"`
	Icon           *string         `json:"icon,omitempty"`
	Visibility     *Visibility     `json:"visibility,omitempty"`
	Author         *string         `json:"author,omitempty"`
	SyncState      *bool           `json:"syncState,omitempty"`
	Version        *string         `json:"version,omitempty"` // label of the new version; default: the next patch version

	cleared map[string]bool // fields given as null
}

// UpdateResult contains the changed tool, the results of the static checks, and the grants that the
// change suspended until the new definition is approved.
type UpdateResult struct {
	Tool            Tool        `json:"tool"`
	Validation      Validation  `json:"validation"`
	SuspendedGrants []uuid.UUID `json:"suspendedGrants"`
}

// SetEnabledParams enables or disables a tool.
type SetEnabledParams struct {
	ToolID  uuid.UUID `json:"toolId"`
	Enabled bool      `json:"enabled"`
}

// DeleteResult contains the time until which the tool can be restored completely.
type DeleteResult struct {
	UndoUntil string `json:"undoUntil"` // RFC 3339
}

// CloneParams copies an own or a public tool.
type CloneParams struct {
	ToolID uuid.UUID `json:"toolId"`
	Name   string    `json:"name,omitempty"` // default: the name with " (Clone)"
}

// UnmarshalJSON decodes a patch and records which fields were null.
func (p *Patch) UnmarshalJSON(b []byte) error {
	type plain Patch
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var out plain
	if err := dec.Decode(&out); err != nil {
		return err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	out.cleared = map[string]bool{}
	for k, v := range raw {
		if string(v) == "null" {
			out.cleared[k] = true
		}
	}
	*p = Patch(out)
	return nil
}

// set applies one field of a patch: *v if given, zero if it was null.
func set[T any](p *Patch, name string, dst *T, v *T) {
	switch {
	case v != nil:
		*dst = *v
	case p.cleared[name]:
		var zero T
		*dst = zero
	}
}

// apply applies the patch to t. Defaults of the definition's fields are set later.
func (p *Patch) apply(t *Tool) {
	set(p, "name", &t.Name, p.Name)
	set(p, "description", &t.Description, p.Description)
	set(p, "code", &t.Code, p.Code)
	set(p, "language", &t.Language, p.Language)
	set(p, "capabilities", &t.Capabilities, p.Capabilities)
	set(p, "sandboxProfile", &t.SandboxProfile, p.SandboxProfile)
	set(p, "samples", &t.Samples, p.Samples)
	set(p, "tags", &t.Tags, p.Tags)
	set(p, "icon", &t.Icon, p.Icon)
	set(p, "visibility", &t.Visibility, p.Visibility)
	set(p, "author", &t.Author, p.Author)
	set(p, "syncState", &t.SyncState, p.SyncState)
	switch {
	case p.Limits != nil:
		t.Limits = p.Limits
	case p.cleared["limits"]:
		t.Limits = nil
	}
	if len(p.Parameters) > 0 {
		t.Parameters = p.Parameters
		if s := string(bytes.TrimSpace(p.Parameters)); s == "null" || s == `""` {
			t.Parameters = nil
		}
	} else if p.cleared["parameters"] {
		t.Parameters = nil
	}
	if t.Visibility == "" {
		t.Visibility = Private
	}
}

// VersionConflict is the detail of the conflict when a tool has changed since it was read.
type VersionConflict struct {
	BaseVersion string `json:"baseVersion"`
	Current     Tool   `json:"current"`
}

// Update changes a tool. A change of its definition creates a version, drops the signature and
// suspends the grants of the old definition; other changes do none of these.
func (s *Service) Update(ctx context.Context, p UpdateParams) (UpdateResult, error) {
	out := UpdateResult{SuspendedGrants: []uuid.UUID{}}
	if err := lifecycle.CheckText("note", p.Note, 1000); err != nil {
		return out, err
	}
	base, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*Tool, error) { return ownTool(tx, p.ToolID) })
	if err != nil {
		return out, err
	}
	// The checks read no table, and take too long for a write transaction.
	t := *base
	p.Patch.apply(&t)
	if p.Patch.Version != nil && *p.Patch.Version != "" {
		t.Version = *p.Patch.Version
	}
	if err := checkFields(&t); err != nil {
		return out, err
	}
	ex := s.examineAll(ctx, t.definition())
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		now, err := ownTool(tx, p.ToolID)
		if err != nil {
			return err
		}
		if p.BaseVersion != now.Version || now.hash != base.hash {
			if err := s.complete(tx, now); err != nil {
				return err
			}
			return fault.Conflictf("The tool is now at version %s, not %s. Your changes weren't saved. Compare the two, then save again.", now.Version, lifecycle.Shorten(p.BaseVersion, 64)).
				WithDetails(VersionConflict{p.BaseVersion, *now})
		}
		if ex.hash != now.hash {
			if err := saveError(ex.result); err != nil { // an unchanged definition may be renamed even if the checks have become stricter
				return err
			}
		}
		if err := s.checkNameFree(tx, &t); err != nil {
			return err
		}
		t.setDefinition(ex.def)
		suspended, err := s.commitDefinition(tx, now, &t, ex.hash, p.Note)
		if err != nil {
			return err
		}
		out.SuspendedGrants = orEmpty(suspended)
		s.announce(tx, t.ID, "updated")
		return s.complete(tx, &t)
	})
	if err != nil {
		return out, err
	}
	out.Tool, out.Validation = t, ex.result
	return out, nil
}

// commitDefinition saves t, whose previous state is old, with its new hash. A new hash or a new
// label creates a version; a new hash also drops the signature and suspends grants.
func (s *Service) commitDefinition(tx *storage.Tx, old, t *Tool, hash [32]byte, note string) ([]uuid.UUID, error) {
	t.hash, t.DefinitionHash = hash, hashText(hash)
	changed := hash != old.hash
	var err error
	if t.Version != old.Version {
		if used, err := s.kind.HasVersion(tx, t.ID, t.Version); err != nil {
			return nil, err
		} else if used {
			return nil, fault.Conflictf("The tool already has a version %s.", t.Version)
		}
	} else if changed {
		if t.Version, err = s.kind.NextVersion(tx, old.item(), ""); err != nil {
			return nil, err
		}
	}
	if changed {
		t.sig = nil
	}
	if err := saveTool(tx, t); err != nil {
		return nil, err
	}
	if t.Version != old.Version {
		if err := insertVersion(tx, t, note); err != nil {
			return nil, err
		}
	}
	details := map[string]any{"version": t.Version, "definitionHash": t.DefinitionHash}
	if changed {
		details["oldHash"] = old.DefinitionHash
	}
	if err := s.kind.Record(tx, t.item(), "updated", details); err != nil {
		return nil, err
	}
	if !changed {
		return nil, nil
	}
	ids, err := s.perm.DefinitionChanged(tx, t.subject(), old.hash, hash, t.definition().document())
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		user, ev := t.owner, Suspended{ToolID: t.ID, OldHash: old.DefinitionHash, NewHash: t.DefinitionHash}
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, ev) })
	}
	return ids, nil
}

// SetEnabled enables or disables a tool. Active runs continue.
func (s *Service) SetEnabled(ctx context.Context, p SetEnabledParams) (ToolResult, error) {
	return s.answer(ctx, s.db.Write, func(tx *storage.Tx) (*Tool, error) {
		t, err := ownTool(tx, p.ToolID)
		if err != nil || t.IsEnabled == p.Enabled {
			return t, err
		}
		t.IsEnabled = p.Enabled
		if err := saveTool(tx, t); err != nil {
			return nil, err
		}
		change, err := s.kind.Switched(tx, t.item(), t.IsEnabled)
		if err != nil {
			return nil, err
		}
		return t, s.kind.Changed(tx, t.item(), change, nil)
	})
}
