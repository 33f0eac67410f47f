package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"helix/backend/storage"
)

// topics embeds a text by whether it is about the weather.
type topics struct{ texts atomic.Int64 }

func (x *topics) Embed(_ context.Context, texts []string) ([][]float32, error) {
	x.texts.Add(int64(len(texts)))
	out := [][]float32{}
	for _, text := range texts {
		v := []float32{0, 1}
		for _, word := range []string{"weather", "umbrella", "forecast"} {
			if strings.Contains(strings.ToLower(text), word) {
				v = []float32{1, 0}
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// catalog stores a list of entries as a catalog of the user.
func (e *env) catalog(list []entry) {
	e.Helper()
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO discovery_catalog (id, user_id, kind, location, entries, signature, read_at, created_at) VALUES (?1, ?2, 'list', 'https://example.com/list.json', ?3, x'', ?4, ?4)`, storage.NewID(), e.db.LocalUser().ID, rawJSON(list), tx.Now)
		return err
	}); err != nil {
		e.Fatal(err)
	}
}

func (e *env) search(query string, sources ...string) []Candidate {
	e.Helper()
	r, err := e.s.Search(e.ctx, SearchParams{Query: query, Sources: sources, Limit: 50})
	if err != nil {
		e.Fatal(err)
	}
	return r.Results
}

func online(o *Options) { o.Online = func() bool { return true } }

func TestSearchFindsByMeaningToo(t *testing.T) {
	t.Parallel()
	x := &topics{}
	e := setup(t, func(o *Options) { o.Embedder = x })
	first := e.search("umbrella", sourceCatalog)
	if len(first) == 0 || first[0].Name != "met-norway" && first[0].Name != "nws" && first[0].Name != "open-meteo" || first[0].Why[0] != "+meaning" {
		t.Errorf("%+v", first)
	}
	embedded := x.texts.Load()
	again := e.search("umbrella", sourceCatalog)
	if !slices.EqualFunc(first, again, func(a, b Candidate) bool { return a.Ref == b.Ref && a.Score == b.Score }) || x.texts.Load() != embedded+1 {
		t.Errorf("another list, or %d texts were embedded again", x.texts.Load()-embedded-1)
	}
	// A word that matches says more than a similar text, and both together most.
	list := e.search("forecast of currencies", sourceCatalog)
	byWord := slices.IndexFunc(list, func(c Candidate) bool { return c.Why[0] != "+meaning" })
	byMeaning := slices.IndexFunc(list, func(c Candidate) bool { return c.Why[0] == "+meaning" })
	if byWord != 0 || byMeaning > 0 && slices.ContainsFunc(list[byMeaning:], func(c Candidate) bool { return slices.Contains(c.Why, "currencie") }) || !slices.Contains(list[0].Why, "+meaning") {
		t.Errorf("%+v", list)
	}
}

// Many entries are embedded in the background; until then words are used alone.
func TestManyEntriesAreEmbeddedInTheBackground(t *testing.T) {
	t.Parallel()
	x := &topics{}
	e := setup(t, online, func(o *Options) { o.Embedder = x })
	list := []entry{{Name: "rain", Title: "Forecasts", Auth: "none", License: "MIT"}}
	for i := range embedNow + 1 {
		list = append(list, entry{Name: fmt.Sprintf("api-%03d", i), Title: fmt.Sprintf("Number %d", i)})
	}
	e.catalog(list)
	if got := e.search("umbrella", sourceDirectory); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	e.s.jobs.Wait()
	if got := e.search("umbrella", sourceDirectory); len(got) != 1 || got[0].Title != "Forecasts" {
		t.Errorf("%+v", got)
	}
	if n := x.texts.Load(); n != int64(len(list))+1 {
		t.Errorf("%d texts were embedded", n)
	}
}

func TestSearchPrefersWhatWorksAtOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, online)
	e.catalog([]entry{
		{Name: "a", Title: "Tides", Auth: "apiKey", License: "MIT", URL: "https://a.example/openapi.json"},
		{Name: "b", Title: "Tides", Auth: "none", License: "MIT", URL: "http://b.example/openapi.json"},
		{Name: "c", Title: "Tides", Auth: "none", URL: "https://c.example/openapi.json"},
		{Name: "d", Title: "Tides", Auth: "none", License: "MIT", URL: "https://d.example/openapi.json"},
	})
	got := []string{}
	for _, c := range e.search("tides", sourceDirectory) {
		got = append(got, c.Name+" "+strings.Join(c.Why, " "))
	}
	if want := []string{"d tide", "c tide -license", "a tide -auth", "b tide -https"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
