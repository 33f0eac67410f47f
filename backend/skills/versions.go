package skills

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"helix/backend/identity"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// semver reads a version such as 1.2.3; ok is false for anything else.
func semver(v string) (n [3]int, ok bool) {
	parts := strings.Split(v, ".")
	if len(parts) != 3 {
		return n, false
	}
	for i, p := range parts {
		x, err := strconv.Atoi(p)
		if err != nil || x < 0 {
			return n, false
		}
		n[i] = x
	}
	return n, true
}

// newer reports whether version a comes after b. A text that is no version comes first.
func newer(a, b string) bool {
	x, aOK := semver(a)
	y, bOK := semver(b)
	if !aOK || !bOK {
		return aOK
	}
	return slices.Compare(x[:], y[:]) > 0
}

// nextVersion gives a changed definition its number: wanted when that is higher than every
// number before, else the highest with its patch number raised.
func nextVersion(tx *storage.Tx, r *row, wanted string) (string, error) {
	top := r.version
	rows, err := tx.Query(`SELECT version FROM composite_skill_versions WHERE composite_skill_id = ?`, r.id)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return "", err
		}
		if newer(v, top) {
			top = v
		}
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	if newer(wanted, top) {
		return wanted, nil
	}
	n, ok := semver(top)
	if !ok {
		return "1.0.0", nil
	}
	return fmt.Sprintf("%d.%d.%d", n[0], n[1], n[2]+1), nil
}

// at gives the row the definition that it had at a version.
func (r *row) at(tx *storage.Tx, version string) error {
	v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE composite_skill_id = ? AND user_id = ? AND version = ?`,
		r.id, r.user, version), true)
	if err != nil {
		return err
	}
	r.version, r.hash, r.head = v.Version, v.DefinitionHash, v.VersionID
	r.body, err = definition.Parse(v.Body)
	return err
}

// ownVersion loads a version of a living skill of the caller, and the skill.
func ownVersion(tx *storage.Tx, p VersionParams) (*Version, *row, error) {
	v, err := scanVersion(tx.QueryRow(`SELECT `+versionColumns+` FROM composite_skill_versions WHERE id = ? AND user_id = ?`,
		p.VersionID, identity.UserID(tx.Context())), true)
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

// ListVersions lists the definitions that a skill had, newest first and without their bodies.
func (s *Service) ListVersions(ctx context.Context, p SkillParams) (VersionsResult, error) {
	out := VersionsResult{Versions: []Version{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		r, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		return tx.Select(`SELECT id, composite_skill_id, version, definition_hash, note, origin, created_at, '' FROM composite_skill_versions
			WHERE composite_skill_id = ? ORDER BY created_at DESC, id DESC`, r.id).Each(func(row storage.Row) error {
			v, err := scanVersion(row, false)
			if err != nil {
				return err
			}
			v.Current = v.VersionID == r.head
			out.Versions = append(out.Versions, *v)
			return nil
		})
	})
	return out, err
}

// GetVersion gives one with its body.
func (s *Service) GetVersion(ctx context.Context, p VersionParams) (Version, error) {
	var out *Version
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { out, _, err = ownVersion(tx, p); return err })
	if err != nil {
		return Version{}, err
	}
	return *out, nil
}

// DiffVersions compares two definitions step by step, of one skill or of two, and the rights
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

// without gives what is in a and not in b.
func without(a, b []string) []string {
	out := []string{}
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// Rollback makes an old definition the current one, as a new version. Rolling back to the
// current definition changes nothing. When the definition cannot run any more, because
// something that it calls is gone, the skill is disabled.
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
		if now.version, err = nextVersion(tx, now, ""); err != nil {
			return err
		}
		if err := now.update(tx, true, "back to "+v.Version, "rollback"); err != nil {
			return err
		}
		s.announce(tx, now, "updated")
		return s.record(tx, "skill.rolled_back", now, map[string]any{"to": v.Version, "version": now.version, "definitionHash": now.hash})
	})
	if err != nil {
		return Meta{}, err
	}
	if err := s.db.Read(ctx, func(tx *storage.Tx) error { return withLastRun(tx, now) }); err != nil {
		return Meta{}, err
	}
	return now.meta(valid), nil
}
