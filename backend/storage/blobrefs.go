package storage

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// BlobColumn is a column whose values refer to blobs, as hexadecimal SHA-256 with or without
// "sha256:" in front, or as 32 bytes.
type BlobColumn struct{ Table, Column string }

func (c BlobColumn) String() string { return c.Table + "." + c.Column }

// contentAddress matches a column whose CHECK requires a content address.
var contentAddress = regexp.MustCompile(`(\w+)\s+GLOB\s+'sha256:`)

// BlobColumns derives the columns that refer to blobs from the schema: those named blob or ending
// in _blob, and those whose CHECK requires "sha256:…". Pruning, checking, exporting and serving
// blobs all use this function, so there is no separate declaration that could be forgotten or
// become outdated.
func BlobColumns(ctx context.Context, q querier) (out []BlobColumn, err error) {
	err = eachRow(ctx, q, `SELECT m.name, c.name, m.sql FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE m.type = 'table' ORDER BY 1, c.cid`, func(scan func(...any) error) error {
		var table, column, def string
		if err := scan(&table, &column, &def); err != nil {
			return err
		}
		named := column == "blob" || strings.HasSuffix(column, "_blob")
		for _, m := range contentAddress.FindAllStringSubmatch(def, -1) {
			named = named || m[1] == column
		}
		if named {
			out = append(out, BlobColumn{table, column})
		}
		return nil
	})
	return out, err
}

// blobSum parses a value of a column that refers to a blob; ok is false if it is not a hash.
func blobSum(v []byte) (sum [32]byte, ok bool) {
	if raw, err := hex.DecodeString(strings.TrimPrefix(string(v), "sha256:")); err == nil && len(raw) == 32 {
		v = raw
	}
	if len(v) != 32 {
		return sum, false
	}
	return [32]byte(v), true
}

// blobReferences returns every blob that a row refers to, each with one of the columns that refer
// to it.
func blobReferences(ctx context.Context, q querier) (map[[32]byte]BlobColumn, error) {
	cols, err := BlobColumns(ctx, q)
	if err != nil {
		return nil, err
	}
	used := map[[32]byte]BlobColumn{}
	for _, c := range cols {
		if err := eachRow(ctx, q, `SELECT DISTINCT `+quote(c.Column)+` FROM `+quote(c.Table)+` WHERE `+quote(c.Column)+` IS NOT NULL`, func(scan func(...any) error) error {
			var v []byte
			if err := scan(&v); err != nil {
				return err
			}
			if sum, ok := blobSum(v); ok {
				used[sum] = c
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// orphansSince returns when pruning first saw each file that no row refers to, as Unix time keyed
// by hexadecimal SHA-256.
func orphansSince(tx *Tx) (since map[string]int64, err error) {
	var text string
	err = tx.QueryRow(`SELECT coalesce((SELECT value FROM meta WHERE key = ?), '{}')`, metaOrphans).Scan(&text)
	since = map[string]int64{}
	_ = json.Unmarshal([]byte(text), &since) // unreadable: count from now
	return since, err
}

// OwnsBlob reports whether a row of user refers to the blob named sum.
func (db *DB) OwnsBlob(ctx context.Context, user uuid.UUID, sum [32]byte) (owns bool, err error) {
	text := hex.EncodeToString(sum[:])
	err = db.Read(ctx, func(tx *Tx) error {
		cols, err := BlobColumns(ctx, tx)
		if err != nil {
			return err
		}
		owned, err := ownedTables(ctx, tx)
		if err != nil {
			return err
		}
		for _, t := range owned {
			for _, c := range cols {
				if c.Table != t.name {
					continue
				}
				args := append([]any{text, "sha256:" + text, sum[:]}, t.args(user)...)
				if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+quote(c.Table)+` WHERE `+quote(c.Column)+` IN (?, ?, ?) AND `+t.mine+`)`, args...).Scan(&owns); err != nil || owns {
					return err
				}
			}
		}
		return nil
	})
	return owns, err
}
