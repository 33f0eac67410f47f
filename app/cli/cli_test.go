package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/sandbox"
	"helix/backend/sandbox/sandboxtest"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// worker starts this program as the sandbox's child.
var worker []string

func TestMain(m *testing.M) {
	worker = sandbox.ServeWorker()
	runAsCommand()
	os.Exit(testkit.Run(hubtest.Main{M: m}))
}

// Only a terminal counts: /dev/null is a character device too.
func TestTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isTerminal(f) || isTerminal(strings.NewReader("y")) {
		t.Error("nobody is at the keyboard")
	}
}

// noKeyring is a computer without a keyring.
type noKeyring struct{}

func (noKeyring) Get(string, string) (string, error) { return "", errors.New("no keyring here") }
func (noKeyring) Set(string, string, string) error   { return errors.New("no keyring here") }

type result struct {
	code           int
	stdout, stderr string
}

// dataFolder returns a data folder with what a first start takes seconds for: the compiled engine
// and an empty database with the schema.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sandboxtest.Warm(t, filepath.Join(dir, "cache", "engine"))
	storagetest.Blank(t, filepath.Join(dir, "data", "helix.db"))
	return dir
}

// helix runs one command in this process with its own data folder.
func helix(t *testing.T, dir, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(t.Context(), append([]string{"--data-dir", dir, "--timeout", "10m"}, args...), Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Keyring: noKeyring{}, Worker: worker})
	return result{code, out.String(), errs.String()}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./app/cli -update rewrites it):\n%s", name, got)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"serve", "--help"}, {"call", "--help"}, {"tool", "--help"}, {"tool", "run", "--help"}, {"skill", "--help"}, {"skill", "run", "--help"}, {"schedule", "--help"}, {"schedule", "create", "--help"}, {"memory", "--help"}, {"memory", "search", "--help"}, {"memory", "import", "--help"}, {"sandbox", "--help"}, {"sandbox", "run", "--help"}, {"audit", "--help"}, {"approvals", "--help"}, {"backup", "--help"}, {"db", "--help"}, {"keys", "--help"}, {"config", "--help"}, {"token", "--help"}} {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), args, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}); code != 0 || errs.Len() > 0 {
			t.Errorf("%v: exit %d, %s", args, code, errs.String())
		}
		name := "help"
		for _, a := range args {
			if a != "--help" {
				name += "-" + a
			}
		}
		golden(t, name+".txt", out.String())
	}
}

// fixture returns the path of a WASM module of package tools.
func fixture(name string) string {
	return filepath.Join("..", "..", "backend", "tools", "testdata", "wasm", name+".wasm")
}

const counter = "export default (p) => ({ words: p.text.split(/\\s+/).length })\n"

func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, thrower := write("counter.js", counter), write("thrower.js", "throw new Error('no milk')")
	asker := write("asker.ts", "export default (p: any, helix: any) => helix.fetch('https://api.example.com/')")
	spinner := write("spinner.js", "export default () => { for (;;); }")
	echo, trap, foreign := fixture("echo"), fixture("trap"), fixture("foreign")
	data := dataFolder(t)
	made := helix(t, data, "", "tool", "create", file)
	if made.code != 0 {
		t.Fatalf("create: %+v", made)
	}
	if r := helix(t, data, "", "tool", "create", asker, "--name", "Asker", "--cap", "network:https(api.example.com)"); r.code != 0 {
		t.Fatalf("create: %+v", r)
	}
	for _, c := range []struct {
		name   string
		args   []string
		stdin  string
		code   int
		stdout string // exact, unless it ends in …
		stderr string // contained
	}{
		{"run", []string{"tool", "run", "counter", "--params", `{"text":"a b c"}`}, "", 0, "{\"words\":3}\n", ""},
		{"params from stdin", []string{"tool", "run", "counter", "--params", "-"}, `{"text":"a b"}`, 0, "{\"words\":2}\n", ""},
		{"draft", []string{"tool", "run", file, "--params", `{"text":"x"}`}, "", 0, "{\"words\":1}\n", ""},
		{"quiet", []string{"-q", "tool", "validate", file}, "", 0, "", ""},
		{"the tool failed", []string{"tool", "run", thrower}, "", 1, "", "no milk"},
		{"unknown command", []string{"dance"}, "", 2, "", "dance"},
		{"unknown flag", []string{"status", "--loud"}, "", 2, "", "--loud"},
		{"params are not JSON", []string{"tool", "run", "counter", "--params", "{"}, "", 2, "", "isn't valid JSON"},
		{"unknown field", []string{"rpc", "tools.list", `{"limits":3}`}, "", 2, "", "did you mean"},
		{"unknown method", []string{"rpc", "tools.fly"}, "", 2, "", "tools.fly"},
		{"no such tool", []string{"tool", "show", "01999999-0000-7000-8000-000000000000"}, "", 3, "", ""},
		{"no such name", []string{"tool", "run", "nobody"}, "", 3, "", "nobody"},
		{"not allowed yet", []string{"tool", "run", "Asker"}, "", 4, "", "helix approvals decide"},
		{"a script cannot approve", []string{"approvals", "decide", "x", "--approve"}, "", 4, "", "terminal"},
		{"a script cannot grant", []string{"sandbox", "run", file, "--grant", "state"}, "", 4, "", "terminal"},
		{"a file once", []string{"sandbox", "run", file, "--params", `{"text":"a b c d"}`}, "", 0, "{\"words\":4}\n", "inprocess"},
		{"a file in its own process", []string{"-q", "sandbox", "run", file, "--tier", "t1", "--params", `{"text":"a b"}`}, "", 0, "{\"words\":2}\n", ""},
		{"a file fails", []string{"sandbox", "run", thrower}, "", 1, "", "no milk"},
		{"a file takes too long", []string{"--timeout", "2s", "sandbox", "run", spinner}, "", 5, "", "2s"},
		{"a module", []string{"-q", "sandbox", "run", echo, "--params", "[1]"}, "", 0, "[1]\n", ""},
		{"a module as JSON", []string{"-q", "--json", "sandbox", "run", echo, "--params", "[1]"}, "", 0, `{"success":true,"output":[1],…`, ""},
		{"a module fails", []string{"sandbox", "run", trap}, "", 1, "", "trap"},
		{"a module in this program", []string{"sandbox", "run", echo, "--tier", "t0"}, "", 4, "", "terminal"},
		{"nothing of the kind", []string{"sandbox", "run", "nobody"}, "", 3, "", "nobody"},
		{"no such file", []string{"sandbox", "run", "nobody.wasm"}, "", 3, "", "nobody.wasm"},
		{"another kind of file", []string{"sandbox", "run", write("notes.txt", "x")}, "", 2, "", "notes.txt"},
		{"no such profile", []string{"sandbox", "run", file, "--profile", "loose"}, "", 2, "", "loose"},
		{"a syntax error", []string{"sandbox", "run", write("broken.js", "return (")}, "", 2, "", ""},
		{"verify", []string{"sandbox", "verify", echo}, "", 0, "module:   can be installed\n…", ""},
		{"verify refuses", []string{"sandbox", "verify", foreign}, "", 2, "module:  is rejected\n…", ""},
		{"verify nothing", []string{"sandbox", "verify", "nobody.wasm"}, "", 3, "", "nobody.wasm"},
		{"sandbox status", []string{"sandbox", "status"}, "", 0, "state:                ready\n…", ""},
		{"a script must say yes", []string{"restore", filepath.Join(dir, "none.zip")}, "", 4, "", "--yes"},
		{"not running", []string{"status"}, "", 6, "Helix is not running.\n", ""},
		{"no browser link", []string{"ui", "--print"}, "", 6, "", "helix serve"},
		{"export file is missing", []string{"audit", "verify", "--file", filepath.Join(dir, "none.jsonl")}, "", 6, "", "none.jsonl"},
		{"name taken", []string{"tool", "create", file}, "", 7, "", ""},
		{"json", []string{"--json", "tool", "list", "--query", "counter"}, "", 0, `{"tools":[{…`, ""},
		{"version", []string{"version"}, "", 0, "helix dev\n", ""},
	} {
		r := helix(t, data, c.stdin, c.args...)
		if r.code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.name, r.code, c.code, r.stdout, r.stderr)
		}
		if want, open := strings.CutSuffix(c.stdout, "…"); (open && !strings.HasPrefix(r.stdout, want)) || (!open && r.stdout != want) {
			t.Errorf("%s: stdout %q, want %q", c.name, r.stdout, c.stdout)
		}
		if !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%s: stderr %q lacks %q", c.name, r.stderr, c.stderr)
		}
	}
}

// TestRPCWithKey repeats a call in another process, as after a lost connection.
func TestRPCWithKey(t *testing.T) {
	t.Parallel()
	data, key := dataFolder(t), uuid.NewString()
	add := func(text string) result {
		return helix(t, data, "", "rpc", "memory.add", `{"content":"`+text+`","dedupe":false}`, "--key", key)
	}
	first := add("one")
	if again := add("one"); first.code != 0 || again != first {
		t.Errorf("%+v, repeated %+v", first, again)
	}
	if other := add("two"); other.code != 7 {
		t.Errorf("another call with the same key: %+v", other)
	}
	if all := helix(t, data, "", "rpc", "memory.list"); !strings.Contains(all.stdout, `"total":1`) && !strings.Contains(all.stdout, `"total": 1`) {
		t.Error(all.stdout)
	}
}

// TestServe runs a backend in the foreground and uses it as a client would.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	ctx, stop := context.WithCancel(t.Context())
	var out lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"--data-dir", dir, "serve", "--addr", "127.0.0.1:0", "--link"}, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &bytes.Buffer{}, Keyring: noKeyring{}, Worker: worker})
	}()
	defer func() {
		stop()
		<-ended
	}()
	link := out.wait(t, regexp.MustCompile(`http://127\.0\.0\.1:\d+/#ticket=[0-9a-f]{64}`))
	if link == "" {
		t.Fatalf("no link: %s", out.String())
	}

	alone, file := t.TempDir(), filepath.Join(t.TempDir(), "counter.js")
	if err := os.WriteFile(file, []byte(counter), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, alone} {
		if r := helix(t, d, "", "tool", "create", file); r.code != 0 {
			t.Fatalf("create: %+v", r)
		}
	}
	// The same command prints the same against the running backend and on its own.
	for _, args := range [][]string{{"tool", "run", "counter", "--params", `{"text":"x y"}`}, {"tool", "list", "--query", "zzz", "--json"}, {"tool", "run", "nobody"}, {"approvals", "list"}, {"config", "get", "app.theme"}} {
		if a, b := helix(t, dir, "", args...), helix(t, alone, "", args...); a != b {
			t.Errorf("%v: running %+v, alone %+v", args, a, b)
		}
	}
	var st struct{ PID int }
	r := helix(t, dir, "", "--json", "status")
	if err := json.Unmarshal([]byte(r.stdout), &st); err != nil || st.PID != os.Getpid() {
		t.Errorf("status: %+v, %v", r, err)
	}
	if r := helix(t, dir, "", "db", "migrate"); r.code != ExitCode(fault.Conflict) {
		t.Errorf("migrate beside a running backend: %+v", r)
	}
	second := Main(t.Context(), []string{"--data-dir", dir, "serve", "--addr", "127.0.0.1:0"}, Env{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Keyring: noKeyring{}, Worker: worker})
	if second != ExitCode(fault.Conflict) {
		t.Errorf("a second backend over the folder: exit %d", second)
	}
	// The secret of the backend is not in any file that a program may read to find it.
	b, err := os.ReadFile(filepath.Join(dir, "run", "endpoint.json"))
	if err != nil || regexp.MustCompile(`[0-9a-f]{64}`).Match(b) {
		t.Errorf("endpoint file: %s, %v", b, err)
	}
	if r := helix(t, dir, "", "stop"); r.code != 0 {
		t.Errorf("stop: %+v", r)
	}
	select {
	case code := <-ended:
		ended <- code
		if code != 0 {
			t.Errorf("serve ended with %d", code)
		}
	case <-time.After(5 * time.Minute):
		t.Error("serve did not end")
	}
}

// A command line that names a command builds only that one, which is the same as among all of them.
func TestOnlyTheCommandThatIsNamedIsBuilt(t *testing.T) {
	t.Parallel()
	build := func(args ...string) *kong.Kong {
		k, err := kong.New(grammarFor(args).Addr().Interface(), kong.Vars{"version": "x"}, kong.ExplicitGroups(groups))
		if err != nil {
			t.Fatal(args, err)
		}
		return k
	}
	var lines func(n *kong.Node) []string
	lines = func(n *kong.Node) []string {
		out := []string{n.Summary()}
		for _, c := range n.Children {
			out = append(out, lines(c)...)
		}
		return out
	}
	all := build("--help").Model
	if len(all.Children) < 40 || len(build("nothing").Model.Children) != len(all.Children) {
		t.Fatalf("%d commands, and %d after an unknown word", len(all.Children), len(build("nothing").Model.Children))
	}
	for _, c := range all.Children {
		for _, name := range append(c.Aliases, c.Name) {
			for _, args := range [][]string{{name}, {"--data-dir", "tool", "--json", "-q", "--timeout=5s", name, "list"}} {
				want := 1
				if c.Group.Key == "help" {
					want = len(all.Children)
				}
				got := build(args...).Model
				if len(got.Children) != want {
					t.Errorf("%v: %d commands", args, len(got.Children))
				} else if one := find(got.Node, []string{name}); !slices.Equal(lines(one), lines(c)) {
					t.Errorf("%v builds\n%v\ninstead of\n%v", args, lines(one), lines(c))
				}
			}
		}
		for _, leaf := range c.Leaves(false) {
			if leaf.Tag.Has("call") && leaf.Target.Addr().MethodByName("Run").IsValid() {
				t.Errorf("%s is declared and has a Run", leaf.FullPath())
			}
		}
		if got := len(build(c.Name, "x", "--help").Model.Children); got != len(all.Children) {
			t.Errorf("%s x --help: %d commands", c.Name, got)
		}
	}
}
