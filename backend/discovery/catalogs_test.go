package discovery

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

func TestFolderIsSearchedAndReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	e := setup(t)
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	weather, err := os.ReadFile("examples/weather.yaml")
	if err != nil {
		t.Fatal(err)
	}
	put("notes.yaml", e.spec)
	put("more/weather.yaml", string(weather))
	put("other.json", `{"name":"npm package"}`)
	put("broken.yaml", "{")
	put(".hidden/notes.yaml", e.spec)
	secret := filepath.Join(t.TempDir(), "outside.yaml")
	if err := os.WriteFile(secret, []byte(strings.ReplaceAll(e.spec, "Notes", "Outside")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	r, err := e.s.CatalogAdd(e.ctx, CatalogAddParams{Dir: dir})
	if err != nil || len(r.Catalogs) != 1 || r.Catalogs[0].Entries != 2 || r.Catalogs[0].Error != "" {
		t.Fatalf("%v %+v", err, r)
	}
	if _, err := e.s.CatalogAdd(e.ctx, CatalogAddParams{Dir: dir}); !fault.Is(err, fault.Conflict) {
		t.Errorf("added twice: %v", err)
	}
	find := func(query string) SearchResult {
		t.Helper()
		found, err := e.s.Search(e.ctx, SearchParams{Query: query, Sources: []string{"directory"}})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := find("adds a note")
	if len(found.Results) != 1 || found.Results[0].Name != "notes" || found.Results[0].Hosts[0] != "localhost:"+e.port || found.Results[0].Source != "directory" {
		t.Fatalf("%+v", found)
	}
	ref := found.Results[0].Ref
	if x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{URL: ref}); err != nil || x.Title != "Notes" {
		t.Errorf("%v %+v", err, x)
	}
	manifest := find("temperature forecast").Results[0]
	if !manifest.Manifest {
		t.Errorf("%+v", manifest)
	}
	if made, err := e.s.ImportManifest(e.ctx, ImportManifestParams{URL: manifest.Ref, DryRun: new(false)}); err != nil || made.Status != StatusPending {
		t.Errorf("%v %+v", err, made)
	}

	// A changed file is found by its new words; a file that is replaced by a link isn't followed.
	put("notes.yaml", strings.ReplaceAll(e.spec, "Adds a note", "Writes a haiku"))
	if found := find("haiku"); len(found.Results) != 1 {
		t.Errorf("%+v", found)
	}
	if err := os.Remove(filepath.Join(dir, "notes.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "notes.yaml")); err != nil {
		t.Fatal(err)
	}
	if x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{URL: ref}); err == nil {
		t.Errorf("%+v", x)
	}

	// A folder that is gone is named, and the others still answer.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	all, err := e.s.Search(e.ctx, SearchParams{Query: "weather forecast"})
	if err != nil || len(all.Results) == 0 || len(all.Skipped) != 1 || all.Skipped[0].Source != dir {
		t.Errorf("%v %+v", err, all)
	}
	if r, err = e.s.CatalogRemove(e.ctx, CatalogParams{CatalogID: r.Catalogs[0].ID}); err != nil || len(r.Catalogs) != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestListOnTheWebIsReadOnlyWithItsSetting(t *testing.T) {
	t.Parallel()
	cert, trust := certified(t)
	var asked, broken atomic.Int64
	var base string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case broken.Load() != 0:
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/list.json":
			_, _ = w.Write([]byte(`{"example.com:tides":{"preferred":"1","versions":{"1":{"swaggerUrl":"` + base + `/tides.json","info":{"title":"Tides","description":"High and low water.","x-providerName":"example.com"}}}},
				"file":{"preferred":"1","versions":{"1":{"swaggerUrl":"file:///etc/passwd","info":{"title":"Tides of a file"}}}}}`))
		default:
			_, _ = w.Write([]byte(`{"openapi":"3.1.0","info":{"title":"Tides","version":"1.0.0"},"servers":[{"url":"https://api.example.com"}],"paths":{"/tides":{"get":{"operationId":"tides"}}}}`))
		}
	}))
	pair, err := tls.LoadX509KeyPair(cert, cert)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	base = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	var online atomic.Bool
	e := setup(t, trust, func(o *Options) {
		o.Online = online.Load
		client := o.HTTP
		o.HTTP = func(h safehttp.Options) *safehttp.Client {
			h.AllowLoopback = func(int) bool { return true }
			return client(h)
		}
	})
	if _, err := e.s.CatalogAdd(e.ctx, CatalogAddParams{ListURL: base + "/list.json"}); !fault.Is(err, fault.Denied) || asked.Load() != 0 {
		t.Fatalf("%v, %d requests", err, asked.Load())
	}
	online.Store(true)
	for _, address := range []string{"https://10.0.0.1/list.json", "http://example.com/list.json", "file:///etc/passwd", "https://169.254.169.254/list.json"} {
		if _, err := e.s.CatalogAdd(e.ctx, CatalogAddParams{ListURL: address}); !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := e.s.CatalogAdd(e.ctx, CatalogAddParams{ListURL: base + "/tides.json"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("something else than a list: %v", err)
	}
	r, err := e.s.CatalogAdd(e.ctx, CatalogAddParams{ListURL: base + "/list.json"})
	if err != nil || r.Catalogs[0].Entries != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	before := asked.Load()
	found, err := e.s.Search(e.ctx, SearchParams{Query: "when is low water"})
	if err != nil || len(found.Results) != 1 || found.Results[0].Title != "Tides" || asked.Load() != before {
		t.Fatalf("%v %+v", err, found)
	}
	if x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{URL: found.Results[0].Ref}); err != nil || x.Counts.Operations != 1 {
		t.Errorf("%v %+v", err, x)
	}

	// After a week it is read again; what it had stays if that fails.
	broken.Store(1)
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE discovery_catalog SET read_at = ?`, tx.Now.Add(-listMaxAge-time.Hour))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before = asked.Load()
	e.s.refreshLists(e.ctx)
	e.s.refreshLists(e.ctx)
	found, err = e.s.Search(e.ctx, SearchParams{Query: "low water"})
	if err != nil || asked.Load() != before+1 || len(found.Results) != 1 || len(found.Skipped) != 1 || !strings.Contains(found.Skipped[0].Reason, "502") {
		t.Errorf("%v %+v, %d requests", err, found, asked.Load()-before)
	}
	online.Store(false)
	found, err = e.s.Search(e.ctx, SearchParams{Query: "low water"})
	if err != nil || len(found.Results) != 0 || len(found.Skipped) != 1 {
		t.Errorf("%v %+v", err, found)
	}
}
