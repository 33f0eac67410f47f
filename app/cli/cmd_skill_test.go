package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// skillFiles writes skills to files and returns a function that returns their paths.
func skillFiles(t *testing.T, files map[string]string) func(name string) string {
	t.Helper()
	dir := dataFolder(t)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

var skillTexts = map[string]string{
	"good.json":   `{"name":"Adder","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}},"steps":[{"stepId":"a","toolType":"transform","value":{"got":"$.input.n"}}]}`,
	"bad.json":    `{"name":"Bad","steps":[{"stepId":"a","toolType":"transform","value":"$.later"},{"stepId":"a","toolType":"dance"}]}`,
	"fails.json":  `{"name":"Fails","steps":[{"stepId":"a","toolType":"transform","value":"$.input.nothing"}]}`,
	"asks.json":   `{"name":"Asks","steps":[{"stepId":"q","toolType":"approval","title":"Go on?"}]}`,
	"slow.json":   `{"name":"Slow","steps":[{"stepId":"w","toolType":"builtin","toolName":"wait","parameters":{"seconds":600}}]}`,
	"late.json":   `{"name":"Late","overallTimeoutMs":50,"steps":[{"stepId":"w","toolType":"builtin","toolName":"http.request","parameters":{"url":"http://localhost:9/"},"errorHandling":"retry","maxRetries":10}]}`,
	"short.json":  `{"name":"Short","steps":[{"stepId":"w","toolType":"builtin","toolName":"wait","parameters":{"ms":1200}},{"stepId":"b","toolType":"transform","value":"done"}]}`,
	"calls.json":  `{"name":"Calls","steps":[{"stepId":"c","toolType":"custom","toolName":"counter","parameters":{"text":"a b"}}]}`,
	"mocks.json":  `{"c":{"output":{"words":9}}}`,
	"notes.txt":   `not JSON`,
	"counter.js":  counter,
	"denied.json": `{"name":"Denied","steps":[{"stepId":"w","toolType":"builtin","toolName":"http.request","parameters":{"url":"https://10.0.0.1/"}}]}`,
}

func TestSkillCommands(t *testing.T) {
	t.Parallel()
	file, data := skillFiles(t, skillTexts), dataFolder(t)
	if r := helix(t, data, "", "tool", "create", file("counter.js")); r.code != 0 {
		t.Fatalf("create: %+v", r)
	}
	nobody := "01999999-0000-7000-8000-000000000000"
	for _, c := range []struct {
		name   string
		args   []string
		stdin  string
		code   int
		stdout string // exact, unless it ends in …
		stderr string // contained
	}{
		{"a file", []string{"skill", "run", file("good.json"), "--input", `{"n":3}`}, "", 0, "{\"got\":3}\n", "a: done"},
		{"the alias", []string{"-q", "skills", "run", file("good.json"), "--input", "-"}, `{"n":4}`, 0, "{\"got\":4}\n", ""},
		{"as JSON", []string{"-q", "--json", "skill", "run", file("good.json"), "--input", `{"n":3}`}, "", 0, `{"success":true,…`, ""},
		{"the input does not fit", []string{"skill", "run", file("good.json"), "--input", `{"n":"x"}`}, "", 2, "", "n"},
		{"an invalid skill", []string{"skill", "run", file("bad.json")}, "", 2, "", "steps[1]"},
		{"a run that fails", []string{"skill", "run", file("fails.json")}, "", 1, "", "matches nothing"},
		{"a person is asked", []string{"skill", "run", file("asks.json")}, "", 4, "", "Go on?"},
		{"a refusal", []string{"skill", "run", file("denied.json")}, "", 4, "", "helix:"},
		{"a short wait", []string{"-q", "skill", "run", file("short.json")}, "", 0, "\"done\"\n", ""},
		{"a tool", []string{"-q", "skill", "run", file("calls.json")}, "", 0, "{\"words\":2}\n", ""},
		{"a rehearsal", []string{"skill", "run", file("calls.json"), "--dry-run", "--mocks", "@" + file("mocks.json")}, "", 0, "{\"words\":9}\n", "answered by mock"},
		{"a rehearsal without an answer", []string{"skill", "run", file("calls.json"), "--dry-run"}, "", 1, "", "unmocked"},
		{"mocks of a real run", []string{"skill", "run", file("calls.json"), "--mocks", "{}"}, "", 2, "", "--dry-run"},
		{"leaving it to nobody", []string{"skill", "run", file("good.json"), "--async", "--input", `{"n":3}`}, "", 6, "", "helix serve"},
		{"no such id", []string{"skill", "run", nobody}, "", 3, "", ""},
		{"no such name", []string{"skill", "run", "nobody"}, "", 3, "", "nobody"},
		{"no such file", []string{"skill", "run", "nobody.json"}, "", 3, "", "nobody.json"},
		{"not JSON", []string{"skill", "validate", file("notes.txt")}, "", 2, "", "notes.txt"},
		{"valid", []string{"skill", "validate", file("good.json")}, "", 0, "", "valid"},
		{"valid from stdin", []string{"-q", "skill", "validate", "-"}, skillTexts["good.json"], 0, "", ""},
		{"invalid", []string{"skill", "validate", file("bad.json")}, "", 2, "", "error: steps[1]"},
		{"invalid as JSON", []string{"--json", "skill", "validate", file("bad.json")}, "", 2, `{"valid":false,…`, ""},
		{"no skills", []string{"skill", "list"}, "", 0, "", "No skills"},
		{"list as JSON", []string{"--json", "skill", "list", "--enabled"}, "", 0, `{"skills":[],…`, ""},
		{"no share file", []string{"skill", "import", file("good.json"), "--yes"}, "", 2, "", ""},
		{"import nothing", []string{"skill", "import", "nobody.json"}, "", 3, "", "nobody.json"},
		{"export nothing", []string{"skill", "export", nobody}, "", 3, "", ""},
		{"history", []string{"skill", "history", "--status", "failed", "--limit", "1"}, "", 0, "EXECUTION…", ""},
		{"no such status", []string{"skill", "history", "--status", "happy"}, "", 2, "", ""},
		{"cancel nothing", []string{"skill", "cancel", nobody}, "", 3, "", ""},
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

// A saved skill is exported and imported, with its tool, into another installation.
func TestSkillShare(t *testing.T) {
	t.Parallel()
	file, from, to := skillFiles(t, skillTexts), dataFolder(t), dataFolder(t)
	if r := helix(t, from, "", "tool", "create", file("counter.js")); r.code != 0 {
		t.Fatalf("create: %+v", r)
	}
	made := helix(t, from, "", "rpc", "skills.create_composite", `{"skill":`+skillTexts["calls.json"]+`}`)
	if made.code != 0 {
		t.Fatalf("create: %+v", made)
	}
	if r := helix(t, from, "", "-q", "skill", "run", "calls"); r.code != 0 || r.stdout != "{\"words\":2}\n" {
		t.Errorf("by name: %+v", r)
	}
	out := filepath.Join(t.TempDir(), "calls.helixskill.json")
	if r := helix(t, from, "", "skill", "export", "Calls", "--with-tools", "-o", out); r.code != 0 {
		t.Fatalf("export: %+v", r)
	}
	printed := helix(t, from, "", "-q", "skill", "export", "Calls", "--with-tools")
	if b, err := os.ReadFile(out); err != nil || string(b) != printed.stdout {
		t.Errorf("the file and the output differ: %v", err)
	}
	if r := helix(t, to, "", "skill", "import", out); r.code != 4 || !strings.Contains(r.stderr, "--yes") {
		t.Errorf("a script must say yes: %+v", r)
	}
	r := helix(t, to, "", "skill", "import", out, "--yes")
	if r.code != 0 || !regexp.MustCompile(`^[0-9a-f-]{36}\n$`).MatchString(r.stdout) || !strings.Contains(r.stderr, "disabled") {
		t.Fatalf("import: %+v", r)
	}
	if r := helix(t, to, "", "skill", "run", "Calls"); r.code != 7 {
		t.Errorf("a disabled skill: %+v", r)
	}
	if r := helix(t, to, "", "skill", "import", out, "--yes", "--on-conflict", "skip"); r.code != 0 || !strings.Contains(r.stderr, "nothing was added") {
		t.Errorf("skip: %+v", r)
	}
	if r := helix(t, to, "", "skill", "run", out, "--dry-run"); r.code == 3 {
		t.Errorf("a share file can be tried before it is imported: %+v", r)
	}
}

// Against a running backend, Ctrl-C cancels the run and --async leaves it running.
func TestSkillCtrlC(t *testing.T) {
	t.Parallel()
	file, dir := skillFiles(t, skillTexts), dataFolder(t)
	serve, stop := context.WithCancel(t.Context())
	var out lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(serve, []string{"--data-dir", dir, "serve", "--addr", "127.0.0.1:0", "--link"}, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &bytes.Buffer{}, Keyring: noKeyring{}, Worker: worker})
	}()
	defer func() {
		stop()
		<-ended
	}()
	if out.wait(t, regexp.MustCompile(`#ticket=`)) == "" {
		t.Fatal(out.String())
	}
	left := helix(t, dir, "", "skill", "run", file("slow.json"), "--async")
	id := strings.TrimSpace(left.stdout)
	if left.code != 0 || len(id) != 36 {
		t.Fatalf("async: %+v", left)
	}
	var progress lockedBuffer
	run, interrupt := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- Main(run, []string{"--data-dir", dir, "skill", "run", file("slow.json")}, Env{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &progress, Keyring: noKeyring{}, Worker: worker})
	}()
	if progress.wait(t, regexp.MustCompile(`w: waiting \(timer\)`)) == "" {
		t.Fatal(progress.String())
	}
	interrupt()
	select {
	case c := <-code:
		if c != 130 || !strings.Contains(progress.String(), "is cancelled") {
			t.Errorf("exit %d: %s", c, progress.String())
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("Ctrl-C does not end it")
	}
	var h struct {
		Executions []struct{ ExecutionID, Status string }
	}
	r := helix(t, dir, "", "--json", "skill", "history")
	if err := json.Unmarshal([]byte(r.stdout), &h); err != nil || len(h.Executions) != 2 {
		t.Fatalf("history: %+v, %v", r, err)
	}
	for _, e := range h.Executions {
		if want := map[bool]string{true: "waiting", false: "cancelled"}[e.ExecutionID == id]; e.Status != want {
			t.Errorf("%s is %s, want %s", e.ExecutionID, e.Status, want)
		}
	}
	for range 2 {
		if r := helix(t, dir, "", "skill", "cancel", id); r.code != 0 || r.stdout != "cancelled\n" {
			t.Errorf("cancel: %+v", r)
		}
	}
}
