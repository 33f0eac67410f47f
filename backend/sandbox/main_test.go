package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"helix/backend/testkit"
)

// shared is the engine that most tests use, because creating one takes a moment.
var shared *Engine

// long requests every variant of the slow tests.
var long = os.Getenv("HELIX_LONG") != ""

// sharedCache contains its compiled code, which takes a second to compile and much longer with
// -race.
var sharedCache string

// cacheVariable names the folder of the compiled code to a test in a process of its own.
const cacheVariable = "HELIX_TEST_SANDBOX_CACHE"

// alone reports whether a test runs in a process of its own, where it may count what the process has.
func alone(t *testing.T) bool {
	t.Helper()
	return testkit.Alone(t, cacheVariable+"="+sharedCache)
}

// usualProcessors is how many processors the runtime had before any test.
var usualProcessors = runtime.GOMAXPROCS(0)

// childCommand starts this program as the child of tier t1.
var childCommand []string

func TestMain(m *testing.M) {
	childCommand = ServeWorker()
	actAsChild()
	flag.Parse()
	var err error
	if sharedCache = os.Getenv(cacheVariable); sharedCache == "" {
		sharedCache, err = os.MkdirTemp("", "helix-sandbox-")
	}
	if err == nil {
		shared, err = Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 4, Workers: 4, CacheDir: sharedCache})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	e := shared
	code := m.Run()
	if err := e.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if os.Getenv(cacheVariable) == "" {
		if err := os.RemoveAll(sharedCache); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if code == 0 {
		if err := testkit.Leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func compile(t testing.TB, text string) *Program {
	t.Helper()
	p, err := shared.CompileJS(context.Background(), Source{Text: text, Language: TypeScript})
	if err != nil {
		t.Fatalf("compile %q: %v", text, err)
	}
	return p
}

// try runs text and returns the result with its error, which is nil or a *Error.
func try(t testing.TB, text string, c Call) (Result, *Error) {
	t.Helper()
	res, err := shared.Execute(context.Background(), compile(t, text), c)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("Execute gave %T, want *Error", err)
	}
	return res, e
}

// run1 runs text and expects success.
func run1(t testing.TB, text string, c Call) Result {
	t.Helper()
	res, err := try(t, text, c)
	if err != nil {
		t.Fatalf("run %.200q: %v\n%s", text, err, err.Stack)
	}
	return res
}

func wantOutput(t testing.TB, text string, c Call, want string) {
	t.Helper()
	if got := string(run1(t, text, c).Output); got != want {
		t.Errorf("%.200q gives %s, want %s", text, got, want)
	}
}

func wantClass(t testing.TB, text string, c Call, want Class) *Error {
	t.Helper()
	_, err := try(t, text, c)
	if err == nil || err.Class != want {
		t.Fatalf("%.200q ends with %v, want class %s", text, err, want)
	}
	return err
}

func input(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
