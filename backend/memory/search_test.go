package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// searchIDs returns the ids of the results of a search, in order.
func (b *bundle) searchIDs(t testing.TB, ctx context.Context, p search.Params) []uuid.UUID {
	t.Helper()
	r := must(b.Search(ctx, p))(t)
	ids := make([]uuid.UUID, len(r.Results))
	for i, h := range r.Results {
		ids[i] = h.ID
	}
	return ids
}

// dialogue stores a conversation of two people like an import.
func (b *bundle) dialogue(t testing.TB, at *time.Time, lines ...string) (head uuid.UUID, turns []uuid.UUID) {
	t.Helper()
	head = storage.NewID()
	err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`INSERT INTO conversations (id, user_id, source, external_id, title, created_at, updated_at) VALUES (?, ?, 'locomo', ?, 'Ann and Bob', ?, ?)`,
			head, b.db.LocalUser().ID, head.String(), tx.Now, tx.Now); err != nil {
			return err
		}
		var es []*search.Entry
		for i, line := range lines {
			id, hash := storage.NewID(), hashOf(line)
			who := []string{"Ann", "Bob"}[i%2]
			if _, err := tx.Exec(`INSERT INTO conversation_turns (id, conversation_id, user_id, seq, external_id, speaker, content, content_hash, occurred_at, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, id, head, b.db.LocalUser().ID, i, fmt.Sprintf("D1:%d", i+1), who, line, hash, at, tx.Now, tx.Now); err != nil {
				return err
			}
			turns = append(turns, id)
			es = append(es, &search.Entry{Kind: KindTurn, ID: id, Parent: head, Seq: int64(i), User: b.db.LocalUser().ID, Title: "Ann and Bob", Text: line, Hash: hash,
				Type: "episodic", Source: "locomo", Speaker: who, Untrusted: true, Salience: 50, OccurredAt: at, CreatedAt: tx.Now})
		}
		return b.search.Put(tx, es...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return head, turns
}

func hashOf(s string) (h [32]byte) { copy(h[:], fmt.Sprintf("%-32.32s", s)); return h }

func TestWordsMatchInAnyOrderAndForm(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "We visited the café by the river before the move.")
	b.add(t, "The dentist called about the bill.")
	for _, q := range []string{"river cafe", "CAFÉ river moving", "visiting cafes", `"by the river"`, "what did we visit"} {
		if ids := b.searchIDs(t, b.ctx, search.Params{Query: q}); len(ids) != 1 || ids[0] != m.ID {
			t.Errorf("%q finds %v", q, ids)
		}
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: `"river the by"`}); len(ids) != 0 {
		t.Errorf("a phrase in another order finds %v", ids)
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "submarine"}); len(ids) != 0 {
		t.Errorf("an unknown word finds %v", ids)
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "the before"}); len(ids) == 0 {
		t.Error("a query of stop words alone finds nothing")
	}
}

func TestHitExplainsItsMatch(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	at := time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)
	head, turns := b.dialogue(t, &at, "How was your holiday?", "🏔 Great: we climbed a volcano in Iceland.", "That sounds exhausting!")
	r := must(b.SearchEnhanced(b.ctx, search.EnhancedParams{Params: search.Params{Query: "volcano climbing"}, GroupBy: "conversation", Facets: true}))(t)
	h := r.Results[0]
	if h.ID != turns[1] || h.Kind != KindTurn || h.Speaker != "Bob" || !h.Untrusted || h.Title != "Ann and Bob" || !h.OccurredAt.Equal(at) {
		t.Errorf("hit %+v", h)
	}
	e := h.Evidence[0]
	if e.TurnID != "D1:2" || *e.ConversationID != head || *e.Seq != 1 || !strings.Contains(e.Quote, "volcano") {
		t.Errorf("evidence %+v", e)
	}
	units := utf16Units(h.Snippet)
	var marked []string
	for _, s := range h.Highlights {
		marked = append(marked, string(runesOf(units[s.Start:s.End])))
	}
	if !slices.Equal(marked, []string{"climbed", "volcano"}) {
		t.Errorf("marked %q in %q", marked, h.Snippet)
	}
	if len(h.Context) != 2 || h.Context[0].ID != turns[0] || h.Context[1].Text != "That sounds exhausting!" {
		t.Errorf("context %+v", h.Context)
	}
	if h.Parts == nil || *h.Parts.BM25Rank != 1 || h.Parts.Recency < 1 || h.Parts.Window <= 0 {
		t.Errorf("parts %+v", h.Parts)
	}
	if g := r.Groups; len(g) != 1 || g[0].Key != head.String() || len(g[0].Hits) != len(r.Results) {
		t.Errorf("groups %+v", g)
	}
	if f := r.Facets; f.Source[0] != (search.Count{Value: "locomo", Count: 3}) || f.Month[0] != (search.Count{Value: "2023-05", Count: 3}) {
		t.Errorf("facets %+v", f)
	}
}

func TestHitCarriesItsSalienceTier(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	for _, tier := range []string{"critical", "high", "medium", "low"} {
		must(b.Add(b.ctx, AddParams{Content: "the ferry is " + tier, SalienceTier: tier}))(t)
	}
	b.dialogue(t, nil, "When does the ferry leave?")
	for _, h := range must(b.Search(b.ctx, search.Params{Query: "ferry", Limit: 10}))(t).Results {
		want := ""
		if h.Kind == KindMemory {
			want = strings.TrimPrefix(h.Snippet, "the ferry is ")
		}
		if h.SalienceTier != want {
			t.Errorf("%s %q has tier %q", h.Kind, h.Snippet, h.SalienceTier)
		}
	}
}

// A turn without a word of the query is found through adjacent turns, in hybrid mode only.
func TestNeighboursCount(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	_, turns := b.dialogue(t, nil, "Nothing much.", "Which pottery class did you book?", "The Tuesday one, with Elena.", "Nice.", "Let us cook.", "Yes.", "No.", "Why?")
	ids := b.searchIDs(t, b.ctx, search.Params{Query: "pottery class"})
	if len(ids) < 2 || ids[0] != turns[1] || !slices.Contains(ids, turns[2]) {
		t.Errorf("hybrid finds %v", ids)
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "pottery class", Mode: search.ModeKeyword}); len(ids) != 1 {
		t.Errorf("keyword finds %v", ids)
	}
}

func TestAnUpdateOrDeleteIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "The key is under the mat.", "home")
	find := func(q string) int { t.Helper(); return len(b.searchIDs(t, b.ctx, search.Params{Query: q})) }
	if find("mat") != 1 || find("home") != 1 {
		t.Fatal("not found by text and tag")
	}
	text := "The key is in the shed."
	must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: m.Version, Content: &text}))(t)
	if find("mat") != 0 || find("shed") != 1 {
		t.Error("the old text is found, or the new is not")
	}
	if _, err := b.Delete(b.ctx, IDsParams{IDs: []string{m.ID.String()}}); err != nil {
		t.Fatal(err)
	}
	if find("shed") != 0 {
		t.Error("a deleted memory is found")
	}
	if _, err := b.Restore(b.ctx, IDsParams{IDs: []string{m.ID.String()}}); err != nil {
		t.Fatal(err)
	}
	if find("shed") != 1 {
		t.Error("a restored memory is not found")
	}
}

func TestSearchAgainFromTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	must(b.Search(b.ctx, search.Params{Query: "apple"}))(t) // from here on the index is updated incrementally
	r := rand.New(rand.NewPCG(1, 2))
	b.fill(t, r, 60)
	b.dialogue(t, nil, "apple pear", "plum", "apple", "fig")
	fresh := New(b.db, Options{})
	t.Cleanup(func() { _ = fresh.Close() })
	for _, q := range []string{"apple", "plum fig", "river apple stone"} {
		a := must(b.Search(b.ctx, search.Params{Query: q, Limit: 50}))(t)
		c := must(fresh.Search(b.ctx, search.Params{Query: q, Limit: 50}))(t)
		a.TookMs, c.TookMs = 0, 0
		if x, y := marshal(t, a), marshal(t, c); x != y {
			t.Errorf("%q: kept up to date\n%s\nread anew\n%s", q, x, y)
		}
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var fruit = strings.Fields("apple pear plum fig river stone cloud train piano garden winter letter")

// fill stores n memories of random words with random attributes.
func (b *bundle) fill(t testing.TB, r *rand.Rand, n int) {
	t.Helper()
	for i := range n {
		layer := 1 + r.IntN(7)
		p := AddParams{Type: search.Types[r.IntN(3)], Source: []string{"manual", "agent", "tool"}[r.IntN(3)], Layer: &layer, Pinned: r.IntN(4) == 0,
			SalienceTier: []string{"low", "medium", "high"}[r.IntN(3)]}
		for range 3 + r.IntN(5) {
			p.Content += fruit[r.IntN(len(fruit))] + " "
		}
		p.Content += fmt.Sprint(i)
		for _, tag := range []string{"red", "green", "blue"} {
			if r.IntN(2) == 0 {
				p.Tags = append(p.Tags, tag)
			}
		}
		if r.IntN(4) > 0 {
			at := time.Date(2023, time.Month(1+r.IntN(12)), 1+r.IntN(28), 0, 0, 0, 0, time.UTC)
			p.OccurredAt = &at
		}
		must(b.Add(b.ctx, p))(t)
	}
}

// randomFilters returns random filters; fits evaluates them for a hit independently.
func randomFilters(r *rand.Rand) (*search.Filters, func(h *search.Hit, salience float64) bool) {
	f := &search.Filters{}
	var tests []func(h *search.Hit, salience float64) bool
	maybe := func(set func(), test func(h *search.Hit, salience float64) bool) {
		if r.IntN(4) == 0 {
			set()
			tests = append(tests, test)
		}
	}
	from, to := time.Date(2023, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2023, 9, 1, 0, 0, 0, 0, time.UTC)
	maybe(func() { f.From = &from }, func(h *search.Hit, _ float64) bool { return h.OccurredAt != nil && !h.OccurredAt.Before(from) })
	maybe(func() { f.To = &to }, func(h *search.Hit, _ float64) bool { return h.OccurredAt != nil && h.OccurredAt.Before(to) })
	maybe(func() { f.Layers = []int{2, 3} }, func(h *search.Hit, _ float64) bool { return h.Layer == 2 || h.Layer == 3 })
	maybe(func() { f.Types = []string{"semantic"} }, func(h *search.Hit, _ float64) bool { return h.Type == "semantic" })
	maybe(func() { f.Sources = []string{"agent", "tool"} }, func(h *search.Hit, _ float64) bool { return h.Source == "agent" || h.Source == "tool" })
	maybe(func() { f.TagsAll = []string{"Red", "blue"} }, func(h *search.Hit, _ float64) bool {
		return slices.Contains(h.Tags, "red") && slices.Contains(h.Tags, "blue")
	})
	maybe(func() { f.TagsAny = []string{"green"} }, func(h *search.Hit, _ float64) bool { return slices.Contains(h.Tags, "green") })
	maybe(func() { f.TagsNone = []string{"blue"} }, func(h *search.Hit, _ float64) bool { return !slices.Contains(h.Tags, "blue") })
	yes, least := true, 60.0
	maybe(func() { f.Pinned = &yes }, func(h *search.Hit, _ float64) bool { return h.Pinned })
	maybe(func() { f.MinSalience = &least }, func(_ *search.Hit, s float64) bool { return s >= least })
	maybe(func() { f.Kinds = []string{KindMemory} }, func(h *search.Hit, _ float64) bool { return h.Kind == KindMemory })
	return f, func(h *search.Hit, s float64) bool {
		for _, test := range tests {
			if !test(h, s) {
				return false
			}
		}
		return true
	}
}

func TestFiltersEqualPostFiltering(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	r := rand.New(rand.NewPCG(3, 4))
	b.fill(t, r, 90)
	b.dialogue(t, nil, "apple", "pear apple", "plum", "river apple")
	noPriors := false
	salience := map[uuid.UUID]float64{}
	some := 0
	for range 120 {
		q := fruit[r.IntN(len(fruit))] + " " + fruit[r.IntN(len(fruit))]
		f, fits := randomFilters(r)
		var want []string
		for _, h := range must(b.Search(b.ctx, search.Params{Query: q, Limit: 100, Priors: &noPriors}))(t).Results {
			if _, ok := salience[h.ID]; !ok && h.Kind == KindMemory {
				salience[h.ID] = b.get(t, h.ID).Salience
			} else if !ok {
				salience[h.ID] = 50
			}
			if fits(&h, salience[h.ID]) {
				want = append(want, h.ID.String())
			}
		}
		var got []string
		for _, id := range b.searchIDs(t, b.ctx, search.Params{Query: q, Limit: 100, Filters: f, Priors: &noPriors}) {
			got = append(got, id.String())
		}
		some += len(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%q with %s finds %v, want %v", q, marshal(t, f), got, want)
		}
	}
	if some < 100 {
		t.Errorf("the filters left only %d hits", some)
	}
}

func TestSearchIsDeterministic(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	b.fill(t, rand.New(rand.NewPCG(5, 6)), 80)
	half := 0.5
	p := search.EnhancedParams{Params: search.Params{Query: "apple river garden", Limit: 30, MMR: &search.MMR{Lambda: &half}}, Facets: true, GroupBy: "day"}
	first := ""
	for range 5 {
		r := must(b.SearchEnhanced(b.ctx, p))(t)
		r.TookMs = 0
		if s := marshal(t, r); first == "" {
			first = s
		} else if s != first {
			t.Fatalf("another answer:\n%s\n%s", first, s)
		}
	}
}

func TestOneUserNeverFindsAnother(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	mine := b.add(t, "My secret garden of apples.")
	theirs := must(b.Add(b.them, AddParams{Content: "Their secret garden of pears."}))(t)
	for _, mode := range []string{search.ModeHybrid, search.ModeKeyword} {
		if ids := b.searchIDs(t, b.ctx, search.Params{Query: "secret garden pears", Mode: mode}); len(ids) != 1 || ids[0] != mine.ID {
			t.Errorf("%s: I find %v", mode, ids)
		}
		if ids := b.searchIDs(t, b.them, search.Params{Query: "secret garden apples", Mode: mode}); len(ids) != 1 || ids[0] != theirs.Item.ID {
			t.Errorf("%s: they find %v", mode, ids)
		}
	}
	if _, err := b.Related(b.them, search.RelatedParams{ID: mine.ID.String()}); !fault.Is(err, fault.NotFound) {
		t.Errorf("related of a foreign id: %v", err)
	}
	r := must(b.SearchEnhanced(b.them, search.EnhancedParams{Params: search.Params{Query: "secret"}, Facets: true}))(t)
	if r.Facets.Type[0].Count != 1 {
		t.Errorf("their facets count %+v", r.Facets)
	}
}

func TestSearchRefuses(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	two, layer := 2.0, 9
	now := time.Now()
	before := now.Add(-time.Hour)
	for _, p := range []search.Params{
		{Query: strings.Repeat("x", 8<<10+1)}, {Query: "x", Limit: 101}, {Query: "x", Limit: -1}, {Query: "x", Mode: "fuzzy"}, {Query: "x", MMR: &search.MMR{Lambda: &two}},
		{Query: "x", Filters: &search.Filters{Layers: []int{layer}}}, {Query: "x", Filters: &search.Filters{Types: []string{"dream"}}},
		{Query: "x", Filters: &search.Filters{Kinds: []string{"person"}}}, {Query: "x", Filters: &search.Filters{From: &now, To: &before}}, {Query: "x", MinScore: -1},
	} {
		if _, err := b.Search(b.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", marshal(t, p)[:60], err)
		}
	}
	if _, err := b.Search(b.ctx, search.Params{Query: "x", Mode: search.ModeVector}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("vector without a model: %v", err)
	}
	b.add(t, "x marks the spot")
	if r := must(b.Search(b.ctx, search.Params{Query: "x"}))(t); r.Degraded != "no_vectors" || len(r.Results) != 1 {
		t.Errorf("hybrid without a model: %+v", r)
	}
	if r := must(b.Search(b.ctx, search.Params{Query: "x", MinScore: 1}))(t); len(r.Results) != 0 {
		t.Errorf("minScore lets through %+v", r.Results)
	}
}

func TestPrivateStorageKeepsNoWords(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{Private: true})
	m := b.add(t, "The submarine is yellow and deep.")
	check := func(s *Service) {
		t.Helper()
		for _, q := range []string{"yellow submarines", `"yellow and deep"`} {
			r := must(s.Search(b.ctx, search.Params{Query: q}))(t)
			if len(r.Results) != 1 || r.Results[0].ID != m.ID || !strings.Contains(r.Results[0].Snippet, "submarine") {
				t.Errorf("%q finds %+v", q, r.Results)
			}
		}
	}
	check(b.Service)
	rows := 0
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT (SELECT count(*) FROM search_fts_docsize) + (SELECT count(*) FROM search_terms)`).Scan(&rows)
	}); err != nil || rows != 0 {
		t.Errorf("%d rows of words in the file, %v", rows, err)
	}
	again := New(b.db, Options{Private: true})
	t.Cleanup(func() { _ = again.Close() })
	check(again)
	open := New(b.db, Options{})
	t.Cleanup(func() { _ = open.Close() })
	check(open)
	check(again)
}

// Searches run while others write, and a text is found as soon as the call that stored it has returned.
func TestSearchWhileOthersWrite(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := b.SearchEnhanced(b.ctx, search.EnhancedParams{Params: search.Params{Query: "apple river"}, Facets: true}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 40 {
		m := b.add(t, fmt.Sprintf("apple river number%d", i))
		if ids := b.searchIDs(t, b.ctx, search.Params{Query: fmt.Sprintf("number%d", i)}); len(ids) != 1 || ids[0] != m.ID {
			t.Errorf("memory %d is not found at once: %v", i, ids)
		}
		if i%3 == 0 {
			if _, err := b.Delete(b.ctx, IDsParams{IDs: []string{m.ID.String()}}); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "apple", Limit: 100}); len(ids) != 26 {
		t.Errorf("%d are left", len(ids))
	}
}

func utf16Units(s string) []uint16  { return utf16.Encode([]rune(s)) }
func runesOf(units []uint16) []rune { return utf16.Decode(units) }

// FuzzQuery checks that no text is an error of FTS5.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "AND OR NOT", `NEAR("a b", 5)`, `"unclosed`, `""`, `" " "`, "*", "a*", "^a", "a:b", "title:x", "-a", "a -b", "(a", "a)", "{a b}: c", "a + b",
		"\x00", "a\x00b", "🏔", "\xff\xfe", "' OR 1=1", "ÀÉ", strings.Repeat(`"a b" `, 100), "the of and"} {
		f.Add(q)
	}
	db := storagetest.Open(f)
	s := New(db, Options{})
	f.Cleanup(func() { _ = s.Close() })
	ctx := storagetest.Ctx(f, db)
	if _, err := s.Add(ctx, AddParams{Content: "a b title the near and or not x"}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 8<<10 {
			return
		}
		for _, mode := range []string{search.ModeHybrid, search.ModeKeyword} {
			r, err := s.Search(ctx, search.Params{Query: text, Mode: mode})
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			for _, h := range r.Results {
				units := len(utf16Units(h.Snippet))
				for _, sp := range h.Highlights {
					if sp.Start < 0 || sp.End <= sp.Start || sp.End > units {
						t.Fatalf("%q marks %v of %d units", text, sp, units)
					}
				}
			}
		}
		if m := search.FTSQuery(text, true); m != "" {
			err := db.Read(ctx, func(tx *storage.Tx) error {
				var n int
				return tx.QueryRow(`SELECT count(*) FROM search_fts WHERE search_fts MATCH ?`, m).Scan(&n)
			})
			if err != nil {
				t.Fatalf("%q became %q: %v", text, m, err)
			}
		}
	})
}

func TestOneSpeakerIsPreferred(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	_, turns := b.dialogue(t, nil, "I love sailing.", "I love sailing.", "x", "y", "z", "u")
	for q, want := range map[string]int{"What does Ann love, sailing?": 0, "What does Bob love, sailing?": 1} {
		if ids := b.searchIDs(t, b.ctx, search.Params{Query: q}); ids[0] != turns[want] {
			t.Errorf("%q finds first %v", q, slices.Index(turns, ids[0]))
		}
	}
}
