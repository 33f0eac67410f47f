package skills

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"

	"helix/backend/identity"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// at sets the definition of the row to that of a version: the current one if it has the label, else
// the newest that has. Two devices may have used one label for two definitions.
func (r *row) at(tx *storage.Tx, version string) error {
	v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE composite_skill_id = ? AND user_id = ? AND version = ?
		ORDER BY id IS ? DESC, created_at DESC, id DESC LIMIT 1`, r.id, r.user, version, r.head))
	if err != nil {
		return err
	}
	r.version, r.hash, r.head = v.Version, v.DefinitionHash, v.VersionID
	r.body, err = definition.Parse(v.Body)
	return err
}

// ownVersion loads a version of a skill of the caller that is not deleted, and the skill.
func ownVersion(tx *storage.Tx, p VersionParams) (*Version, *row, error) {
	v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE id = ? AND user_id = ?`,
		p.VersionID, identity.UserID(tx.Context())))
	if err != nil {
		return nil, nil, err
	}
	r, err := ownSkill(tx, v.SkillID)
	if err != nil {
		return nil, nil, err
	}
	v.Current = v.VersionID == r.head
	return v, r, nil
}

// ListVersions lists the versions of a skill, newest first and without their bodies.
func (s *Service) ListVersions(ctx context.Context, p SkillParams) (VersionsResult, error) {
	out := VersionsResult{Versions: []Version{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		r, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		list, err := s.kind.History(tx, r.id, nil, -1)
		for _, v := range list {
			out.Versions = append(out.Versions, Version{
				VersionID: v.ID, SkillID: r.id, Version: v.Label, DefinitionHash: hex.EncodeToString(v.Hash[:]), Note: v.Note, Origin: v.Author,
				Current: v.ID == r.head, CreatedAt: v.CreatedAt,
			})
		}
		return err
	})
	return out, err
}

// GetVersion returns one version with its body.
func (s *Service) GetVersion(ctx context.Context, p VersionParams) (Version, error) {
	var out *Version
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { out, _, err = ownVersion(tx, p); return err })
	if err != nil {
		return Version{}, err
	}
	return *out, nil
}

// DiffVersions compares two definitions step by step, of one skill or of two, and the capabilities
// that they need.
func (s *Service) DiffVersions(ctx context.Context, p DiffParams) (DiffResult, error) {
	var from, to *definition.Body
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		a, _, err := ownVersion(tx, VersionParams{p.From})
		if err != nil {
			return err
		}
		b, _, err := ownVersion(tx, VersionParams{p.To})
		if err != nil {
			return err
		}
		from, err = definition.Parse(a.Body)
		if err != nil {
			return err
		}
		to, err = definition.Parse(b.Body)
		return err
	})
	if err != nil {
		return DiffResult{}, err
	}
	d, err := definition.Compare(from, to)
	if err != nil {
		return DiffResult{}, err
	}
	out := wireDiff(d)
	c := s.catalog(ctx)
	before, err := s.rights(ctx, c, from, false)
	after, err2 := s.rights(ctx, c, to, false)
	if err := errors.Join(err, err2); err != nil {
		return DiffResult{}, err
	}
	out.Rights = RightsDiff{Added: without(after.Union, before.Union), Removed: without(before.Union, after.Union)}
	return out, nil
}

func wireDiff(d *definition.Diff) DiffResult {
	out := DiffResult{
		Steps:  StepsDiff{Added: []StepPlace{}, Removed: []StepPlace{}, Moved: []StepMove{}, Changed: []FieldChange{}},
		Fields: []FieldChange{},
	}
	for _, p := range d.Added {
		out.Steps.Added = append(out.Steps.Added, StepPlace{p.Step, p.Path, p.Body})
	}
	for _, p := range d.Removed {
		out.Steps.Removed = append(out.Steps.Removed, StepPlace{p.Step, p.Path, p.Body})
	}
	for _, m := range d.Moved {
		out.Steps.Moved = append(out.Steps.Moved, StepMove{m.Step, m.From, m.To})
	}
	for _, c := range d.Changed {
		out.Steps.Changed = append(out.Steps.Changed, FieldChange{c.Step, c.Path, c.Before, c.After})
	}
	for _, c := range d.Fields {
		out.Fields = append(out.Fields, FieldChange{"", c.Path, c.Before, c.After})
	}
	return out
}

// without returns the elements of a that are not in b.
func without(a, b []string) []string {
	out := []string{}
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// Rollback makes an old definition the current one, as a new version. Rolling back to the current
// definition changes nothing. If the definition is no longer valid, because something that it calls
// is missing, the skill is disabled.
func (s *Service) Rollback(ctx context.Context, p RollbackParams) (Meta, error) {
	var now *row
	var valid bool
	load := func(tx *storage.Tx) (*Version, error) {
		v, r, err := ownVersion(tx, VersionParams{p.VersionID})
		if err != nil {
			return nil, err
		}
		if r.id != p.SkillID {
			return nil, errNoSkill()
		}
		now = r
		return v, nil
	}
	var old *definition.Body
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		v, err := load(tx)
		if err != nil {
			return err
		}
		old, err = definition.Parse(v.Body)
		return err
	})
	if err != nil {
		return Meta{}, err
	}
	then := *now
	then.body = old
	if valid, err = s.valid(&then, s.catalog(ctx)); err != nil {
		return Meta{}, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		v, err := load(tx)
		if err != nil {
			return err
		}
		if v.DefinitionHash == now.hash {
			return nil
		}
		now.body = old
		now.enabled = now.enabled && valid
		if now.version, err = s.kind.NextVersion(tx, now.item(), ""); err != nil {
			return err
		}
		if err := now.update(tx, true, "back to "+v.Version, "rollback"); err != nil {
			return err
		}
		s.kind.Announce(tx, now.item(), "updated")
		return s.kind.Record(tx, now.item(), "rolled_back", map[string]any{"to": v.Version, "version": now.version, "definitionHash": now.hash})
	})
	if err != nil {
		return Meta{}, err
	}
	if err := s.db.Read(ctx, func(tx *storage.Tx) error { return withLastRun(tx, now) }); err != nil {
		return Meta{}, err
	}
	return now.meta(valid), nil
}
