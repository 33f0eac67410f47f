package memory

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Stats counts what there is, without the trash. Items are counted from memory once search has
// read what there is, and by the database before that.
func (s *Service) Stats(ctx context.Context, _ struct{}) (Stats, error) {
	var out Stats
	user := identity.UserID(ctx)
	t := newTally()
	known := s.search.catalog.tally(user, t)
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if !known {
			if err := t.read(tx, user); err != nil {
				return err
			}
		}
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
		out.IndexBytes, err = s.store.indexBytes(tx)
		return err
	})
	t.fill(&out)
	if x := s.index(); x != nil {
		out.VectorBytes = x.Stats().MemoryBytes
	}
	return out, err
}

// wordsSize remembers the size of the index of words: to add it up takes longer than all the
// rest, and it changes little.
type wordsSize struct {
	mu    sync.Mutex
	at    time.Time
	bytes int64
}

const (
	wordsSizeAge = time.Minute
	statsTags    = 100
)

// indexBytes is the size of the index of words, at most a minute old.
func (s *storeState) indexBytes(tx *storage.Tx) (int64, error) {
	w := &s.words
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.at.IsZero() || now.Sub(w.at) > wordsSizeAge {
		if err := tx.QueryRow(`SELECT coalesce(sum(length(block)), 0) FROM search_fts_data`).Scan(&w.bytes); err != nil {
			return 0, err
		}
		w.at = now
	}
	return w.bytes, nil
}

// tally adds up groups of items.
type tally struct {
	kinds                        map[string]int64
	types, layers, sources, when map[string]int
	tags                         map[string]int
}

func newTally() *tally {
	return &tally{kinds: map[string]int64{}, types: map[string]int{}, layers: map[string]int{}, sources: map[string]int{}, when: map[string]int{}, tags: map[string]int{}}
}

// tally counts the items of user; false: the catalog has not been read yet.
func (c *catalog) tally(user uuid.UUID, t *tally) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.state != catalogReady {
		return false
	}
	o := c.people[user]
	if o == nil {
		return true
	}
	type group struct {
		kind, typ, source, layer uint8
		day                      int64
	}
	groups, tags := map[group]int{}, map[uint32]int{}
	for _, p := range c.pages {
		if p == nil {
			continue
		}
		for i := range p {
			r := &p[i]
			if !r.live || r.owner != o {
				continue
			}
			g := group{r.kind, r.typ, r.source, r.layer, noTime}
			if r.occurred != noTime {
				if g.day = r.occurred / dayMicros; r.occurred%dayMicros < 0 {
					g.day--
				}
			}
			groups[g]++
			tags[r.tags]++
		}
	}
	for g, n := range groups {
		day := &g.day
		if g.day == noTime {
			day = nil
		}
		t.add(nameAt(kindNames, g.kind), nameAt(typeNames, g.typ), int(g.layer), nameAt(sourceNames, g.source), day, n)
	}
	for id, n := range tags {
		if set := c.tagSets.text[id]; set != "" {
			for _, tag := range strings.Split(set, tagSeparator) {
				t.tags[tag] += n
			}
		}
	}
	return true
}

const dayMicros = 86400 * 1_000_000

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
	return t.readTags(tx, user)
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
	out.ByType, out.BySource = facetCounts(t.types, byCount), facetCounts(t.sources, byCount)
	out.ByLayer, out.ByMonth = facetCounts(t.layers, byValue), facetCounts(t.when, byValue)
	out.Tags = facetCounts(t.tags, byCount)
	out.Tags = out.Tags[:min(len(out.Tags), statsTags)]
}

// readTags counts how many items have each tag.
func (t *tally) readTags(tx *storage.Tx, user uuid.UUID) error {
	rows, err := tx.Query(`SELECT tag, sum(n) FROM (
			SELECT t.tag AS tag, count(*) AS n FROM memory_tags t JOIN memories m ON m.id = t.memory_id WHERE t.user_id = ?1 AND m.deleted_at IS NULL GROUP BY t.tag
			UNION ALL SELECT j.value, (SELECT count(*) FROM conversation_turns t WHERE t.conversation_id = c.id AND t.deleted_at IS NULL)
				FROM conversations c, json_each(c.tags) j WHERE c.user_id = ?1 AND c.deleted_at IS NULL
			UNION ALL SELECT j.value, (SELECT count(*) FROM chunks k WHERE k.document_id = d.id AND k.deleted_at IS NULL)
				FROM documents d, json_each(d.tags) j WHERE d.user_id = ?1 AND d.deleted_at IS NULL)
		GROUP BY tag HAVING sum(n) > 0`, user)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var tag string
		var n int
		if err := rows.Scan(&tag, &n); err != nil {
			return err
		}
		t.tags[tag] += n
	}
	return rows.Err()
}
