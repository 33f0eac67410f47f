package search

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/vector"
)

// catalog holds in memory what filters, priors and facets need of each item, so that a query reads
// only the displayed texts from the database. Items are identified by their number in search_items,
// which is never reused.
type catalog struct {
	mu      sync.RWMutex
	state   catalogState
	ready   chan struct{} // closed when the current load has ended
	pending []itemChange  // changes committed during the load
	catalogRows
}

// catalogRows is the data of a catalog.
type catalogRows struct {
	pages         []*[rowsPerPage]row
	columns       []*columnPage // one per page of rows
	people        map[uuid.UUID]*owner
	families      map[uuid.UUID]*family
	numbers       map[itemKey]uint32
	names         interner
	speakerTokens [][]string // tokens of names, by speaker number
	tagSets       interner
	dead          vector.Bitmap // numbers whose items were dropped
}

type catalogState uint8

const (
	catalogEmpty catalogState = iota
	catalogLoading
	catalogReady
)

const rowsPerPage = 512

type itemKey struct {
	kind uint8
	id   uuid.UUID
}

// row is one item.
type row struct {
	id        uuid.UUID
	owner     *owner
	family    *family // its conversation or document; nil: none
	seq       int64
	occurred  int64 // microseconds; noTime: unknown
	created   int64
	version   int64 // time of the transaction that wrote it; 0: read by the load
	pos       int32 // index in the family
	tokens    int32 // number of words in the text
	tags      uint32
	speaker   uint32
	salience  float32
	retention float32 // below 0: unknown
	kind      uint8
	typ       uint8
	source    uint8
	layer     uint8
	untrusted bool
	pinned    bool
	live      bool
}

const noTime = math.MinInt64

// owner holds the items of one user.
type owner struct {
	id     uuid.UUID
	live   vector.Bitmap
	count  int
	tokens int64
}

// family holds the items of one conversation or document, ordered by seq.
type family struct {
	id      uuid.UUID
	members []uint32
}

// itemChange is one item that was put, dropped or changed in its attributes.
type itemChange struct {
	item    uint32
	drop    bool
	only    bool // only the attributes changed
	retain  bool // only the retention changed
	version int64
	row     row // without owner, family, tags and speaker
	user    uuid.UUID
	parent  uuid.UUID
	tags    []string
	speaker string
}

// The names that the catalog stores as numbers.
var (
	kindNames = []string{KindMemory, KindTurn, KindChunk}
	Types     = []string{"episodic", "semantic", "procedural"}
	Sources   = []string{"manual", "note", "agent", "chatgpt", "claude", "markdown", "text", "jsonl", "locomo", "voice", "document", "tool"}
)

// nameIndex returns the index of a name in a short list, or len(of) if it is not in it.
func nameIndex(of []string, name string) uint8 {
	if i := slices.Index(of, name); i >= 0 {
		return uint8(i)
	}
	return uint8(len(of))
}

func nameAt(of []string, i uint8) string {
	if int(i) < len(of) {
		return of[i]
	}
	return ""
}

// interner assigns a number to each distinct string.
type interner struct {
	ids  map[string]uint32
	text []string
}

func (n *interner) id(s string) uint32 {
	if i, ok := n.ids[s]; ok {
		return i
	}
	if n.ids == nil {
		n.ids = map[string]uint32{}
	}
	i := uint32(len(n.text))
	n.text = append(n.text, strings.Clone(s))
	n.ids[n.text[i]] = i
	return i
}

const tagSeparator = "\x1f"

func (c *catalog) tagsOf(r *row) []string {
	s := c.tagSets.text[r.tags]
	if s == "" {
		return nil
	}
	return strings.Split(s, tagSeparator)
}

// change returns the entry as a change of the catalog.
func (e *Entry) change(item uint32, tokens int, at time.Time) itemChange {
	r := row{
		id: e.ID, seq: e.Seq, occurred: noTime, created: e.CreatedAt.UnixMicro(), tokens: int32(tokens), salience: float32(e.Salience),
		retention: -1, kind: nameIndex(kindNames, e.Kind), typ: nameIndex(Types, e.Type), source: nameIndex(Sources, e.Source),
		layer: uint8(e.Layer), untrusted: e.Untrusted, pinned: e.Pinned,
	}
	if e.OccurredAt != nil {
		r.occurred = e.OccurredAt.UnixMicro()
	}
	if e.Retention != nil {
		r.retention = float32(*e.Retention)
	}
	return itemChange{item: item, only: e.AlreadyKnown, version: at.UnixMicro(), row: r, user: e.User, parent: e.Parent, tags: e.Tags, speaker: e.Speaker}
}

// apply makes committed changes visible to queries.
func (c *catalog) apply(changes ...itemChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case catalogEmpty: // the load will read them
	case catalogLoading:
		c.pending = append(c.pending, changes...)
	default:
		for i := range changes {
			c.applyLocked(&changes[i])
		}
	}
}

func (c *catalog) applyLocked(ch *itemChange) {
	if ch.retain {
		if n, ok := c.numbers[itemKey{ch.row.kind, ch.row.id}]; ok {
			c.row(n).retention = ch.row.retention
		}
		return
	}
	if ch.only {
		if n, ok := c.numbers[itemKey{ch.row.kind, ch.row.id}]; ok {
			old := c.row(n)
			ch.item, ch.row.tokens = n, old.tokens
			if old.family != nil {
				ch.row.seq = old.seq
			}
		} else {
			return
		}
	}
	if ch.drop {
		c.dead.Set(ch.item)
		c.remove(ch.item)
		return
	}
	if c.dead.Has(ch.item) {
		return
	}
	old := c.row(ch.item)
	if old != nil && old.live && old.version > ch.version {
		return // commit notifications may arrive out of order
	}
	tags := slices.Clone(ch.tags)
	slices.Sort(tags)
	r := ch.row
	r.version, r.tags, r.speaker = ch.version, c.tagSets.id(strings.Join(tags, tagSeparator)), c.speakerID(ch.speaker)
	if old != nil && old.live && (ch.only || old.family == nil && ch.parent == uuid.Nil) {
		r.owner, r.family, r.pos, r.live = old.owner, old.family, old.pos, true
		r.owner.tokens += int64(r.tokens) - int64(old.tokens)
		if ch.only {
			r.speaker = old.speaker
			if ch.speaker != "" {
				r.speaker = c.speakerID(ch.speaker)
			}
		}
		*old = r
		c.note(ch.item)
		return
	}
	if old != nil && old.live {
		c.remove(ch.item)
	}
	c.insert(ch.item, r, ch.user, ch.parent)
}

// insert adds a row whose number is not in use.
func (c *catalog) insert(item uint32, r row, user, parent uuid.UUID) {
	p := int(item / rowsPerPage)
	for len(c.pages) <= p {
		c.pages = append(c.pages, nil)
	}
	if c.pages[p] == nil {
		c.pages[p] = new([rowsPerPage]row)
	}
	o := c.people[user]
	if o == nil {
		o = &owner{id: user}
		c.people[user] = o
	}
	r.owner, r.live = o, true
	o.live.Set(item)
	o.count++
	o.tokens += int64(r.tokens)
	c.numbers[itemKey{r.kind, r.id}] = item
	if parent != uuid.Nil {
		f := c.families[parent]
		if f == nil {
			f = &family{id: parent}
			c.families[parent] = f
		}
		r.family = f
		at := len(f.members)
		for at > 0 && c.row(f.members[at-1]).seq > r.seq {
			at--
		}
		r.pos = int32(at)
		c.pages[p][item%rowsPerPage] = r
		f.members = slices.Insert(f.members, at, item)
		c.renumber(f, at+1)
	} else {
		c.pages[p][item%rowsPerPage] = r
	}
	c.note(item)
}

func (c *catalog) remove(item uint32) {
	r := c.row(item)
	if r == nil || !r.live {
		return
	}
	r.owner.live.Clear(item)
	r.owner.count--
	r.owner.tokens -= int64(r.tokens)
	if k := (itemKey{r.kind, r.id}); c.numbers[k] == item {
		delete(c.numbers, k)
	}
	if f := r.family; f != nil {
		f.members = slices.Delete(f.members, int(r.pos), int(r.pos)+1)
		c.renumber(f, int(r.pos))
		c.noteAround(f, int(r.pos))
		if len(f.members) == 0 {
			delete(c.families, f.id)
		}
	}
	*r = row{}
}

func (c *catalog) renumber(f *family, from int) {
	for i := from; i < len(f.members); i++ {
		c.row(f.members[i]).pos = int32(i)
	}
}

// row returns the row with a number. It is nil, or the zero row, if the number is not in use.
func (c *catalog) row(item uint32) *row {
	if p := int(item / rowsPerPage); p < len(c.pages) && c.pages[p] != nil {
		return &c.pages[p][item%rowsPerPage]
	}
	return nil
}

// neighbor returns the item d positions after r in its family; d may be negative.
func (r *row) neighbor(d int) (uint32, bool) {
	if r.family == nil {
		return 0, false
	}
	i := int(r.pos) + d
	if i < 0 || i >= len(r.family.members) {
		return 0, false
	}
	return r.family.members[i], true
}

// numberOf returns the number of an item of any kind by its id.
func (c *catalog) numberOf(id uuid.UUID) (uint32, bool) {
	if id == uuid.Nil {
		return 0, false
	}
	for kind := range kindNames {
		if n, ok := c.numbers[itemKey{uint8(kind), id}]; ok {
			return n, true
		}
	}
	return 0, false
}
