package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/testkit"

	"helix/backend/sandbox/linear"
)

// cacheEngine opens an engine with a cache folder that already contains the JavaScript engine's
// code.
func cacheEngine(t testing.TB, dir string) *Engine {
	t.Helper()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Workers: 2, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// preparedFiles returns the files of prepared modules in a cache folder.
func preparedFiles(t testing.TB, dir string) (prepared, native []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		switch {
		case err != nil || !d.Type().IsRegular():
		case strings.Contains(d.Name(), "-m"):
			prepared = append(prepared, p)
		case len(d.Name()) == 64:
			native = append(native, p)
		default:
			t.Errorf("%s was left", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return prepared, native
}

func runOn(t testing.TB, e *Engine, wasm []byte) string {
	t.Helper()
	m, err := e.CompileWASM(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Execute(context.Background(), m, Call{Tier: tier0})
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Output)
}

func TestModuleCache(t *testing.T) {
	testkit.SkipRaced(t, "compiles much, and one thing after the other")
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	wasm := textModule(t, `(global $g (mut i32) (i32.const 3)) (data (i32.const 5000) "\07")`, `(call $number (i32.add (global.get $g) (i32.load8_u (i32.const 5000))))`)
	first := cacheEngine(t, dir)
	if got := runOn(t, first, wasm); got != "10010" {
		t.Fatal(got)
	}
	info := mustCompile(t, first, wasm).Info()
	prepared, native := preparedFiles(t, dir)
	if len(prepared) != 1 || len(native) == 0 {
		t.Fatalf("files %v, %v", prepared, native)
	}
	// The same bytes are the same module; another engine reads the cached files.
	if one, two := mustCompile(t, first, wasm), mustCompile(t, first, wasm); one != two {
		t.Error("compiled twice")
	}
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(prepared[0], before, before); err != nil {
		t.Fatal(err)
	}
	second := cacheEngine(t, dir)
	if got := runOn(t, second, wasm); got != "10010" {
		t.Errorf("from the cache: %s", got)
	}
	if again := mustCompile(t, second, wasm).Info(); string(jsonObject(again)) != string(jsonObject(info)) {
		t.Errorf("info %+v, was %+v", again, info)
	}
	if i, err := os.Stat(prepared[0]); err != nil || i.ModTime().Before(time.Now().Add(-time.Minute)) {
		t.Errorf("using a file does not touch it: %v", err)
	}
	whole, err := os.ReadFile(prepared[0])
	if err != nil {
		t.Fatal(err)
	}
	change := func(b []byte, at int) []byte {
		b = append([]byte(nil), b...)
		b[at] ^= 1
		return b
	}
	for name, damaged := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)/2], "cut by one": whole[:len(whole)-1], "longer": append(append([]byte(nil), whole...), 0),
		"checksum": change(whole, 0), "length": change(whole, 5), "header": change(whole, 20), "code": change(whole, len(whole)-1), "seven bytes": whole[:7],
	} {
		if err := os.WriteFile(prepared[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := runOn(t, cacheEngine(t, dir), wasm); got != "10010" {
			t.Errorf("%s: %s", name, got)
		}
		if b, err := os.ReadFile(prepared[0]); err != nil || string(b) != string(whole) {
			t.Errorf("%s: not made again: %v", name, err)
		}
	}
	// Damaged machine code is compiled again too.
	for _, cut := range []int64{0, 10, 100, -1} {
		third := cacheEngine(t, dir)
		_, native = preparedFiles(t, dir)
		for _, f := range native {
			i, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			n := cut
			if n < 0 {
				n += i.Size()
			}
			if i.Size() < 100_000 { // the JavaScript engine's code is slow to compile and tested separately
				if err := os.Truncate(f, min(n, i.Size())); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := runOn(t, third, wasm); got != "10010" {
			t.Errorf("cut to %d: %s", cut, got)
		}
	}
}

func mustCompile(t testing.TB, e *Engine, wasm []byte) *Module {
	t.Helper()
	m, err := e.CompileWASM(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWithoutCache compiles without a folder, and with one that is not writable.
func TestWithoutCache(t *testing.T) {
	testkit.SkipRaced(t, "compiles much, and one thing after the other")
	t.Parallel()
	wasm := textModule(t, ``, `(call $number (i32.const 6))`)
	e, err := Open(context.Background(), Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := runOn(t, e, wasm); got != "10006" {
		t.Error(got)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := e.CompileWASM(context.Background(), wasm); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after Close: %v", err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e = cacheEngine(t, dir)
	if err := os.RemoveAll(filepath.Join(dir, "native")); err != nil { // as if the disk refused to create files
		t.Fatal(err)
	}
	if got := runOn(t, e, wasm); got != "10006" {
		t.Error(got)
	}
}

func TestCompileEnds(t *testing.T) {
	t.Parallel()
	wasm := fromGo(t, "program")
	e, err := Open(context.Background(), Options{Workers: 1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.CompileWASM(ctx, append(wasm[:len(wasm):len(wasm)], 0, 2, 1, 'x')); !fault.Is(err, fault.Canceled) { // other bytes, which are not cached
		t.Errorf("%v, want canceled", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := e.CompileWASM(ctx, append(wasm[:len(wasm):len(wasm)], 0, 2, 1, 'y')); !fault.Is(err, fault.Timeout) {
		t.Errorf("%v, want timeout", err)
	}
	// Concurrent compilations wait for each other, and for the same bytes return the same module.
	small := textModule(t, ``, `(call $number (i32.const 77))`)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[*Module]bool{}
	for range 16 {
		wg.Go(func() {
			m, err := e.CompileWASM(context.Background(), small)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			seen[m] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Errorf("%d modules", len(seen))
	}
}

func TestUncompiledModuleIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, m := range []*Module{nil, {}} {
		_, err := shared.Execute(context.Background(), m, Call{Tier: tier0})
		var e *Error
		if !errors.As(err, &e) || e.Class != ClassUnavailable {
			t.Errorf("%v", err)
		}
	}
}

// BenchmarkCompileGo compiles a Go program without and with the cache.
func BenchmarkCompileGo(b *testing.B) {
	wasm := fromGo(b, "program")
	b.Logf("%d bytes", len(wasm))
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			e, err := Open(context.Background(), Options{Workers: 1})
			if err != nil {
				b.Fatal(err)
			}
			begun := time.Now()
			mustCompile(b, e, wasm)
			b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms")
			e.Close()
		}
	})
	b.Run("cached", func(b *testing.B) {
		mustCompile(b, shared, wasm)
		for b.Loop() {
			e, err := Open(context.Background(), Options{Workers: 1, CacheDir: sharedCache})
			if err != nil {
				b.Fatal(err)
			}
			begun := time.Now()
			mustCompile(b, e, wasm)
			b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "ms")
			e.Close()
		}
	})
}

// FuzzDecodePrepared reads files that were modified and given a correct checksum.
func FuzzDecodePrepared(f *testing.F) {
	good := encodePrepared(&preparedModule{
		Info: ModuleInfo{ABI: ABIExecute, Memory: 2}, Calls: []string{"execute"}, Pages: [][2]int{{0, linear.Page}, {linear.Page * 3, linear.Page}},
		data: []linear.Chunk{{At: 0, Data: make([]byte, linear.Page)}, {At: linear.Page * 3, Data: make([]byte, linear.Page)}}, wasm: []byte("\x00asm"),
	})
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append([]byte(nil), b...)
		if len(b) >= 8 {
			binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], checksums))
		}
		p, err := decodePrepared(b)
		if err != nil {
			return
		}
		end := 0
		for _, c := range p.data {
			if c.At < end || len(c.Data) == 0 || len(c.Data)%linear.Page != 0 || c.At+len(c.Data) > int(p.Info.Memory)<<16 {
				t.Errorf("piece of %d bytes at %d", len(c.Data), c.At)
			}
			end = c.At + len(c.Data)
		}
	})
}
