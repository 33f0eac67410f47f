package memory

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory/importer/importertest"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// wired is a running service with an RPC client.
type wired struct {
	*bundle
	call func(method string, params, result any) error
	stop func() // also closes the database
}

// wire starts a service on the database in dir and connects to it.
func wire(t *testing.T, dir string, root storage.Root, o Options) *wired {
	t.Helper()
	db := storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), root)
	o.VectorDir = filepath.Join(dir, "vectors")
	s := New(db, o)
	b := &bundle{Service: s, db: db, ctx: storagetest.Ctx(t, db)}
	api := gateway.NewAPI()
	gateway.Handle(api, "memory.search", gateway.Read, s.Search)
	gateway.Handle(api, "memory.import", gateway.Write, s.Import)
	gateway.Handle(api, "memory.import_status", gateway.Read, s.ImportStatus)
	gateway.Handle(api, "memory.import_cancel", gateway.Write, s.ImportCancel)
	gateway.Handle(api, "memory.embedding_status", gateway.Read, s.EmbeddingStatus)
	gateway.Handle(api, "memory.reembed", gateway.Write, s.Reembed)
	server := gateway.New(api, gateway.Options{DB: db, Bus: b.bus(t), NoHTTP: true})
	gateway.Handle(api, "connect", gateway.None, server.Connect)
	ctx, cancel := context.WithCancel(context.Background())
	here, there := gateway.MemoryPipe()
	served, ran := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(ctx, here, identity.Identity{User: identity.UserID(b.ctx), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "test", Pipe: "bridge"}) // ends with the test
	}()
	go func() {
		defer close(ran)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	client, err := gateway.DialOver(t.Context(), there, gateway.ClientOptions{Scopes: []string{"admin"}, Client: gateway.ClientInfo{ID: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	w := &wired{bundle: b, call: func(method string, params, result any) error { return client.Call(t.Context(), method, params, result) }}
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = client.Close()
		cancel()
		<-served
		<-ran
		b.shut(t)
	}
	t.Cleanup(w.stop)
	return w
}

func ask[R any](t *testing.T, w *wired, method string, params any) (r R) {
	t.Helper()
	if err := w.call(method, params, &r); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return r
}

// imports imports a file until the import has ended or done returns true.
func (w *wired) imports(t *testing.T, path string, done func(ImportStatus) bool) ImportStatus {
	t.Helper()
	job := JobParams(ask[JobResult](t, w, "memory.import", ImportParams{Path: path}))
	var st ImportStatus
	until(t, "the import", func() bool {
		st = ask[ImportStatus](t, w, "memory.import_status", job)
		return st.FinishedAt != nil || done != nil && done(st)
	})
	return st
}

// The start and the end of an import are in the audit log.
func TestImportsAreAudited(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	var mu sync.Mutex
	var got []string
	w := wire(t, dir, root, Options{Audit: func(_ *storage.Tx, e audit.Entry) error {
		mu.Lock()
		defer mu.Unlock()
		if details, ok := e.Details.(map[string]any); !ok || details["name"] != "notes.txt" || e.SubjectID != e.RunID.String() {
			t.Errorf("entry %+v", e)
		}
		got = append(got, e.Action)
		return nil
	}})
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("The attic window sticks."), 0o600); err != nil {
		t.Fatal(err)
	}
	w.imports(t, path, nil)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"import.started", "import.completed"}; !slices.Equal(got, want) {
		t.Errorf("audited %q, want %q", got, want)
	}
}

// A person cancels a running import and imports the same file later: stored records are kept, and
// nothing is stored twice.
func TestCanceledImportCanBeRepeated(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	w := wire(t, dir, root, Options{})
	turns := 4000
	if raced {
		turns = 700
	}
	path, wrote := export(t, importertest.Options{Conversations: 3, Turns: turns, Words: 6})
	all := int64(wrote.Turns)
	st := w.imports(t, path, func(st ImportStatus) bool { return st.Added > 0 })
	st = ask[ImportStatus](t, w, "memory.import_cancel", JobParams{JobID: st.JobID})
	if st.Status != "cancelled" || st.FinishedAt == nil || st.Added == 0 || st.Added >= all || st.Added != st.Read {
		t.Fatalf("cancelled: %+v", st)
	}
	w.wantTurns(t, st.Added)
	if again := ask[ImportStatus](t, w, "memory.import_cancel", JobParams{JobID: st.JobID}); again.Status != "cancelled" || again.Added != st.Added {
		t.Errorf("cancelled again: %+v", again)
	}
	stored := st.Added
	w.stop()
	w = wire(t, dir, root, Options{})
	if now := ask[ImportStatus](t, w, "memory.import_status", JobParams{JobID: st.JobID}); now.Status != "cancelled" || now.Added != stored {
		t.Errorf("after a restart: %+v", now)
	}
	w.wantTurns(t, stored)
	wantCounts(t, w.imports(t, path, nil), "completed", all, all-stored, 0, stored, 0)
	w.wantTurns(t, all)
}

// Pausing embedding persists in another process, and embedding continues on request. Without the
// model, search uses words only and reports that.
func TestPausedVectorsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	model := newWordsModel("words@1", 64)
	w := wire(t, dir, root, Options{Embedder: model})
	if st := ask[EmbeddingStatus](t, w, "memory.reembed", ReembedParams{Pause: ptr(true)}); !st.Paused {
		t.Fatalf("paused: %+v", st)
	}
	path, wrote := export(t, importertest.Options{Conversations: 4})
	all := int64(wrote.Turns)
	wantCounts(t, w.imports(t, path, nil), "completed", all, all, 0, 0, 0)
	w.stop()
	w = wire(t, dir, root, Options{Embedder: model})
	if st := ask[EmbeddingStatus](t, w, "memory.embedding_status", nil); !st.Paused || st.Queued != all || st.Ready != 0 {
		t.Errorf("after a restart: %+v", st)
	}
	if n := model.texts.Load(); n != 0 {
		t.Errorf("%d vectors were made while paused", n)
	}
	hybrid := search.Params{Query: "mountain library", Mode: "hybrid"}
	if r := ask[search.Result](t, w, "memory.search", hybrid); r.Degraded != "reindexing" || len(r.Results) == 0 {
		t.Errorf("search while vectors are missing: %q, %d results", r.Degraded, len(r.Results))
	}
	ask[EmbeddingStatus](t, w, "memory.reembed", ReembedParams{Pause: ptr(false)})
	until(t, "all vectors", func() bool {
		st := ask[EmbeddingStatus](t, w, "memory.embedding_status", nil)
		return st.Ready == all && st.Queued == 0 && !st.Paused
	})
	until(t, "search by meaning", func() bool { return ask[search.Result](t, w, "memory.search", hybrid).Degraded == "" })
	w.stop()

	w = wire(t, dir, root, Options{Why: "The model file is missing."})
	if r := ask[search.Result](t, w, "memory.search", hybrid); r.Degraded != "no_vectors" || len(r.Results) == 0 {
		t.Errorf("search without a model: %q, %d results", r.Degraded, len(r.Results))
	}
	var r search.Result
	if err := w.call("memory.search", search.Params{Query: "mountain", Mode: "vector"}, &r); !fault.Is(err, fault.Unavailable) || fault.As(err).Message != "The model file is missing." {
		t.Errorf("search by meaning without a model: %v", err)
	}
	if st := ask[EmbeddingStatus](t, w, "memory.embedding_status", nil); st.Available || st.Reason != "The model file is missing." {
		t.Errorf("without a model: %+v", st)
	}
	w.stop()
	w = wire(t, dir, root, Options{Embedder: model}) // the model is available again
	until(t, "search by meaning", func() bool { return ask[search.Result](t, w, "memory.search", hybrid).Degraded == "" })
	if n := model.texts.Load(); n > all+10 { // including the queries
		t.Errorf("%d texts were embedded for %d turns", n, all)
	}
}
