package tools

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"helix/backend/audit"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
	"helix/backend/wasmtools"
)

var update = flag.Bool("update", false, "write golden files")

// worker is the command line of this program as the sandbox's child.
var worker []string

// cacheVariable names the folder of the compiled engine, also to tests in a process of their own.
const cacheVariable = "HELIX_TEST_TOOLS_CACHE"

func TestMain(m *testing.M) {
	worker = sandbox.ServeWorker()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	if os.Getenv(cacheVariable) == "" { // without it, each child of the sandbox would compile the engine
		dir, err := os.MkdirTemp("", "helix-tools-")
		if err == nil {
			err = os.Setenv(cacheVariable, dir)
		}
		if err != nil {
			println(err.Error())
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // in the system's temporary folder
	}
	code = m.Run()
	engine.close()
	if code == 0 {
		if err := testkit.Leaks(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	return code
}

// engine is shared by the tests of the package, because it is slow to open and its runs are independent.
var engine sharedEngine

type sharedEngine struct {
	once sync.Once
	box  *sandbox.Engine
	err  error
}

func (s *sharedEngine) open(t testing.TB) *sandbox.Engine {
	t.Helper()
	s.once.Do(func() {
		s.box, s.err = sandbox.Open(context.Background(), sandbox.Options{Idle: -1, WorkerCommand: worker, CacheDir: os.Getenv(cacheVariable)})
	})
	if s.err != nil {
		t.Skipf("the sandbox cannot be opened: %v", s.err)
	}
	return s.box
}

func (s *sharedEngine) close() {
	if s.box != nil {
		_ = s.box.Close()
	}
}

// wasmDefinitions adds the methods of the other service.
type wasmDefinitions struct{ *wasmtools.Service }

// bundle is one database with everything that tools need.
type bundle struct {
	*Service
	wasmDefinitions
	db    *storage.DB
	perm  *permission.Service
	audit *audit.Service
	ctx   context.Context
	dir   string
}

func setup(t testing.TB, change ...func(*Options)) *bundle {
	t.Helper()
	return setupOn(t, storagetest.Open(t), change...)
}

func setupOn(t testing.TB, db *storage.DB, change ...func(*Options)) *bundle {
	t.Helper()
	dir := t.TempDir()
	o := Options{StateDir: filepath.Join(dir, "state"), Home: filepath.Join(dir, "home"), MaxTools: 0}
	for _, c := range change {
		c(&o)
	}
	if err := os.MkdirAll(o.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	aud := audit.New(db, audit.Options{})
	perm := permission.New(db, db.Bus(), permission.Options{
		Home: o.Home, Audit: aud, StateDir: func(s permission.Subject) string { return StateFolder(o.StateDir, s) }, OwnPort: o.OwnPort,
	})
	wasm := wasmtools.New(db, perm, engine.open(t), "")
	s := New(db, perm, aud, engine.open(t), wasm, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bundle{Service: s, wasmDefinitions: wasmDefinitions{wasm}, db: db, perm: perm, audit: aud, ctx: storagetest.Ctx(t, db), dir: dir}
}

func (b *bundle) create(t testing.TB, p CreateParams) Tool {
	t.Helper()
	if p.Name == "" {
		p.Name = "T " + storage.NewID().String()[24:]
	}
	r, err := b.Create(b.ctx, p)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return r.Tool
}

func (b *bundle) run(t testing.TB, tool Tool, params string) ExecuteResult {
	t.Helper()
	p := ExecuteParams{ToolID: &tool.ID}
	if params != "" {
		p.Params = json.RawMessage(params)
	}
	r, err := b.Execute(b.ctx, p)
	if err != nil {
		t.Fatalf("execute %s: %v (%+v)", tool.Name, err, err)
	}
	return r
}

// examine runs the static checks without an engine.
func examine(d definition) examined { return checker{}.examine(context.Background(), d) }
