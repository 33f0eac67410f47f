package search

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const countedTags = 100

// Count counts the items of user. The first call may wait until the catalog is loaded.
func (x *Index) Count(ctx context.Context, user uuid.UUID) (Counts, error) {
	if err := x.Load(ctx); err != nil {
		return Counts{}, err
	}
	return x.catalog.tally(user).counts(), nil
}

// FewMemories is the maximum number of ids that Memories returns.
const FewMemories = 2000

// Memories counts the memories of user that pass f. Unless f is nil, it also returns the first
// FewMemories of their ids, in hexadecimal. ok is false if the catalog is not loaded.
func (x *Index) Memories(user uuid.UUID, f *Filters) (n int64, first []string, ok bool) {
	c := &x.catalog
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
				if n++; f != nil && n <= FewMemories {
					first = append(first, hex.EncodeToString(r.id[:]))
				}
			}
		}
	}
	return n, first, true
}

// tally accumulates counts of groups of items.
type tally struct {
	kinds                              map[string]int64
	types, layers, sources, when, tags map[string]int
}

const dayMicros = 86400 * 1_000_000

// tally counts the items of user by group.
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
	run := 0 // of items in the same group: adjacent items are often of the same day
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
		t.add(nameAt(kindNames, g.kind), nameAt(Types, g.typ), int(g.layer), nameAt(Sources, g.source), day, n)
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

// add counts n items of one group. day is nil for items without a time.
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

func (t *tally) counts() (out Counts) {
	out.Memories, out.Turns, out.Chunks = t.kinds[KindMemory], t.kinds[KindTurn], t.kinds[KindChunk]
	out.Total = out.Memories + out.Turns + out.Chunks
	out.ByType, out.BySource = countsOf(t.types, byCount), countsOf(t.sources, byCount)
	out.ByLayer, out.ByMonth = countsOf(t.layers, byValue), countsOf(t.when, byValue)
	out.Tags = countsOf(t.tags, byCount)
	out.Tags = out.Tags[:min(len(out.Tags), countedTags)]
	return out
}
