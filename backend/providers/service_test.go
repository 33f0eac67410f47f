package providers

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/safehttp"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

type serviceKit struct {
	*Service
	db     *storage.DB
	ledger *ledger
	env    map[string]string
	log    *bytes.Buffer
}

func newService(t *testing.T, catalogURL string) *serviceKit {
	t.Helper()
	k := &serviceKit{db: storagetest.Open(t), ledger: &ledger{}, env: map[string]string{}, log: &bytes.Buffer{}}
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRequest: 64 << 20, MaxRedirects: -1})
	t.Cleanup(client.Close)
	s, err := New(k.db, ServiceOptions{
		HTTP: client, Meter: k.ledger, Env: func(n string) (string, bool) { v, ok := k.env[n]; return v, ok }, CacheDir: t.TempDir(), CatalogURL: catalogURL,
		Logger: slog.New(slog.NewTextHandler(k.log, nil)),
	})
	must(t, err)
	k.Service = s
	return k
}

func TestRegistryKeepsEntriesAndHidesKeys(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	list, err := k.List(ctx, struct{}{})
	must(t, err)
	if len(list.Providers) != 3 || list.Providers[0].State != "no_key" || list.Providers[0].Models == 0 {
		t.Fatalf("%+v", list)
	}
	v, err := k.Set(ctx, SetParams{Name: "openai", Entry: Entry{Type: "openai_compatible"}, APIKey: secretKey})
	must(t, err)
	if v.KeySource != "secret" || v.State != "ready" || v.Type != WireChat {
		t.Fatalf("%+v", v)
	}
	shown, _ := json.Marshal(v)
	if strings.Contains(string(shown), secretKey) || strings.Contains(k.log.String(), secretKey) {
		t.Fatal("the key is shown")
	}
	must(t, k.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT entry FROM providers UNION ALL SELECT coalesce(cast(action AS TEXT), '') FROM audit_log UNION ALL SELECT hex(value) FROM secrets`).Each(func(row storage.Row) error {
			var text string
			err := row.Scan(&text)
			if strings.Contains(text, secretKey) {
				t.Error("the key is in a row")
			}
			return err
		})
	}))
	// A key is only valid for its host.
	v, err = k.Set(ctx, SetParams{Name: "openai", Entry: Entry{Type: WireChat, BaseURL: "https://other.example/v1"}})
	must(t, err)
	if v.KeySource != "" {
		t.Fatal("the key went along to another host")
	}
	_, err = k.Remove(ctx, NameParams{"openai"})
	must(t, err)
	if _, err := k.Get(ctx, NameParams{"openai"}); !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	other, err := k.List(storagetest.OtherUser(t, k.db), struct{}{})
	must(t, err)
	if len(other.Providers) != 3 {
		t.Fatalf("another user sees %+v", other)
	}
	for _, bad := range []SetParams{
		{Name: "Bad"}, {Name: "a", Entry: Entry{Type: "x"}}, {Name: "a", Entry: Entry{Type: WireChat, BaseURL: "http://example.com"}},
		{Name: "a", Entry: Entry{Type: WireChat, ExtraHeaders: map[string]string{"authorization": "x"}}}, {Name: "a", Entry: Entry{Type: WireChat, BaseURL: "https://u:p@x"}},
	} {
		if _, err := k.Set(ctx, bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestKeyIsLookedUpInOrder(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	foreign := Entry{Type: WireChat, BaseURL: "https://stranger.example/v1"}
	for _, c := range []struct {
		name   string
		e      Entry
		env    map[string]string
		source string
	}{
		{"none", Entry{Type: WireGemini}, nil, ""},
		{"an empty one", Entry{Type: WireGemini}, map[string]string{"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "k"}, "environment GOOGLE_API_KEY"},
		{"the named one first", Entry{Type: WireGemini, APIKeyEnv: "MINE"}, map[string]string{"MINE": "k", "GEMINI_API_KEY": "k"}, "environment MINE"},
		{"the general one", Entry{Type: WireAnthropic}, map[string]string{"API_KEY": "k"}, "environment API_KEY"},
		{"not to a stranger", foreign, map[string]string{"API_KEY": "k", "OPENAI_API_KEY": "k"}, ""},
		{"unless it is said so", Entry{Type: WireChat, BaseURL: foreign.BaseURL, GenericKey: true}, map[string]string{"API_KEY": "k"}, "environment API_KEY"},
	} {
		k.env = c.env
		if _, source, err := k.key(ctx, "x", c.e); err != nil || source != c.source {
			t.Errorf("%s: %q (%v), want %q", c.name, source, err, c.source)
		}
	}
}

func TestRolesAndModels(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	models, err := k.Models(ctx, ModelsParams{Provider: "anthropic", Capability: "tools", Limit: 2})
	must(t, err)
	if len(models.Models) != 2 || models.Total < 3 || !models.Models[0].Prices.Known() {
		t.Fatalf("%+v", models)
	}
	var changed []Changed // other windows read the roles again
	t.Cleanup(bus.Subscribe(k.db.Bus(), func(_ uuid.UUID, c Changed) { changed = append(changed, c) }))
	view, err := k.SetRole(ctx, SetRoleParams{Role: RoleChat, Chain: []ModelRef{models.Models[0].Ref}})
	must(t, err)
	if len(changed) != 1 {
		t.Errorf("%d notifications, want 1", len(changed))
	}
	if len(view.Problems) != 1 || !strings.Contains(view.Problems[0], "No key") {
		t.Fatalf("%+v", view)
	}
	roles, err := k.Roles(ctx, struct{}{})
	must(t, err)
	if len(roles.Roles) != 4 || roles.Roles[0].Chain[0] != models.Models[0].Ref {
		t.Fatalf("%+v", roles)
	}
	for _, chain := range [][]ModelRef{{"nobody/x"}, {"anthropic/none"}, {"anthropic"}} {
		if _, err := k.SetRole(ctx, SetRoleParams{Role: RoleFast, Chain: chain}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", chain, err)
		}
	}
}

func TestTestShowsStepsAndCostsNothingByItself(t *testing.T) {
	t.Parallel()
	posts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secretKey {
			w.WriteHeader(401)
			return
		}
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"data":[{"id":"one"},{"id":"two"}]}`))
			return
		}
		posts++
		chatAnswer(w, "OK")
	}))
	t.Cleanup(server.Close)
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	_, err := k.Set(ctx, SetParams{Name: "mine", Entry: Entry{Type: WireChat, BaseURL: server.URL + "/v1/chat/completions"}, APIKey: secretKey})
	must(t, err)
	r, err := k.Test(ctx, TestParams{Name: "mine"})
	must(t, err)
	if len(r.Steps) != 2 || !r.Steps[1].OK || r.Steps[1].Message != "2 models" || posts != 0 {
		t.Fatalf("%+v", r)
	}
	if r, err = k.Test(ctx, TestParams{Name: "mine", Call: true}); err != nil || len(r.Steps) != 3 || !r.Steps[2].OK || posts != 1 || len(k.ledger.settled) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	_, err = k.Set(ctx, SetParams{Name: "mine", Entry: Entry{Type: WireChat, BaseURL: server.URL}, APIKey: "wrong-key-000"})
	must(t, err)
	if r, err = k.Test(ctx, TestParams{Name: "mine"}); err != nil || r.Steps[1].OK || r.Steps[1].Kind != fault.Denied {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestFetchedCatalogueIsCheckedAndKept(t *testing.T) {
	t.Parallel()
	own, err := embeddedCatalog()
	must(t, err)
	var text []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	t.Cleanup(server.Close)
	k := newService(t, server.URL)
	ctx := storagetest.Ctx(t, k.db)
	whole := func(change func(map[string]CatalogProvider)) []byte {
		b, err := json.Marshal(own.Providers)
		must(t, err)
		var c map[string]CatalogProvider
		must(t, json.Unmarshal(b, &c))
		change(c)
		b, err = json.Marshal(c)
		must(t, err)
		return b
	}
	for name, bad := range map[string][]byte{
		"broken": []byte(`{"a":`), "shrunk": []byte(`{"a":{"id":"a","models":{}}}`),
		"negative price": whole(func(c map[string]CatalogProvider) {
			m := c["openai"].Models
			for id, x := range m {
				x.Cost = &catalogCost{Input: "-1", Output: "1"}
				m[id] = x
			}
		}),
	} {
		text = bad
		if _, err := k.Fetch(ctx, struct{}{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text = whole(func(c map[string]CatalogProvider) {
		m := c["openai"].Models
		m["new"] = CatalogModel{ID: "new", LastUpdated: "2999-01-01"}
	})
	r, err := k.Fetch(ctx, struct{}{})
	must(t, err)
	if r.Changed != (Changes{Added: 1}) || r.Date != "2999-01-01" {
		t.Fatalf("%+v", r)
	}
	v, err := k.Verify(ctx, struct{}{})
	must(t, err)
	if v.Equal || len(v.Differences) != 1 || v.Differences[0].Model != "openai/new" {
		t.Fatalf("%+v", v)
	}
	again := newService(t, server.URL)
	again.o.CacheDir = k.o.CacheDir
	if s, err := again.Show(ctx, ShowParams{Provider: "openai", Model: "new"}); err != nil || len(s.Models) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
}

func TestCountsLearnFromReportedUsage(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	text := strings.Repeat("abcd ", 1000)
	r, err := k.CountTokens(t.Context(), CountParams{Model: "a/m", Text: text})
	must(t, err)
	if r.Method != "estimate" || r.Tokens != 1528 {
		t.Fatalf("%+v", r)
	}
	for range 3 {
		k.ratios.learn("a/m", Request{System: []Part{TextPart(text)}}, Usage{Input: 1000})
	}
	if r, _ = k.CountTokens(t.Context(), CountParams{Model: "a/m", Text: text}); r.Method != "calibrated" || r.Tokens < 1000 || r.Tokens > 1101 {
		t.Fatalf("%+v", r)
	}
}

// Code names roles; models are data.
func TestSourcesNameNoModel(t *testing.T) {
	t.Parallel()
	cat, err := embeddedCatalog()
	must(t, err)
	var ids []string
	for _, p := range []string{"openai", "anthropic", "google", "xai"} {
		for id := range cat.Providers[p].Models {
			if strings.ContainsAny(id, "0123456789") && len(id) > 4 {
				ids = append(ids, `"`+id+`"`, "`"+id+"`", "'"+id+"'", "/"+id+`"`)
			}
		}
	}
	for _, dir := range []string{"../../backend", "../../app", "../../frontend/src"} {
		must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if strings.HasSuffix(path, "test.go") || strings.Contains(path, "testdata") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".ts") && !strings.HasSuffix(path, ".svelte") {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, id := range ids {
				if bytes.Contains(text, []byte(id)) {
					t.Errorf("%s names the model %s", path, id)
				}
			}
			return err
		}))
	}
}

func TestBaseURLsAreNormalized(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wire, base, want string }{
		{WireChat, "", "https://api.openai.com/v1/chat/completions"},
		{WireChat, "https://x.example", "https://x.example/v1/chat/completions"},
		{WireChat, "https://x.example/api/v1/", "https://x.example/api/v1/chat/completions"},
		{WireChat, "https://x.example/v1/chat/completions", "https://x.example/v1/chat/completions"},
		{WireResponses, "https://x.example/v1", "https://x.example/v1/responses"},
		{WireAnthropic, "https://x.example/v1", "https://x.example/v1/messages"},
		{WireGemini, "", "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse"},
	} {
		got := Entry{Type: c.wire, BaseURL: c.base}.endpoint("m", true)
		if _, err := url.Parse(got); err != nil || got != c.want {
			t.Errorf("%s %q: %s, want %s", c.wire, c.base, got, c.want)
		}
	}
}
