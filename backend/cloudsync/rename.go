package cloudsync

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// rename resolves a name clash between an incoming row and a row on this device. Of the two, the
// row with the larger id gets a number, so that all devices choose the same one. The rename is a
// change of this device and is recorded as a conflict that holds the former name. It returns false
// if the violation is not a name clash.
func (a *applier) rename(x remote) (bool, error) {
	t, ok := a.s.table(x.table)
	i := slices.IndexFunc(t.columns, func(c storage.SyncedColumn) bool { return c.Name == "name" && c.Merge == storage.LWW })
	if !ok || i < 0 {
		return false, nil
	}
	theirs, err := t.hubRow(a.s.cipher, x.id, x.row)
	if err != nil {
		return false, nil //nolint:nilerr // row reports the error
	}
	name, _ := theirs.Values["name"].(string)
	var other uuid.UUID
	err = a.tx.QueryRow(`SELECT id FROM `+t.Table+` WHERE `+t.hasName()+` AND id <> ?`, a.l.user, name, x.id).Scan(&other)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free, err := a.freeName(t, name)
	if err != nil {
		return false, err
	}
	if bytes.Compare(other[:], x.id[:]) > 0 {
		return true, a.renameRow(t, rowKey{t.Table, other}, free)
	}
	// The incoming row has the larger id. Store it under the new name, then log the rename as a
	// change.
	mine, err := t.readRow(a.tx, x.id)
	if err != nil || mine != nil {
		return false, err
	}
	k := rowKey{t.Table, x.id}
	stored := theirs
	stored.Values = maps.Clone(theirs.Values)
	stored.Values["name"] = free
	if err := t.writeRow(a.tx, a.l.user, x.id, stored, false, a.s.o.Private); err != nil {
		return false, err
	}
	return true, a.renamed(t, k, theirs, name, free, nil)
}

func (a *applier) freeName(t table, name string) (string, error) {
	for n := 2; ; n++ {
		free := fmt.Sprintf("%s (%d)", name, n)
		if t.Slugs {
			free = slugWith(name, n)
		}
		var taken bool
		if err := a.tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+t.Table+` WHERE `+t.hasName()+`)`, a.l.user, free).Scan(&taken); err != nil || !taken {
			return free, err
		}
	}
}

// slugWith returns a name with a number.
func slugWith(name string, n int) string {
	end := fmt.Sprintf("-%d", n)
	return strings.TrimRight(cutBytes(name, maxSlug-len(end)), "-") + end
}

// maxSlug is the length limit of names that are slugs.
const maxSlug = 63

// hasName returns an SQL condition with two parameters: rows of a user that keep a name from others.
func (t table) hasName() string {
	where := `user_id = ? AND lower(name) = lower(?) AND deleted_at IS NULL`
	if t.Free != "" {
		where += ` AND NOT (` + t.Free + `)`
	}
	return where
}

// renameRow renames a row of this device.
func (a *applier) renameRow(t table, k rowKey, free string) error {
	r, err := t.readRow(a.tx, k.id)
	if err != nil {
		return err
	}
	o, err := outboxOf(a.tx, k)
	if err != nil {
		return err
	}
	if o != nil {
		if err := t.retry(a.tx, k, *o, a.s.o.Private); err != nil {
			return err
		}
	}
	p, err := pendingOf(a.tx, k)
	if err != nil {
		return err
	}
	name, _ := r.Values["name"].(string)
	if _, err := a.tx.Exec(`UPDATE `+t.Table+` SET name = ? WHERE id = ?`, free, k.id); err != nil {
		return err
	}
	base, err := t.baseOf(a.tx, k.id)
	if err != nil {
		return err
	}
	if base == nil && r.known {
		base = &r.Version
	}
	if base == nil {
		return a.renamed(t, k, Version{}, name, free, p)
	}
	return a.renamed(t, k, *base, name, free, p)
}

// renamed logs the new name as a change since base. base has no values if the hub does not have the
// row.
func (a *applier) renamed(t table, k rowKey, base Version, name, free string, p *pending) error {
	if p == nil {
		p = &pending{stamps: map[int]int64{}}
	}
	c, _ := t.column("name")
	p.stamps[c.No] = max(p.stamps[c.No], base.Meta.Stamps[c.No].HLC+1, a.tx.Now.UnixMilli()<<16)
	op := "I"
	if base.Values != nil {
		op = "U"
		text, err := t.encodeBase(a.tx, k.id, base, a.s.o.Private)
		if err != nil {
			return err
		}
		if err := setBase(a.tx, k, text); err != nil {
			return err
		}
	}
	a.conflicts = append(a.conflicts, found{
		rowKey: k, Conflict: Conflict{Field: "name", Kind: "version_mismatch", Strategy: "automatic", Base: name, Mine: free, Theirs: name},
		mine: newDot(a.l.site, a.l.ctr+1), theirs: base.Meta.Dot, mineAt: a.tx.Now.UnixMicro(),
	})
	return relog(a.tx, k, op, p.stamps)
}
