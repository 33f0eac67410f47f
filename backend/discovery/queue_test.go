package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/openapi"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

func TestDirectoryEntriesAreComplete(t *testing.T) {
	t.Parallel()
	own := 0
	for _, e := range directory() {
		if e.Name == "" || e.Title == "" || e.Description == "" || len(e.Tags) == 0 || len(e.Hosts) == 0 || (e.URL == "") == (e.Spec == nil) {
			t.Errorf("incomplete: %+v", e)
		}
		if e.Spec == nil {
			if !strings.HasPrefix(e.URL, "https://") {
				t.Errorf("%s: %s", e.Name, e.URL)
			}
			continue
		}
		own++
		d, err := openapi.Parse(e.Spec, "")
		if err == nil && d.Protocol != "" { // it can write, and asks for a credential
			if err := checkProtocol(d.Protocol, d.Operations); err != nil || len(d.Operations) != len(protocols[d.Protocol]) || len(d.Skipped)+len(d.Warnings) > 0 {
				t.Errorf("%s: %v, %+v", e.Name, err, d.Operations)
			}
			continue
		}
		if err != nil || len(d.Operations) == 0 || len(d.Skipped) > 0 || e.Auth != "none" {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		for _, o := range d.Operations {
			if o.Effects.Tier() != "readOnly" {
				t.Errorf("%s: %s is %s", e.Name, o.Key, o.Effects.Tier())
			}
		}
	}
	if len(directory()) < 25 || own < 8 {
		t.Errorf("%d entries, %d with a description of ours", len(directory()), own)
	}
}

func TestSearchRanksByWordsAndIsReproducible(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for query, want := range map[string]string{
		"weather forecast for tomorrow": "open-meteo",
		"exchange rates of currencies":  "frankfurter",
		"public holidays in Germany":    "nager-date",
		"issues and actions of GitHub":  "github",
		"find a book by its author":     "open-library",
		"send a text message (SMS)":     "twilio",
		"my calendar of appointments":   "calendar",
		"read my email inbox":           "mail",
		"send an email over SMTP":       "send-mail",
		"a webcal subscription":         "published-calendar",
	} {
		first, err := e.s.Search(e.ctx, SearchParams{Query: query})
		if err != nil || len(first.Results) == 0 || first.Results[0].Name != want || len(first.Results[0].Why) == 0 {
			t.Errorf("%q: %+v, %v", query, first.Results, err)
			continue
		}
		again, err := e.s.Search(e.ctx, SearchParams{Query: query})
		if err != nil || !slices.EqualFunc(first.Results, again.Results, func(a, b Candidate) bool { return a.Ref == b.Ref && a.Score == b.Score }) {
			t.Errorf("%q gives another list the second time", query)
		}
	}
	id := e.tool(false)
	r, err := e.s.Search(e.ctx, SearchParams{Query: "notes", Sources: []string{"imported"}})
	if err != nil || len(r.Results) != 1 || r.Results[0].Ref != "imported:"+id.String() {
		t.Errorf("%+v, %v", r.Results, err)
	}
	for _, p := range []SearchParams{{Query: ""}, {Query: "the of"}, {Query: "weather", Sources: []string{"internet"}}, {Query: strings.Repeat("long ", 200)}} {
		if _, err := e.s.Search(e.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.40q: %v", p.Query, err)
		}
	}
}

// The last of 10,000 entries of a list, and of more tools than a page has, is found like the first.
func TestSearchFindsEachOfManyEntries(t *testing.T) {
	t.Parallel()
	e := setup(t, func(o *Options) { o.Online = func() bool { return true } })
	list := make([]entry, maxEntries)
	for i := range list {
		list[i] = entry{Name: fmt.Sprintf("api-%05d", i), Title: fmt.Sprintf("Number n%05d", i), Description: "Lists the parts of a machine, and what they cost.", Tags: []string{fmt.Sprintf("group%02d", i%100)}, Hosts: []string{"api.example.com"}, URL: "https://api.example.com/openapi.json"}
	}
	tool, err := e.s.load(e.ctx, e.tool(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		for i := range 249 {
			more := *tool
			more.ID, more.Name, more.Description = storage.NewID(), fmt.Sprintf("own-%03d", i), fmt.Sprintf("Keeps notes of kind%03d.", i)
			if err := more.insert(tx); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`INSERT INTO discovery_catalog (id, user_id, kind, location, entries, signature, read_at, created_at) VALUES (?1, ?2, 'list', 'https://example.com/list.json', ?3, x'', ?4, ?4)`, storage.NewID(), tool.user, rawJSON(list), tx.Now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	find := func(query string, limit int) []Candidate {
		t.Helper()
		r, err := e.s.Search(e.ctx, SearchParams{Query: query, Limit: limit})
		if err != nil || len(r.Skipped) != 0 {
			t.Fatalf("%q: %+v, %v", query, r.Skipped, err)
		}
		return r.Results
	}
	for query, want := range map[string]string{"n00000 parts": "api-00000", "parts of n04999": "api-04999", "n09999": "api-09999", "kind000": "own-000", "kind100": "own-100", "kind248": "own-248", "weather forecast": "open-meteo"} {
		if r := find(query, 3); len(r) == 0 || r[0].Name != want || len(r) > 3 {
			t.Errorf("%q: %+v, want %s", query, r, want)
		}
	}
	// What is kept of a list in memory is that of its last reading.
	list[0].Title = "Number m00000"
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE discovery_catalog SET entries = ?, read_at = ?`, rawJSON(list), tx.Now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if r := find("m00000", 3); len(r) != 1 || r[0].Name != "api-00000" {
		t.Errorf("after the list was read again: %+v", r)
	}
	// Equal scores are in the order of names, so that the list is the same each time.
	for range 2 {
		r := find("group07", 50)
		if len(r) != 50 {
			t.Fatalf("%d results", len(r))
		}
		for i, c := range r {
			if want := fmt.Sprintf("api-%05d", i*100+7); c.Name != want || !slices.Equal(c.Why, []string{"group07", "-auth", "-license"}) {
				t.Errorf("%d: %+v, want %s", i, c, want)
			}
		}
	}
}

// work runs the worker until the request has candidates or has failed.
func (e *env) work(id uuid.UUID) Request {
	e.Helper()
	ended := make(chan struct{}, 64)
	off := bus.Subscribe(e.db.Bus(), func(_ uuid.UUID, c RequestChanged) {
		if c.RequestID == id && c.Status != requestPending && c.Status != requestSearching {
			ended <- struct{}{}
		}
	})
	defer off()
	ctx, stop := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- e.s.WorkQueue(ctx) }()
	<-ended
	stop()
	if err := <-done; err != nil {
		e.Fatal(err)
	}
	r, err := e.s.QueueGet(e.ctx, RequestIDParams{id})
	if err != nil {
		e.Fatal(err)
	}
	return r
}

func (e *env) request(text string) RequestResult {
	e.Helper()
	r, err := e.s.Request(e.ctx, RequestParams{CapabilityDescription: text, RequestedBy: "agent"})
	if err != nil {
		e.Fatal(err)
	}
	return r
}

func TestRequestLeadsToAToolThatWaitsForApproval(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.request("Get the exchange rate of the euro")
	if again := e.request("get EXCHANGE rates of the euro!"); again.RequestID != r.RequestID {
		t.Error("an equal request was added twice")
	}
	got := e.work(r.RequestID)
	if got.Status != requestFound || len(got.Candidates) == 0 || got.Candidates[0].Ref != "catalog:frankfurter" {
		t.Fatalf("%+v", got)
	}
	if list, err := e.s.List(e.ctx, ListParams{}); err != nil || list.Total != 0 {
		t.Fatalf("the worker imported something: %+v, %v", list, err)
	}
	if _, err := e.s.Accept(e.ctx, AcceptParams{RequestID: r.RequestID, Ref: "catalog:no-such"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("another candidate: %v", err)
	}
	a, err := e.s.Accept(e.ctx, AcceptParams{RequestID: r.RequestID, Ref: "catalog:frankfurter"})
	if err != nil || a.Status != StatusPending {
		t.Fatalf("%+v, %v", a, err)
	}
	tool, err := e.s.Get(e.ctx, ToolParams{a.ManifestID})
	if err != nil || tool.Name != "frankfurter" || !slices.Equal(tool.Hosts, []string{"api.frankfurter.dev"}) || tool.Operations != 3 {
		t.Errorf("%+v, %v", tool.Tool, err)
	}
	if _, err := e.s.Accept(e.ctx, AcceptParams{RequestID: r.RequestID, Ref: "catalog:frankfurter"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("accepted twice: %v", err)
	}
	if next := e.request("Get the exchange rate of the euro"); next.RequestID == r.RequestID {
		t.Error("a finished request took a new one")
	}
}

func TestRequestThatNothingFitsFails(t *testing.T) {
	t.Parallel()
	e := setup(t)
	if r := e.work(e.request("xyzzy plugh").RequestID); r.Status != requestFailed || r.Error == "" || r.FinishedAt == nil {
		t.Errorf("%+v", r)
	}
}

func TestWorkOfAKilledProcessIsDoneAgainOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.request("weather forecast")
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error { // as a process leaves it that was killed while it searched
		_, err := tx.Exec(`UPDATE tool_discovery_queue SET status = 'searching', attempts = 1, lease_until = ?`, tx.Now.Add(-1))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := e.work(r.RequestID); got.Status != requestFound {
		t.Errorf("%+v", got)
	}
	if more, err := e.s.workOne(e.ctx); more || err != nil {
		t.Errorf("more work: %v, %v", more, err)
	}
}

func TestRejectedRequestStaysRejected(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.request("weather forecast")
	if _, err := e.s.Reject(e.ctx, RejectParams{r.RequestID, "not needed"}); err != nil {
		t.Fatal(err)
	}
	if more, err := e.s.workOne(e.ctx); more || err != nil {
		t.Errorf("the worker took a rejected request: %v, %v", more, err)
	}
	if _, err := e.s.Reject(e.ctx, RejectParams{RequestID: r.RequestID}); !fault.Is(err, fault.Conflict) {
		t.Errorf("rejected twice: %v", err)
	}
	if _, err := e.s.QueueGet(storagetest.OtherUser(t, e.db), RequestIDParams{r.RequestID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user: %v", err)
	}
}
