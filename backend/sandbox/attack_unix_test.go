//go:build unix

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"helix/backend/testkit"
)

// TestDiskFullWhileCaching opens an engine that may write only the beginning of a file, in a
// separate process, since the limit applies to the process. It must work without its cache, and the
// files it left must not harm the next one.
func TestDiskFullWhileCaching(t *testing.T) {
	testkit.SkipRaced(t, "compiles much, and one thing after the other")
	const env = "HELIX_TEST_DISK_FULL"
	if dir := os.Getenv(env); dir != "" {
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: 100_000, Max: 100_000}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(t.TempDir(), "large"), make([]byte, 200_000), 0o600); err == nil {
			t.Fatal("the limit is not in force, so this test shows nothing")
		}
		worksWith(t, dir)
		return
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	c := exec.Command(os.Args[0], "-test.run=^TestDiskFullWhileCaching$")
	// The engine of TestMain was created before the limit, with another cache.
	c.Env = append(os.Environ(), env+"="+dir, cacheVariable+"="+sharedCache)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	worksWith(t, dir)
}

// worksWith runs a tool and a module with a cache folder.
func worksWith(t *testing.T, dir string) {
	t.Helper()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	mustRun(t, e, "return 42", "42")
	code, err := os.ReadFile(filepath.Join("testdata", "hostile", "wasm_mem_grow.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := e.CompileWASM(context.Background(), code)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := e.Execute(context.Background(), m, Call{Trust: TrustOwn}); err != nil || string(res.Output) != "1" {
			t.Fatalf("%s, %v", res.Output, err)
		}
	}
}
