package memory

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Stats counts what there is, without the trash.
func (s *Service) Stats(ctx context.Context, _ struct{}) (Stats, error) {
	var out Stats
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		t := newTally()
		if err := t.read(tx, user); err != nil {
			return err
		}
		t.fill(&out)
		for _, c := range []struct {
			dst   *int64
			query string
		}{
			{&out.Conversations, `SELECT count(*) FROM conversations WHERE user_id = ? AND deleted_at IS NULL`},
			{&out.Documents, `SELECT count(*) FROM documents WHERE user_id = ? AND deleted_at IS NULL`},
			{&out.Trash, `SELECT count(*) FROM memories WHERE user_id = ? AND deleted_at IS NOT NULL AND content <> ''`},
		} {
			if err := tx.QueryRow(c.query, user).Scan(c.dst); err != nil {
				return err
			}
		}
		var err error
		if out.Tags, err = topTags(tx, user); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT coalesce(sum(length(block)), 0) FROM search_fts_data`).Scan(&out.IndexBytes)
	})
	return out, err
}

// tally adds up groups of items.
type tally struct {
	kinds                        map[string]int64
	types, layers, sources, when map[string]int
}

func newTally() *tally {
	return &tally{kinds: map[string]int64{}, types: map[string]int{}, layers: map[string]int{}, sources: map[string]int{}, when: map[string]int{}}
}

// day is a group of items by the UTC day of occurred_at, from microseconds; NULL stays NULL.
const day = `CAST(floor(%s / 86400000000.0) AS INTEGER)`

// read counts the items of user by groups: the database reads an index, and the rest is done
// for groups.
func (t *tally) read(tx *storage.Tx, user uuid.UUID) error {
	for kind, from := range map[string]string{
		KindMemory: `SELECT type, coalesce(layer, 0), source, ` + strings.Replace(day, "%s", "occurred_at", 1) + ` AS day, count(*)
			FROM memories WHERE user_id = ? AND deleted_at IS NULL GROUP BY type, layer, source, day`,
		KindTurn: `SELECT c.type, coalesce(c.layer, 0), c.source, ` + strings.Replace(day, "%s", "t.occurred_at", 1) + ` AS day, count(*)
			FROM conversations c JOIN conversation_turns t ON t.conversation_id = c.id AND t.deleted_at IS NULL
			WHERE c.user_id = ? AND c.deleted_at IS NULL GROUP BY c.id, day`,
		KindChunk: `SELECT d.type, coalesce(d.layer, 0), d.source, ` + strings.Replace(day, "%s", "d.occurred_at", 1) + ` AS day,
			(SELECT count(*) FROM chunks k WHERE k.document_id = d.id AND k.deleted_at IS NULL) FROM documents d WHERE d.user_id = ? AND d.deleted_at IS NULL`,
	} {
		rows, err := tx.Query(from, user)
		if err != nil {
			return err
		}
		for rows.Next() {
			var typ, source string
			var layer, n int
			var at *int64
			if err := rows.Scan(&typ, &layer, &source, &at, &n); err != nil {
				rows.Close()
				return err
			}
			t.add(kind, typ, layer, source, at, n)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

// add counts n items of one group; day is nil for those without a time.
func (t *tally) add(kind, typ string, layer int, source string, day *int64, n int) {
	if n == 0 {
		return
	}
	t.kinds[kind] += int64(n)
	t.types[typ] += n
	l := ""
	if layer > 0 {
		l = strconv.Itoa(layer)
	}
	t.layers[l] += n
	t.sources[source] += n
	month := ""
	if day != nil {
		month = time.Unix(*day*86400, 0).UTC().Format("2006-01")
	}
	t.when[month] += n
}

func (t *tally) fill(out *Stats) {
	out.Memories, out.Turns, out.Chunks = t.kinds[KindMemory], t.kinds[KindTurn], t.kinds[KindChunk]
	out.Total = out.Memories + out.Turns + out.Chunks
	byCount := func(a, b Count) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value)) }
	byValue := func(a, b Count) int { return cmp.Compare(a.Value, b.Value) }
	out.ByType, out.BySource = sortedCounts(t.types, byCount), sortedCounts(t.sources, byCount)
	out.ByLayer, out.ByMonth = sortedCounts(t.layers, byValue), sortedCounts(t.when, byValue)
}

func sortedCounts(m map[string]int, order func(a, b Count) int) []Count {
	out := make([]Count, 0, len(m))
	for v, n := range m {
		out = append(out, Count{v, n})
	}
	slices.SortFunc(out, order)
	return out
}

// topTags are the tags of memories, conversations and documents, the most used first.
func topTags(tx *storage.Tx, user uuid.UUID) ([]Count, error) {
	rows, err := tx.Query(`SELECT tag, count(*) FROM (
			SELECT t.tag AS tag FROM memory_tags t JOIN memories m ON m.id = t.memory_id WHERE t.user_id = ?1 AND m.deleted_at IS NULL
			UNION ALL SELECT j.value FROM conversations c, json_each(c.tags) j WHERE c.user_id = ?1 AND c.deleted_at IS NULL
			UNION ALL SELECT j.value FROM documents d, json_each(d.tags) j WHERE d.user_id = ?1 AND d.deleted_at IS NULL)
		GROUP BY tag ORDER BY count(*) DESC, tag LIMIT 100`, user)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []Count{}
	for rows.Next() {
		var c Count
		if err := rows.Scan(&c.Value, &c.Count); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}
