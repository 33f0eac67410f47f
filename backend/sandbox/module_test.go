package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// need fails a test if one of the programs that build modules is missing. HELIX_WASM_TOOLS=none
// declares that this machine has none; then such tests are skipped.
func need(t testing.TB, program string) {
	t.Helper()
	if os.Getenv("HELIX_WASM_TOOLS") == "none" {
		t.Skip("HELIX_WASM_TOOLS=none")
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%v: install it, or set HELIX_WASM_TOOLS=none to go without these tests", err)
	}
}

// built caches the built modules by their source.
var built sync.Map

type build struct {
	once sync.Once
	wasm []byte
	err  error
}

// buildOnce builds the module for key with a command that writes to the file out.
func buildOnce(t testing.TB, key string, make func(out string) *exec.Cmd) []byte {
	t.Helper()
	v, _ := built.LoadOrStore(key, &build{})
	b := v.(*build)
	b.once.Do(func() {
		dir, err := os.MkdirTemp("", "helix-wasm-")
		if err != nil {
			b.err = err
			return
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, "out.wasm")
		cmd := make(out)
		var text bytes.Buffer
		cmd.Stderr = &text
		if err := cmd.Run(); err != nil {
			b.err = errors.New(cmd.String() + ": " + err.Error() + "\n" + text.String())
			return
		}
		b.wasm, b.err = os.ReadFile(out)
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.wasm
}

// fromC builds testdata/wasm/NAME.c. A program with main becomes a command, others export execute.
func fromC(t testing.TB, name string) []byte {
	t.Helper()
	need(t, "clang")
	file := filepath.Join("testdata", "wasm", name+".c")
	return buildOnce(t, file, func(out string) *exec.Cmd {
		model := "reactor"
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("int main(")) {
			model = "command"
		}
		// The runtime library of clang is a separate package, and not needed.
		return exec.Command("clang", "--target=wasm32-wasi", "-O2", "-mexec-model="+model, "-nodefaultlibs", "-lc", "-Wl,-s", "-o", out, file)
	})
}

// fromGo builds the program in testdata/wasm/NAME; one without main exports execute.
func fromGo(t testing.TB, name string) []byte {
	t.Helper()
	need(t, "go")
	if raceEnabled {
		t.Skip("compiling a Go program takes minutes under the race detector")
	}
	return buildOnce(t, "go "+name, func(out string) *exec.Cmd {
		args := []string{"build", "-o", out}
		if text, err := os.ReadFile(filepath.Join("testdata", "wasm", name, "main.go")); err == nil && bytes.Contains(text, []byte("//go:wasmexport execute")) {
			args = append(args, "-buildmode=c-shared")
		}
		cmd := exec.Command("go", append(args, "./"+filepath.ToSlash(filepath.Join("testdata", "wasm", name)))...)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
		return cmd
	})
}

// fromText builds a module written as text.
func fromText(t testing.TB, text string) []byte {
	t.Helper()
	need(t, "wat2wasm")
	return buildOnce(t, text, func(out string) *exec.Cmd {
		cmd := exec.Command("wat2wasm", "--enable-threads", "--enable-exceptions", "--enable-tail-call", "--enable-memory64", "--enable-multi-memory", "-", "-o", out)
		cmd.Stdin = strings.NewReader(text)
		return cmd
	})
}

func compileWASM(t testing.TB, wasm []byte) *Module {
	t.Helper()
	m, err := shared.CompileWASM(context.Background(), wasm)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return m
}

// loaded returns a module with its machine code.
func loaded(t testing.TB, wasm []byte) *Module {
	t.Helper()
	m := compileWASM(t, wasm)
	if err := m.load(context.Background(), shared); err != nil {
		t.Fatal(err)
	}
	return m
}

// unhurried sets the wall time of a run to the maximum, unless the test sets it: this machine may
// be busy.
func unhurried(c *Call) {
	if c.Limits.Wall == 0 {
		c.Limits.Wall = time.Minute
	}
}

// tryModule runs a module in this process.
func tryModule(t testing.TB, wasm []byte, c Call) (Result, *Error) {
	t.Helper()
	c.Tier = tier0
	unhurried(&c)
	res, err := shared.Execute(context.Background(), compileWASM(t, wasm), c)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("Execute gave %T, want *Error", err)
	}
	return res, e
}

func runModule(t testing.TB, wasm []byte, c Call) Result {
	t.Helper()
	res, err := tryModule(t, wasm, c)
	if err != nil {
		t.Fatalf("%v\n%s\nlogs: %v", err, err.Stack, res.Logs)
	}
	return res
}

func TestModuleFromC(t *testing.T) {
	t.Parallel()
	wasm := fromC(t, "json")
	var res Result
	for range 5 {
		res = runModule(t, wasm, Call{Input: []byte(`{"a":[1,2.5,{"b":null}],"c":"x\"y"}`)})
		if got, want := string(res.Output), `{"objects":2,"arrays":1,"strings":4,"numbers":2,"words":1,"sum":3.5}`; got != want {
			t.Fatalf("output %s, want %s", got, want)
		}
		if res.Usage.Fuel == 0 || res.Usage.PeakMemory < 1<<16 || res.Usage.OutputBytes != int64(len(res.Output)) {
			t.Errorf("usage %+v", res.Usage)
		}
	}
	if n := loaded(t, wasm).code.counts(); n == 0 {
		t.Errorf("no instance was kept after %d units", res.Usage.Fuel)
	}
}

func BenchmarkModuleJSON(b *testing.B) {
	m := compileWASM(b, fromC(b, "json"))
	c := Call{Input: []byte(`{"a":[1,2.5,{"b":null}],"c":"x\"y"}`), Tier: tier0}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := shared.Execute(context.Background(), m, c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkModuleGo runs a Go program, whose runtime starts anew each time.
func BenchmarkModuleGo(b *testing.B) {
	m := compileWASM(b, fromGo(b, "program"))
	c := Call{Input: []byte(`{"do":"echo"}`), Tier: tier0}
	for b.Loop() {
		if _, err := shared.Execute(context.Background(), m, c); err != nil {
			b.Fatal(err)
		}
	}
}

func (c *moduleCode) counts() (idle int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}
