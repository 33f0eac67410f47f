package search

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"helix/backend/storage"
)

// The weights of the columns of search_fts.
const (
	titleWeight = 2
	tagsWeight  = 1.5
)

// posting is the frequency of a term in an item.
type posting struct {
	item uint32
	text uint8 // in the text
	head uint8 // in title and tags, weighted, in halves
}

// postings caches the posting lists of recently used terms. search_fts has all of them, but its
// bm25() costs a lookup per row, so ranking is done here.
type postings struct {
	mu    sync.Mutex
	lists map[string]*postingList
	size  int // number of postings in lists
	clock uint64
	full  bool // lists has every term, because search_fts is empty
}

// postingList is append-only. Its items may have been dropped.
type postingList struct {
	ps    []posting
	ready bool
	stale bool      // the list is being read from a database that has been replaced
	late  []posting // added during the read
	used  uint64
}

// maxPostings limits the number of cached postings, at 8 bytes each.
const maxPostings = 3 << 20

// termWeights returns the postings of one item, by term.
func termWeights(title, tags string, content []word) map[string]posting {
	m := make(map[string]posting, len(content)+4)
	for _, w := range content {
		st := stem(w.token)
		p := m[st]
		p.text = saturate(int(p.text) + 1)
		m[st] = p
	}
	for _, col := range []struct {
		text   string
		weight float64
	}{{title, titleWeight}, {tags, tagsWeight}} {
		for _, w := range tokenize(col.text) {
			st := stem(w.token)
			p := m[st]
			p.head = saturate(int(p.head) + int(2*col.weight))
			m[st] = p
		}
	}
	return m
}

func saturate(n int) uint8 { return uint8(min(n, 255)) }

// add adds a committed item to the cached lists.
func (c *postings) add(item uint32, terms map[string]posting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lists) == 0 && !c.full {
		return
	}
	for st, p := range terms {
		l := c.lists[st]
		if l == nil {
			if !c.full {
				continue
			}
			l = &postingList{ready: true}
			c.lists[strings.Clone(st)] = l
		}
		p.item = item
		if l.ready {
			l.ps = append(l.ps, p)
			c.size++
		} else {
			l.late = append(l.late, p)
		}
	}
}

// get returns the list of a term if it is cached.
func (c *postings) get(st string) ([]posting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists[st]
	if l == nil || !l.ready {
		return nil, c.full
	}
	c.clock++
	l.used = c.clock
	return l.ps, true
}

// begin adds an incomplete list for a term that is about to be read, so that items committed from
// now on are not missed. It returns false if another query is reading the same list; the caller
// must then not call end.
func (c *postings) begin(st string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lists == nil {
		c.lists = map[string]*postingList{}
	}
	if c.lists[st] != nil {
		return false
	}
	c.lists[st] = &postingList{}
	return true
}

// end completes a list with the postings read, or removes it if keep is false.
func (c *postings) end(st string, ps []posting, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists[st]
	if !keep || l.stale || len(ps) > maxPostings/2 {
		delete(c.lists, st)
		return
	}
	if len(l.late) > 0 {
		seen := make(map[uint32]bool, len(ps))
		for _, p := range ps {
			seen[p.item] = true
		}
		for _, p := range l.late {
			if !seen[p.item] {
				ps = append(ps, p)
			}
		}
	}
	c.clock++
	l.ps, l.late, l.ready, l.used = ps, nil, true, c.clock
	c.size += len(ps) + listCost
	for c.size > maxPostings {
		c.evict()
	}
}

// listCost is the fixed cost of a list, in postings.
const listCost = 16

// evict removes the least recently used list.
func (c *postings) evict() {
	oldest := ""
	for st, l := range c.lists {
		if l.ready && (oldest == "" || l.used < c.lists[oldest].used) {
			oldest = st
		}
	}
	if oldest == "" {
		c.size = 0
		return
	}
	c.size -= len(c.lists[oldest].ps) + listCost
	delete(c.lists, oldest)
}

// clear removes all lists.
func (c *postings) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for st, l := range c.lists {
		if l.ready {
			delete(c.lists, st)
		} else {
			l.stale = true
		}
	}
	c.size, c.full = 0, false
}

// startFull starts to hold the lists of all terms.
func (c *postings) startFull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.size, c.full = map[string]*postingList{}, 0, true
}

// addLoaded adds an item read by the load, unless a newer notification about it has arrived.
func (c *postings) addLoaded(item uint32, terms map[string]posting) {
	c.mu.Lock()
	known := false
	for st := range terms {
		if l := c.lists[st]; l != nil {
			for i := len(l.ps) - 1; i >= 0 && l.ps[i].item >= item && !known; i-- {
				known = l.ps[i].item == item
			}
		}
		break
	}
	c.mu.Unlock()
	if !known {
		c.add(item, terms)
	}
}

// both returns the items that have all terms of a phrase.
func (c *postings) both(phrase string) []posting {
	var out []posting
	for i, token := range strings.Fields(phrase) {
		ps, _ := c.get(stem(token))
		have := make(map[uint32]bool, len(ps))
		for _, p := range ps {
			if p.text > 0 {
				have[p.item] = true
			}
		}
		if i == 0 {
			for _, p := range ps {
				if p.text > 0 {
					out = append(out, posting{item: p.item, text: 1})
				}
			}
			continue
		}
		out = slices.DeleteFunc(out, func(p posting) bool { return !have[p.item] })
	}
	return out
}

// readPostings reads the posting list of a term from the vocabulary of search_fts. A token for
// which our stemmer and that of FTS5 differ is looked up as a phrase of one word.
func readPostings(tx *storage.Tx, t term) ([]posting, error) {
	var list []byte
	err := tx.QueryRow(`SELECT group_concat(doc || substr(col, 1, 2), '') FROM search_terms WHERE term = ?`, t.stem).Scan(&list)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return readMatches(tx, t.word)
	}
	ps := make([]posting, 0, len(list)/6)
	for i := 0; i < len(list); {
		item := uint32(0)
		for ; i < len(list) && list[i] >= '0' && list[i] <= '9'; i++ {
			item = item*10 + uint32(list[i]-'0')
		}
		if n := len(ps); n == 0 || ps[n-1].item != item {
			ps = append(ps, posting{item: item})
		}
		p := &ps[len(ps)-1]
		switch string(list[i : i+2]) {
		case "ti":
			p.head = saturate(int(p.head) + 2*titleWeight)
		case "ta":
			p.head = saturate(int(p.head) + int(2*tagsWeight))
		default:
			p.text = saturate(int(p.text) + 1)
		}
		i += 2
	}
	return ps, nil
}

// readMatches returns the items that contain a phrase, without duplicates.
func readMatches(tx *storage.Tx, phrase string) ([]posting, error) {
	var list []byte
	if err := tx.QueryRow(`SELECT group_concat(rowid, ',') FROM search_fts WHERE search_fts MATCH ?`, quoted(phrase)).Scan(&list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, nil
	}
	parts := strings.Split(string(list), ",")
	ps := make([]posting, 0, len(parts))
	for _, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return nil, err
		}
		ps = append(ps, posting{item: uint32(n), text: 1})
	}
	return ps, nil
}
