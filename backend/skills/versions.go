package skills

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"helix/backend/fault"
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
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
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

// ListVersions lists the definitions that a skill had.
func (s *Service) ListVersions(_ context.Context, _ SkillParams) (VersionsResult, error) {
	return VersionsResult{}, fault.Unavailablef("Not in this build yet.")
}

// GetVersion gives one with its body.
func (s *Service) GetVersion(_ context.Context, _ VersionParams) (Version, error) {
	return Version{}, fault.Unavailablef("Not in this build yet.")
}

// DiffVersions compares two definitions step by step.
func (s *Service) DiffVersions(_ context.Context, _ DiffParams) (DiffResult, error) {
	return DiffResult{}, fault.Unavailablef("Not in this build yet.")
}

// Rollback makes an old definition the current one, as a new version.
func (s *Service) Rollback(_ context.Context, _ RollbackParams) (Meta, error) {
	return Meta{}, fault.Unavailablef("Not in this build yet.")
}
