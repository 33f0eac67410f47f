package containertools

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/callable/callabletest"
	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")))
}

// fakeEngine is a container engine whose programs do what the first word of their command says.
type fakeEngine struct {
	Engine // the methods that no test uses

	broken error    // of copies
	copies []string // of volumes

	mu    sync.Mutex
	image container.Image
	runs  []container.Spec
	begun chan struct{}

	volumes []container.VolumeInfo
	removed []string                              // volumes
	network func(context.Context, container.Spec) // what a program does; nil: nothing
}

func (f *fakeEngine) Image(context.Context, string) (container.Image, error) { return f.image, nil }

func (f *fakeEngine) Images(context.Context) ([]container.Image, error) {
	return []container.Image{f.image}, nil
}

func (f *fakeEngine) Execute(ctx context.Context, s container.Spec) (container.Result, error) {
	f.mu.Lock()
	f.runs = append(f.runs, s)
	f.mu.Unlock()
	s.Phase(container.PhaseRunning)
	defer s.Phase(container.PhaseRemoved)
	if f.network != nil {
		f.network(ctx, s)
	}
	r := container.Result{Outcome: container.Success, Stdout: s.Input, ContainerID: "c1", Usage: container.Usage{CPU: 30 * time.Millisecond, PeakMemory: 7}}
	switch s.Argv[0] {
	case "fail":
		r.Outcome, r.ExitCode, r.StderrTail = container.Failure, 3, []byte("first\nthe key is s3cret-key\n")
	case "text":
		r.Stdout = []byte("plain s3cret-key\n")
	case "binary":
		r.Stdout = []byte{0xff, 0xfe}
	case "oom":
		r.Outcome = container.OOM
	case "missing":
		return container.Result{}, fault.Unavailablef("No container engine was found.").WithDetails(container.Refusal{Code: container.EngineNotFound})
	case "slow":
		f.begun <- struct{}{}
		<-ctx.Done()
		r.Outcome = container.Cancelled
	}
	return r, nil
}

func (f *fakeEngine) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.runs)
}

type env struct {
	*testing.T
	s      *Service
	engine *fakeEngine
	reg    *callable.Registry
	perm   *permission.Service
	log    *audit.Service
	db     *storage.DB
	ctx    context.Context
}

func setup(t *testing.T) *env {
	t.Helper()
	e := &env{T: t, db: storagetest.Open(t), engine: &fakeEngine{image: container.Image{Ref: "localhost/box:latest", ID: "sha256:" + strings.Repeat("ab", 32)}, begun: make(chan struct{}, 16)}}
	e.log = audit.New(e.db, audit.Options{})
	e.perm = permission.New(e.db, e.db.Bus(), permission.Options{Audit: e.log})
	e.s = New(e.db, e.engine, Options{Permission: e.perm, Audit: e.log, Scrub: func(_ context.Context, text string) string { return strings.ReplaceAll(text, "s3cret-key", "***") }})
	e.perm.Register(string(Kind), e.s, nil)
	e.perm.RegisterAnswerer(string(Kind), e.s.AnswerApproval)
	e.reg = callable.NewRegistry(e.perm)
	e.reg.Add(e.s.Callables())
	ctx := storagetest.Ctx(t, e.db)
	id, _ := identity.From(ctx)
	id.Scopes, id.Client, id.Pipe = identity.Admin.Closed(), identity.ClientWindow, "memory"
	e.ctx = identity.With(ctx, id)
	return e
}

const inputSchema = `{"type":"object","properties":{"n":{"type":"integer"},"key":{"type":"string","x-secret":true}}}`

// tool adds a tool. With approve it may run.
func (e *env) tool(name string, approve bool, change ...func(*AddParams)) *Tool {
	e.Helper()
	p := AddParams{Name: name, Image: "localhost/box", Argv: []string{name}, Input: json.RawMessage(inputSchema)}
	for _, f := range change {
		f(&p)
	}
	t, err := e.s.Add(e.ctx, p)
	if err != nil {
		e.Fatal(err)
	}
	if approve {
		if t, err = e.s.Approve(e.ctx, ApproveParams{t.ID, t.DefinitionHash}); err != nil {
			e.Fatal(err)
		}
	}
	return t
}

func (e *env) run(name, params string) (RunResult, error) {
	return e.s.Run(e.ctx, RunParams{Name: name, Params: json.RawMessage(params)})
}

func TestProviderConforms(t *testing.T) {
	t.Parallel()
	e := setup(t)
	echo, slow := e.tool("echo", true), e.tool("slow", true)
	good := callabletest.Case{ID: echo.ID.String(), Input: `{"n":1}`}
	callabletest.Run(t, callabletest.Harness{
		Ctx: e.ctx, Registry: e.reg, Kind: Kind, Good: good, Bad: `{"n":"x"}`, Acts: &good, Effects: e.engine.count,
		Audited: func() int { r, _ := e.log.List(e.ctx, audit.ListParams{Limit: 100}); return len(r.Entries) },
		Outside: &good, Slow: &callabletest.Case{ID: slow.ID.String(), Input: `{}`}, Begun: e.engine.begun,
	})
}

func TestOnlyTheApprovedDefinitionRuns(t *testing.T) {
	t.Parallel()
	e := setup(t)
	tool := e.tool("echo", false)
	refused := func(when string) {
		t.Helper()
		before := e.engine.count()
		if _, err := e.run("echo", `{}`); !fault.Is(err, fault.Denied) || e.engine.count() != before {
			t.Errorf("%s: %v, %d runs", when, err, e.engine.count()-before)
		}
	}
	refused("not approved")
	if _, err := e.s.Approve(e.ctx, ApproveParams{tool.ID, strings.Repeat("0", 64)}); !fault.Is(err, fault.Conflict) {
		t.Errorf("another definition: %v", err)
	}
	e.tool("echo", true)
	if r, err := e.run("echo", `{"n":1}`); err != nil || !r.Success || string(r.Output) != `{"n":1}` {
		t.Fatalf("%+v, %v", r, err)
	}
	if s := e.engine.runs[0]; s.ImageID != e.engine.image.ID || s.Limits.MemoryBytes != 256<<20 {
		t.Errorf("%+v", s)
	}
	if again := e.tool("echo", false); again.Status != StatusActive {
		t.Errorf("the same definition again: %s", again.Status)
	}
	e.engine.image.ID = "sha256:" + strings.Repeat("cd", 32) // its tag names another image now
	if r, err := e.run("echo", `{}`); err != nil || !r.Success || e.engine.runs[1].ImageID == e.engine.image.ID {
		t.Errorf("%+v, %v", r, err)
	}
	e.tool("echo", false)
	refused("another image")
	e.tool("echo", true)
	id := e.tool("echo", false).ID
	if _, err := e.s.SetEnabled(e.ctx, EnableParams{id, false}); err != nil {
		t.Fatal(err)
	}
	refused("disabled")
	if _, err := e.s.Revoke(e.ctx, ToolParams{id}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.run("echo", `{}`); !fault.Is(err, fault.NotFound) {
		t.Errorf("revoked: %v", err)
	}
}

func TestResultsAndFailures(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, name := range []string{"fail", "text", "binary", "oom", "missing"} {
		e.tool(name, true)
	}
	r, err := e.run("fail", `{}`)
	if err != nil || r.Success || r.ExitCode != 3 || r.Status != "failure" || !strings.Contains(r.Error, "the key is ***") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = e.run("text", `{}`); err != nil || !r.Success || string(r.Output) != `"plain s3cret-key\n"` {
		t.Errorf("%s, %v", r.Output, err)
	}
	if r, err = e.run("binary", `{}`); err != nil || string(r.Output) != `{"base64":"//4="}` {
		t.Errorf("%s, %v", r.Output, err)
	}
	if r, err = e.run("oom", `{}`); err != nil || r.ErrorClass != "oom" || r.Status != "failure" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err = e.run("missing", `{}`); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	e.tool("typed", true, func(p *AddParams) {
		p.Argv, p.Output = []string{"text"}, json.RawMessage(`{"type":"object"}`)
	})
	if r, err = e.run("typed", `{}`); err != nil || r.Success || r.ErrorClass != "output" {
		t.Errorf("%+v, %v", r, err)
	}
	var all string
	err = e.db.Read(e.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT group_concat(input || output || log || error_message || status, ' ') FROM container_runs`).Scan(&all)
	})
	if err != nil || strings.Contains(all, "s3cret-key") || strings.Contains(all, "running") {
		t.Errorf("%s, %v", all, err)
	}
}

func TestPhasesOfARunEndWithItsUsage(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.tool("echo", true)
	events := make(chan RunChanged, 16)
	defer bus.Subscribe(e.db.Bus(), func(_ uuid.UUID, c RunChanged) { events <- c })()
	if _, err := e.run("echo", `{}`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{container.PhaseRunning, container.PhaseRemoved} {
		c := <-events
		if c.Phase != want || (c.Usage != nil) != (want == container.PhaseRemoved) || c.Usage != nil && (c.Usage.CPUMs != 30 || c.Usage.PeakMemory != 7) {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

func TestSecretParametersAreInNoEnvironmentAndNoRow(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.tool("echo", true)
	e.tool("plain", true, func(p *AddParams) { p.Input = nil })
	for name, params := range map[string]string{"echo": `{"key":"planted-1"}`, "plain": `{"a":"s3cret-key"}`} {
		if _, err := e.run(name, params); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range e.engine.runs {
		for _, v := range append(s.Env, s.Argv...) {
			if strings.Contains(v, "planted-1") || strings.Contains(v, "s3cret-key") {
				t.Errorf("%s", v)
			}
		}
	}
	if _, err := e.run("plain", `{"a":1}`); err != nil || len(e.engine.runs[2].Env) != 1 || e.engine.runs[2].Env[0] != `TOOL_PARAMS={"a":1}` {
		t.Errorf("%v, %v", e.engine.runs[2].Env, err)
	}
	var rows string
	err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT group_concat(input || output || log || error_message, ' ') FROM container_runs`).Scan(&rows)
	})
	if err != nil || strings.Contains(rows, "planted-1") || strings.Contains(rows, "s3cret-key") {
		t.Errorf("%s, %v", rows, err)
	}
}

func TestRevokingAndKillingEndRuns(t *testing.T) {
	t.Parallel()
	e := setup(t)
	tool := e.tool("slow", true)
	type ended struct {
		r   RunResult
		err error
	}
	start := func() chan ended {
		done := make(chan ended, 1)
		go func() {
			r, err := e.run("slow", `{}`)
			done <- ended{r, err}
		}()
		<-e.engine.begun
		return done
	}
	done := start()
	var id uuid.UUID
	e.s.mu.Lock()
	for run := range e.s.running {
		id = run
	}
	e.s.mu.Unlock()
	if k, err := e.s.Kill(e.ctx, RunIDParams{uuid.New()}); err != nil || k.Killed {
		t.Errorf("another run: %+v, %v", k, err)
	}
	if k, err := e.s.Kill(e.ctx, RunIDParams{id}); err != nil || !k.Killed {
		t.Errorf("%+v, %v", k, err)
	}
	if x := <-done; x.err != nil || x.r.Status != "cancelled" {
		t.Errorf("killed: %+v", x)
	}
	done = start()
	if _, err := e.s.Revoke(e.ctx, ToolParams{tool.ID}); err != nil {
		t.Fatal(err)
	}
	if x := <-done; !fault.Is(x.err, fault.Denied) {
		t.Errorf("revoked: %+v", x)
	}
}

func TestDefinitionsAreChecked(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for name, p := range map[string]AddParams{
		"name":    {Name: "Big", Image: "a"},
		"schema":  {Name: "a", Image: "a", Input: json.RawMessage(`{"type":1}`)},
		"time":    {Name: "a", Image: "a", TimeoutSeconds: 601},
		"memory":  {Name: "a", Image: "a", Limits: container.Limits{MemoryBytes: 1}},
		"command": {Name: "a", Image: "a", Argv: []string{"a\x00b"}},
	} {
		if _, err := e.s.Add(e.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInterruptedRunsAreClosedAtStart(t *testing.T) {
	t.Parallel()
	e := setup(t)
	tool := e.tool("echo", true)
	r := callable.Request{Input: json.RawMessage(`{}`)}
	if err := e.s.begin(e.ctx, tool, &r, &RunResult{RunID: storage.NewID()}); err != nil {
		t.Fatal(err)
	}
	next := New(e.db, e.engine, Options{Permission: e.perm, Audit: e.log})
	if err := next.Recover(e.ctx); err != nil {
		t.Fatal(err)
	}
	var class string
	err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT error_class FROM container_runs`).Scan(&class)
	})
	if err != nil || class != "interrupted" {
		t.Errorf("%s, %v", class, err)
	}
}
