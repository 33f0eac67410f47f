package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"helix/backend/fault"
	"helix/backend/testkit"
)

func artefactFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	for _, n := range []string{"manifest.json", "run.wasm", "run.snap", "compile.snap"} {
		b, err := fs.ReadFile(embedded, "artefacts/"+n)
		if err != nil {
			t.Fatal(err)
		}
		m[n] = &fstest.MapFile{Data: b}
	}
	return m
}

func TestArtefactsMissing(t *testing.T) {
	t.Parallel()
	e, err := open(context.Background(), Options{WorkerCommand: childCommand}, fstest.MapFS{"README.txt": {Data: []byte("x")}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "engine artefacts missing, run make engines") {
		t.Fatalf("Open = %v", err)
	}
	if _, err := e.CompileJS(context.Background(), Source{Text: "return 1"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("CompileJS = %v", err)
	}
	if _, err := e.Execute(context.Background(), &Program{}, Call{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Execute = %v", err)
	}
	if s := e.Status(); s.Ready || s.Reason != "engine artefacts missing, run make engines" || s.Tiers[0].Available {
		t.Errorf("Status = %+v", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := errors.Join(e.Run(ctx), e.Close(), e.Close()); err != nil {
		t.Errorf("Run and Close: %v", err)
	}
}

func TestArtefactsDamaged(t *testing.T) {
	t.Parallel()
	change := func(m fstest.MapFS, from, to string) {
		m["manifest.json"] = &fstest.MapFile{Data: []byte(strings.Replace(string(m["manifest.json"].Data), from, to, 1))}
	}
	for name, damage := range map[string]func(fstest.MapFS){
		"manifest": func(m fstest.MapFS) { m["manifest.json"] = &fstest.MapFile{Data: []byte("{")} },
		"format":   func(m fstest.MapFS) { m["manifest.json"] = &fstest.MapFile{Data: []byte(`{"format":9}`)} },
		"prelude":  func(m fstest.MapFS) { change(m, `"prelude": "`, `"prelude": "0`) },
		"meter":    func(m fstest.MapFS) { change(m, `"meter": `, `"meter": 9`) },
		"engine":   func(m fstest.MapFS) { m["run.wasm"] = m["run.snap"] },
		"snapshot": func(m fstest.MapFS) { m["run.snap"] = m["compile.snap"] },
		"truncated": func(m fstest.MapFS) {
			d := m["run.wasm"].Data
			m["run.wasm"] = &fstest.MapFile{Data: d[:len(d)/2]}
		},
		"flipped": func(m fstest.MapFS) {
			d := append([]byte{}, m["run.snap"].Data...)
			d[len(d)/2] ^= 1
			m["run.snap"] = &fstest.MapFile{Data: d}
		},
		"gone": func(m fstest.MapFS) { delete(m, "run.wasm") },
	} {
		m := artefactFiles(t)
		damage(m)
		e, err := open(context.Background(), Options{WorkerCommand: childCommand}, m)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "make engines") || e.Close() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The compiling world is loaded on first use.
	m := artefactFiles(t)
	m["compile.snap"] = m["run.snap"]
	e, err := open(context.Background(), Options{WorkerCommand: childCommand, CacheDir: sharedCache}, m)
	if err != nil && cpuMeter == "thread" { // otherwise it is needed at once, to calibrate
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.CompileJS(context.Background(), Source{Text: "return 1"}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "make engines") {
		t.Errorf("a damaged compiling world gives %v", err)
	}
}

func mustRun(t *testing.T, e *Engine, text, want string) {
	t.Helper()
	p, err := e.CompileJS(context.Background(), Source{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Execute(context.Background(), p, Call{})
	if err != nil || string(res.Output) != want {
		t.Fatalf("%q gives %s, %v; want %s", text, res.Output, err, want)
	}
}

func openWithCache(t *testing.T, dir string) *Engine {
	t.Helper()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestCache(t *testing.T) {
	testkit.SkipRaced(t, "compiles much, and one thing after the other")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	mustRun(t, openWithCache(t, dir), "return 1", "1")
	e := openWithCache(t, dir)
	s := e.Status().Cache
	if s.Modules != 1 || s.Bytes < 100_000 || s.Reason != "" {
		t.Errorf("cache = %+v", s)
	}
	files, _ := e.cache.list()
	for damage, change := range map[string]func(string) error{
		"truncated": func(p string) error { return os.Truncate(p, 1000) },
		"empty":     func(p string) error { return os.Truncate(p, 0) },
		"flipped": func(p string) error {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 0xff
			return os.WriteFile(p, b, 0o600)
		},
	} {
		if damage != "flipped" && !long { // each needs a compilation
			continue
		}
		for _, f := range files {
			if err := change(f.path); err != nil {
				t.Fatalf("%s: %v", damage, err)
			}
		}
		e := openWithCache(t, dir)
		mustRun(t, e, "return 2", "2")
		if s := e.Status().Cache; s.Bytes < 100_000 {
			t.Errorf("%s: cache = %+v, want it rebuilt", damage, s)
		}
	}
}

func TestCacheNotUsed(t *testing.T) {
	testkit.SkipRaced(t, "compiles much, and one thing after the other")
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes are not kept here")
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	target := t.TempDir()
	if err := os.Chmod(target, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{open: "0700", file: "", link: "not a folder"}
	if os.Chown(foreign, 12345, 12345) == nil {
		cases[foreign] = "another user"
	}
	for dir, why := range cases {
		c := openCache(dir)
		if dir == open || long {
			e := openWithCache(t, dir)
			mustRun(t, e, "return 1", "1")
			c = e.cache
		}
		if s := c.status(); s.Reason == "" || !strings.Contains(s.Reason, why) || s.Bytes != 0 {
			t.Errorf("%s: cache = %+v, want a reason with %q", dir, s, why)
		}
	}
	if names, err := os.ReadDir(open); err != nil || len(names) != 0 {
		t.Errorf("something was written: %v, %v", names, err)
	}
	// A subfolder that others may write to is not used either.
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "native"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "native"), 0o777); err != nil {
		t.Fatal(err)
	}
	if s := openWithCache(t, dir).Status().Cache; s.Reason == "" {
		t.Errorf("cache with an open subfolder = %+v", s)
	}
}

func TestCacheSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &diskCache{root: dir}
	hour := func(n int) time.Time { return time.Now().Add(time.Duration(n) * time.Hour) }
	for _, f := range []struct {
		name        string
		read, wrote time.Time
	}{{"old", hour(-9), hour(-9)}, {"read", hour(-1), hour(-8)}, {"new", hour(-2), hour(-2)}} {
		p := filepath.Join(dir, "native", f.name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(p, maxCache/3+1); err != nil { // a sparse file, which takes no space
			t.Fatal(err)
		}
		if err := os.Chtimes(p, f.read, f.wrote); err != nil {
			t.Fatal(err)
		}
	}
	d.sweep()
	files, total := d.list()
	var left []string
	for _, f := range files {
		left = append(left, filepath.Base(f.path))
	}
	if got := strings.Join(left, " "); runtime.GOOS != "windows" && got != "new read" || len(left) != 2 || total > maxCache {
		t.Errorf("left: %v", left)
	}
}

func TestThousandRunsLeakNothing(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	n := 1000
	if testing.Short() || raceEnabled {
		n = 30
	}
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 2, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	p, err := e.CompileJS(ctx, Source{Text: "setTimeout(() => 1, 1e6); helix.state.keys().catch(() => 1); if (params % 3 === 0) throw 1; return params"})
	if err != nil {
		t.Fatal(err)
	}
	h := HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	before := runtime.NumGoroutine()
	for i := range n {
		_, _ = e.Execute(ctx, p, Call{Input: input(i), Host: h})
	}
	// Goroutines of wazero that watched a call end a moment later.
	testkit.Eventually(t, fmt.Sprintf("goroutines, %d before", before), runtime.NumGoroutine, func(n int) bool { return n <= before+2 })
	if s := e.Status(); s.Pool.Busy != 0 || s.Pool.Queued != 0 || s.Pool.Discarded > int64(n)/10 || s.Pool.Idle > 2 {
		t.Errorf("pool = %+v", s.Pool)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestCloseWaitsForRuns(t *testing.T) {
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: -1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.CompileJS(context.Background(), Source{Text: "await helix.state.keys(); return 7"})
	if err != nil {
		t.Fatal(err)
	}
	started, release := make(chan struct{}), make(chan struct{})
	h := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		close(started)
		<-release
		return json.RawMessage(`{"keys":[]}`), nil
	})
	out := make(chan string, 1)
	go func() {
		res, err := e.Execute(context.Background(), p, Call{Host: h})
		if err != nil {
			out <- err.Error()
			return
		}
		out <- string(res.Output)
	}()
	<-started
	closed := make(chan error, 2)
	go func() { closed <- e.Close() }()
	for { // until Close has started
		if _, err := e.CompileJS(context.Background(), Source{Text: "return 1"}); err != nil {
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("CompileJS while closing: %v", err)
			}
			break
		}
	}
	close(release)
	if got := <-out; got != "7" {
		t.Errorf("the run in progress gave %s", got)
	}
	if err := errors.Join(<-closed, e.Close()); err != nil {
		t.Error(err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := shared.Status()
	if !s.Ready || s.Engine.Name != "quickjs-ng" || len(s.Engine.SHA256) != 64 || s.CPUMeter == "" || len(s.Tiers) != 2 || !s.Tiers[0].Available {
		t.Errorf("status = %+v", s)
	}
	b, err := json.Marshal(s)
	if err != nil || strings.Contains(string(b), "null") {
		t.Errorf("%s, %v", b, err)
	}
}

func TestProgramsAreKept(t *testing.T) {
	t.Parallel()
	a, b := compile(t, "return 'kept'"), compile(t, "return 'kept'")
	if a != b {
		t.Error("the same text was compiled twice")
	}
}

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	for c, k := range map[Class]fault.Kind{
		ClassCompile: fault.Invalid, ClassMissingExport: fault.Invalid, ClassInput: fault.Invalid, ClassTimeout: fault.Timeout, ClassCPU: fault.Timeout,
		ClassMemory: fault.Limit, ClassOutput: fault.Limit, ClassHostDenied: fault.Denied, ClassCanceled: fault.Canceled, ClassUnavailable: fault.Unavailable,
		ClassThrown: fault.Internal, ClassTrap: fault.Internal,
	} {
		e := &Error{Class: c, Message: "m", Details: 1, Err: fs.ErrExist}
		if f := fault.As(e); f.Kind != k || f.Message != "m" || f.Details != 1 || !errors.Is(e, fs.ErrExist) || !strings.Contains(e.Error(), string(c)) {
			t.Errorf("%s is %+v", c, f)
		}
	}
}
