package cloudsync

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// This file stores the hub's acknowledgements with a few statements per hundred rows instead of
// several per row.

const bulkStatement = 100 // rows per statement

// marks returns n comma-separated SQL placeholders.
func marks(n int) string { return "?" + strings.Repeat(", ?", n-1) }

// acknowledgeMany is the bulk form of acknowledged, for rows that did not change since they were
// packaged. It returns how many it acknowledged, and the indexes within batch of the rows that it
// left.
func (s *Service) acknowledgeMany(tx *storage.Tx, batch []sent, answers []answer) (done int, rest []int, err error) {
	if len(batch) <= callRows {
		for i := range batch {
			rest = append(rest, i)
		}
		return 0, rest, nil
	}
	edited := map[uuid.UUID]bool{}
	ids, err := storage.Collect(tx.Select(`SELECT DISTINCT row_id FROM change_log WHERE row_id IN (SELECT row_id FROM sync_outbox)`), storage.RowTo[uuid.UUID])
	if err != nil {
		return 0, nil, err
	}
	for _, id := range ids {
		edited[id] = true
	}
	byTable := map[string][]sent{}
	for i, x := range batch {
		if r := answers[i].result; edited[x.id] || r != "applied" && r != "duplicate" {
			rest = append(rest, i)
			continue
		}
		byTable[x.table] = append(byTable[x.table], x)
		done++
	}
	for name, list := range byTable {
		for part := range slices.Chunk(list, bulkStatement) {
			if err := acknowledgePart(tx, name, part); err != nil {
				return 0, nil, err
			}
		}
	}
	return done, rest, nil
}

func acknowledgePart(tx *storage.Tx, name string, part []sent) error {
	var metas, ops []any
	based := []any{name}
	for _, x := range part {
		metas, ops, based = append(metas, x.id, x.rawMeta), append(ops, x.op), append(based, x.id)
	}
	if _, err := tx.Exec(`UPDATE `+name+` SET sync_meta = v.column2 FROM (VALUES (?, ?)`+strings.Repeat(", (?, ?)", len(part)-1)+`) v WHERE id = v.column1`, metas...); err != nil {
		return err
	}
	// Also of new rows, which can have a base without a version (keepCounts).
	if _, err := tx.Exec(`DELETE FROM sync_base WHERE tbl = ? AND row_id IN (`+marks(len(part))+`)`, based...); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM sync_outbox WHERE op_id IN (`+marks(len(ops))+`)`, ops...)
	return err
}
