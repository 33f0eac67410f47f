package lifecycle

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// FirstVersion is the default label of a new definition.
const FirstVersion = "1.0.0"

// semver follows semver.org 2.0.0.
var semver = regexp.MustCompile(`^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// isVersion reports whether a label is a semantic version of at most 64 bytes.
func isVersion(v string) bool { return len(v) <= 64 && semver.MatchString(v) }

// numbers returns major, minor and patch of a label, or those of FirstVersion if it is not a
// version.
func numbers(v string) (n [3]int, ok bool) {
	m := semver.FindStringSubmatch(v)
	if m == nil {
		return [3]int{1, 0, 0}, false
	}
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1])
	}
	return n, true
}

// Newer reports whether label a comes after b. A text that is not a version comes first.
func Newer(a, b string) bool {
	x, aOK := numbers(a)
	y, bOK := numbers(b)
	if !aOK || !bOK {
		return aOK
	}
	return slices.Compare(x[:], y[:]) > 0
}

// RaisePatch returns the label after v.
func RaisePatch(v string) string {
	n, _ := numbers(v)
	return fmt.Sprintf("%d.%d.%d", n[0], n[1], n[2]+1)
}

// HasVersion reports whether a definition has had a version with this label.
func (k *Kind) HasVersion(tx *storage.Tx, id uuid.UUID, version string) (has bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+k.Versions+` WHERE `+k.Parent+` = ? AND version = ?)`, id, version).Scan(&has)
	return has, err
}

// NextVersion returns the label of a changed definition: wanted if it is newer than the current
// one, else the current one with its patch number raised to an unused one.
func (k *Kind) NextVersion(tx *storage.Tx, it Item, wanted string) (string, error) {
	next := RaisePatch(it.Version)
	if Newer(wanted, it.Version) {
		next = wanted
	}
	for k.Versions != "" {
		used, err := k.HasVersion(tx, it.ID, next)
		if err != nil || !used {
			return next, err
		}
		next = RaisePatch(next)
	}
	return next, nil
}

// Version is a previous or the current version of a definition, without its content.
type Version struct {
	ID        uuid.UUID
	Label     string
	Hash      [32]byte
	Note      string
	Author    string // or origin: who or what created it
	CreatedAt time.Time
}

// History lists up to limit versions of a definition created before a time, newest first. A limit
// of -1 means all.
func (k *Kind) History(tx *storage.Tx, id uuid.UUID, before *time.Time, limit int) ([]Version, error) {
	return storage.Collect(tx.Select(`SELECT id, version, definition_hash, note, `+k.Author+`, created_at FROM `+k.Versions+`
		WHERE `+k.Parent+` = ?1 AND (?2 IS NULL OR created_at < ?2) ORDER BY created_at DESC, id DESC LIMIT ?3`, id, before, limit),
		func(row storage.Row) (v Version, err error) {
			var hash []byte
			err = row.Scan(&v.ID, &v.Label, &hash, &v.Note, &v.Author, storage.Time(&v.CreatedAt))
			copy(v.Hash[:], hash)
			return v, err
		})
}
