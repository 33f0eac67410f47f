package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// TestPages reads all memories by cursors and by offsets, in each order, with and without filters:
// each memory is returned exactly once.
func TestPages(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	day := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 57 {
		p := AddParams{Content: fmt.Sprint("memory ", i), SalienceTier: tierSalience[i%4].tier, Tags: []string{fmt.Sprint("t", i%3)}, Type: memoryTypes[i%3]}
		if i%4 > 0 {
			p.OccurredAt = ptr(day.AddDate(0, 0, i%6))
		}
		must(b.Add(b.ctx, p))(t)
	}
	b.exec(t, `UPDATE memories SET retention = salience / 200.0 WHERE salience < 100`)
	must(b.Add(b.them, AddParams{Content: "theirs"}))(t)
	walk := func(t *testing.T) {
		for _, sort := range []string{"", "recent", "occurred", "salience", "retention"} {
			for name, f := range map[string]*search.Filters{"all": nil, "tag": {TagsAny: []string{"T1", "t2"}}, "not": {TagsNone: []string{"t1"}}, "from": {From: &day}} {
				want := must(b.List(b.ctx, ListParams{Sort: sort, Filters: f, Limit: 200}))(t)
				if n := int64(len(want.Items)); n != want.Total || n == 0 || want.NextCursor != "" {
					t.Fatalf("%s %s: %d items of %d", sort, name, n, want.Total)
				}
				var byCursor, byOffset []uuid.UUID
				for p := (ListParams{Sort: sort, Filters: f, Limit: 7}); ; {
					r := must(b.List(b.ctx, p))(t)
					for _, m := range r.Items {
						byCursor = append(byCursor, m.ID)
					}
					if p.Cursor = r.NextCursor; p.Cursor == "" {
						break
					}
				}
				for p := (ListParams{Sort: sort, Filters: f, Limit: 10}); p.Offset < len(want.Items); p.Offset += 10 {
					for _, m := range must(b.List(b.ctx, p))(t).Items {
						byOffset = append(byOffset, m.ID)
					}
				}
				for i, m := range want.Items {
					if i >= len(byCursor) || i >= len(byOffset) || byCursor[i] != m.ID || byOffset[i] != m.ID {
						t.Fatalf("%s %s: pages have %d and %d items, and differ at %d of %d", sort, name, len(byCursor), len(byOffset), i, len(want.Items))
					}
				}
			}
		}
	}
	walk(t) // without the catalog
	if err := b.search.Load(b.ctx); err != nil {
		t.Fatal(err)
	}
	walk(t)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	day := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	must(b.Add(b.ctx, AddParams{Content: "a", Type: "semantic", Layer: ptr(2), Tags: []string{"x", "y"}, Source: "note", OccurredAt: &day, Pinned: true, SalienceTier: "high"}))(t)
	must(b.Add(b.ctx, AddParams{Content: "b", Tags: []string{"x"}, Source: "chatgpt", OccurredAt: ptr(day.AddDate(0, 0, 1)), SalienceTier: "low"}))(t)
	must(b.Add(b.ctx, AddParams{Content: "c"}))(t)
	b.exec(t, `UPDATE memories SET retention = 0.3 WHERE content = 'b'`)
	check := func(t *testing.T) {
		for name, c := range map[string]struct {
			f    search.Filters
			want string
		}{
			"none": {search.Filters{}, "cba"}, "from": {search.Filters{From: &day}, "ba"}, "to": {search.Filters{To: ptr(day.AddDate(0, 0, 1))}, "a"}, "layer": {search.Filters{Layers: []int{2, 3}}, "a"},
			"types": {search.Filters{Types: []string{"episodic"}}, "cb"}, "sources": {search.Filters{Sources: []string{"note", "manual"}}, "ca"}, "all": {search.Filters{TagsAll: []string{"X", "y"}}, "a"},
			"any": {search.Filters{TagsAny: []string{"x", "z"}}, "ba"}, "no": {search.Filters{TagsNone: []string{"y"}}, "cb"}, "kinds": {search.Filters{Kinds: []string{"turn"}}, ""},
			"pinned": {search.Filters{Pinned: ptr(true)}, "a"}, "not pinned": {search.Filters{Pinned: ptr(false)}, "cb"}, "untrusted": {search.Filters{Untrusted: ptr(true)}, "b"},
			"salience": {search.Filters{MinSalience: ptr(50.0)}, "ca"}, "retention": {search.Filters{MinRetention: ptr(0.5)}, "ca"}, "conversation": {search.Filters{ConversationID: ptr(uuid.New())}, ""},
		} {
			got := ""
			r := must(b.List(b.ctx, ListParams{Filters: &c.f}))(t)
			for _, m := range r.Items {
				got += m.Content
			}
			if got != c.want || r.Total != int64(len(c.want)) {
				t.Errorf("%s: %q of %d, want %q", name, got, r.Total, c.want)
			}
		}
	}
	check(t)
	if err := b.search.Load(b.ctx); err != nil {
		t.Fatal(err)
	}
	check(t)
	for name, p := range map[string]ListParams{
		"type": {Filters: &search.Filters{Types: []string{"dream"}}}, "layer": {Filters: &search.Filters{Layers: []int{8}}}, "kind": {Filters: &search.Filters{Kinds: []string{"x"}}}, "sort": {Sort: "size"},
		"limit": {Limit: 201}, "offset": {Offset: -1}, "cursor": {Cursor: "x"}, "cursor of another order": {Cursor: storage.Cursor{Sort: "salience", Key: 50, ID: uuid.New()}.String()},
		"cursor with a text": {Cursor: storage.Cursor{Sort: "created_at", Key: "x", ID: uuid.New()}.String()},
	} {
		if _, err := b.List(b.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCursorAndOffsetAreExclusive(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	for i := range 4 {
		b.add(t, fmt.Sprint("memory ", i))
	}
	r := must(b.List(b.ctx, ListParams{Limit: 2}))(t)
	_, err := b.List(b.ctx, ListParams{Limit: 2, Cursor: r.NextCursor, Offset: 1})
	wantKind(t, err, fault.Invalid, "not both")
}
