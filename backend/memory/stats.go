package memory

import (
	"cmp"
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Stats counts what there is, without the trash. Items are counted in memory, where search keeps
// what it needs to know of each; the first call after the start may wait until that is read.
func (s *Service) Stats(ctx context.Context, _ struct{}) (Stats, error) {
	var out Stats
	user := identity.UserID(ctx)
	if err := s.catalogLoaded(ctx); err != nil {
		return out, err
	}
	s.search.catalog.tally(user).fill(&out)
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
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
	kinds                              map[string]int64
	types, layers, sources, when, tags map[string]int
}

const dayMicros = 86400 * 1_000_000

// tally counts the items of user.
func (c *catalog) tally(user uuid.UUID) *tally {
	t := &tally{kinds: map[string]int64{}, types: map[string]int{}, layers: map[string]int{}, sources: map[string]int{}, when: map[string]int{}, tags: map[string]int{}}
	c.mu.RLock()
	defer c.mu.RUnlock()
	o := c.people[user]
	if o == nil {
		return t
	}
	type group struct {
		kind, typ, source, layer uint8
		day                      int64
	}
	groups, tags := map[group]int{}, make([]int, len(c.tagSets.text))
	var last group
	run := 0 // of items of the same group: neighbours are often of one day
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
			if g != last {
				groups[last] += run
				last, run = g, 0
			}
			run++
			tags[r.tags]++
		}
	}
	groups[last] += run
	for g, n := range groups {
		day := &g.day
		if g.day == noTime {
			day = nil
		}
		t.add(nameAt(kindNames, g.kind), nameAt(typeNames, g.typ), int(g.layer), nameAt(sourceNames, g.source), day, n)
	}
	for id, n := range tags {
		if set := c.tagSets.text[id]; set != "" && n > 0 {
			for _, tag := range strings.Split(set, tagSeparator) {
				t.tags[tag] += n
			}
		}
	}
	return t
}

// fewMemories is how many memories are named rather than looked for.
const fewMemories = 2000

// memories counts the memories of user that pass f, and gives the first of their ids in
// hexadecimal digits; false: the catalog was not read yet.
func (c *catalog) memories(user uuid.UUID, f *Filters) (n int64, first []string, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.state != catalogReady {
		return 0, nil, false
	}
	o := c.people[user]
	if o == nil || f != nil && (f.ConversationID != nil || f.DocumentID != nil) {
		return 0, []string{}, true
	}
	t := c.test(f, true)
	memory := nameIndex(kindNames, KindMemory)
	first = []string{}
	for _, p := range c.pages {
		if p == nil {
			continue
		}
		for i := range p {
			if r := &p[i]; r.live && r.kind == memory && r.owner == o && t.fits(r) {
				if n++; f != nil && n <= fewMemories {
					first = append(first, hex.EncodeToString(r.id[:]))
				}
			}
		}
	}
	return n, first, true
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
